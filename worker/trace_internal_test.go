package worker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// traced is what the worker does for the trace and the hooks of one message.
func traced(tb testing.TB, provider trace.TracerProvider, headers map[string]string) func() {
	tb.Helper()
	w, err := NewOn(nil, Config{TracerProvider: provider})
	require.NoError(tb, err)
	r := &run{Worker: w, base: tb.Context()}
	t := &task{r: r, inc: newIncarnation(1), m: &store.Claimed{Message: message.Message{
		ID: 1, Queue: "default", Kind: "job", Attempt: 1, MaxRetries: 5, LeaseToken: 1, Headers: headers,
	}}}
	t.Context, t.cancel = context.WithCancelCause(r.base)
	tb.Cleanup(func() { t.cancel(nil) })
	s := store.Settlement{Verb: store.Succeed}
	batch := []settled{{t, s}}
	return func() {
		t.attempt.Store(nil)
		r.started(r.enter(t), t)
		t.endWith(&s)
		ctx, span := r.settleSpan(r.base, batch)
		r.recorded(ctx, t, &batch[0].s)
		endSettle(span, 0, nil)
	}
}

// Who traces nothing pays nothing.
func TestTracingNothingAllocatesNothing(t *testing.T) {
	for _, provider := range []trace.TracerProvider{nil, noop.NewTracerProvider()} {
		require.Zero(t, testing.AllocsPerRun(100, traced(t, provider, nil)))
	}
}

func BenchmarkTracing(b *testing.B) {
	carried := map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}
	for _, c := range []struct {
		name     string
		provider trace.TracerProvider
		headers  map[string]string
	}{
		{"none", nil, nil},
		{"noop", noop.NewTracerProvider(), nil},
		{"none, context passed on", nil, carried},
		{"1 in 100", sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.01)))), carried},
	} {
		b.Run(c.name, func(b *testing.B) {
			each := traced(b, c.provider, c.headers)
			b.ReportAllocs()
			for b.Loop() {
				each()
			}
		})
	}
}
