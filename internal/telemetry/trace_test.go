package telemetry_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/styxmq/styx/internal/telemetry"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// remote returns a context with the span of the headers.
func remote(t *testing.T, headers map[string]string) context.Context {
	t.Helper()
	sc := telemetry.NewTracing("test", noop.NewTracerProvider(), nil, nil).Origin(headers)
	require.True(t, sc.IsValid())
	return trace.ContextWithSpanContext(t.Context(), sc)
}

func TestNobodyRecords(t *testing.T) {
	t.Parallel()
	provider := sdktrace.NewTracerProvider()
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) })
	noopProvider := noop.NewTracerProvider()
	require.False(t, telemetry.NewTracing("test", nil, nil, nil).On(), "the global one is none")
	require.False(t, telemetry.NewTracing("test", otel.GetTracerProvider(), nil, nil).On())
	require.False(t, telemetry.NewTracing("test", noopProvider, nil, nil).On())
	require.False(t, telemetry.NewTracing("test", &noopProvider, nil, nil).On())
	require.True(t, telemetry.NewTracing("test", provider, nil, nil).On())
}

// What is asked for each message costs next to nothing when nobody records.
func TestNobodyPays(t *testing.T) {
	tracing := telemetry.NewTracing("test", nil, nil, []string{"tenant"})
	ctx, headers := t.Context(), map[string]string{"mine": "x"}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if tracing.On() || tracing.Origin(nil).IsValid() || tracing.Origin(headers).IsValid() || tracing.Carry(ctx) != nil ||
			tracing.Death(headers).IsValid() || tracing.WithBaggage(ctx, headers) != ctx {
			t.Error("something is there")
		}
	}))
}

func TestContextGoesRound(t *testing.T) {
	t.Parallel()
	tracing := telemetry.NewTracing("test", nil, nil, nil)
	require.Nil(t, tracing.Carry(t.Context()))
	require.Nil(t, tracing.Carry(t.Context()).Into(nil))
	for _, h := range []map[string]string{
		{"traceparent": parent},
		{"traceparent": strings.TrimSuffix(parent, "1") + "0"}, // not sampled
		{"traceparent": parent, "tracestate": "a=1,b=2"},
		{"traceparent": parent, "tracestate": "a=" + strings.Repeat("x", 200)},
	} {
		carried := tracing.Carry(remote(t, h))
		require.Equal(t, h, carried.Into(nil))
		mine := map[string]string{"mine": "x"}
		require.Len(t, carried.Into(mine), len(h)+1)
		first, second := carried.Into(nil), carried.Into(nil)
		first["mine"] = "x"
		require.NotContains(t, second, "mine", "messages do not share headers")
	}
	sc := trace.SpanContextFromContext(remote(t, map[string]string{"traceparent": parent}))
	require.Equal(t, parent, telemetry.Parent(sc))
	require.Empty(t, telemetry.Parent(trace.SpanContext{}))
	require.Equal(t, sc.SpanID(), tracing.Death(map[string]string{telemetry.DeathHeader: parent}).SpanID())
	require.False(t, tracing.Death(map[string]string{telemetry.DeathHeader: "nonsense", "traceparent": parent}).IsValid())
}

func TestStateThatIsTooLargeIsNotCarried(t *testing.T) {
	t.Parallel()
	tracing := telemetry.NewTracing("test", nil, nil, nil)
	state := trace.TraceState{}
	for _, key := range []string{"a", "b", "c"} {
		var err error
		state, err = state.Insert(key, strings.Repeat("x", 250))
		require.NoError(t, err)
	}
	sc := trace.SpanContextFromContext(remote(t, map[string]string{"traceparent": parent})).WithTraceState(state)
	require.Equal(t, telemetry.Carried{"traceparent": parent}, tracing.Carry(trace.ContextWithSpanContext(t.Context(), sc)))
}

func TestOnlyBaggageThatIsAllowed(t *testing.T) {
	t.Parallel()
	all, err := baggage.Parse("tenant=acme,token=secret,region=north%20west")
	require.NoError(t, err)
	ctx := baggage.ContextWithBaggage(remote(t, map[string]string{"traceparent": parent}), all)
	both := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	for _, propagator := range []propagation.TextMapPropagator{nil, both, propagation.Baggage{}} {
		none := telemetry.NewTracing("test", nil, propagator, nil)
		require.NotContains(t, none.Carry(ctx), "baggage")
		require.Zero(t, baggage.FromContext(none.WithBaggage(t.Context(), map[string]string{"baggage": "tenant=acme"})).Len())

		some := telemetry.NewTracing("test", nil, propagator, []string{"tenant", "absent"})
		headers := some.Carry(ctx).Into(nil)
		require.Equal(t, "tenant=acme", headers["baggage"])
		headers["baggage"] = "token=secret,tenant=acme"
		got := baggage.FromContext(some.WithBaggage(t.Context(), headers))
		require.Equal(t, "tenant=acme", got.String())
		for _, bad := range []string{"", "=", "%%%", "token=secret", "tenant=" + strings.Repeat("x", 5000)} {
			require.Zero(t, baggage.FromContext(some.WithBaggage(t.Context(), map[string]string{"baggage": bad})).Len(), bad)
		}
	}
}

// hostile is a propagator that does what it should not.
type hostile struct{ panics bool }

func (h hostile) Inject(_ context.Context, c propagation.TextMapCarrier) {
	c.Set("X-Upper", "kept")
	c.Set("nul", "a\x00b")
	c.Set("nul\x00", "x")
	c.Set("bytes", "\xff")
	c.Set("large", strings.Repeat("x", 100_000))
	c.Set("", "x")
	if h.panics {
		panic("propagator")
	}
}

func (h hostile) Extract(ctx context.Context, c propagation.TextMapCarrier) context.Context {
	_, _ = c.Get("traceparent"), c.Keys()
	if h.panics {
		panic("propagator")
	}
	return ctx
}

func (hostile) Fields() []string { return nil }

func TestHostilePropagator(t *testing.T) {
	t.Parallel()
	ctx := remote(t, map[string]string{"traceparent": parent})
	headers := map[string]string{"traceparent": parent}
	tracing := telemetry.NewTracing("test", nil, hostile{}, nil)
	require.Equal(t, telemetry.Carried{"x-upper": "kept"}, tracing.Carry(ctx))
	require.False(t, tracing.Origin(headers).IsValid())
	tracing = telemetry.NewTracing("test", nil, hostile{panics: true}, nil)
	require.Empty(t, tracing.Carry(ctx))
	require.False(t, tracing.Origin(headers).IsValid())
	require.Equal(t, map[string]string{"traceparent": parent}, headers)
}

// panicking is a sampler and a processor of spans that panics.
type panicking struct{ sdktrace.SpanProcessor }

func (panicking) ShouldSample(sdktrace.SamplingParameters) sdktrace.SamplingResult { panic("sampler") }

func (panicking) Description() string                             { return "panics" }
func (panicking) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (panicking) OnEnd(sdktrace.ReadOnlySpan)                     { panic("processor") }
func (panicking) Shutdown(context.Context) error                  { return nil }
func (panicking) ForceFlush(context.Context) error                { return nil }

func TestPanicsOfAnSDKAreKept(t *testing.T) {
	t.Parallel()
	for _, option := range []sdktrace.TracerProviderOption{
		sdktrace.WithSampler(panicking{}), sdktrace.WithSpanProcessor(panicking{}),
	} {
		provider := sdktrace.NewTracerProvider(option)
		tracing := telemetry.NewTracing("test", provider, nil, nil)
		ctx, span := tracing.Start(t.Context(), "send")
		require.NotNil(t, ctx)
		telemetry.End(span, "class", "text")
		require.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context())))
	}
}

// roundabout is W3C trace context that cannot be told from another propagator.
var roundabout = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{})

// What is read and written without a detour is what the propagator reads and
// writes.
func TestNoDetourChangesAContext(t *testing.T) {
	t.Parallel()
	short, long := telemetry.NewTracing("test", nil, nil, nil), telemetry.NewTracing("test", nil, roundabout, nil)
	const ids = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
	valid := 0
	for _, v := range []string{
		parent, "00-" + ids + "-00", "00-" + ids + "-02", "00-" + ids + "-03", "00-" + ids + "-04", "00-" + ids + "-10", "00-" + ids + "-ff",
		"01-" + ids + "-01", "01-" + ids + "-01-more", "01-" + ids + "-09", "fe-" + ids + "-00", "ff-" + ids + "-01", "0x-" + ids + "-01",
		"00-" + ids + "-01-", "00-" + ids + "-01-more", "00-" + ids + "-1", "00-" + ids + "-0g", "00-" + ids, "00_" + ids + "-01", " " + parent, parent + " ",
		"00-" + strings.ToUpper(ids) + "-01", "00-" + strings.Replace(ids, "-", "_", 1) + "-01", strings.ReplaceAll(parent, "-01", "_01"),
		"00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-" + strings.Repeat("0", 16) + "-01",
		strings.Replace(parent, "a", "é", 1), strings.Replace(parent, "af", "é", 1), strings.Replace(parent, "a", "g", 1), strings.Replace(parent, "3331", "333g", 1),
		"", strings.Repeat("0", 55), strings.Repeat("x", 200),
	} {
		for _, headers := range []map[string]string{{"traceparent": v}, {"traceparent": v, "tracestate": "a=1"}, {"Traceparent": v, "tracestate": "a=1"}} {
			sc, want := short.Origin(headers), long.Origin(headers)
			require.Equal(t, want, sc, headers)
			if want.IsValid() {
				valid++
			}
		}
		require.Equal(t, long.Origin(map[string]string{"traceparent": v}), short.Death(map[string]string{telemetry.DeathHeader: v}), v)
	}
	require.Greater(t, valid, 10)
	for flags := range 256 {
		sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 0xab}, SpanID: trace.SpanID{7: 0xfe}, TraceFlags: trace.TraceFlags(flags)})
		ctx := trace.ContextWithSpanContext(t.Context(), sc)
		require.Equal(t, long.Carry(ctx), short.Carry(ctx))
		require.Equal(t, long.Carry(ctx)["traceparent"], telemetry.Parent(sc))
	}
}

func TestTheLastOneTakesAll(t *testing.T) {
	t.Parallel()
	mine := map[string]string{"mine": "x"}
	carried := telemetry.Carried{"traceparent": parent}
	require.Nil(t, telemetry.Carried{}.Last(nil))
	require.Nil(t, telemetry.Carried(nil).Last(nil))
	require.Equal(t, mine, telemetry.Carried{}.Last(mine))
	require.Equal(t, map[string]string{"traceparent": parent}, carried.Last(nil))
	require.Equal(t, map[string]string{"mine": "x", "traceparent": parent}, carried.Last(mine))
}

func FuzzOrigin(f *testing.F) {
	f.Add(parent, "a=1")
	f.Add(parent, "")
	f.Add("", "")
	tracing := telemetry.NewTracing("test", nil, nil, []string{"k"})
	long := telemetry.NewTracing("test", nil, roundabout, nil)
	f.Fuzz(func(t *testing.T, traceparent, tracestate string) {
		headers := map[string]string{"traceparent": traceparent, "tracestate": tracestate, "baggage": tracestate, telemetry.DeathHeader: tracestate}
		sc := tracing.Origin(headers)
		require.Equal(t, long.Origin(headers), sc)
		alone := map[string]string{"traceparent": traceparent, telemetry.DeathHeader: traceparent}
		require.Equal(t, long.Origin(alone), tracing.Origin(alone))
		require.Equal(t, long.Origin(alone), tracing.Death(alone))
		tracing.Death(headers)
		tracing.WithBaggage(t.Context(), headers)
		if sc.IsValid() {
			again := tracing.Origin(tracing.Carry(trace.ContextWithSpanContext(t.Context(), sc)).Into(nil))
			require.Equal(t, sc.SpanID(), again.SpanID())
			require.Equal(t, sc.TraceID(), again.TraceID())
		}
	})
}

func BenchmarkCarried(b *testing.B) {
	headers := map[string]string{"traceparent": parent}
	for name, propagator := range map[string]propagation.TextMapPropagator{"default": nil, "other": roundabout} {
		tracing := telemetry.NewTracing("test", nil, propagator, nil)
		ctx := trace.ContextWithSpanContext(b.Context(), tracing.Origin(headers))
		b.Run("read, "+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tracing.Origin(headers)
			}
		})
		b.Run("write, "+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tracing.Carry(ctx)
			}
		})
	}
}

func BenchmarkNobodyRecords(b *testing.B) {
	tracing := telemetry.NewTracing("test", nil, nil, nil)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if tracing.On() || tracing.Origin(nil).IsValid() || tracing.Carry(ctx) != nil {
			b.Fatal("something is there")
		}
	}
}
