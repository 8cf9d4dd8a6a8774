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

// send begins the span of an enqueue and lets the message carry its context,
// unless the caller has given one in the headers. It returns nil when nobody
// records; the message then carries the context of the caller's span.
func (c *Client) send(ctx context.Context, m *store.NewMessage) (context.Context, trace.Span) {
	given := c.tracing.Origin(m.Headers)
	if !c.tracing.On() {
		if !given.IsValid() {
			m.Headers = c.tracing.Carry(ctx).Into(m.Headers)
		}
		return ctx, nil
	}
	attrs := append(telemetry.Operation(telemetry.OperationSend, m.Queue), telemetry.KeyKind.String(m.Kind))
	if m.CorrelationID != "" {
		attrs = append(attrs, telemetry.KeyConversation.String(m.CorrelationID))
	}
	name := telemetry.SpanName(telemetry.OperationSend, m.Queue)
	if given.IsValid() {
		return c.tracing.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...),
			trace.WithLinks(telemetry.Link(given, telemetry.LinkCreation)))
	}
	ctx, span := c.tracing.Start(ctx, name, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attrs...))
	m.Headers = c.tracing.Carry(ctx).Into(m.Headers)
	return ctx, span
}

// sendMany is send for a batch: one span, whose context every message carries
// that has none of its own.
func (c *Client) sendMany(ctx context.Context, batch []store.NewMessage) (context.Context, trace.Span) {
	on := c.tracing.On()
	var links []trace.Link
	bare := make([]*store.NewMessage, 0, len(batch))
	queue, kind := batch[0].Queue, batch[0].Kind
	for i := range batch {
		m := &batch[i]
		if m.Queue != queue {
			queue = ""
		}
		if m.Kind != kind {
			kind = ""
		}
		given := c.tracing.Origin(m.Headers)
		switch {
		case !given.IsValid():
			bare = append(bare, m)
		case on && len(links) < telemetry.MaxLinks:
			links = append(links, telemetry.Link(given, telemetry.LinkCreation))
		}
	}
	var span trace.Span
	if on {
		attrs := append(telemetry.Operation(telemetry.OperationSend, queue), telemetry.KeyBatchCount.Int(len(batch)))
		if kind != "" {
			attrs = append(attrs, telemetry.KeyKind.String(kind))
		}
		spanKind := trace.SpanKindProducer
		if len(bare) == 0 {
			spanKind = trace.SpanKindClient
		}
		ctx, span = c.tracing.Start(ctx, telemetry.SpanName(telemetry.OperationSend, queue),
			trace.WithSpanKind(spanKind), trace.WithAttributes(attrs...), trace.WithLinks(links...))
	}
	carried := c.tracing.Carry(ctx)
	for _, m := range bare {
		m.Headers = carried.Into(m.Headers)
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
	case id != 0:
		telemetry.End(span, "", "", telemetry.ID(id))
	default:
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
