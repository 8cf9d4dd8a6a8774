package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

// notes are what hooks were told.
type notes struct {
	mu   sync.Mutex
	list []string
}

func (n *notes) add(parts ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, fmt.Sprintln(parts...))
}

func TestHooks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		var told notes
		var traces []trace.SpanContext
		rec := record(t)
		c, err := client.New(r.db.DB, client.Config{Schema: r.db.Schema, Hooks: client.Hooks{
			Enqueued: func(_ context.Context, m *message.Message) { told.add("enqueued", m.ID, m.Status, m.Payload) },
			Replayed: func(_ context.Context, m *message.Message) { told.add("replayed", m.ID, m.Status, m.ReplayCount) },
		}})
		require.NoError(t, err)
		cfg := worker.Config{RetryPolicy: soon, Concurrency: 1, Hooks: worker.Hooks{
			Started: func(ctx context.Context, m *message.Message) {
				traces = append(traces, trace.SpanContextFromContext(ctx))
				told.add("started", m.ID, m.Status, m.Attempt)
			},
			Succeeded: func(ctx context.Context, m *message.Message) {
				traces = append(traces, trace.SpanContextFromContext(ctx))
				told.add("succeeded", m.ID, m.Status, r.get(m.ID).Status, m.Payload, ctx.Err())
			},
			Failed: func(_ context.Context, m *message.Message, a *message.Attempt) {
				require.Equal(t, m.ID, a.MessageID)
				require.NotZero(t, a.WorkerID)
				require.Len(t, a.TraceID, 32)
				told.add("failed", m.ID, m.Status, a.Number, a.Outcome, a.FailureKind, a.ErrorClass, a.ErrorMessage)
			},
			Dead: func(_ context.Context, m *message.Message, why message.Decision) {
				told.add("dead", m.ID, m.Status, r.get(m.ID).Status, why)
			},
		}}
		m, err := c.Enqueue(t.Context(), job{N: 7}, &client.EnqueueOptions{MaxRetries: 2})
		require.NoError(t, err)
		broken := func(context.Context, *worker.Message[job]) error { return errBroken }
		rec.work(r, cfg, broken, r.done(message.StatusDead, m.ID))
		require.NoError(t, c.DeadLetters().Replay(t.Context(), m.ID, nil))
		traces = nil
		rec.work(r, cfg, succeed, r.done(message.StatusSucceeded, m.ID))
		require.Equal(t, traces[0], traces[1], "a hook's context has the span of the attempt")
		require.True(t, traces[0].IsValid())
		batch, err := c.EnqueueMany(t.Context(), []client.Item{{Payload: job{}}, {Payload: job{}}})
		require.NoError(t, err)
		const failed = "1 retried unknown *errors.errorString it is broken"
		require.Equal(t, []string{
			fmt.Sprintln("enqueued", m.ID, "pending", `{"n":7}`),
			fmt.Sprintln("started", m.ID, "processing", 1),
			fmt.Sprintln("failed", m.ID, "pending", failed),
			fmt.Sprintln("started", m.ID, "processing", 2),
			fmt.Sprintln("failed", m.ID, "dead", "2 dead unknown *errors.errorString it is broken"),
			fmt.Sprintln("dead", m.ID, "dead", "dead", "exhausted"),
			fmt.Sprintln("replayed", m.ID, "pending", 1),
			fmt.Sprintln("started", m.ID, "processing", 1),
			fmt.Sprintln("succeeded", m.ID, "succeeded", "succeeded", `{"n":7}`, nil),
			fmt.Sprintln("enqueued", batch[0].ID, "pending", `{"n":0}`),
			fmt.Sprintln("enqueued", batch[1].ID, "pending", `{"n":0}`),
		}, told.list)
	})
}

func TestHooksThatPanic(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		var log journal
		c, err := client.New(r.db.DB, client.Config{
			Schema: r.db.Schema, Logger: log.logger(),
			Hooks: client.Hooks{Enqueued: func(context.Context, *message.Message) { panic("enqueued") }},
		})
		require.NoError(t, err)
		good, err := c.Enqueue(t.Context(), job{N: 1}, nil)
		require.NoError(t, err)
		bad, err := c.Enqueue(t.Context(), job{}, nil)
		require.NoError(t, err)
		require.Len(t, log.lines(t, "hook panicked"), 2)
		w, lines := r.worker(worker.Config{Hooks: worker.Hooks{
			Started:   func(context.Context, *message.Message) { panic("started") },
			Succeeded: func(context.Context, *message.Message) { panic("succeeded") },
			Failed:    func(context.Context, *message.Message, *message.Attempt) { panic("failed") },
			Dead:      func(context.Context, *message.Message, message.Decision) { panic("dead") },
		}})
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			if m.Payload.N == 0 {
				return worker.Permanent(errBroken)
			}
			return nil
		}, nil)
		run := r.start(w)
		r.wait(message.StatusSucceeded, good.ID)
		r.wait(message.StatusDead, bad.ID)
		require.NoError(t, run.stop())
		require.Len(t, lines.lines(t, "hook panicked"), 5)
	})
}

// A hook of CompleteTx is called as well, once.
func TestHookOfCompleteTx(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		var told notes
		w, _ := r.worker(worker.Config{Hooks: worker.Hooks{
			Succeeded: func(_ context.Context, m *message.Message) { told.add(m.ID) },
		}})
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			tx, err := r.db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			if err := m.CompleteTx(ctx, tx); err != nil {
				return err
			}
			return tx.Commit()
		}, nil)
		id := r.enqueue(job{}, nil)
		run := r.start(w)
		r.wait(message.StatusSucceeded, id)
		require.NoError(t, run.stop())
		require.Equal(t, []string{fmt.Sprintln(id)}, told.list)
	})
}

func TestWhatAHandlerEnqueuesBelongsToItsMessage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		c, err := client.New(r.db.DB, client.Config{Schema: r.db.Schema, Defaults: client.EnqueueOptions{Tenant: "nobody"}})
		require.NoError(t, err)
		w, _ := r.worker(worker.Config{})
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			derived, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if _, err := c.Enqueue(derived, job{}, in("a")); err != nil {
				return err
			}
			_, err := c.EnqueueMany(ctx, []client.Item{
				{Payload: job{}, Options: in("b")},
				{Payload: job{}, Options: &client.EnqueueOptions{Queue: "c", Tenant: "other", CorrelationID: "o-1"}},
			})
			return err
		}, nil)
		id := r.enqueue(job{}, &client.EnqueueOptions{Tenant: "acme", CorrelationID: "c-1"})
		run := r.start(w)
		r.wait(message.StatusSucceeded, id)
		require.NoError(t, run.stop())
		for queue, want := range map[string][2]string{"a": {"acme", "c-1"}, "b": {"acme", "c-1"}, "c": {"other", "o-1"}} {
			page, err := c.List(t.Context(), client.ListOptions{Queue: queue})
			require.NoError(t, err)
			require.Equal(t, want, [2]string{page.Messages[0].Tenant, page.Messages[0].CorrelationID})
		}
		m, err := c.Enqueue(t.Context(), job{}, nil)
		require.NoError(t, err)
		require.Equal(t, "nobody", m.Tenant)
		require.Empty(t, m.CorrelationID)
	})
}

func TestLoggerOfAHandler(t *testing.T) {
	t.Parallel()
	require.Same(t, slog.Default(), worker.Logger(t.Context()))
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		var own journal
		ownLog := slog.New(worker.LogHandler(slog.NewJSONHandler(&own, nil))).With("app", "mailer")
		id := r.enqueue(job{}, correlated("c-1"))
		log := rec.work(r, worker.Config{}, func(ctx context.Context, _ *worker.Message[job]) error {
			worker.Logger(ctx).InfoContext(ctx, "sent")
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			ownLog.InfoContext(derived, "sent")
			return nil
		}, r.done(message.StatusSucceeded, id))
		ownLog.InfoContext(t.Context(), "outside")
		sc := rec.spans()[0].SpanContext
		want := map[string]any{
			"msg": "sent", "level": "INFO", "message_id": float64(id), "queue": "default", "kind": "job", "attempt": 1.0,
			"correlation_id": "c-1", "trace_id": sc.TraceID().String(), "span_id": sc.SpanID().String(),
		}
		line := log.lines(t, "sent")[0]
		delete(line, "time")
		require.Equal(t, want, line)
		line = own.lines(t, "sent")[0]
		delete(line, "time")
		want["app"] = "mailer"
		require.Equal(t, want, line)
		require.NotContains(t, own.lines(t, "outside")[0], "message_id")
	})
}
