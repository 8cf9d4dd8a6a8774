package client

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/styxmq/styx/internal/store"
)

// What is done for the trace of one message, and of a batch of messages.
func BenchmarkTracing(b *testing.B) {
	both := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	sampling := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.01))))
	unsampled := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	for _, c := range []struct {
		name string
		cfg  Config
		in   trace.SpanContext
	}{
		{"none", Config{}, trace.SpanContext{}},
		{"noop", Config{TracerProvider: noop.NewTracerProvider()}, trace.SpanContext{}},
		{"none, context passed on", Config{}, unsampled},
		{"1 in 100", Config{TracerProvider: sampling}, trace.SpanContext{}},
		{"1 in 100, child of an unsampled one", Config{TracerProvider: sampling}, unsampled},
		{"1 in 100, other propagator", Config{TracerProvider: sampling, Propagator: both}, unsampled},
		{"recorded", Config{TracerProvider: sdktrace.NewTracerProvider()}, trace.SpanContext{}},
	} {
		for _, n := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				client := newClient(new(fakeStore), c.cfg)
				ctx := b.Context()
				if c.in.IsValid() {
					ctx = trace.ContextWithSpanContext(ctx, c.in)
				}
				batch := make([]store.NewMessage, n)
				b.ReportAllocs()
				for b.Loop() {
					for i := range batch {
						batch[i].Queue, batch[i].Kind, batch[i].Headers = "default", "job", nil
					}
					var span trace.Span
					if n == 1 {
						_, span = client.send(ctx, &batch[0])
					} else {
						_, span = client.sendMany(ctx, batch)
					}
					sent(span, 1_000_000, nil)
				}
			})
		}
	}
}
