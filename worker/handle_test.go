package worker_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

// pointed has its Kind on the pointer, which a nil one would not survive.
type pointed struct {
	N    int64 `json:"n"`
	name string
}

func (p *pointed) Kind() string { return "pointed" + p.name }

type other struct{ N int }

func (other) Kind() string { return "other" }

type named string

func (n named) Kind() string { return string(n) }

type service struct{ seen chan int }

func (s *service) do(_ context.Context, m *worker.Message[job]) error {
	s.seen <- m.Payload.N
	return nil
}

func TestHandleTypes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, log := r.worker(worker.Config{})
		s := &service{seen: make(chan int, 1)}
		worker.Handle(w, s.do, nil) // a method value
		pointers := make(chan *worker.Message[*pointed], 1)
		worker.Handle(w, func(_ context.Context, m *worker.Message[*pointed]) error {
			pointers <- m
			return nil
		}, nil)
		first := r.enqueue(job{N: 7}, nil)
		second := r.enqueue(&pointed{N: 9007199254740993}, &client.EnqueueOptions{
			Tenant: "acme", CorrelationID: "c-1", IdempotencyKey: "k-1", Headers: map[string]string{"a": "b"},
			MaxRetries: 3, Priority: 2,
		})
		r.start(w)

		require.Equal(t, 7, receive(t, s.seen))
		m := receive(t, pointers)
		require.EqualValues(t, 9007199254740993, m.Payload.N)
		require.Equal(t, `{"n":9007199254740993}`, m.Message.Payload)
		require.Equal(t, second, m.ID)
		require.Equal(t, "default", m.Queue)
		require.Equal(t, "pointed", m.Kind)
		require.Equal(t, "acme", m.Tenant)
		require.Equal(t, "c-1", m.CorrelationID)
		require.Equal(t, "k-1", m.IdempotencyKey)
		require.Equal(t, map[string]string{"a": "b"}, m.Headers)
		require.Equal(t, 1, m.Attempt)
		require.Equal(t, 3, m.MaxRetries)
		require.Equal(t, 2, m.Priority)
		require.Equal(t, message.StatusProcessing, m.Status)
		require.EqualValues(t, 1, m.LeaseToken)
		r.wait(message.StatusSucceeded, first, second)
		require.Empty(t, log.lines(t))
	})
}

func TestHandleAliases(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, _ := r.worker(worker.Config{})
		kinds := make(chan string, 3)
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			kinds <- m.Kind
			return nil
		}, &worker.HandlerOptions{Aliases: []string{"task", "old job"}})
		for _, kind := range []string{"task", "job", "old job"} {
			_, err := r.client.EnqueueRaw(t.Context(), kind, `{"n":1}`, nil)
			require.NoError(t, err)
		}
		r.start(w)
		require.ElementsMatch(t, []string{"task", "job", "old job"},
			[]string{receive(t, kinds), receive(t, kinds), receive(t, kinds)})
	})
}

// Every one is a mistake of the program that its first start should show.
func TestRegistrationPanics(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		jobs := func(context.Context, *worker.Message[job]) error { return nil }
		raw := func(context.Context, *worker.Message[string]) error { return nil }
		for name, register := range map[string]func(w *worker.Worker){
			"a kind twice":    func(w *worker.Worker) { worker.Handle(w, jobs, nil) },
			"an alias twice":  func(w *worker.Worker) { worker.Handle(w, others, &worker.HandlerOptions{Aliases: []string{"job"}}) },
			"its own alias":   func(w *worker.Worker) { worker.Handle(w, others, &worker.HandlerOptions{Aliases: []string{"other"}}) },
			"an empty alias":  func(w *worker.Worker) { worker.Handle(w, others, &worker.HandlerOptions{Aliases: []string{""}}) },
			"a NUL in a kind": func(w *worker.Worker) { worker.Handle(w, others, &worker.HandlerOptions{Aliases: []string{"a\x00"}}) },
			"an empty kind": func(w *worker.Worker) {
				worker.Handle(w, func(context.Context, *worker.Message[named]) error { return nil }, nil)
			},
			"a timeout": func(w *worker.Worker) { worker.Handle(w, others, &worker.HandlerOptions{Timeout: -2}) },
			"too long": func(w *worker.Worker) {
				worker.Handle(w, others, &worker.HandlerOptions{Timeout: message.MaxTimeout + 1})
			},
			"a queue twice":    func(w *worker.Worker) { worker.HandleQueue(w, "default", raw, nil) },
			"a queue unserved": func(w *worker.Worker) { worker.HandleQueue(w, "elsewhere", raw, nil) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w, _ := r.worker(worker.Config{})
				worker.Handle(w, jobs, nil)
				worker.HandleQueue(w, "default", raw, nil)
				require.Panics(t, func() { register(w) })
			})
		}
		t.Run("after Run", func(t *testing.T) {
			w, _ := r.worker(worker.Config{})
			worker.Handle(w, jobs, nil)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, w.Run(ctx))
			require.Panics(t, func() { worker.Handle(w, others, nil) })
			require.Panics(t, func() { worker.HandleQueue(w, "default", raw, nil) })
		})
	})
}

func others(context.Context, *worker.Message[other]) error { return nil }

func TestHandleQueue(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, _ := r.worker(worker.Config{Queues: []worker.Queue{{Name: "hooks"}, {Name: "default"}}})
		typed, raw := make(chan string, 4), make(chan string, 4)
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			typed <- m.Queue
			return nil
		}, nil)
		worker.HandleQueue(w, "hooks", func(_ context.Context, m *worker.Message[string]) error {
			raw <- m.Kind + " " + m.Payload
			return nil
		}, nil)
		hooks := in("hooks")
		_, err := r.client.EnqueueRaw(t.Context(), "push", "not JSON at all", hooks)
		require.NoError(t, err)
		r.enqueue(job{}, hooks)
		r.enqueue(job{}, nil)
		left, err := r.client.EnqueueRaw(t.Context(), "push", "{}", nil) // HandleQueue is for its queue only
		require.NoError(t, err)
		run := r.start(w)

		require.Equal(t, "push not JSON at all", receive(t, raw))
		require.ElementsMatch(t, []string{"hooks", "default"}, []string{receive(t, typed), receive(t, typed)})
		until(t, "three are done", func() bool { return r.counted(message.StatusSucceeded) == 3 })
		require.NoError(t, run.stop())
		m := r.get(left.ID)
		require.Equal(t, message.StatusPending, m.Status)
		require.Zero(t, m.LeaseToken)
	})
}

// A queue of which the worker can handle nothing is left alone.
func TestQueueWithoutAnyHandler(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, _ := r.worker(worker.Config{Queues: []worker.Queue{{Name: "raw"}, {Name: "default"}}, PollInterval: 10 * time.Millisecond})
		seen := make(chan int64, 1)
		worker.HandleQueue(w, "raw", func(_ context.Context, m *worker.Message[string]) error {
			seen <- m.ID
			return nil
		}, nil)
		left := r.enqueue(job{}, nil)
		run := r.start(w)
		for range 10 {
			id := r.enqueue(job{}, in("raw"))
			require.Equal(t, id, receive(t, seen))
		}
		require.NoError(t, run.stop())
		m := r.get(left)
		require.Equal(t, message.StatusPending, m.Status)
		require.Zero(t, m.LeaseToken, "it was claimed")
	})
}

// Other services put their kinds into the same queue.
// Reported as riverqueue/river#1105 and riverqueue/river#1323.
func TestUnknownKindsStay(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		strange, err := r.client.EnqueueRaw(t.Context(), "strange", `{}`, nil)
		require.NoError(t, err)
		ids := r.jobs(20, nil)
		w, log := r.worker(worker.Config{})
		worker.Handle(w, func(context.Context, *worker.Message[job]) error { return nil }, nil)
		run := r.start(w)
		r.wait(message.StatusSucceeded, ids...)
		require.NoError(t, run.stop())
		m := r.get(strange.ID)
		require.Equal(t, message.StatusPending, m.Status)
		require.Zero(t, m.LeaseToken)
		require.Empty(t, r.attempts(strange.ID))
		require.Empty(t, log.lines(t))
	})
}

// Reported as nesquena/backburner#154, freckle/faktory_worker_haskell#88 and
// floci-io/floci#900.
func TestPayloadsThatDiffer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		seen := make(chan job, 4)
		w, log := r.worker(worker.Config{})
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			seen <- m.Payload
			return nil
		}, nil)
		r.start(w)
		for payload, want := range map[string]job{
			`{"n":5,"new":[1,2]}`: {N: 5}, `{}`: {}, `null`: {}, "\n{\"text\":\"x\"}": {Text: "x"},
		} {
			_, err := r.client.EnqueueRaw(t.Context(), "job", payload, nil)
			require.NoError(t, err)
			require.Equal(t, want, receive(t, seen))
		}
		for _, payload := range []string{`{"n":"5"}`, `not JSON`, `[1]`, `{"n":1} trailing`, `{"n":1e99}`} {
			m, err := r.client.EnqueueRaw(t.Context(), "job", payload, nil)
			require.NoError(t, err)
			r.wait(message.StatusDead, m.ID)
			l := r.letter(m.ID)
			require.Equal(t, payload, l.Payload)
			require.Equal(t, message.DecisionPoison, l.Decision)
			require.Equal(t, message.FailurePermanent, l.FailureKind)
			require.Equal(t, "worker.DecodeError", l.ErrorClass)
			require.True(t, strings.HasPrefix(l.ErrorMessage, `decode payload of "job": `), l.ErrorMessage)
			require.Equal(t, 1, l.AttemptsUsed)
			require.Len(t, r.attempts(m.ID), 1)

			// A replay is permitted and fails as cleanly as before.
			require.NoError(t, r.client.DeadLetters().Replay(t.Context(), m.ID, nil))
			until(t, "it has failed again", func() bool { return len(r.attempts(m.ID)) == 2 })
			r.wait(message.StatusDead, m.ID)
			require.Equal(t, payload, r.letter(m.ID).Payload)
		}
		require.Len(t, log.lines(t), 10)
		require.Empty(t, seen)
	})
}

func TestDecodeError(t *testing.T) {
	t.Parallel()
	cause := &json.SyntaxError{}
	var syntax *json.SyntaxError
	require.ErrorAs(t, &worker.DecodeError{Kind: "k", Err: cause}, &syntax)
	require.NotErrorIs(t, &worker.DecodeError{Kind: "k", Err: cause}, errBroken)
}

// A literal serves to test a handler.
func TestMessageLiteral(t *testing.T) {
	t.Parallel()
	m := &worker.Message[job]{Payload: job{N: 1}}
	require.NoError(t, m.Extend(t.Context(), time.Hour))
	require.NoError(t, m.CompleteTx(t.Context(), nil))
}
