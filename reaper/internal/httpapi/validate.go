package httpapi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/styxmq/styx/client/message"
)

// validate looks at a configuration that has its defaults.
func (c Config) validate() error {
	var errs []error
	refuse := func(bad bool, field, code, text string) {
		if bad {
			errs = append(errs, &message.ValidationError{Field: field, Code: code, Message: field + " " + text})
		}
	}
	refuse(c.Prefix != "" && (!strings.HasPrefix(c.Prefix, "/") || strings.HasSuffix(c.Prefix, "/") || strings.ContainsAny(c.Prefix, "?#% ")),
		"Prefix", message.CodeInvalid, "must be empty, or begin with / and not end with it.")
	refuse(c.BodyLimit < 1, "BodyLimit", message.CodeOutOfRange, "must be at least 1 byte.")
	refuse(c.Timeout < 0, "Timeout", message.CodeOutOfRange, "must not be negative.")
	refuse(c.MaxRequests < 1, "MaxRequests", message.CodeOutOfRange, "must be at least 1.")
	refuse(c.MaxWaits < 1, "MaxWaits", message.CodeOutOfRange, "must be at least 1.")
	ways := 0
	for _, set := range []bool{len(c.Tokens) > 0, c.Identify != nil, c.Open} {
		if set {
			ways++
		}
	}
	refuse(ways != 1, "Tokens", message.CodeRequired, "or else Identify or Open must be set, and only one of them: somebody must say who may call.")
	seen := map[string]bool{}
	for i, t := range c.Tokens {
		name := fmt.Sprintf("Tokens[%d]", i)
		if err := t.check(); err != nil {
			errs = append(errs, &message.ValidationError{Field: name, Code: message.CodeInvalid, Message: name + " " + err.Error() + "."})
		}
		refuse(seen[t.Name], name, message.CodeInvalid, "must not have the name of another one.")
		seen[t.Name] = true
	}
	return errors.Join(errs...)
}
