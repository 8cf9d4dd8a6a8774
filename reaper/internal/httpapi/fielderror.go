package httpapi

import (
	"errors"
	"slices"
	"strings"

	"github.com/styxmq/styx/client/message"
)

// Codes beside those of message.ValidationError.
const (
	// codeUnknown: there is no such field or parameter.
	codeUnknown = "unknown"
	// codeDuplicate: it is given twice.
	codeDuplicate = "duplicate"
)

// renamed are fields whose name differs here from the client's.
var renamed = map[string]string{"timeout": "processing_timeout", "class": "error_class"}

// fieldErrors are all validation errors in the tree of err.
func fieldErrors(err error) []fieldError {
	var found []fieldError
	var walk func(err error)
	walk = func(err error) {
		if v, ok := err.(*message.ValidationError); ok { //nolint:errorlint // the tree is walked here
			found = append(found, fieldErrorOf(v))
			return
		}
		switch e := err.(type) { //nolint:errorlint // the tree is walked here
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				walk(inner)
			}
		case interface{ Unwrap() error }:
			walk(e.Unwrap())
		}
	}
	walk(err)
	// A payload type's refusal holds itself twice.
	return slices.CompactFunc(found, func(a, b fieldError) bool { return a == b })
}

func fieldErrorOf(v *message.ValidationError) fieldError {
	e := fieldError{Field: v.Field, Code: v.Code, Message: v.Message}
	prefix, last := "", e.Field
	if dot := strings.LastIndexByte(e.Field, '.'); dot >= 0 {
		prefix, last = e.Field[:dot+1], e.Field[dot+1:]
	}
	if name, ok := renamed[last]; ok {
		e.Field = prefix + name
		if rest, ok := strings.CutPrefix(e.Message, last+" "); ok {
			e.Message = name + " " + rest
		}
	}
	return e
}

// isInvalid reports whether err refuses values.
func isInvalid(err error) bool {
	_, ok := errors.AsType[*message.ValidationError](err)
	return ok
}
