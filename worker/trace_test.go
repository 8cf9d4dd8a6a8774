package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

func init() { children["trace"] = childTrace }

func succeed(context.Context, *worker.Message[job]) error { return nil }

// done reports whether messages have the status.
func (r *rig) done(status message.Status, ids ...int64) func() bool {
	return func() bool {
		for _, id := range ids {
			if r.get(id).Status != status {
				return false
			}
		}
		return true
	}
}

func TestTraceOfAMessage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		m, err := rec.client(r).Enqueue(t.Context(), job{N: 1}, &client.EnqueueOptions{CorrelationID: "c-1"})
		require.NoError(t, err)
		rec.work(r, worker.Config{}, func(ctx context.Context, m *worker.Message[job]) error {
			_, span := rec.provider.Tracer("").Start(ctx, "work")
			span.End()
			return nil
		}, r.done(message.StatusSucceeded, m.ID))

		spans := rec.spans()
		require.Len(t, spans, 4)
		send, process, inner, settle := spans[0], spans[1], spans[2], spans[3]
		id := literal(m.ID)
		require.Equal(t, map[string]any{
			"messaging.system": "styx", "messaging.operation.name": "send", "messaging.operation.type": "send",
			"messaging.destination.name": "default", "messaging.message.id": id, "messaging.message.conversation_id": "c-1",
			"styx.kind": "job",
		}, attributes(send.Attributes))
		require.Equal(t, trace.SpanKindProducer, send.SpanKind)
		require.False(t, send.Parent.IsValid())
		require.Equal(t, "github.com/styxmq/styx/client", send.InstrumentationScope.Name)
		require.Contains(t, send.InstrumentationScope.SchemaURL, "opentelemetry.io/schemas/")

		require.Equal(t, map[string]any{
			"messaging.system": "styx", "messaging.operation.name": "process", "messaging.operation.type": "process",
			"messaging.destination.name": "default", "messaging.message.id": id, "messaging.message.conversation_id": "c-1",
			"styx.kind": "job", "styx.attempt": int64(1), "styx.max_attempts": int64(5), "styx.outcome": "succeeded",
		}, attributes(process.Attributes))
		require.Equal(t, trace.SpanKindConsumer, process.SpanKind)
		require.Equal(t, send.SpanContext.SpanID(), process.Parent.SpanID())
		require.True(t, process.Parent.IsRemote())
		require.Len(t, process.Links, 1)
		require.Equal(t, send.SpanContext.SpanID(), process.Links[0].SpanContext.SpanID())
		require.Equal(t, "github.com/styxmq/styx/worker", process.InstrumentationScope.Name)
		require.Equal(t, "work", inner.Name, "the handler's context carries the span")
		require.Equal(t, process.SpanContext.SpanID(), inner.Parent.SpanID())
		require.Equal(t, "settle default", settle.Name)
		require.Equal(t, trace.SpanKindClient, settle.SpanKind)
		require.False(t, settle.Parent.IsValid())
		require.Equal(t, map[string]any{
			"messaging.system": "styx", "messaging.operation.name": "settle", "messaging.operation.type": "settle",
			"messaging.destination.name": "default", "messaging.batch.message_count": int64(1),
		}, attributes(settle.Attributes))
		require.Len(t, settle.Links, 1)
		require.Equal(t, process.SpanContext.SpanID(), settle.Links[0].SpanContext.SpanID())
		require.Equal(t, id, attributes(settle.Links[0].Attributes)["messaging.message.id"])
		require.Equal(t, codes.Unset, settle.Status.Code)
	})
}

func TestTraceOfADelayedMessage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		c := rec.client(r)
		m, err := c.Enqueue(t.Context(), job{}, &client.EnqueueOptions{Delay: 50 * time.Millisecond})
		require.NoError(t, err)
		rec.work(r, worker.Config{}, succeed, r.done(message.StatusSucceeded, m.ID))
		require.Equal(t, []string{
			"1 send default producer",
			"2 process default consumer in 1, creation 1: succeeded",
		}, rec.story(), "it was prompt")

		rec.exporter.Reset()
		m, err = c.Enqueue(t.Context(), job{}, &client.EnqueueOptions{Delay: time.Hour})
		require.NoError(t, err)
		r.exec("UPDATE {{s}}messages SET due_at = {{long ago}} WHERE id = ?", m.ID)
		r.longAgo(m.ID)
		rec.work(r, worker.Config{}, succeed, r.done(message.StatusSucceeded, m.ID))
		require.Equal(t, []string{
			"1 send default producer",
			"2 process default consumer, creation 1: succeeded",
		}, rec.story(), "it had waited for long")
	})
}

// longAgo lets a message have been enqueued long ago.
func (r *rig) longAgo(id int64) {
	table := "messages"
	if !r.engine.Hints {
		table = "contents"
	}
	r.exec("UPDATE {{s}}"+table+" SET created_at = {{long ago}} WHERE id = ?", id)
}

func TestTraceOfATransaction(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		c := rec.client(r)
		ctx, span := rec.provider.Tracer("").Start(t.Context(), "order")
		enqueue := func(commit bool) int64 {
			tx, err := r.db.BeginTx(ctx, nil)
			require.NoError(t, err)
			m, err := c.EnqueueTx(ctx, tx, job{}, nil)
			require.NoError(t, err)
			if commit {
				require.NoError(t, tx.Commit())
			} else {
				require.NoError(t, tx.Rollback())
			}
			return m.ID
		}
		enqueue(false)
		id := enqueue(true)
		span.End()
		rec.work(r, worker.Config{}, succeed, r.done(message.StatusSucceeded, id))
		spans := rec.spans()
		require.Len(t, spans, 5)
		for i, name := range []string{"order", "send default", "send default", "process default", "settle default"} {
			require.Equal(t, name, spans[i].Name)
		}
		require.Equal(t, spans[0].SpanContext.SpanID(), spans[1].Parent.SpanID())
		require.Equal(t, spans[0].SpanContext.SpanID(), spans[2].Parent.SpanID())
		require.Equal(t, spans[2].SpanContext.SpanID(), spans[3].Parent.SpanID())
	})
}

func TestTraceOfABatch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		c := rec.client(r)
		items := []client.Item{
			{Payload: job{N: 1}, Options: &client.EnqueueOptions{Headers: map[string]string{"mine": "x"}}},
			{Payload: job{N: 2}},
			{Payload: job{N: 3}, Options: &client.EnqueueOptions{Headers: map[string]string{
				"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			}}},
		}
		messages, err := c.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
		require.Equal(t, "x", messages[0].Headers["mine"])
		require.Len(t, messages[0].Headers, 2)
		require.Len(t, messages[1].Headers, 1)
		require.Equal(t, items[2].Options.Headers, messages[2].Headers)
		require.Len(t, items[0].Options.Headers, 1, "what the caller has given is not changed")
		rec.work(r, worker.Config{Concurrency: 1}, succeed,
			r.done(message.StatusSucceeded, messages[0].ID, messages[1].ID, messages[2].ID))
		require.Equal(t, []string{
			"1 send default producer, creation elsewhere",
			"2 process default consumer in 1, creation 1: succeeded",
			"3 process default consumer in 1, creation 1: succeeded",
			"4 process default consumer in elsewhere, creation elsewhere: succeeded",
		}, rec.story())
		require.Equal(t, map[string]any{
			"messaging.system": "styx", "messaging.operation.name": "send", "messaging.operation.type": "send",
			"messaging.destination.name": "default", "messaging.batch.message_count": int64(3), "styx.kind": "job",
		}, attributes(rec.spans()[0].Attributes))

		rec.exporter.Reset()
		_, err = c.EnqueueMany(t.Context(), []client.Item{{Payload: job{}}, {Payload: job{}, Options: in("other")}})
		require.NoError(t, err)
		require.Equal(t, []string{"1 send producer"}, rec.story())
	})
}

func TestTraceOfRetries(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		m, err := rec.client(r).Enqueue(t.Context(), job{}, nil)
		require.NoError(t, err)
		log := rec.work(r, worker.Config{}, func(_ context.Context, m *worker.Message[job]) error {
			if m.Attempt < 3 {
				return fmt.Errorf("mail to %d: %w", 7, errBroken)
			}
			return nil
		}, r.done(message.StatusSucceeded, m.ID))
		require.Equal(t, []string{
			"1 send default producer",
			"2 process default consumer in 1, creation 1: retried (*errors.errorString)",
			"3 process default consumer, creation 1: retried (*errors.errorString)",
			"4 process default consumer, creation 1: succeeded",
		}, rec.story())
		spans := rec.spans()
		require.Equal(t, "mail to 7: it is broken", spans[1].Status.Description)
		lines := log.lines(t, lineFailed)
		attempts := r.attempts(m.ID)
		for i := range 2 {
			sc := spans[i+1].SpanContext
			require.Equal(t, sc.TraceID().String(), attempts[i].TraceID)
			require.Equal(t, sc.TraceID().String(), lines[i]["trace_id"])
			require.Equal(t, sc.SpanID().String(), lines[i]["span_id"])
			require.Equal(t, int64(i+1), attributes(spans[i+1].Attributes)["styx.attempt"])
		}
	})
}

// What the reaper takes back, from a worker that is held up, begins a trace of
// its own; the lost attempt's span ends all the same.
func TestTraceOfAReapedMessage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		m, err := rec.client(r).Enqueue(t.Context(), job{}, &client.EnqueueOptions{MaxRetries: 2})
		require.NoError(t, err)
		began := make(chan struct{}, 2)
		w, log := r.worker(worker.Config{TracerProvider: rec.provider, Lease: 6 * time.Second}) // beats every 2 s
		worker.Handle(w, func(ctx context.Context, _ *worker.Message[job]) error {
			began <- struct{}{}
			<-ctx.Done()
			return context.Cause(ctx)
		}, nil)
		run := r.start(w)
		for range 2 {
			receive(t, began)
			r.overdue(m.ID)
			rescued := r.reap()
			require.Len(t, rescued, 1)
			require.Contains(t, rescued[0].Headers, "traceparent", "the reaper links to it")
			if !rescued[0].Dead {
				r.exec("UPDATE {{s}}messages SET due_at = {{long ago}} WHERE id = ?", m.ID)
			}
		}
		until(t, "both have lost their lease", func() bool { return len(log.lines(t, "lease lost: the outcome of this attempt does not count")) == 2 })
		require.NoError(t, run.stop())
		require.Equal(t, []string{
			"1 send default producer",
			"2 process default consumer in 1, creation 1: lease_lost (lease_lost)",
			"3 process default consumer, creation 1: lease_lost (lease_lost)",
		}, rec.story())
	})
}

func TestTraceOfAReplayedMessage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		c := rec.client(r)
		m, err := c.Enqueue(t.Context(), job{}, &client.EnqueueOptions{MaxRetries: 1, Headers: map[string]string{"mine": "x"}})
		require.NoError(t, err)
		for range 2 {
			rec.work(r, worker.Config{}, func(context.Context, *worker.Message[job]) error { return errBroken },
				r.done(message.StatusDead, m.ID))
			require.NoError(t, c.DeadLetters().Replay(t.Context(), m.ID, nil))
		}
		rec.work(r, worker.Config{}, succeed, r.done(message.StatusSucceeded, m.ID))
		require.Equal(t, []string{
			"1 send default producer",
			"2 process default consumer in 1, creation 1: dead (*errors.errorString)",
			"3 dead_letter default internal in 2, creation 1 (*errors.errorString)",
			"4 process default consumer, creation 1, death 2: dead (*errors.errorString)",
			"5 dead_letter default internal in 4, creation 1 (*errors.errorString)",
			"6 process default consumer, creation 1, death 4: succeeded",
		}, rec.story())
		spans := rec.spans()
		require.Equal(t, map[string]any{
			"messaging.system": "styx", "messaging.operation.name": "dead_letter", "messaging.destination.name": "default",
			"messaging.message.id": literal(m.ID), "styx.kind": "job", "styx.attempt": int64(1), "styx.max_attempts": int64(1),
			"styx.decision": "exhausted", "error.type": "*errors.errorString",
		}, attributes(spans[2].Attributes))
		require.Equal(t, int64(2), attributes(spans[5].Attributes)["styx.replay_count"])
		require.Equal(t, spans[3].SpanContext.TraceID().String(), r.letter(m.ID).TraceID)
		require.Equal(t, "x", r.get(m.ID).Headers["mine"])
	})
}

// childTrace enqueues a message in a span of its own.
func childTrace() error {
	ctx := context.Background()
	db, err := openURL(ctx, os.Getenv(schemaVariable), os.Getenv(urlVariable))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	c, err := client.New(db, client.Config{Schema: os.Getenv(schemaVariable), TracerProvider: provider})
	if err != nil {
		return err
	}
	m, err := c.Enqueue(ctx, job{}, nil)
	spans := exporter.GetSpans()
	if err != nil || len(spans) != 1 {
		return errors.Join(err, fmt.Errorf("%d spans", len(spans)))
	}
	fmt.Println("sent", m.ID, spans[0].SpanContext.TraceID(), spans[0].SpanContext.SpanID())
	return provider.Shutdown(ctx)
}

func TestTraceAcrossProcesses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		sent := r.spawn("trace").next(t, "sent ")
		rec.work(r, worker.Config{}, succeed, func() bool { return r.counted(message.StatusSucceeded) == 1 })
		require.Equal(t, []string{"1 process default consumer in elsewhere, creation elsewhere: succeeded"}, rec.story())
		process := rec.spans()[0]
		seen := []string{
			fmt.Sprint(attributes(process.Attributes)["messaging.message.id"]),
			process.Parent.TraceID().String(), process.Parent.SpanID().String(),
		}
		require.Equal(t, sent[1:], seen)
	})
}

func TestTraceOfWhatSQLHasEnqueued(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		const headers = `{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=1,b=2"}`
		if r.engine.Hints {
			r.exec("INSERT INTO {{s}}messages (queue, kind, payload, max_retries, headers) VALUES ('default', 'job', '{}', 1, ?)", headers)
		} else {
			r.exec("INSERT INTO {{s}}messages (queue, kind, max_retries) VALUES ('default', 'job', 1)")
			r.exec("INSERT INTO {{s}}contents (id, created_at, payload, headers) SELECT id, unixepoch() * 1000000, '{}', ? FROM {{s}}messages", headers)
		}
		rec.work(r, worker.Config{}, succeed, func() bool { return r.counted(message.StatusSucceeded) == 1 })
		require.Equal(t, []string{"1 process default consumer in elsewhere, creation elsewhere: succeeded"}, rec.story())
		parent := rec.spans()[0].Parent
		require.Equal(t, "0af7651916cd43dd8448eb211c80319c", parent.TraceID().String())
		require.Equal(t, "b7ad6b7169203331", parent.SpanID().String())
		require.Equal(t, "a=1,b=2", parent.TraceState().String())
	})
}

func TestTraceContextThatIsNone(t *testing.T) {
	t.Parallel()
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var members []string
	for i := range 33 {
		members = append(members, fmt.Sprintf("k%d=v", i))
	}
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		var ids []int64
		for _, h := range []map[string]string{
			{},
			{"traceparent": ""},
			{"traceparent": "nonsense"},
			{"traceparent": good + "-more"},
			{"traceparent": strings.Repeat("0", 4000)},
			{"traceparent": "00-00000000000000000000000000000000-b7ad6b7169203331-01"},
			{"traceparent": "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
			{"tracestate": "a=1"},
			{"traceparent": strings.ToUpper(good), "baggage": "%%%", "styx-died-in": "nonsense"},
		} {
			ids = append(ids, r.enqueue(job{}, &client.EnqueueOptions{Headers: h}))
		}
		rec.work(r, worker.Config{}, succeed, r.done(message.StatusSucceeded, ids...))
		for i, line := range rec.story() {
			require.Equal(t, fmt.Sprintf("%d process default consumer: succeeded", i+1), line)
		}
		require.Len(t, rec.story(), len(ids))

		rec.exporter.Reset()
		ids = ids[:0]
		for _, state := range []string{strings.Repeat("a", 513), "a=" + strings.Repeat("b", 600), strings.Join(members, ","), "=", "ä=1"} {
			ids = append(ids, r.enqueue(job{}, &client.EnqueueOptions{Headers: map[string]string{"traceparent": good, "tracestate": state}}))
		}
		rec.work(r, worker.Config{}, succeed, r.done(message.StatusSucceeded, ids...))
		require.Len(t, rec.story(), len(ids))
		for i, s := range rec.spans()[:len(ids)] {
			require.Equal(t, "b7ad6b7169203331", s.Parent.SpanID().String(), i)
			require.Empty(t, s.Parent.TraceState().String(), i)
		}
	})
}
