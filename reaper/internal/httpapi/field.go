package httpapi

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/styxmq/styx/client/message"
)

// maxErrors bounds the errors of one answer.
const maxErrors = 20

// fields reads the members of an object and gathers what is wrong with them.
type fields struct {
	// prefix stands before the names of the fields.
	prefix string
	errs   []fieldError
}

func (f *fields) refuse(field, code, text string) {
	if len(f.errs) < maxErrors {
		f.errs = append(f.errs, fieldError{Field: f.prefix + field, Code: code, Message: text})
	}
}

// err is nil when nothing was refused.
func (f *fields) err() error {
	if len(f.errs) == 0 {
		return nil
	}
	return refuse(f.errs...)
}

// object calls read for each member that is not null. It reports whether read
// knows the field.
func (f *fields) object(raw []byte, read func(field string, raw []byte) bool) {
	var seen [16]string
	known := seen[:0]
	for key, value := range members(raw) {
		if len(f.errs) >= maxErrors {
			return
		}
		if slices.Contains(known, key) {
			f.refuse(key, codeDuplicate, show(key)+" must not be given twice.")
			continue
		}
		known = append(known, key)
		if value[0] == 'n' {
			value = nil
		}
		if !read(key, value) {
			f.refuse(show(key), codeUnknown, show(key)+" is not known here.")
			known = known[:len(known)-1] // so that many of them cost no more than one each
		}
	}
}

// show cuts a name from outside to a readable length.
func show(name string) string {
	const limit = 64
	if len(name) <= limit {
		return name
	}
	runes := []rune(name[:limit])
	return string(runes[:len(runes)-1]) + "…"
}

// A null counts as absent: the functions below leave the target alone.

func (f *fields) text(field string, raw []byte, to *string) {
	if raw == nil {
		return
	}
	if raw[0] != '"' {
		f.refuse(field, message.CodeInvalid, field+" must be a string.")
		return
	}
	text, ok := unquote(raw)
	if !ok {
		f.refuse(field, message.CodeEncoding, field+" must be text, without half of a surrogate pair.")
		return
	}
	*to = text
}

// integer takes digits and a sign only: 3.0 and 3e0 are refused.
func (f *fields) integer(field string, raw []byte, least, most int64, to *int64) {
	if raw == nil {
		return
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < least || n > most {
		f.refuse(field, message.CodeInvalid, fmt.Sprintf("%s must be between %d and %d.", field, least, most))
		return
	}
	*to = n
}

func (f *fields) boolean(field string, raw []byte, to *bool) {
	if raw == nil {
		return
	}
	if raw[0] != 't' && raw[0] != 'f' {
		f.refuse(field, message.CodeInvalid, field+" must be true or false.")
		return
	}
	*to = raw[0] == 't'
}

// seconds takes a number of seconds, which may have a fraction.
func (f *fields) seconds(field string, raw []byte, to *time.Duration) bool {
	if raw == nil {
		return false
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if raw[0] == '"' || err != nil || n < 0 || n > math.MaxInt64/float64(time.Second)/2 {
		f.refuse(field, message.CodeInvalid, field+" must be a number of seconds, 0 or more.")
		return false
	}
	*to = time.Duration(math.Round(n*1e6)) * time.Microsecond
	return true
}

func (f *fields) moment(field string, raw []byte, to *time.Time) {
	var text string
	f.text(field, raw, &text)
	if text == "" {
		return
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		f.refuse(field, message.CodeInvalid, field+" must be a time such as 2027-01-31T12:00:00Z.")
		return
	}
	*to = at
}

func (f *fields) texts(field string, raw []byte, most int, to *[]string) {
	if !f.isArray(field, raw) {
		return
	}
	for i, element := range elements(raw) {
		if i == most {
			f.refuse(field, message.CodeTooLong, fmt.Sprintf("%s must be at most %d.", field, most))
			return
		}
		if element[0] == 'n' {
			f.refuse(fmt.Sprintf("%s[%d]", field, i), message.CodeRequired, "it must be a string.")
			return
		}
		var text string
		f.text(fmt.Sprintf("%s[%d]", field, i), element, &text)
		*to = append(*to, text)
	}
}

func (f *fields) isArray(field string, raw []byte) bool {
	if raw == nil {
		return false
	}
	if raw[0] != '[' {
		f.refuse(field, message.CodeInvalid, field+" must be an array.")
		return false
	}
	return true
}

func (f *fields) isObject(field string, raw []byte) bool {
	if raw == nil || raw[0] != '{' {
		f.refuse(field, message.CodeInvalid, field+" must be an object.")
		return false
	}
	return true
}

// pairs reads an object whose values are strings.
func (f *fields) pairs(field string, raw []byte, most int, to *map[string]string) {
	if raw == nil || !f.isObject(field, raw) {
		return
	}
	found := make(map[string]string)
	for key, value := range members(raw) {
		name := field + "." + show(key)
		_, twice := found[key]
		switch {
		case twice:
			f.refuse(name, codeDuplicate, name+" must not be given twice.")
			return
		case len(found) == most:
			f.refuse(field, message.CodeTooLong, fmt.Sprintf("%s must be at most %d.", field, most))
			return
		case value[0] != '"':
			f.refuse(name, message.CodeInvalid, name+" must be a string.")
			return
		}
		var text string
		f.text(name, value, &text)
		found[key] = text
	}
	*to = found
}
