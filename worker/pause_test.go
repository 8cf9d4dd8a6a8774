package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/worker"
)

// A paused queue is not taken from; what runs goes on to its end, and after
// the pause the worker goes on by itself.
func TestPausedQueue(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		started, finish := make(chan int, 100), make(chan struct{})
		w, f, _ := r.faulty(worker.Config{PollInterval: 20 * time.Millisecond})
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			started <- m.Payload.N
			if m.Payload.Text == "long" {
				select {
				case <-finish:
				case <-ctx.Done():
				}
			}
			return nil
		}, nil)
		run := r.start(w)
		long := r.enqueue(job{Text: "long"}, nil)
		receive(t, started)
		// A claim that was under way at the pause has ended when two more
		// have begun.
		require.NoError(t, r.store.Pause(t.Context(), store.PauseRequest{Queue: message.DefaultQueue}, store.Actor{}))
		claims := f.Calls("Claim")
		until(t, "the worker looks again", func() bool { return f.Calls("Claim") >= claims+2 })
		left := r.jobs(20, nil)
		claims = f.Calls("Claim")
		until(t, "the worker looks again", func() bool { return f.Calls("Claim") >= claims+2 })
		close(finish)
		r.wait(message.StatusSucceeded, long)
		for _, id := range left {
			require.Equal(t, message.StatusPending, r.get(id).Status)
		}
		// From another store, as by the command line.
		was, err := r.client.Queues().Resume(t.Context(), message.DefaultQueue, nil)
		require.NoError(t, err)
		require.True(t, was)
		r.wait(message.StatusSucceeded, left...)
		require.NoError(t, run.stop())
	})
}
