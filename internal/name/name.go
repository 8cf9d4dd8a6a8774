// Package name holds the one rule for queue names, kinds and the other short
// texts that identify things: valid UTF-8 of a limited length, without
// control characters. Everything else is permitted, nothing is folded or
// trimmed: "A", "a" and "a " are three names.
package name

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/styxmq/styx/client/message"
)

// Check returns nil for a valid name: 1 to message.MaxNameLength bytes of
// UTF-8 without control characters. Otherwise it returns a
// *message.ValidationError of the field.
func Check(field, s string) error {
	if s == "" {
		return &message.ValidationError{Field: field, Code: message.CodeRequired, Message: field + " must not be empty."}
	}
	return Optional(field, s, message.MaxNameLength)
}

// Optional returns nil for a text that is empty or at most limit bytes of
// UTF-8 without control characters. Otherwise it returns a
// *message.ValidationError of the field.
func Optional(field, s string, limit int) error {
	if len(s) > limit {
		return &message.ValidationError{
			Field: field, Code: message.CodeTooLong,
			Message: fmt.Sprintf("%s must be at most %d bytes, not %d.", field, limit, len(s)),
		}
	}
	if !utf8.ValidString(s) {
		return &message.ValidationError{Field: field, Code: message.CodeEncoding, Message: field + " must be valid UTF-8."}
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return &message.ValidationError{
				Field: field, Code: message.CodeEncoding,
				Message: fmt.Sprintf("%s must not hold the control character %U.", field, r),
			}
		}
	}
	return nil
}
