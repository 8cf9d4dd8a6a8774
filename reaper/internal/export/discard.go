package export

import (
	"context"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Discard records a share of all traces, like the daemon does, and throws them
// away: it is for those who want to know what recording costs. Shut it down.
type Discard struct {
	*sdktrace.TracerProvider
	counter *counter
}

// NewDiscard returns a provider that records the share of the traces that begin
// in this process, and follows what others have decided about theirs.
func NewDiscard(share float64) *Discard {
	c := new(counter)
	return &Discard{counter: c, TracerProvider: sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(share))), sdktrace.WithBatcher(c))}
}

// Spans is how many spans have come to their end and to the exporter. After
// Shutdown it is final.
func (d *Discard) Spans() int64 { return d.counter.spans.Load() }

// counter is an exporter that only counts.
type counter struct{ spans atomic.Int64 }

// ExportSpans counts.
func (c *counter) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	c.spans.Add(int64(len(spans)))
	return nil
}

// Shutdown does nothing.
func (c *counter) Shutdown(context.Context) error { return nil }
