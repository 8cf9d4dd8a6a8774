package remote

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/styxmq/styx/client/message"
)

// UnavailableError is a server that cannot be reached.
type UnavailableError struct{ err error }

// Error says what failed.
func (e *UnavailableError) Error() string { return "the API cannot be reached: " + e.err.Error() }

// Unwrap returns the error of the connection.
func (e *UnavailableError) Unwrap() error { return e.err }

// Problem is an answer that is no success.
type Problem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	// Errors are the values that were refused.
	Errors []FieldError `json:"errors"`
	// ID finds the cause in the server's log.
	ID string `json:"id"`
}

// FieldError is one value that was refused.
type FieldError struct {
	Field   string `json:"field"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error is the detail, or what there is instead.
func (p *Problem) Error() string {
	var parts []string
	for _, e := range p.Errors {
		parts = append(parts, e.Message)
	}
	text := strings.Join(parts, " ")
	switch {
	case text != "":
	case p.Detail != "":
		text = p.Detail
	case p.Title != "":
		text = p.Title
	default:
		text = fmt.Sprintf("the server answered %d %s", p.Status, http.StatusText(p.Status))
	}
	if p.ID != "" {
		text += " (id " + p.ID + ")"
	}
	return text
}

// Unwrap makes errors.Is and errors.As find what the client package would have
// returned, as far as an answer tells.
func (p *Problem) Unwrap() error {
	switch {
	case p.Status == http.StatusNotFound:
		return message.ErrNotFound
	case p.Status == http.StatusUnprocessableEntity && len(p.Errors) > 0:
		e := p.Errors[0]
		return &message.ValidationError{Field: e.Field, Code: e.Code, Message: e.Message}
	}
	return nil
}

// problemOf reads an answer, which may be that of something before the server.
func problemOf(resp *http.Response, text []byte) *Problem {
	p := &Problem{}
	if json.Unmarshal(text, p) != nil {
		p = &Problem{}
	}
	p.Status = resp.StatusCode
	return p
}
