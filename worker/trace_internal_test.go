package worker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

const unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

// traced is what the worker does for the trace and the hooks of one message.
func traced(tb testing.TB, cfg Config, headers map[string]string) func() {
	tb.Helper()
	w, err := NewOn(nil, cfg)
	require.NoError(tb, err)
	r := &run{Worker: w, base: tb.Context()}
	t := &task{r: r, inc: newIncarnation(1), claimed: time.Now(), m: &store.Claimed{Message: message.Message{
		ID: 1_000_000, Queue: "default", Kind: "job", Attempt: 1, MaxRetries: 5, LeaseToken: 1, Headers: headers,
	}}}
	t.m.CreatedAt = t.claimed
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
		require.Zero(t, testing.AllocsPerRun(100, traced(t, Config{TracerProvider: provider}, nil)))
	}
}

// Without an SDK hooks belong to the producer's trace, like the handler.
func TestTraceOfHooksWithoutAnSDK(t *testing.T) {
	t.Parallel()
	var seen []string
	see := func(ctx context.Context, _ *message.Message) {
		sc := trace.SpanContextFromContext(ctx)
		require.True(t, sc.IsRemote())
		seen = append(seen, sc.SpanID().String())
	}
	traced(t, Config{Hooks: Hooks{Started: see, Succeeded: see}}, map[string]string{"traceparent": unsampled})()
	require.Equal(t, []string{"b7ad6b7169203331", "b7ad6b7169203331"}, seen)
}

// sampler records nothing, and keeps what it was asked last.
type sampler struct{ asked sdktrace.SamplingParameters }

func (s *sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	s.asked = p
	return sdktrace.SamplingResult{Decision: sdktrace.Drop}
}

func (*sampler) Description() string { return "keeps" }

// A sampler sees what it may want to decide by, although an attempt that it
// does not want costs little.
func TestTraceOfAnAttemptThatNobodyWants(t *testing.T) {
	var s sampler
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(&s))
	for mode, child := range map[TraceMode]bool{TraceAuto: true, TraceLink: false} {
		each := traced(t, Config{TracerProvider: provider, TraceMode: mode}, map[string]string{"traceparent": unsampled})
		each()
		require.Equal(t, "process default", s.asked.Name)
		require.Equal(t, trace.SpanKindConsumer, s.asked.Kind)
		seen := attribute.NewSet(s.asked.Attributes...)
		for key, want := range map[attribute.Key]any{
			"messaging.system": "styx", "messaging.operation.name": "process", "messaging.operation.type": "process",
			"messaging.destination.name": "default", "styx.kind": "job", "styx.attempt": int64(1), "styx.max_attempts": int64(5),
		} {
			v, _ := seen.Value(key)
			require.Equal(t, want, v.AsInterface(), key)
		}
		require.Len(t, s.asked.Links, 1)
		require.Equal(t, "b7ad6b7169203331", s.asked.Links[0].SpanContext.SpanID().String())
		parent := trace.SpanContextFromContext(s.asked.ParentContext)
		require.Equal(t, child, parent.IsValid())
		require.Equal(t, child, parent.IsRemote())
		// Most of these are the SDK's.
		require.LessOrEqual(t, testing.AllocsPerRun(100, each), 12.0)
	}
}

func BenchmarkTracing(b *testing.B) {
	carried := map[string]string{"traceparent": unsampled}
	both := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	sampling := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.01))))
	for _, c := range []struct {
		name    string
		cfg     Config
		headers map[string]string
	}{
		{"none", Config{}, nil},
		{"noop", Config{TracerProvider: noop.NewTracerProvider()}, nil},
		{"none, context passed on", Config{}, carried},
		{"noop, context passed on", Config{TracerProvider: noop.NewTracerProvider()}, carried},
		{"1 in 100, no producer", Config{TracerProvider: sampling}, nil},
		{"1 in 100, child of an unsampled one", Config{TracerProvider: sampling}, carried},
		{"1 in 100, link to an unsampled one", Config{TracerProvider: sampling, TraceMode: TraceLink}, carried},
		{"1 in 100, other propagator", Config{TracerProvider: sampling, TraceMode: TraceLink, Propagator: both}, carried},
		{"recorded", Config{TracerProvider: sdktrace.NewTracerProvider()}, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			each := traced(b, c.cfg, c.headers)
			b.ReportAllocs()
			for b.Loop() {
				each()
			}
		})
	}
}
