package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// ClientMetrics measure what a client does. It is safe for concurrent use.
type ClientMetrics struct {
	duration metric.Float64Histogram
	sent     metric.Int64Counter
	send     *family // with the type, for durations
	count    *family
}

// NewClientMetrics makes the instruments; nil is the global provider.
func NewClientMetrics(p metric.MeterProvider) *ClientMetrics {
	m := newMaker(p)
	return &ClientMetrics{
		duration: m.seconds(nameOperationDuration), sent: m.counter(nameSent),
		send: operation(OperationSend, OperationSend), count: operation(OperationSend, ""),
	}
}

// Enabled reports whether anybody takes measurements.
func (m *ClientMetrics) Enabled(ctx context.Context) bool { return m.sent.Enabled(ctx) }

// Sent counts a message that was to be enqueued by a call which began at began
// and ended with err.
func (m *ClientMetrics) Sent(ctx context.Context, queue string, began time.Time, err error) {
	if !m.Enabled(ctx) {
		return
	}
	v := values{queue, ErrorType(err)}
	m.sent.Add(ctx, 1, m.count.of(v).add...)
	m.duration.Record(ctx, time.Since(began).Seconds(), m.send.of(v).record...)
}

// SentMany counts messages that were to be enqueued in one call.
func (m *ClientMetrics) SentMany(ctx context.Context, batch []store.NewMessage, began time.Time, err error) {
	if len(batch) == 0 || !m.Enabled(ctx) {
		return
	}
	kind, first, same := ErrorType(err), batch[0].Queue, true
	for i := 0; i < len(batch); {
		queue, n := batch[i].Queue, 1
		for i+n < len(batch) && batch[i+n].Queue == queue {
			n++
		}
		same = same && queue == first
		m.sent.Add(ctx, int64(n), m.count.of(values{queue, kind}).add...)
		i += n
	}
	if !same {
		first = "" // the call has no one destination
	}
	m.duration.Record(ctx, time.Since(began).Seconds(), m.send.of(values{first, kind}).record...)
}

// ErrorType names an error of the store or of a call for the attribute
// error.type; nil is empty.
func ErrorType(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, message.ErrLeaseLost):
		return "lease_lost"
	case errors.As(err, new(*message.DuplicateError)):
		return "duplicate"
	case errors.As(err, new(*message.ValidationError)):
		return "invalid"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, store.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, store.ErrContention):
		return "contention"
	case errors.Is(err, message.ErrSchemaMissing):
		return "schema_missing"
	}
	return "_OTHER"
}
