package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"unicode/utf8"
)

// maxDepth is how deep a body may nest; nothing that is known nests deeper
// than three.
const maxDepth = 16

// checkJSON reports whether text is one JSON value, in UTF-8, not too deep.
// Everything below relies on it.
func checkJSON(text []byte) *problem {
	switch {
	case !utf8.Valid(text):
		return invalidJSON.problem("The body is not valid UTF-8.")
	case tooDeep(text):
		return invalidJSON.problem(fmt.Sprintf("The body nests deeper than %d levels.", maxDepth))
	case !json.Valid(text):
		return invalidJSON.problem("The body is not one JSON value.")
	}
	return nil
}

func tooDeep(text []byte) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += stringEnd(text[i:]) - 1
		case '{', '[':
			if depth++; depth > maxDepth {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}

// stringEnd is the length of the string literal at the start of text, or of
// text when it does not end.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); {
		quote := bytes.IndexByte(text[i:], '"')
		if quote < 0 {
			return len(text)
		}
		end := i + quote
		escapes := 0
		for end-1-escapes > 0 && text[end-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return end + 1
		}
		i = end + 1
	}
	return len(text)
}

// valueEnd is the length of the value at the start of valid JSON.
func valueEnd(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += stringEnd(text[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(text)
}

func skipSpace(text []byte) []byte { return bytes.TrimLeft(text, " \t\r\n") }

// members are the keys and values of a valid object, in their order.
func members(object []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		rest := skipSpace(object)[1:]
		for {
			rest = skipSpace(rest)
			if rest[0] != '"' {
				return // the closing brace
			}
			end := stringEnd(rest)
			key, _ := unquote(rest[:end])
			rest = skipSpace(rest[end:])
			rest = skipSpace(rest[1:]) // the colon
			end = valueEnd(rest)
			if !yield(key, rest[:end]) {
				return
			}
			rest = skipSpace(rest[end:])
			if rest[0] != ',' {
				return
			}
			rest = rest[1:]
		}
	}
}

// elements are the values of a valid array.
func elements(array []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		rest := skipSpace(skipSpace(array)[1:])
		for i := 0; rest[0] != ']'; i++ {
			end := valueEnd(rest)
			if !yield(i, rest[:end]) {
				return
			}
			rest = skipSpace(rest[end:])
			if rest[0] == ',' {
				rest = skipSpace(rest[1:])
			}
		}
	}
}

// unquote returns the text of a valid string literal; ok is false when half of
// a surrogate pair stands in it, which is no text.
func unquote(literal []byte) (text string, ok bool) {
	inner := literal[1 : len(literal)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	if err := json.Unmarshal(literal, &text); err != nil {
		return "", false
	}
	return text, !halfSurrogate(inner)
}

func halfSurrogate(inner []byte) bool {
	for i := 0; i+1 < len(inner); i++ {
		if inner[i] != '\\' {
			continue
		}
		if i++; inner[i] != 'u' {
			continue
		}
		unit := hexUnit(inner[i+1:])
		i += 4
		switch {
		case unit >= 0xDC00 && unit <= 0xDFFF:
			return true
		case unit < 0xD800 || unit > 0xDFFF:
			continue
		}
		next := inner[i+1:]
		if len(next) < 6 || next[0] != '\\' || next[1] != 'u' {
			return true
		}
		if low := hexUnit(next[2:]); low < 0xDC00 || low > 0xDFFF {
			return true
		}
		i += 6
	}
	return false
}

func hexUnit(digits []byte) uint64 {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 32)
	return n
}
