package postgres

import (
	"iter"
	"strconv"
	"strings"
)

// intArray writes a bigint[] literal, which every driver sends as text.
func intArray(values []int64) string {
	b := make([]byte, 0, 2+8*len(values))
	b = append(b, '{')
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, v, 10)
	}
	return string(append(b, '}'))
}

// textArray collects the elements of a text[] literal. NULL is what an empty
// element becomes in an array made with nullable.
type textArray struct {
	b        []byte
	nullable bool
}

func newTextArray(size int, nullable bool) *textArray {
	return &textArray{b: append(make([]byte, 0, size+2), '{'), nullable: nullable}
}

func (a *textArray) add(s string) {
	if len(a.b) > 1 {
		a.b = append(a.b, ',')
	}
	if s == "" && a.nullable {
		a.b = append(a.b, "NULL"...)
		return
	}
	a.b = append(a.b, '"')
	for {
		i := strings.IndexAny(s, `"\`)
		if i < 0 {
			break
		}
		a.b = append(a.b, s[:i]...)
		a.b = append(a.b, '\\', s[i])
		s = s[i+1:]
	}
	a.b = append(a.b, s...)
	a.b = append(a.b, '"')
}

func (a *textArray) String() string { return string(a.b) + "}" }

// textArrayOf writes a text[] literal.
func textArrayOf(values []string) string {
	a := newTextArray(16*len(values), false)
	for _, v := range values {
		a.add(v)
	}
	return a.String()
}

// nullableTextArray writes a text[] literal in which NULL stands for an empty
// text.
func nullableTextArray(values []string) string {
	a := newTextArray(16*len(values), true)
	for _, v := range values {
		a.add(v)
	}
	return a.String()
}

// elements yields the elements of an array literal of numbers.
func elements(literal string) iter.Seq[string] {
	literal = strings.TrimSuffix(strings.TrimPrefix(literal, "{"), "}")
	if literal == "" {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(literal, ",")
}
