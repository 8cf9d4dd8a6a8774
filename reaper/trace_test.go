package reaper_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func attributes(list []attribute.KeyValue) map[string]any {
	all := map[string]any{}
	for _, kv := range list {
		all[string(kv.Key)] = kv.Value.AsInterface()
	}
	return all
}

// A run that moves messages leaves a span with links to their producers, and
// one for each message that dies; one that finds nothing leaves none.
func TestTrace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		exporter := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
		t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) })
		var told []string
		cfg := reaper.Config{TracerProvider: provider, Hooks: reaper.Hooks{
			Reaped: func(_ context.Context, m *message.Message, why message.Decision) {
				told = append(told, fmt.Sprint("reaped ", m.ID, " ", why, " ", m.Status))
			},
			Dead: func(_ context.Context, m *message.Message, why message.Decision) {
				told = append(told, fmt.Sprint("dead ", m.ID, " ", why, " ", m.Status))
				panic("a hook's own trouble")
			},
		}}
		f.once(cfg)
		require.Empty(t, exporter.GetSpans())

		h := map[string]string{"traceparent": traceparent}
		back := f.enqueue(1, client.EnqueueOptions{Queue: "mail", Headers: h})[0]
		dies := f.enqueue(1, client.EnqueueOptions{Queue: "mail", MaxRetries: 1, Headers: h})[0]
		w, _ := f.claim("mail", 2)
		f.silence(w)
		_, log := f.once(cfg)
		require.Equal(t, []string{
			fmt.Sprint("reaped ", back, " worker_lost pending"), fmt.Sprint("dead ", dies, " worker_lost dead"),
		}, told)
		require.Len(t, log.lines(t, "hook panicked"), 1)

		spans := exporter.GetSpans()
		require.Len(t, spans, 2)
		letter, reap := spans[0], spans[1]
		require.Equal(t, "reap mail", reap.Name)
		require.Equal(t, trace.SpanKindInternal, reap.SpanKind)
		require.False(t, reap.Parent.IsValid())
		require.Equal(t, map[string]any{
			"messaging.system": "styx", "messaging.operation.name": "reap", "messaging.destination.name": "mail",
			"messaging.batch.message_count": int64(2), "styx.dead": int64(1),
		}, attributes(reap.Attributes))
		require.Equal(t, codes.Unset, reap.Status.Code)
		require.Len(t, reap.Links, 2)
		for i, id := range []int64{back, dies} {
			require.Equal(t, "b7ad6b7169203331", reap.Links[i].SpanContext.SpanID().String())
			require.Equal(t, map[string]any{
				"messaging.message.id": fmt.Sprint(id), "styx.decision": "worker_lost", "styx.link": "creation",
			}, attributes(reap.Links[i].Attributes))
		}
		require.Equal(t, "dead_letter mail", letter.Name)
		require.Equal(t, reap.SpanContext.SpanID(), letter.Parent.SpanID())
		require.Len(t, letter.Links, 1)
		require.Equal(t, "b7ad6b7169203331", letter.Links[0].SpanContext.SpanID().String())
		require.Equal(t, codes.Error, letter.Status.Code)
		require.Equal(t, map[string]any{
			"messaging.system": "styx", "messaging.operation.name": "dead_letter", "messaging.destination.name": "mail",
			"messaging.message.id": fmt.Sprint(dies), "styx.kind": "work", "styx.attempt": int64(1), "styx.max_attempts": int64(1),
			"styx.decision": "worker_lost", "error.type": "worker_lost",
		}, attributes(letter.Attributes))
	})
}

func TestTraceOfManyMessages(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		exporter := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
		t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) })
		h := map[string]string{"traceparent": traceparent}
		f.enqueue(150, client.EnqueueOptions{Queue: "a", Headers: h})
		f.enqueue(1, client.EnqueueOptions{Queue: "b"})
		for queue, n := range map[string]int{"a": 150, "b": 1} {
			w, _ := f.claim(queue, n)
			f.silence(w)
		}
		f.once(reaper.Config{TracerProvider: provider})
		spans := exporter.GetSpans()
		require.Len(t, spans, 1)
		require.Equal(t, "reap", spans[0].Name, "of two queues")
		require.NotContains(t, attributes(spans[0].Attributes), "messaging.destination.name")
		require.Equal(t, int64(151), attributes(spans[0].Attributes)["messaging.batch.message_count"])
		require.Len(t, spans[0].Links, 128)
		require.Zero(t, spans[0].DroppedLinks)
	})
}

// What is enqueued over HTTP continues the caller's trace: its request, the
// request here, the enqueue, and whoever works on the message.
func TestTraceOfWhatHTTPHasEnqueued(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		exporter := tracetest.NewInMemoryExporter()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
		t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context()))) })
		post := func(cfg reaper.HandlerConfig, header string) map[string]any {
			cfg.Unprotected = true
			base := mount(t, db, cfg, func(h http.Handler) http.Handler { return h })
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/queues/mail/messages", strings.NewReader(`{"payload":"x"}`))
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Traceparent", header)
			r.Close = true
			reply, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			defer func() { require.NoError(t, reply.Body.Close()) }()
			require.Equal(t, http.StatusCreated, reply.StatusCode)
			var m struct{ Headers map[string]any }
			require.NoError(t, json.NewDecoder(reply.Body).Decode(&m))
			return m.Headers
		}

		carried := post(reaper.HandlerConfig{TracerProvider: provider}, traceparent)
		spans := exporter.GetSpans()
		require.Len(t, spans, 2)
		send, request := spans[0], spans[1]
		require.Equal(t, "send mail", send.Name)
		require.Equal(t, trace.SpanKindProducer, send.SpanKind)
		require.Equal(t, "mail", attributes(send.Attributes)["messaging.destination.name"])
		require.Equal(t, trace.SpanKindServer, request.SpanKind)
		require.Equal(t, "POST /queues/{queue}/messages", request.Name)
		require.Equal(t, request.SpanContext.SpanID(), send.Parent.SpanID())
		require.Equal(t, "b7ad6b7169203331", request.Parent.SpanID().String())
		require.True(t, request.Parent.IsRemote())
		require.Equal(t, fmt.Sprintf("00-%s-%s-01", send.SpanContext.TraceID(), send.SpanContext.SpanID()), carried["traceparent"])

		require.Equal(t, traceparent, post(reaper.HandlerConfig{}, traceparent)["traceparent"], "no SDK: passed on")
		require.Empty(t, post(reaper.HandlerConfig{}, "00-zz")["traceparent"])
	})
}
