package export_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/reaper/internal/export"
)

func TestDiscardCountsWhatItRecords(t *testing.T) {
	t.Parallel()
	for share, most := range map[float64]int64{0: 0, 1: 100} {
		d := export.NewDiscard(share)
		tracer := d.Tracer("")
		for range 100 {
			ctx, span := tracer.Start(t.Context(), "root")
			require.Equal(t, share > 0, span.IsRecording())
			_, child := tracer.Start(ctx, "child")
			require.Equal(t, share > 0, child.IsRecording(), "a child follows its parent")
			child.End()
			span.End()
		}
		followed := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true})
		_, span := tracer.Start(trace.ContextWithSpanContext(t.Context(), followed), "elsewhere sampled")
		require.True(t, span.IsRecording())
		span.End()
		require.NoError(t, d.Shutdown(context.WithoutCancel(t.Context())))
		require.Equal(t, 2*most+1, d.Spans())
	}
}
