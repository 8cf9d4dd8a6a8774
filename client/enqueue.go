package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/name"
	"github.com/styxmq/styx/internal/origin"
	"github.com/styxmq/styx/internal/store"
)

// Enqueue stores a message; when it returns without an error, the message is
// committed and will be worked at least once. opts may be nil.
//
// The payload is encoded by encoding/json, without its escapes for HTML, and
// stored as that text: digits and the order of keys stay as they are. A nil
// payload is refused; a nil map or slice is the JSON text null.
//
// Nothing is written and the database is not touched when an option or the
// payload is refused: a [*message.ValidationError], several of them joined. A
// held idempotency key is a [*message.DuplicateError]. When the database
// cannot be reached the error is [ErrUnavailable]; if the connection broke
// while the answer was under way, the message may have been stored all the
// same, and only an idempotency key makes it safe to try again.
//
// With the context of a handler the message belongs to the one that is being
// handled: it takes over the tenant and the correlation id where neither opts
// nor the payload type says. A traceparent among the headers of opts is kept
// in place of this call's own trace context.
//
// The call ends with ctx, also while it waits for a connection of the pool. A
// message that was under way by then may have been stored: messages that are
// enqueued at the same time without a key may share a statement, which goes on
// for the others.
// The message returned is what is known of it without reading it again.
func (c *Client) Enqueue(ctx context.Context, payload Payload, opts *EnqueueOptions) (*message.Message, error) {
	return c.enqueue(ctx, nil, payload, opts)
}

// EnqueueRaw is [Client.Enqueue] for a payload that is text already: any
// valid UTF-8 without NUL, not empty, kept byte for byte. It need not be JSON,
// but a typed handler will want it to be.
func (c *Client) EnqueueRaw(ctx context.Context, kind, payload string, opts *EnqueueOptions) (*message.Message, error) {
	return c.enqueue(ctx, nil, Raw{kind, payload}, opts)
}

func (c *Client) enqueue(ctx context.Context, conn bun.IConn, payload Payload, opts *EnqueueOptions) (*message.Message, error) {
	var m store.NewMessage
	p := new(problems)
	c.build(p, newEncoder(), &m, payload, opts, origin.Of(ctx))
	if err := p.err(); err != nil {
		return nil, err
	}
	var in store.Inserted
	began := time.Now()
	sendCtx, span := c.send(ctx, &m)
	err := retry(sendCtx, conn, func() (err error) {
		in, err = c.store.Insert(sendCtx, conn, &m)
		return err
	})
	sent(span, in.ID, err)
	c.metrics.Sent(sendCtx, m.Queue, began, err)
	if err != nil {
		return nil, fmt.Errorf("enqueue %q into %q: %w", m.Kind, m.Queue, err)
	}
	stored := storedMessage(&m, in)
	c.enqueued(ctx, &stored)
	return &stored, nil
}

// build makes the message that will be stored; what is wrong with it goes
// to p. from is the message whose handler enqueues it, nil outside one.
func (c *Client) build(p *problems, e *encoder, m *store.NewMessage, payload Payload, opts *EnqueueOptions, from *message.Message) {
	body, err := e.encode(payload)
	p.collect(err)
	var o EnqueueOptions
	if opts != nil {
		o = *opts
	}
	o = o.Merge(body.defaults)
	if from != nil {
		o = o.Merge(EnqueueOptions{Tenant: from.Tenant, CorrelationID: from.CorrelationID})
	}
	o = o.Merge(c.cfg.Defaults)
	p.options(&o)
	if err == nil {
		p.collect(name.Check("kind", body.kind))
		p.payload(body.text, c.cfg.PayloadLimit)
	}
	if len(p.errs) > 0 {
		return
	}
	*m = store.NewMessage{
		Queue: o.Queue, Kind: body.kind, Payload: body.text,
		Priority: o.Priority, MaxRetries: o.MaxRetries, Timeout: wholeMillis(o.Timeout),
		Delay: max(o.Delay, 0), RunAt: o.RunAt, ExpiresIn: o.ExpiresIn,
		IdempotencyKey: o.IdempotencyKey, Tenant: o.Tenant, CorrelationID: o.CorrelationID,
		Headers: maps.Clone(o.Headers),
	}
	if m.RunAt.Unix() <= 0 {
		m.RunAt = time.Time{} // the far past, where databases have limits of their own
	}
	if m.IdempotencyKey != "" {
		m.Digest = digest(m.Kind, m.Payload)
		m.KeyWindow = c.cfg.IdempotencyWindow
	}
}

// digest tells two uses of one idempotency key apart. A kind holds no NUL.
func digest(kind, payload string) string {
	const size = 16 // enough: nobody gains by a collision with himself
	h := sha256.New()
	_, _ = io.WriteString(h, kind+"\x00") // a hash never returns an error
	_, _ = io.WriteString(h, payload)
	return hex.EncodeToString(h.Sum(nil)[:size])
}

// wholeMillis rounds a timeout up to what the databases store, so that no
// timeout becomes none.
func wholeMillis(d time.Duration) time.Duration {
	if d <= 0 {
		return d
	}
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// storedMessage shows a message that has just been stored.
func storedMessage(m *store.NewMessage, in store.Inserted) (out message.Message) {
	shownMessage(&out, m)
	stored(&out, m.ExpiresIn, in)
	return out
}

// shownMessage is the part of storedMessage that needs no answer.
func shownMessage(out *message.Message, m *store.NewMessage) {
	*out = message.Message{
		Queue: m.Queue, Kind: m.Kind, Payload: m.Payload,
		Status: message.StatusPending, Priority: m.Priority,
		Attempt: 1, MaxRetries: m.MaxRetries, Timeout: m.Timeout,
		Headers: m.Headers, Tenant: m.Tenant, CorrelationID: m.CorrelationID,
		IdempotencyKey: m.IdempotencyKey,
	}
}

// stored is the other part.
func stored(out *message.Message, expiresIn time.Duration, in store.Inserted) {
	out.ID, out.CreatedAt, out.UpdatedAt, out.RetryAfter = in.ID, in.CreatedAt, in.CreatedAt, in.RetryAfter
	if expiresIn > 0 {
		due := in.CreatedAt
		if !in.RetryAfter.IsZero() {
			due = in.RetryAfter
		}
		out.ExpiresAt = due.Add(expiresIn)
	}
}
