package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store/storetest"
	"github.com/styxmq/styx/worker"
)

type point struct{ X, Y int }

// explosive is an error none of whose methods can be called.
type explosive struct{}

func (explosive) Error() string      { panic("Error") }
func (explosive) Unwrap() error      { panic("Unwrap") }
func (explosive) Is(error) bool      { panic("Is") }
func (explosive) As(any) bool        { panic("As") }
func (explosive) ErrorClass() string { panic("ErrorClass") }

// mute is an error that cannot show itself.
type mute struct{}

func (*mute) Error() string { panic(errBroken) }

// disaster is a way for a handler to go wrong, with what the record of it says.
type disaster struct {
	do      func() error
	class   string
	text    string
	noStack bool
}

func nothing[T any]() *T { return nil }

func deep(n int) error {
	if n == 0 {
		panic("deep")
	}
	return deep(n - 1)
}

func disasters() map[string]disaster {
	throw := func(v any) func() error { return func() error { panic(v) } }
	return map[string]disaster{
		"a text":          {do: throw("went \x00 wrong"), class: "panic(string)", text: "panic: went \uFFFD wrong"},
		"an error":        {do: throw(errBroken), class: "panic(*errors.errorString)", text: "panic: it is broken"},
		"nil":             {do: throw(nil), class: "panic(*runtime.PanicNilError)", text: "panic: panic called with nil argument"},
		"a struct":        {do: throw(point{1, 2}), class: "panic(worker_test.point)", text: "panic: {1 2}"},
		"a mute error":    {do: throw(&mute{}), class: "panic(*worker_test.mute)", text: "panic: %!v(PANIC=Error method: it is broken)"},
		"nil dereference": {do: func() error { return errors.New(literal(int64(nothing[point]().X))) }, class: "panic(runtime.errorString)", text: "invalid memory address"},
		"index":           {do: func() error { return []error{}[len(literal(0))] }, class: "panic(runtime.boundsError)", text: "index out of range"},
		"nil pointer":     {do: func() error { (*nothing[map[string]int]())["a"]++; return nil }, class: "panic(runtime.errorString)", text: "nil pointer dereference"},
		"a long text":     {do: throw(strings.Repeat("x", 1<<20)), class: "panic(string)", text: "xxx…"},
		"goexit":          {do: func() error { runtime.Goexit(); return nil }, class: "runtime.Goexit", text: "runtime.Goexit"},
		"panic explosive": {do: throw(explosive{}), text: "panicked"},
		"explosive":       {do: func() error { return explosive{} }, class: "panic(string)", text: "a method of the handler's error panicked: "},
		"wrapped":         {do: func() error { return wrap(explosive{}) }, class: "panic(string)", text: "a method of the handler's error panicked: "},
		"mute":            {do: func() error { return &mute{} }, class: "*worker_test.mute", text: "(the error's own method panicked: *errors.errorString)", noStack: true},
		"deep":            {do: func() error { return deep(10_000) }, class: "panic(string)", text: "panic: deep"},
		"a huge error":    {do: func() error { return errors.New(strings.Repeat("y", 20<<20)) }, class: "*errors.errorString", text: "yyy…", noStack: true},
		"typed nil":       {do: func() error { var m *mute; return m }, class: "*worker_test.mute", text: "(the error's own method panicked: *errors.errorString)", noStack: true},
	}
}

// Whatever a handler does, its attempt is a recorded failure, and the slot is
// there for the next one.
// Reported as contribsys/faktory#300, hibiken/asynq#222 and
// collectiveidea/delayed_job#550.
func TestDisasters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		all := disasters()
		w, log := r.worker(worker.Config{Concurrency: 1, RetryPolicy: soon})
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			if d, ok := all[m.Payload.Text]; ok && m.Attempt == 1 {
				return d.do()
			}
			return nil
		}, nil)
		ids := map[string]int64{}
		for name := range all {
			ids[name] = r.enqueue(job{Text: name}, nil)
		}
		good := r.enqueue(job{}, nil)
		r.start(w)
		r.wait(message.StatusSucceeded, good)
		for name, d := range all {
			m := r.wait(message.StatusSucceeded, ids[name])
			require.Equal(t, 1, m.RetryCount, name)
			as := r.attempts(ids[name])
			require.Len(t, as, 1, name)
			require.Equal(t, message.OutcomeRetried, as[0].Outcome, name)
			require.Contains(t, as[0].ErrorMessage, d.text, name)
			require.LessOrEqual(t, len(as[0].ErrorMessage), 4<<10, name)
			if d.class != "" {
				require.Equal(t, d.class, as[0].ErrorClass, name)
			}
			if !d.noStack {
				require.Contains(t, as[0].Stack, "panic_test.go:", name)
				require.LessOrEqual(t, len(as[0].Stack), 8<<10, name)
			}
		}
		require.Len(t, log.lines(t, lineFailed), len(all))
		require.Len(t, log.lines(t), len(all))
	})
}

// Twenty disasters in a row of a pool of one.
func TestPoolKeepsItsSize(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, _ := r.worker(worker.Config{Concurrency: 1})
		kinds := []string{"goexit", "a text", "explosive", "nil"}
		all := disasters()
		var running, most atomic.Int32
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			if m.Payload.Text != "" {
				return nil
			}
			return all[kinds[m.Payload.N%len(kinds)]].do()
		}, nil)
		bad := r.jobs(20, &client.EnqueueOptions{MaxRetries: 1})
		good := r.enqueue(job{Text: "good"}, nil)
		run := r.start(w)
		r.wait(message.StatusSucceeded, good)
		r.wait(message.StatusDead, bad...)
		require.EqualValues(t, 1, most.Load())
		require.Equal(t, message.DecisionExhausted, r.letter(bad[0]).Decision)
		require.NoError(t, run.stop())
	})
}

// The error tells those who ask that it was a panic, and of what.
// Reported as hibiken/asynq#222.
func TestPanicError(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		seen := make(chan error, 2)
		w, _ := r.worker(worker.Config{Classifier: func(err error) message.FailureKind {
			seen <- err
			return message.FailurePermanent
		}})
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			if m.Payload.N == 1 {
				runtime.Goexit()
			}
			panic(wrap(errBroken))
		}, nil)
		r.jobs(2, nil)
		r.start(w)
		for range 2 {
			err := receive(t, seen)
			var p *worker.PanicError
			require.ErrorAs(t, err, &p)
			if p.Value == nil {
				require.NotErrorIs(t, err, errBroken)
				continue
			}
			require.ErrorIs(t, err, errBroken)
			require.Contains(t, p.Stack, "TestPanicError")
		}
	})
}

func TestMiddleware(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		type key struct{}
		trail := make(chan string, 20)
		layer := func(name string) worker.Middleware {
			return func(next worker.HandlerFunc) worker.HandlerFunc {
				return func(ctx context.Context, m *message.Message) error {
					trail <- name + " in " + m.Kind
					err := next(context.WithValue(ctx, key{}, name), m)
					trail <- name + " out"
					return err
				}
			}
		}
		w, log := r.worker(worker.Config{Middleware: []worker.Middleware{
			layer("outer"),
			layer("inner"),
			func(next worker.HandlerFunc) worker.HandlerFunc {
				return func(ctx context.Context, m *message.Message) error {
					switch m.CorrelationID {
					case "replaced":
						return worker.Permanent(errors.Join(errBroken, next(ctx, m)))
					case "swallowed":
						_ = next(ctx, m)
						return nil
					case "skipped":
						return nil
					}
					return next(ctx, m)
				}
			},
		}})
		calls := make(chan string, 4)
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			calls <- m.CorrelationID
			trail <- "handler after " + ctx.Value(key{}).(string)
			return errBroken
		}, nil)
		run := r.start(w)
		swallowed := r.enqueue(job{}, correlated("swallowed"))
		r.wait(message.StatusSucceeded, swallowed)
		replaced := r.enqueue(job{}, correlated("replaced"))
		r.wait(message.StatusDead, replaced)
		skipped := r.enqueue(job{}, correlated("skipped"))
		r.wait(message.StatusSucceeded, skipped)
		require.NoError(t, run.stop())
		close(trail)
		all := slices.Collect(func(yield func(string) bool) {
			for s := range trail {
				if !yield(s) {
					return
				}
			}
		})
		once := []string{"outer in job", "inner in job", "handler after inner", "inner out", "outer out"}
		require.Equal(t, slices.Concat(once, once, []string{"outer in job", "inner in job", "inner out", "outer out"}), all)
		require.Len(t, calls, 2)
		require.Len(t, log.lines(t), 1)
	})
}

// A panic anywhere in it is a failure of the message, and of nothing else.
// Reported as hibiken/asynq#201.
func TestMiddlewarePanics(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, log := r.worker(worker.Config{Concurrency: 1, RetryPolicy: soon, Middleware: []worker.Middleware{
			func(next worker.HandlerFunc) worker.HandlerFunc {
				return func(ctx context.Context, m *message.Message) error {
					if m.CorrelationID == "before" && m.Attempt == 1 {
						panic("before")
					}
					if m.CorrelationID == "goexit" && m.Attempt == 1 {
						runtime.Goexit()
					}
					err := next(ctx, m)
					if m.CorrelationID == "after" && m.Attempt == 1 {
						panic("after")
					}
					return err
				}
			},
		}})
		worker.Handle(w, func(context.Context, *worker.Message[job]) error { return nil }, nil)
		var ids []int64
		for _, name := range []string{"before", "after", "goexit", "fine"} {
			ids = append(ids, r.enqueue(job{}, correlated(name)))
		}
		r.start(w)
		r.wait(message.StatusSucceeded, ids...)
		for _, id := range ids[:3] {
			require.Equal(t, 1, r.get(id).RetryCount)
			require.Len(t, r.attempts(id), 1)
		}
		require.Zero(t, r.get(ids[3]).RetryCount)
		require.Len(t, log.lines(t), 3)
	})
}

// brokenLog is a handler of log lines that panics.
type brokenLog struct{ calls *atomic.Int64 }

func (brokenLog) Enabled(context.Context, slog.Level) bool { return true }
func (b brokenLog) Handle(context.Context, slog.Record) error {
	b.calls.Add(1)
	panic("no log today")
}
func (b brokenLog) WithAttrs([]slog.Attr) slog.Handler { return b }
func (b brokenLog) WithGroup(string) slog.Handler      { return b }

// An application's log that panics costs lines, and nothing else.
// Reported as contribsys/faktory#300 and hibiken/asynq#1132.
func TestLogPanics(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		var calls atomic.Int64
		f := storetest.NewFaulty(r.store)
		w, err := worker.NewOn(f, worker.Config{
			Concurrency: 1, Lease: time.Second, RetryPolicy: soon, Grace: time.Second, Logger: slog.New(brokenLog{&calls}),
		})
		require.NoError(t, err)
		began, cause, resume := make(chan struct{}, 1), make(chan error, 1), make(chan struct{})
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			switch {
			case m.Payload.Text == "stuck":
				began <- struct{}{}
				<-resume
			case m.Payload.Text == "lost" && m.Attempt == 1:
				began <- struct{}{}
				<-ctx.Done()
				cause <- context.Cause(ctx)
			case m.Attempt == 1:
				return errBroken
			}
			return nil
		}, nil)
		fails := r.enqueue(job{}, nil)
		run := r.start(w)
		require.Equal(t, 1, r.wait(message.StatusSucceeded, fails).RetryCount)
		lost := r.enqueue(job{Text: "lost"}, nil)
		receive(t, began)
		f.Down() // every loop has something to say now
		require.ErrorIs(t, receive(t, cause), message.ErrLeaseLost)
		until(t, "it is lost", func() bool { return len(r.reap()) == 1 })
		f.Up()
		r.wait(message.StatusSucceeded, lost)
		dead := r.enqueue(job{}, &client.EnqueueOptions{MaxRetries: 1})
		r.wait(message.StatusDead, dead)
		r.enqueue(job{Text: "stuck"}, nil)
		receive(t, began) // held is not enough: a stop gives back what has not begun
		var left *worker.AbandonedError
		require.ErrorAs(t, run.stop(), &left)
		close(resume)
		require.Greater(t, calls.Load(), int64(5))
	})
}
