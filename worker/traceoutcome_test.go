package worker_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

const given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func headers(pairs ...string) *client.EnqueueOptions {
	h := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = pairs[i+1]
	}
	return &client.EnqueueOptions{Headers: h}
}

// However an attempt ends, its span ends with it and says how.
func TestTraceOfOutcomes(t *testing.T) {
	t.Parallel()
	cases := []struct {
		want   string
		handle func(ctx context.Context, r *rig, m *worker.Message[job]) error
	}{
		{"succeeded", func(context.Context, *rig, *worker.Message[job]) error { return nil }},
		{"ignored", func(context.Context, *rig, *worker.Message[job]) error { return worker.Ignore(errBroken) }},
		{"dead (*errors.errorString)", func(context.Context, *rig, *worker.Message[job]) error { return worker.Permanent(errBroken) }},
		{"snoozed", func(context.Context, *rig, *worker.Message[job]) error { return worker.Snooze(time.Hour) }},
		{"retried (*errors.errorString)", func(context.Context, *rig, *worker.Message[job]) error {
			return worker.RetryAfter(time.Hour, errBroken)
		}},
		{"retried (panic(string))", func(context.Context, *rig, *worker.Message[job]) error { panic("no") }},
		{"retried (runtime.Goexit)", func(context.Context, *rig, *worker.Message[job]) error { runtime.Goexit(); return nil }},
		{"retried (worker.Timeout)", func(ctx context.Context, _ *rig, m *worker.Message[job]) error {
			if err := m.Extend(ctx, time.Millisecond); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}},
		{"succeeded", func(ctx context.Context, r *rig, m *worker.Message[job]) error {
			tx, err := r.db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			if err := m.CompleteTx(ctx, tx); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		}},
	}
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		ids := r.jobs(len(cases), nil)
		ended := func() bool {
			for _, id := range ids {
				m := r.get(id)
				if m.Status != message.StatusSucceeded && m.Status != message.StatusDead && m.RetryCount+m.Snoozes == 0 {
					return false
				}
			}
			return true
		}
		rec.work(r, worker.Config{RetryPolicy: worker.Delays{time.Hour}}, func(ctx context.Context, m *worker.Message[job]) error {
			return cases[m.Payload.N].handle(ctx, r, m)
		}, ended)
		got := map[any]string{}
		for i, line := range rec.story() {
			s := rec.spans()[i]
			if s.SpanKind == trace.SpanKindConsumer {
				_, got[attributes(s.Attributes)["messaging.message.id"]], _ = strings.Cut(line, ": ")
			}
		}
		for i, c := range cases {
			require.Equal(t, c.want, got[literal(ids[i])], i)
		}
	})
}

// A handler that ignores its end is given up, and so is its span.
func TestTraceOfAStuckHandler(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		id := r.enqueue(job{}, nil)
		w, _ := r.worker(worker.Config{TracerProvider: rec.provider, Grace: time.Millisecond})
		began, resume, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
		worker.Handle(w, func(context.Context, *worker.Message[job]) error {
			defer close(ended)
			close(began)
			<-resume
			return nil
		}, nil)
		run := r.start(w)
		receive(t, began)
		var left *worker.AbandonedError
		require.ErrorAs(t, run.stop(), &left)
		require.Equal(t, message.StatusPending, r.get(id).Status)
		want := []string{"1 process default consumer: released (worker.Abandoned)"}
		require.Equal(t, want, rec.story())
		close(resume)
		receive(t, ended)
		require.Equal(t, want, rec.story())
	})
}

func TestTraceModes(t *testing.T) {
	t.Parallel()
	_, err := worker.NewOn(nil, worker.Config{TraceMode: 3})
	require.ErrorContains(t, err, "TraceMode")
	each(t, func(t *testing.T, r *rig) {
		for mode, want := range map[worker.TraceMode]string{
			worker.TraceAuto: "1 process default consumer in elsewhere, creation elsewhere: succeeded",
			worker.TraceLink: "1 process default consumer, creation elsewhere: succeeded",
			worker.TraceNone: "1 process default consumer: succeeded",
		} {
			rec := record(t)
			id := r.enqueue(job{}, headers("traceparent", given))
			rec.work(r, worker.Config{TraceMode: mode}, succeed, r.done(message.StatusSucceeded, id))
			require.Equal(t, []string{want}, rec.story())
		}
	})
}

// A producer that does not sample is followed by the prompt attempt; a retry
// begins anew and is sampled by the worker's own rule.
func TestTraceOfAnUnsampledParent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true})
		m, err := rec.client(r).Enqueue(trace.ContextWithSpanContext(t.Context(), sc), job{}, nil)
		require.NoError(t, err)
		require.Regexp(t, "^00-01000000000000000000000000000000-[0-9a-f]{16}-00$", m.Headers["traceparent"])
		var sampled []bool
		rec.work(r, worker.Config{}, func(ctx context.Context, m *worker.Message[job]) error {
			in := trace.SpanContextFromContext(ctx)
			require.True(t, in.IsValid())
			sampled = append(sampled, in.IsSampled())
			if m.Attempt == 1 {
				require.Equal(t, sc.TraceID(), in.TraceID())
				return errBroken
			}
			return nil
		}, r.done(message.StatusSucceeded, m.ID))
		require.Equal(t, []bool{false, true}, sampled)
		require.Equal(t, []string{"1 process default consumer, creation elsewhere: succeeded"}, rec.story())
	})
}

// Without an SDK the context is passed on, from the caller through the handler
// to what that enqueues.
func TestTraceWithoutAnSDK(t *testing.T) {
	t.Parallel()
	for _, provider := range []trace.TracerProvider{nil, noop.NewTracerProvider()} {
		each(t, func(t *testing.T, r *rig) {
			c, err := client.New(r.db.DB, client.Config{Schema: r.db.Schema, TracerProvider: provider})
			require.NoError(t, err)
			w, _ := r.worker(worker.Config{TracerProvider: provider})
			worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
				if m.Payload.N == 0 {
					return worker.Permanent(errBroken)
				}
				_, err := c.Enqueue(ctx, job{}, in("later"))
				return err
			}, nil)
			plain, err := c.Enqueue(t.Context(), job{}, nil)
			require.NoError(t, err)
			require.Empty(t, plain.Headers)
			sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: 1})
			const want = "00-01000000000000000000000000000000-0200000000000000-01"
			traced, err := c.Enqueue(trace.ContextWithSpanContext(t.Context(), sc), job{N: 1}, nil)
			require.NoError(t, err)
			require.Equal(t, want, traced.Headers["traceparent"])
			run := r.start(w)
			r.wait(message.StatusSucceeded, traced.ID)
			r.wait(message.StatusDead, plain.ID)
			require.NoError(t, run.stop())
			require.Empty(t, r.letter(plain.ID).TraceID)
			page, err := c.List(t.Context(), client.ListOptions{Queue: "later"})
			require.NoError(t, err)
			require.Equal(t, want, page.Messages[0].Headers["traceparent"])
		})
	}
}

func TestTraceOfTheCallerWins(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		c := rec.client(r)
		m, err := c.Enqueue(t.Context(), job{}, headers("traceparent", given))
		require.NoError(t, err)
		require.Equal(t, map[string]string{"traceparent": given}, m.Headers)
		require.Equal(t, []string{"1 send default client, creation elsewhere"}, rec.story())

		rec.exporter.Reset()
		m, err = c.Enqueue(t.Context(), job{}, headers("traceparent", "nonsense"))
		require.NoError(t, err)
		require.Contains(t, m.Headers["traceparent"], rec.spans()[0].SpanContext.TraceID().String())
	})
}

func TestTraceOfAnEnqueueThatFails(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		c := rec.client(r)
		opts := &client.EnqueueOptions{IdempotencyKey: "secret"}
		_, err := c.Enqueue(t.Context(), job{}, opts)
		require.NoError(t, err)
		_, err = c.Enqueue(t.Context(), job{}, opts)
		require.Error(t, err)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.Enqueue(ended, job{}, nil)
		require.Error(t, err)
		require.Equal(t, []string{
			"1 send default producer", "2 send default producer (duplicate)", "3 send default producer (canceled)",
		}, rec.story())
		require.NotContains(t, rec.spans()[1].Status.Description, "secret")
		_, err = c.Enqueue(t.Context(), job{}, &client.EnqueueOptions{MaxRetries: -1})
		require.Error(t, err)
		require.Len(t, rec.story(), 3, "what is refused is not sent")
	})
}

func TestBaggageThatIsAllowed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		c, err := client.New(r.db.DB, client.Config{Schema: r.db.Schema, Baggage: []string{"region", "plan"}})
		require.NoError(t, err)
		all, err := baggage.Parse("region=north,plan=free,token=secret")
		require.NoError(t, err)
		m, err := c.Enqueue(baggage.ContextWithBaggage(t.Context(), all), job{}, nil)
		require.NoError(t, err)
		require.NotContains(t, m.Headers["baggage"], "secret")
		got := make(chan string, 1)
		w, _ := r.worker(worker.Config{Baggage: []string{"region"}})
		worker.Handle(w, func(ctx context.Context, _ *worker.Message[job]) error {
			got <- baggage.FromContext(ctx).String()
			return nil
		}, nil)
		run := r.start(w)
		require.Equal(t, "region=north", receive(t, got))
		require.NoError(t, run.stop())
	})
}
