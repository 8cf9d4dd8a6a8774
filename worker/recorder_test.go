package worker_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/worker"
)

// recorder is an SDK that keeps its spans in memory.
type recorder struct {
	t        *testing.T
	exporter *tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
}

func record(t *testing.T) *recorder {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) })
	return &recorder{t, exporter, provider}
}

// client makes a client that records there.
func (rec *recorder) client(r *rig) *client.Client {
	rec.t.Helper()
	c, err := client.New(r.db.DB, client.Config{Schema: r.db.Schema, TracerProvider: rec.provider})
	require.NoError(rec.t, err)
	return c
}

// work serves the queue default until the messages have come to their end.
func (rec *recorder) work(r *rig, cfg worker.Config, handle func(ctx context.Context, m *worker.Message[job]) error, ended func() bool) *journal {
	rec.t.Helper()
	cfg.TracerProvider = rec.provider
	if cfg.RetryPolicy == nil {
		cfg.RetryPolicy = soon
	}
	w, log := r.worker(cfg)
	worker.Handle(w, handle, nil)
	run := r.start(w)
	until(rec.t, "the messages have come to their end", ended)
	require.NoError(rec.t, run.stop())
	return log
}

// spans returns those that have ended, by the time of their beginning, with
// those of settling last: what they hold together is left to chance.
func (rec *recorder) spans() []tracetest.SpanStub {
	spans := rec.exporter.GetSpans()
	settle := func(s tracetest.SpanStub) int {
		if strings.HasPrefix(s.Name, "settle") {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int {
		return cmp.Or(settle(a)-settle(b), a.StartTime.Compare(b.StartTime))
	})
	return spans
}

// story tells of each span but those of settling: its number, name and kind,
// the number of its parent, its links and where they lead, its outcome, and
// its error.
func (rec *recorder) story() []string {
	spans := rec.spans()
	number := map[trace.SpanID]string{}
	for i, s := range spans {
		number[s.SpanContext.SpanID()] = fmt.Sprint(i + 1)
	}
	to := func(sc trace.SpanContext) string { return cmp.Or(number[sc.SpanID()], "elsewhere") }
	var lines []string
	for i, s := range spans {
		if strings.HasPrefix(s.Name, "settle") {
			break
		}
		line := fmt.Sprintf("%d %s %s", i+1, s.Name, s.SpanKind)
		if s.Parent.IsValid() {
			line += " in " + to(s.Parent)
			require.Equal(rec.t, s.Parent.TraceID(), s.SpanContext.TraceID())
		}
		for _, l := range s.Links {
			line += ", " + attributes(l.Attributes)["styx.link"].(string) + " " + to(l.SpanContext) //nolint:forcetypeassert // it is a text
		}
		a := attributes(s.Attributes)
		if outcome, ok := a["styx.outcome"]; ok {
			line += fmt.Sprintf(": %s", outcome)
		}
		if class, ok := a["error.type"]; ok {
			line += fmt.Sprintf(" (%s)", class)
			require.Equal(rec.t, codes.Error, s.Status.Code)
			require.NotEmpty(rec.t, s.Status.Description)
		} else {
			require.Equal(rec.t, codes.Unset, s.Status.Code)
		}
		require.Equal(rec.t, "styx", a["messaging.system"], s.Name)
		operation, queue, _ := strings.Cut(s.Name, " ")
		require.Equal(rec.t, operation, a["messaging.operation.name"])
		if queue != "" {
			require.Equal(rec.t, queue, a["messaging.destination.name"])
		}
		require.False(rec.t, s.EndTime.Before(s.StartTime))
		lines = append(lines, line)
	}
	return lines
}

func attributes(list []attribute.KeyValue) map[string]any {
	all := map[string]any{}
	for _, kv := range list {
		all[string(kv.Key)] = kv.Value.AsInterface()
	}
	return all
}
