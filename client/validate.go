package client

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/name"
)

const (
	// maxText is the largest text that an operator gives, in bytes.
	maxText = 1024
	// clockTolerance is how far the local clock may be behind before a
	// RunAt at the far end of its range is refused wrongly.
	clockTolerance = 24 * time.Hour
)

// problems gathers everything that is wrong with one call.
type problems struct {
	// prefix stands before the name of every field.
	prefix string
	errs   []error
}

func (p *problems) add(field, code, format string, args ...any) {
	p.collect(&message.ValidationError{Field: field, Code: code, Message: fmt.Sprintf(format, args...)})
}

// collect keeps err unless it is nil.
func (p *problems) collect(err error) {
	if err == nil {
		return
	}
	if invalid, ok := errors.AsType[*message.ValidationError](err); ok {
		invalid.Field = p.prefix + invalid.Field
	}
	p.errs = append(p.errs, err)
}

func (p *problems) err() error {
	if len(p.errs) == 1 {
		return p.errs[0]
	}
	return errors.Join(p.errs...)
}

// at returns the errors as those of one item of a batch.
func (p *problems) at(index int) error {
	for _, err := range p.errs {
		if invalid, ok := errors.AsType[*message.ValidationError](err); ok {
			invalid.Field = "messages[" + strconv.Itoa(index) + "]." + invalid.Field
		}
	}
	return p.err()
}

// options checks all but what is required, so that it serves defaults too.
func (p *problems) options(o *EnqueueOptions) {
	if o.Queue != "" {
		p.collect(name.Check("queue", o.Queue))
	}
	p.schedule(o)
	if o.Priority < message.MinPriority || o.Priority > message.MaxPriority {
		p.add("priority", message.CodeOutOfRange, "priority must be %d to %d, not %d.", message.MinPriority, message.MaxPriority, o.Priority)
	}
	if o.MaxRetries < 0 || o.MaxRetries > message.MaxMaxRetries {
		p.add("max_retries", message.CodeOutOfRange, "max_retries must be 1 to %d, not %d.", message.MaxMaxRetries, o.MaxRetries)
	}
	if o.Timeout < -1 || o.Timeout > message.MaxTimeout {
		p.add("timeout", message.CodeOutOfRange, "timeout must be -1 for none, or at most %s, not %s.", message.MaxTimeout, o.Timeout)
	}
	p.collect(name.Optional("idempotency_key", o.IdempotencyKey, message.MaxKeyLength))
	p.collect(name.Optional("tenant", o.Tenant, message.MaxNameLength))
	p.collect(name.Optional("correlation_id", o.CorrelationID, message.MaxKeyLength))
	p.headers(o.Headers)
}

func (p *problems) schedule(o *EnqueueOptions) {
	switch {
	case o.Delay != 0 && !o.RunAt.IsZero():
		p.add("run_at", message.CodeInvalid, "run_at and delay must not both be set.")
	case o.Delay > message.MaxDelay:
		p.add("delay", message.CodeOutOfRange, "delay must be at most %s, not %s.", message.MaxDelay, o.Delay)
	case o.RunAt.Unix() > time.Now().Add(message.MaxDelay+clockTolerance).Unix(): // After is wrong at the ends of int64
		p.add("run_at", message.CodeOutOfRange, "run_at must be at most %s ahead.", message.MaxDelay)
	}
	if o.ExpiresIn < 0 || o.ExpiresIn > message.MaxDelay {
		p.add("expires_in", message.CodeOutOfRange, "expires_in must be 0 for never, or at most %s, not %s.", message.MaxDelay, o.ExpiresIn)
	}
}

func (p *problems) headers(headers map[string]string) {
	if len(headers) > message.MaxHeaders {
		p.add("headers", message.CodeTooLong, "headers must be at most %d, not %d.", message.MaxHeaders, len(headers))
		return
	}
	size := 0
	for key, value := range headers {
		size += len(key) + len(value)
		switch {
		case name.Check("headers", key) != nil:
			p.add("headers", message.CodeInvalid,
				"headers must have names of 1 to %d bytes of UTF-8 without control characters, not %.40q.", message.MaxNameLength, key)
			return
		case !isText(value):
			p.add("headers", message.CodeEncoding, "headers must hold valid UTF-8 without NUL, which %q does not.", key)
			return
		}
	}
	if size > message.MaxHeaderBytes {
		p.add("headers", message.CodeTooLong, "headers must be at most %d bytes in all, not %d.", message.MaxHeaderBytes, size)
	}
}

// payload checks the text that is about to be stored.
func (p *problems) payload(text string, limit int) {
	switch {
	case text == "":
		p.add("payload", message.CodeRequired, "payload must not be empty.")
	case len(text) > limit:
		p.add("payload", message.CodeTooLong, "payload must be at most %d bytes, not %d.", limit, len(text))
	case !isText(text):
		p.add("payload", message.CodeEncoding, "payload must be valid UTF-8 without NUL.")
	}
}

// isText reports whether both engines store s as it is.
func isText(s string) bool {
	return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s)
}

// text checks a filter or remark, whose form is free.
func (p *problems) text(field, s string) {
	switch {
	case len(s) > maxText:
		p.add(field, message.CodeTooLong, "%s must be at most %d bytes, not %d.", field, maxText, len(s))
	case !isText(s):
		p.add(field, message.CodeEncoding, "%s must be valid UTF-8 without NUL.", field)
	}
}

// actor checks what an operator says about himself.
func (p *problems) actor(who, reason string) {
	p.collect(name.Optional("actor", who, message.MaxNameLength))
	p.text("reason", reason)
}
