package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/styxmq/styx/client/message"
)

// Payload is what a typed message carries: any value that encoding/json can
// encode, of a type that names its kind. Kind is called on the value being
// enqueued and must return the same text for all values of a type: workers
// find the handler by it. Renaming a Go type changes nothing, renaming its
// kind makes it another sort of work.
//
// A payload type may also have a method EnqueueDefaults() EnqueueOptions,
// whose fields count where the call's own options are zero.
type Payload interface {
	Kind() string
}

type defaulter interface {
	EnqueueDefaults() message.EnqueueOptions
}

// Raw is a payload that is stored as it stands, whatever its format. It lets
// raw messages travel in a batch; for a single one see [Client.EnqueueRaw].
type Raw struct {
	// Name is the kind.
	Name string
	// Text is the payload: valid UTF-8 without NUL, not empty.
	Text string
}

// Kind returns r.Name.
func (r Raw) Kind() string { return r.Name }

var _ Payload = Raw{}

// encoded is a payload turned into text.
type encoded struct {
	kind, text string
	defaults   message.EnqueueOptions
}

// encoder turns payloads into text, one after the other.
type encoder struct {
	buf  bytes.Buffer
	json *json.Encoder
}

func newEncoder() *encoder {
	e := new(encoder)
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false) // a payload is no HTML; keep < & > as they are
	return e
}

// encode calls methods of the payload's type, whose panics it returns.
func (e *encoder) encode(payload Payload) (result encoded, err error) {
	if isNil(payload) {
		return encoded{}, invalidPayload(message.CodeRequired, "payload must not be nil.")
	}
	doing := "Kind"
	defer func() {
		if v := recover(); v != nil {
			err = &payloadError{
				ValidationError: invalidPayload(message.CodeInvalid, "payload must be encodable, but its type panics."),
				cause:           fmt.Errorf("panic in %s of %T: %v", doing, payload, v),
			}
		}
	}()
	result.kind = payload.Kind()
	if d, ok := payload.(defaulter); ok {
		doing = "EnqueueDefaults"
		result.defaults = d.EnqueueDefaults()
	}
	doing = "encoding"
	switch raw := payload.(type) {
	case Raw:
		result.text = raw.Text
	case *Raw:
		result.text = raw.Text
	default:
		result.text, err = e.marshal(payload)
	}
	return result, err
}

func (e *encoder) marshal(payload Payload) (string, error) {
	e.buf.Reset()
	if err := e.json.Encode(payload); err != nil {
		// The encoder stays as good as new: its errors do not stick unless
		// the writer's do.
		return "", &payloadError{invalidPayload(message.CodeInvalid, "payload must be encodable as JSON."), err}
	}
	// encoding/json writes this escape in place of invalid UTF-8, where a
	// replacement character that was there before stays a character.
	if bytes.Contains(e.buf.Bytes(), []byte(`\ufffd`)) && holdsInvalid(payload) {
		return "", invalidPayload(message.CodeEncoding, "payload must hold valid UTF-8 in all its strings.")
	}
	return string(bytes.TrimSuffix(e.buf.Bytes(), []byte("\n"))), nil
}

func invalidPayload(code, text string) *message.ValidationError {
	return &message.ValidationError{Field: "payload", Code: code, Message: text}
}

// isNil reports whether a payload has no value: nil itself or a nil pointer,
// whose methods might panic. A nil map or slice is a value, which JSON calls
// null.
func isNil(payload Payload) bool {
	if payload == nil {
		return true
	}
	v := reflect.ValueOf(payload)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// payloadError is a refusal of a payload with what the encoding said.
type payloadError struct {
	*message.ValidationError
	cause error
}

func (e *payloadError) Error() string {
	return strings.TrimSuffix(e.ValidationError.Error(), ".") + ": " + e.cause.Error()
}

func (e *payloadError) Unwrap() []error { return []error{e.ValidationError, e.cause} }
