package worker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/internal/testdb/server"
	"github.com/styxmq/styx/worker"
)

// wrongClock is a server whose clock differs from ours by as much as set says.
type wrongClock struct {
	*rig
	file string
}

func newWrongClock(t *testing.T, off string) *wrongClock {
	t.Helper()
	libraries, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	require.NoError(t, err)
	_, noServer := server.FindBinaries(t.Context())
	if os.Getenv("CI") != "true" && (len(libraries) == 0 || errors.Is(noServer, server.ErrNoBinaries)) {
		t.Skip("no libfaketime, or no PostgreSQL to start")
	}
	require.NotEmpty(t, libraries, "libfaketime")
	dir, err := os.MkdirTemp("", "styx-faketime-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // the server runs as another user
	c := &wrongClock{file: filepath.Join(dir, "clock")}
	c.set(t, off)
	srv, err := server.Start(t.Context(), server.Config{
		Settings: []string{"fsync=off"},
		Env: []string{
			"LD_PRELOAD=" + libraries[0], "FAKETIME_TIMESTAMP_FILE=" + c.file, "FAKETIME_NO_CACHE=1",
			"FAKETIME_DONT_FAKE_MONOTONIC=1",
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, srv.Stop()) })
	db, err := postgres.Open(t.Context(), srv.URL())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	c.rig = newRig(t, testdb.DB{DB: db, Schema: "styx", URL: srv.URL()})
	return c
}

// set changes the server's clock, while it runs as well.
func (c *wrongClock) set(t *testing.T, off string) {
	t.Helper()
	require.NoError(t, os.WriteFile(c.file+".new", []byte(off+"\n"), 0o644)) //nolint:gosec // as above
	require.NoError(t, os.Rename(c.file+".new", c.file))
}

// The server's clock is an hour fast or slow, and jumps by two hours while a
// worker and a reaper run: what is enqueued runs at once, delays last as long
// as they say, a lease is neither over at once nor does it last for an hour,
// and what a message had is not lost in the jump.
func TestClockOfTheServer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ at, then time.Duration }{
		"fast, then slow": {time.Hour, -time.Hour},
		"slow, then fast": {-time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			offs := map[time.Duration]string{time.Hour: "+3600", -time.Hour: "-3600"}
			c := newWrongClock(t, offs[test.at])
			stop := c.reaping()
			w, _ := c.worker(worker.Config{Lease: 9 * time.Second, RetryPolicy: soon, PollInterval: 100 * time.Millisecond})
			at, held, resume := make(chan time.Time, 10), make(chan struct{}, 10), make(chan struct{}, 10)
			worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
				switch m.Payload.Text {
				case "time":
					at <- time.Now()
				case "hold":
					held <- struct{}{}
					select {
					case <-resume:
					case <-ctx.Done(): // the lease was lost
					}
				case "fail":
					if m.Attempt == 1 {
						return errBroken
					}
				}
				return ctx.Err()
			}, nil)
			run := c.start(w)

			c.check(t, test.at, at, held, resume)
			over := c.enqueue(job{Text: "hold"}, &client.EnqueueOptions{MaxRetries: 100})
			receive(t, held)
			waiting := c.jobs(20, &client.EnqueueOptions{MaxRetries: 100})
			c.set(t, offs[test.then])
			c.wait(message.StatusSucceeded, waiting...)
			until(t, "what was held is done, after a loss perhaps", func() bool {
				select {
				case resume <- struct{}{}:
				default:
				}
				return c.get(over).Status == message.StatusSucceeded
			})
			until(t, "it has beaten by the new time, after it was taken for dead perhaps", func() bool {
				return c.count(`SELECT count(*) FROM {{s}}workers WHERE dead_at IS NULL AND name <> 'lost' AND beat_at
					BETWEEN clock_timestamp() - interval '10 minutes' AND clock_timestamp() + interval '10 minutes'`) > 0
			})
			for len(resume)+len(held) > 0 {
				select {
				case <-resume:
				case <-held:
				}
			}
			c.check(t, test.then, at, held, resume)

			require.NoError(t, run.stop())
			stop()
			require.Zero(t, c.counted(message.StatusDead))
			// Those with an hour to wait, unless it was jumped over, and those
			// of queues without a worker.
			left := 4
			if test.then > test.at {
				left = 3
			}
			require.Equal(t, left, c.counted(message.StatusPending))
		})
	}
}

// check looks at everything that depends on the clock.
func (c *wrongClock) check(t *testing.T, off time.Duration, at <-chan time.Time, held <-chan struct{}, resume chan<- struct{}) {
	t.Helper()
	var now time.Time
	require.NoError(t, c.db.QueryRowContext(t.Context(), "SELECT clock_timestamp()").Scan(&now))
	require.WithinDuration(t, time.Now().Add(off), now, 10*time.Minute, "the server's clock is wrong")

	c.wait(message.StatusSucceeded, c.enqueue(job{}, nil))
	begun := time.Now()
	delayed := c.enqueue(job{Text: "time"}, &client.EnqueueOptions{Delay: time.Second})
	later := c.enqueue(job{}, &client.EnqueueOptions{Delay: time.Hour})
	retried := c.enqueue(job{Text: "fail"}, nil)
	require.GreaterOrEqual(t, receive(t, at).Sub(begun), 950*time.Millisecond)
	c.wait(message.StatusSucceeded, delayed, retried)
	m := c.get(later)
	require.Equal(t, message.StatusPending, m.Status)
	require.Equal(t, time.Hour, m.RetryAfter.Sub(m.CreatedAt).Round(time.Minute))

	// A worker that is lost.
	queue := "lost " + off.String()
	orphan := c.enqueue(job{}, in(queue))
	id, err := c.store.Register(t.Context(), store.WorkerInfo{Name: "lost", Queues: []string{queue}, Lease: time.Second})
	require.NoError(t, err)
	cursor := c.store.Cursor(store.CursorSpec{WorkerID: id, Queue: queue, Timeout: time.Hour, Lease: time.Second})
	batch, err := cursor.Claim(t.Context(), store.ClaimRequest{Number: 1, Limit: 10})
	require.NoError(t, err)
	require.NotEmpty(t, batch.Messages)
	require.NotZero(t, c.wait(message.StatusPending, orphan).RetryCount)

	// One that holds a message while it beats and the reaper looks.
	long := c.enqueue(job{Text: "hold"}, nil)
	receive(t, held)
	var first, beat time.Time
	query := c.text("SELECT max(beat_at) FROM {{s}}workers WHERE dead_at IS NULL AND name <> 'lost'")
	require.NoError(t, c.db.QueryRowContext(t.Context(), query).Scan(&first))
	until(t, "it has beaten", func() bool {
		require.NoError(t, c.db.QueryRowContext(t.Context(), query).Scan(&beat))
		return beat.After(first)
	})
	require.Equal(t, message.StatusProcessing, c.get(long).Status)
	resume <- struct{}{}
	require.Zero(t, c.wait(message.StatusSucceeded, long).RetryCount)
}
