package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/styxmq/styx/client/message"
)

// query reads the parameters of a URL and gathers what is wrong with them.
type query struct {
	fields
	values url.Values
	known  []string
}

// parameters parses the query of a URL.
func parameters(raw string) (*query, error) {
	if raw == "" {
		return new(query), nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, refuse(fieldError{Field: "query", Code: message.CodeInvalid, Message: "The query is not encoded as it must be."})
	}
	return &query{values: values}, nil
}

func (q *query) text(name string, to *string) {
	q.known = append(q.known, name)
	switch given := q.values[name]; {
	case len(given) > 1:
		q.refuse(name, codeDuplicate, name+" must not be given twice.")
	case len(given) == 1 && given[0] == "":
		q.refuse(name, message.CodeInvalid, name+" must not be empty.")
	case len(given) == 1:
		*to = given[0]
	}
}

func (q *query) integer(name string, least, most int, to *int) {
	var text string
	q.text(name, &text)
	if text == "" {
		return
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most || text[0] == '+' || text[0] == '-' {
		q.refuse(name, message.CodeInvalid, fmt.Sprintf("%s must be between %d and %d.", name, least, most))
		return
	}
	*to = n
}

func (q *query) boolean(name string, to *bool) {
	var text string
	q.text(name, &text)
	switch text {
	case "", "false":
	case "true":
		*to = true
	default:
		q.refuse(name, message.CodeInvalid, name+" must be true or false.")
	}
}

// order reads the parameter of that name: asc or desc.
func (q *query) order(descending *bool) {
	var text string
	q.text("order", &text)
	switch text {
	case "", "asc":
	case "desc":
		*descending = true
	default:
		q.refuse("order", message.CodeInvalid, "order must be asc or desc.")
	}
}

// has reports whether a parameter was given.
func (q *query) has(name string) bool { return len(q.values[name]) > 0 }

// err refuses what was not read, and all that was refused before.
func (q *query) err() error {
	names := make([]string, 0, len(q.values))
	for name := range q.values {
		if !slices.Contains(q.known, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		q.refuse(show(name), codeUnknown, show(name)+" is not known here.")
	}
	return q.fields.err()
}
