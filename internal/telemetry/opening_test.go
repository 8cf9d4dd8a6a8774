package telemetry_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/telemetry"
)

// beginning is what a span begins with.
func beginning(o *telemetry.Opening) map[attribute.Key]any {
	cfg := trace.NewSpanStartConfig(o.Attributes)
	all := map[attribute.Key]any{"name": o.Name}
	for _, kv := range cfg.Attributes() {
		all[kv.Key] = kv.Value.AsInterface()
	}
	return all
}

func TestSpansOfASortBeginAlike(t *testing.T) {
	t.Parallel()
	tracing := telemetry.NewTracing("test", noop.NewTracerProvider(), nil, nil)
	m := message.Message{ID: 7, Queue: "q", Kind: "k", Attempt: 2, MaxRetries: 5}
	first := tracing.Processing(&m)
	want := map[attribute.Key]any{
		"name": "process q", "messaging.system": "styx", "messaging.operation.name": "process", "messaging.operation.type": "process",
		"messaging.destination.name": "q", "styx.kind": "k", "styx.attempt": int64(2), "styx.max_attempts": int64(5),
	}
	require.Equal(t, want, beginning(first))
	m.ID, m.CorrelationID = 8, "c"
	require.Same(t, first, tracing.Processing(&m))
	m.ReplayCount = 1
	want["styx.replay_count"] = int64(1)
	require.Equal(t, want, beginning(tracing.Processing(&m)))
	sending := tracing.Sending("q", "k")
	require.Equal(t, map[attribute.Key]any{
		"name": "send q", "messaging.system": "styx", "messaging.operation.name": "send", "messaging.operation.type": "send",
		"messaging.destination.name": "q", "styx.kind": "k",
	}, beginning(sending))
	require.Same(t, sending, tracing.Sending("q", "k"))
}

// An application that makes up kinds gets all of them, also at the same time.
func TestManySorts(t *testing.T) {
	t.Parallel()
	tracing := telemetry.NewTracing("test", noop.NewTracerProvider(), nil, nil)
	var all sync.WaitGroup
	bad := make([]int, 4)
	for g := range bad {
		all.Go(func() {
			for i := range 1200 {
				kind := strconv.Itoa(i)
				cfg := trace.NewSpanStartConfig(tracing.Sending("q", kind).Attributes)
				if set := attribute.NewSet(cfg.Attributes()...); !set.HasValue(telemetry.KeyKind) || cfg.Attributes()[set.Len()-1].Value.AsString() != kind {
					bad[g]++
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, make([]int, 4), bad)
}
