// Package failure turns an error into what a dead letter keeps of it: a
// class, a text that is safe to store, and a fingerprint that is the same
// for failures of one cause.
package failure

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// The largest texts that are stored, in bytes.
const (
	MaxMessage = 4 << 10
	MaxStack   = 8 << 10
	MaxClass   = 200
)

// Classed is implemented by an error that names its own class, such as the
// error code of a remote API. The name should be short and without values.
type Classed interface{ ErrorClass() string }

// Class names the kind of error without its values: what the error says of
// itself, otherwise the Go type of the first error in the chain that is not
// a mere wrapper.
func Class(err error) string {
	for e := err; e != nil; {
		if c, ok := e.(Classed); ok {
			return Clean(call(c.ErrorClass), MaxClass)
		}
		name := reflect.TypeOf(e).String()
		switch name {
		case "*fmt.wrapError", "*fmt.wrapErrors", "*errors.joinError":
		default:
			return Clean(name, MaxClass)
		}
		e = next(e)
		if e == nil {
			return Clean(name, MaxClass)
		}
	}
	return ""
}

// next returns the wrapped error, the first of several.
func next(e error) error {
	switch w := e.(type) { //nolint:errorlint // the chain is walked here
	case interface{ Unwrap() error }:
		return w.Unwrap()
	case interface{ Unwrap() []error }:
		if all := w.Unwrap(); len(all) > 0 {
			return all[0]
		}
	}
	return nil
}

// Text returns the error's text, cleaned and cut. An Error method that panics
// is reported as such.
func Text(err error) string {
	if err == nil {
		return ""
	}
	return Clean(call(err.Error), MaxMessage)
}

func call(f func() string) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprintf("(the error's own method panicked: %T)", v)
		}
	}()
	return f()
}

// Clean makes a text from outside storable: valid UTF-8 without NUL, at most
// limit bytes, which must be at least 8. What is cut ends in an ellipsis.
func Clean(s string, limit int) string {
	const mark = "…"
	cut := len(s) > limit
	if cut {
		s = s[:limit] // no work on what is not kept; a character may be split
	}
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if !cut && len(s) <= limit {
		return s
	}
	end := min(len(s), limit-len(mark))
	for end > 0 && end < len(s) && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}

// Fingerprint identifies the cause: kind of message, class, text without its
// values, and the first frame of the application. 16 hexadecimal digits.
func Fingerprint(kind, class, text, frame string) string {
	sum := sha256.Sum256([]byte(kind + "\x00" + class + "\x00" + Pattern(text) + "\x00" + frame))
	return hex.EncodeToString(sum[:8])
}

// Pattern replaces what differs between two failures of one cause: quoted
// text, numbers, and words that mix letters and digits such as ids.
func Pattern(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '"' || c == '`' || c == '\'' && (i == 0 || !wordByte(text[i-1])):
			if end := strings.IndexByte(text[i+1:], c); end >= 0 {
				b.WriteString("?")
				i += end + 2
				continue
			}
			b.WriteByte(c)
			i++
		case wordByte(c):
			end := i
			digits := false
			for end < len(text) && wordByte(text[end]) {
				digits = digits || '0' <= text[end] && text[end] <= '9'
				end++
			}
			if digits {
				b.WriteString("#")
			} else {
				b.WriteString(text[i:end])
			}
			i = end
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}

// wordByte counts a hyphen in, so that a UUID is one word, and every byte of
// a character beyond ASCII.
func wordByte(c byte) bool {
	return c == '_' || c == '-' || c >= utf8.RuneSelf ||
		'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
