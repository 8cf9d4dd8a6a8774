package worker_test

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/reaper"
	"github.com/styxmq/styx/worker"
)

// slack is what a busy machine may add to a bound.
const slack = 15 * time.Second

// beatAt is when a worker has shown its life last.
func (r *rig) beatAt(workerID int64) (at time.Time) {
	r.t.Helper()
	row := r.db.QueryRowContext(r.t.Context(), r.text("SELECT beat_at FROM {{s}}workers WHERE id = ?"), workerID)
	if r.db.Schema == "" {
		var micros int64
		require.NoError(r.t, row.Scan(&micros))
		return time.UnixMicro(micros)
	}
	require.NoError(r.t, row.Scan(&at))
	return at
}

// reaper runs a real one until the test ends.
func (r *rig) reaper() {
	r.t.Helper()
	rp, err := reaper.New(r.db.DB, reaper.Config{Schema: r.db.Schema, Logger: discard()})
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- rp.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		require.NoError(r.t, <-done)
	})
}

// The messages of a worker that was killed in the middle of them run elsewhere
// within its lease and 3 seconds, at default settings.
func TestProofKilledWorker(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		var ids []int64
		for range 5 {
			ids = append(ids, r.enqueue(job{Text: "hang"}, nil))
		}
		first := r.spawn("work")
		for range ids {
			first.next(t, "ran ")
		}
		r.reaper()
		w, _ := r.worker(worker.Config{})
		var ran tally
		worker.Handle(w, ran.handle, nil)
		r.start(w)
		lost := r.get(ids[0]).WorkerID
		first.signal(t, syscall.SIGKILL)
		r.wait(message.StatusSucceeded, ids...)
		last := r.beatAt(lost)
		for _, id := range ids {
			m := r.get(id)
			require.Equal(t, 1, m.RetryCount)
			require.Equal(t, 1, m.WorkerLosses)
			require.EqualValues(t, 2, m.LeaseToken)
			require.NotEqual(t, lost, m.WorkerID)
			require.Equal(t, 1, ran.of(id))
			as := r.attempts(id)
			require.Len(t, as, 1)
			require.Equal(t, string(message.DecisionWorkerLost), as[0].Reason)
			require.True(t, as[0].Charged)
			require.Equal(t, lost, as[0].WorkerID)
			require.GreaterOrEqual(t, as[0].FinishedAt.Sub(last), worker.DefaultLease)
			require.Less(t, m.UpdatedAt.Sub(last), worker.DefaultLease+3*time.Second+slack)
		}
	})
}

// A payload that kills its process dies alone: what ran beside it does not
// spend its budget with it.
// Reported as vectorize-io/hindsight#2675 and oluciano/NexJob#143.
func TestProofPoison(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		budget := client.EnqueueOptions{MaxRetries: 3}
		others := r.jobs(500, &budget)
		poison := r.enqueue(job{Text: "poison"}, &budget)
		others = append(others, r.jobs(500, &budget)...)
		once := r.enqueue(job{Text: "poison"}, &client.EnqueueOptions{MaxRetries: 1})
		stop := r.reaping()
		ran, crashes := map[string]int{}, 0
		for {
			c := r.spawn("work", leaseVariable+"=1s", slotsVariable+"=100")
			lines := make(chan []string, 1)
			go func() { lines <- c.rest() }()
			over := func() bool {
				return r.counted(message.StatusSucceeded) == len(others) && r.counted(message.StatusDead) == 2
			}
			var all []string
			until(t, "the process has died or all is done", func() bool {
				select {
				case all = <-lines:
					return true
				default:
				}
				if over() {
					c.signal(t, syscall.SIGTERM)
					all = receive(t, lines)
					return true
				}
				return false
			})
			for _, line := range all {
				ran[strings.Fields(line)[1]]++
			}
			err := c.wait()
			if err == nil {
				break
			}
			var exit *exec.ExitError
			require.True(t, errors.As(err, &exit) && exit.ExitCode() == poisoned, err)
			crashes++
			require.LessOrEqual(t, crashes, 4)
		}
		stop()
		require.Equal(t, 4, crashes)
		require.Equal(t, 3, ran[strconv.FormatInt(poison, 10)])
		require.Equal(t, 1, ran[strconv.FormatInt(once, 10)])
		for id, used := range map[int64]int{poison: 3, once: 1} {
			l := r.letter(id)
			require.Equal(t, message.DecisionWorkerLost, l.Decision)
			require.Equal(t, used, l.AttemptsUsed)
			for _, a := range r.attempts(id) {
				require.Equal(t, string(message.DecisionWorkerLost), a.Reason)
			}
		}
		require.Equal(t, len(others), r.counted(message.StatusSucceeded))
	})
}

// A worker that was stopped for longer than its lease and goes on changes
// nothing of what others have done meanwhile.
func TestProofZombie(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		ids := []int64{r.enqueue(job{Text: "hang"}, nil), r.enqueue(job{Text: "word"}, nil)}
		zombie := r.spawn("work", leaseVariable+"=1s")
		for range ids {
			zombie.next(t, "ran ")
		}
		old := r.get(ids[0]).WorkerID
		zombie.signal(t, syscall.SIGSTOP)
		stop := r.reaping()
		w, _ := r.worker(worker.Config{})
		worker.Handle(w, func(context.Context, *worker.Message[job]) error { return nil }, nil)
		run := r.start(w)
		r.wait(message.StatusSucceeded, ids...)
		require.NoError(t, run.stop())
		stop()
		both := func() []message.Message { return []message.Message{r.get(ids[0]), r.get(ids[1])} }
		before := both()

		_, err := zombie.in.Write([]byte("go on\n")) // its handler returns success as soon as it can
		require.NoError(t, err)
		zombie.signal(t, syscall.SIGCONT)
		require.Equal(t, []string{"cause", literal(ids[0]), "true"}, zombie.next(t, "cause "))
		require.Equal(t, []string{"extend", literal(ids[0]), "true"}, zombie.next(t, "extend "))
		// It works again, as somebody else.
		more := r.enqueue(job{}, nil)
		m := r.wait(message.StatusSucceeded, more)
		require.Greater(t, m.WorkerID, before[0].WorkerID)
		require.Equal(t, before, both())
		for i, id := range ids {
			require.Equal(t, 1, before[i].RetryCount)
			require.NotEqual(t, old, before[i].WorkerID)
			require.Len(t, r.attempts(id), 1)
		}
		require.Positive(t, r.count("SELECT count(*) FROM {{s}}workers WHERE id = ? AND dead_at IS NOT NULL", old))
		zombie.signal(t, syscall.SIGTERM)
		zombie.rest()
		require.NoError(t, zombie.wait())
	})
}

// Workers that are restarted one after the other charge nobody, lose nothing
// and run nothing twice.
func TestProofRollingRestart(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		r.reaper()
		var fleet []*child
		for range 3 {
			fleet = append(fleet, r.spawn("work", slotsVariable+"=8"))
		}
		total := 0
		ran := map[string]int{}
		retire := func(c *child) {
			c.signal(t, syscall.SIGTERM)
			for _, line := range c.rest() {
				ran[strings.Fields(line)[1]]++
			}
			require.NoError(t, c.wait())
		}
		for round := range 4 { // each is replaced, and one of the new ones
			items := make([]client.Item, 100)
			for i := range items {
				items[i] = client.Item{Payload: job{N: 10 + i%40, Text: "slow"}}
			}
			_, err := r.client.EnqueueMany(t.Context(), items)
			require.NoError(t, err)
			total += len(items)
			target := total - len(items)/2 // in the middle of the load
			until(t, "they work", func() bool { return r.counted(message.StatusSucceeded) >= target })
			next := r.spawn("work", slotsVariable+"=8")
			retire(fleet[round%3])
			fleet[round%3] = next
		}
		until(t, "all is done", func() bool { return r.counted(message.StatusSucceeded) == total })
		for _, c := range fleet {
			retire(c)
		}
		require.Len(t, ran, total)
		for id, n := range ran {
			require.Equal(t, 1, n, id)
		}
		require.Zero(t, r.count("SELECT count(*) FROM {{s}}attempts WHERE outcome <> 'released'"))
		require.Zero(t, r.count("SELECT sum(retry_count) FROM {{s}}archive"))
	})
}
