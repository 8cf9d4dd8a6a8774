package worker_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

// quits is an error one of whose methods ends the goroutine.
type quits struct{}

func (quits) Error() string { runtime.Goexit(); return "" }

// What the program gives beside its handlers must not take the goroutine along
// that has a message to settle, as an assertion of a test does which fails
// there: the message would be held until its deadline, or no outcome recorded
// any more.
func TestCallbacksThatEndTheirGoroutine(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		var told notes
		w, log := r.worker(worker.Config{
			Concurrency: 1, Timeout: -1,
			Classifier:  func(error) message.FailureKind { runtime.Goexit(); return message.FailurePermanent },
			RetryPolicy: worker.RetryFunc(func(worker.Failure) time.Duration { runtime.Goexit(); return time.Hour }),
			Hooks: worker.Hooks{
				Started:   func(context.Context, *message.Message) { told.add("started"); runtime.Goexit() },
				Succeeded: func(context.Context, *message.Message) { told.add("succeeded"); runtime.Goexit() },
				Failed:    func(context.Context, *message.Message, *message.Attempt) { told.add("failed"); runtime.Goexit() },
				Dead:      func(context.Context, *message.Message, message.Decision) { told.add("dead"); runtime.Goexit() },
			},
		})
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			switch m.Payload.Text {
			case "fails":
				return context.DeadlineExceeded // transient by default
			case "quits":
				return quits{}
			}
			return nil
		}, nil)
		retried := r.enqueue(job{Text: "fails"}, nil)
		dead := r.enqueue(job{Text: "fails"}, &client.EnqueueOptions{MaxRetries: 1})
		quit := r.enqueue(job{Text: "quits"}, &client.EnqueueOptions{MaxRetries: 1})
		good := r.jobs(3, nil)
		run := r.start(w)
		r.wait(message.StatusDead, dead, quit)
		r.wait(message.StatusSucceeded, good...)
		until(t, "the first is retried", func() bool { return len(r.attempts(retried)) > 0 })
		require.NoError(t, run.stop())

		a := r.attempts(retried)[0]
		require.Equal(t, message.OutcomeRetried, a.Outcome)
		require.Equal(t, message.FailureTransient, a.FailureKind, "as the default classifier says")
		require.InDelta(t, time.Second, a.RetryAfter.Sub(a.FinishedAt), float64(3*time.Second), "as the default policy says")
		require.Equal(t, message.DecisionExhausted, r.letter(dead).Decision)
		require.Contains(t, r.letter(quit).ErrorMessage, "Goexit")

		n := len(r.attempts(retried)) // a slow machine may have got to the next one
		lines := log.lines(t, "callback panicked, the default is used")
		for _, line := range lines {
			require.Equal(t, "runtime.Goexit", line["panic"])
		}
		require.GreaterOrEqual(t, len(lines), 4, "the classifier for each, the policy for the one that is retried")
		require.Len(t, log.lines(t, "hook panicked"), len(told.list))
		require.Len(t, told.list, 2*(n+len(good)+2)+2)
	})
}
