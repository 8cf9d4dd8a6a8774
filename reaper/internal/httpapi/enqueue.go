package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
)

const (
	// DefaultKind is the kind of a message that is enqueued without one.
	DefaultKind = "message"
	// DefaultMaxRetries is the number of attempts of a message that is
	// enqueued without one, MaxMaxRetries the largest.
	DefaultMaxRetries = 3
	// MaxMaxRetries is the largest max_retries.
	MaxMaxRetries = 10
	// MaxBatch is the largest number of messages that are enqueued at once.
	MaxBatch = 10_000
)

// draft is a message as a body describes it.
type draft struct {
	kind, payload string
	options       client.EnqueueOptions
}

// field reads one field of a message.
func (d *draft) field(f *fields, field string, raw []byte) bool {
	switch field {
	case "payload":
		f.text(field, raw, &d.payload)
		if raw != nil && raw[0] == '"' && d.payload == "" {
			f.required(field)
		}
	case "kind":
		f.text(field, raw, &d.kind)
		if string(raw) == `""` {
			f.required(field)
		}
	case "max_retries":
		n := int64(DefaultMaxRetries)
		f.integer(field, raw, 1, MaxMaxRetries, &n)
		d.options.MaxRetries = int(n)
	case "priority":
		var n int64
		f.integer(field, raw, message.MinPriority, message.MaxPriority, &n)
		d.options.Priority = int(n)
	case "delay":
		f.seconds(field, raw, &d.options.Delay)
	case "run_at":
		f.moment(field, raw, &d.options.RunAt)
	case "processing_timeout":
		if f.seconds(field, raw, &d.options.Timeout) && d.options.Timeout < time.Millisecond {
			f.refuse(field, message.CodeOutOfRange, "processing_timeout must be at least 0.001 seconds.")
		}
	case "expires_in":
		f.seconds(field, raw, &d.options.ExpiresIn)
	case "idempotency_key":
		f.text(field, raw, &d.options.IdempotencyKey)
	case "tenant":
		f.text(field, raw, &d.options.Tenant)
	case "correlation_id":
		f.text(field, raw, &d.options.CorrelationID)
	case "headers":
		f.pairs(field, raw, message.MaxHeaders, &d.options.Headers)
	default:
		return false
	}
	return true
}

// finish sees to what must not be missing; given tells that the payload was
// there, for better or worse.
func (d *draft) finish(f *fields, queue string, given bool) {
	if !given {
		f.required("payload")
	}
	if d.kind == "" {
		d.kind = DefaultKind
	}
	if d.options.MaxRetries == 0 {
		d.options.MaxRetries = DefaultMaxRetries
	}
	d.options.Queue = queue
}

func (f *fields) required(field string) {
	f.refuse(field, message.CodeRequired, field+" must be a string that is not empty.")
}

func (h *Handler) enqueue(c *call) (*reply, error) {
	var (
		f     fields
		one   draft
		many  []draft
		batch bool
		given bool
		alone bool
	)
	err := c.object(&f, func(field string, raw []byte) bool {
		if field == "messages" {
			batch = true
			many = c.drafts(&f, raw)
			return true
		}
		alone = true
		given = given || field == "payload" && raw != nil
		return one.field(&f, field, raw)
	})
	if err != nil {
		return nil, err
	}
	switch {
	case batch && alone:
		f.refuse("messages", message.CodeInvalid, "messages must be the only field.")
	case !batch:
		one.finish(&f, c.queue, given)
		one.options.Headers = c.trace(one.options.Headers)
	}
	key := idempotencyKey(&f, c.r.Header)
	switch {
	case batch && key != "":
		f.refuse("Idempotency-Key", message.CodeInvalid, "Idempotency-Key must not be given for many messages; each may have an idempotency_key.")
	case key != "" && one.options.IdempotencyKey != "" && key != one.options.IdempotencyKey:
		f.refuse("idempotency_key", message.CodeInvalid, "idempotency_key must be the same as the header Idempotency-Key.")
	case key != "":
		one.options.IdempotencyKey = key
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	if batch {
		return h.enqueueMany(c, many)
	}
	return h.enqueueOne(c, &one)
}

// drafts reads the field messages.
func (c *call) drafts(f *fields, raw []byte) []draft {
	if raw == nil {
		f.refuse("messages", message.CodeRequired, "messages must be an array.")
		return nil
	}
	if !f.isArray("messages", raw) {
		return nil
	}
	var many []draft
	for i, element := range elements(raw) {
		if i == MaxBatch {
			f.refuse("messages", message.CodeTooLong, fmt.Sprintf("messages must be at most %d.", MaxBatch))
			return nil
		}
		if len(f.errs) >= maxErrors {
			return nil
		}
		if !f.isObject("messages["+strconv.Itoa(i)+"]", element) {
			continue
		}
		inner := fields{prefix: "messages[" + strconv.Itoa(i) + "]."}
		var d draft
		given := false
		inner.object(element, func(field string, raw []byte) bool {
			given = given || field == "payload" && raw != nil
			return d.field(&inner, field, raw)
		})
		d.finish(&inner, c.queue, given)
		d.options.Headers = c.trace(d.options.Headers)
		f.errs = append(f.errs, inner.errs...)
		many = append(many, d)
	}
	if len(many) == 0 && len(f.errs) == 0 {
		f.refuse("messages", message.CodeRequired, "messages must not be empty.")
	}
	return many
}

func (h *Handler) enqueueOne(c *call, d *draft) (*reply, error) {
	m, err := h.cfg.Client.EnqueueRaw(c.ctx, d.kind, d.payload, &d.options)
	if err == nil {
		return &reply{status: http.StatusCreated, location: location(m), body: c.caller.stored(m)}, nil
	}
	dup, ok := errors.AsType[*message.DuplicateError](err)
	if !ok || dup.Mismatch || dup.ID == 0 {
		return nil, err
	}
	first, missing := h.cfg.Client.Get(c.ctx, dup.ID)
	if errors.Is(missing, message.ErrNotFound) {
		return nil, err // deleted by now; its key goes with it or soon
	}
	if missing != nil {
		return nil, missing
	}
	return &reply{status: http.StatusOK, location: location(first), replayed: true, body: c.caller.stored(first)}, nil
}

func (h *Handler) enqueueMany(c *call, many []draft) (*reply, error) {
	items := make([]client.Item, len(many))
	for i := range many {
		d := &many[i]
		items[i] = client.Item{Payload: client.Raw{Name: d.kind, Text: d.payload}, Options: &d.options}
	}
	stored, err := h.cfg.Client.EnqueueMany(c.ctx, items)
	if dup, ok := errors.AsType[*message.DuplicateError](err); ok {
		p := problemOf(err)
		p.Index = &dup.Index
		return nil, p
	}
	if err != nil {
		return nil, err
	}
	views := make([]*messageView, len(stored))
	for i := range stored {
		views[i] = c.caller.stored(&stored[i])
	}
	return &reply{status: http.StatusCreated, body: struct {
		Messages []*messageView `json:"messages"`
		Count    int            `json:"count"`
	}{views, len(views)}}, nil
}

// stored shows a message to who has just enqueued it: he knows the payload.
func (c *caller) stored(m *message.Message) *messageView {
	v := c.viewOf(m)
	v.Payload = &m.Payload
	return v
}

// location is the path of a message.
func location(m *message.Message) string {
	queue := url.PathEscape(m.Queue)
	if strings.Trim(queue, ".") == "" {
		queue = strings.ReplaceAll(queue, ".", "%2E") // or it would be a step in the tree
	}
	return "/queues/" + queue + "/messages/" + strconv.FormatInt(m.ID, 10)
}
