package client

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/failure"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/telemetry"
)

// scope names this package to those who record.
const scope = "github.com/styxmq/styx/client"

// What the span of an enqueue is: it makes a message, or sends one that
// another span has made.
var (
	makes = trace.WithSpanKind(trace.SpanKindProducer)
	sends = trace.WithSpanKind(trace.SpanKindClient)
)

// send begins the span of an enqueue and lets the message carry its context,
// unless the caller has given one in the headers. It returns nil when nobody
// records; the message then carries the context of the caller's span.
func (c *Client) send(ctx context.Context, m *store.NewMessage) (context.Context, trace.Span) {
	given := c.tracing.Origin(m.Headers)
	if !c.tracing.On() {
		if !given.IsValid() {
			m.Headers = c.tracing.Carry(ctx).Last(m.Headers)
		}
		return ctx, nil
	}
	var span trace.Span
	opening := c.tracing.Sending(m.Queue, m.Kind)
	if given.IsValid() {
		ctx, span = c.tracing.Start(ctx, opening.Name, sends, opening.Attributes,
			trace.WithLinks(telemetry.Link(given, telemetry.LinkCreation)))
	} else {
		ctx, span = c.tracing.Start(ctx, opening.Name, makes, opening.Attributes)
		m.Headers = c.tracing.Carry(ctx).Last(m.Headers)
	}
	telemetry.Identify(span, 0, m.CorrelationID)
	return ctx, span
}

// sendMany is send for a batch: one span, whose context every message carries
// that has none of its own.
func (c *Client) sendMany(ctx context.Context, batch []store.NewMessage) (context.Context, trace.Span) {
	on := c.tracing.On()
	var links []trace.Link
	var given []int // those that have one
	queue, kind := batch[0].Queue, batch[0].Kind
	for i := range batch {
		m := &batch[i]
		if m.Queue != queue {
			queue = ""
		}
		if m.Kind != kind {
			kind = ""
		}
		if origin := c.tracing.Origin(m.Headers); origin.IsValid() {
			given = append(given, i)
			if on && len(links) < telemetry.MaxLinks {
				links = append(links, telemetry.Link(origin, telemetry.LinkCreation))
			}
		}
	}
	var span trace.Span
	if on {
		attrs := append(telemetry.Operation(telemetry.OperationSend, queue), telemetry.KeyBatchCount.Int(len(batch)))
		if kind != "" {
			attrs = append(attrs, telemetry.KeyKind.String(kind))
		}
		does := makes
		if len(given) == len(batch) {
			does = sends
		}
		ctx, span = c.tracing.Start(ctx, telemetry.SpanName(telemetry.OperationSend, queue),
			does, trace.WithAttributes(attrs...), trace.WithLinks(links...))
	}
	carried := c.tracing.Carry(ctx)
	if len(carried) == 0 {
		return ctx, span
	}
	for i := range batch {
		if len(given) > 0 && given[0] == i {
			given = given[1:]
			continue
		}
		batch[i].Headers = carried.Into(batch[i].Headers)
	}
	return ctx, span
}

// sent ends the span of an enqueue; id is that of a single message.
func sent(span trace.Span, id int64, err error) {
	switch {
	case span == nil:
	case err != nil:
		class, text := errorType(err)
		telemetry.End(span, class, text)
	default:
		telemetry.Identify(span, id, "")
		telemetry.End(span, "", "")
	}
}

// errorType returns error.type and a text without values of the caller's.
func errorType(err error) (class, text string) {
	var duplicate *message.DuplicateError
	switch {
	case errors.As(err, &duplicate):
		return "duplicate", "the idempotency key is held"
	case errors.Is(err, ErrUnavailable):
		return "unavailable", "the database cannot be reached"
	case errors.Is(err, ErrContention):
		return "contention", "conflict with another transaction"
	case errors.Is(err, message.ErrTxDone):
		return "tx_done", "the transaction has failed or ended"
	case errors.Is(err, context.Canceled):
		return "canceled", "the call was cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout", "the call has run out of time"
	}
	return failure.Class(err), failure.Text(err)
}
