package worker_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"modernc.org/sqlite"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store/storetest"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/worker"
)

// full runs tests in the size of the reports behind them, which takes minutes:
// STYX_TEST_FULL=1 go test -run Failover ./worker
var full = os.Getenv("STYX_TEST_FULL") == "1"

// failover is a database that can be made read-only.
type failover struct {
	*rig
	begin, end func()
}

// failovers runs the body on both engines, one after the other and beside
// nothing else: goroutines are counted.
func failovers(t *testing.T, body func(t *testing.T, f *failover)) {
	t.Helper()
	t.Run("postgres", func(t *testing.T) {
		r, admin := newRig(t, testdb.Database(t)), testdb.Admin(t)
		var name string
		require.NoError(t, r.db.QueryRowContext(t.Context(), "SELECT current_database()").Scan(&name))
		alter := func(query string) {
			_, err := admin.NewRaw(query, bun.Ident(name)).Exec(t.Context())
			require.NoError(t, err)
		}
		body(t, &failover{
			rig: r,
			begin: func() {
				alter("ALTER DATABASE ? SET default_transaction_read_only = on")
				r.cut(admin, name)
			},
			// Connections that are made meanwhile stay as they are, like
			// those to a primary that was replaced.
			end: func() { alter("ALTER DATABASE ? RESET default_transaction_read_only") },
		})
	})
	t.Run("sqlite", func(t *testing.T) {
		path := t.TempDir() + "/styx.db"
		inner, err := sqlite.NewConnector("file:" + path + "?_txlock=immediate&_error_rc=true" +
			"&_pragma=journal_mode(wal)&_pragma=busy_timeout(10000)&_pragma=synchronous(FULL)")
		require.NoError(t, err)
		g := &gate{Connector: inner}
		sqldb := sql.OpenDB(g)
		sqldb.SetMaxOpenConns(8)
		sqldb.SetMaxIdleConns(8)
		db := bun.NewDB(sqldb, sqlitedialect.New())
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		body(t, &failover{
			rig:   newRig(t, testdb.DB{DB: db, URL: path}),
			begin: func() { g.shut.Store(true) },
			end:   func() { g.shut.Store(false) },
		})
	})
}

// cut ends every connection to a database.
func (r *rig) cut(admin *bun.DB, name string) {
	r.t.Helper()
	_, err := admin.NewRaw("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ?", name).Exec(r.t.Context())
	require.NoError(r.t, err)
}

// gate is an SQLite database whose transactions cannot write while it is shut.
type gate struct {
	driver.Connector
	shut atomic.Bool
}

// sqliteConn is what the driver's connections are.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type gated struct {
	sqliteConn
	g *gate
}

func (g *gate) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := g.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return gated{c.(sqliteConn), g}, nil
}

func (c gated) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	query := "PRAGMA query_only = off"
	if c.g.shut.Load() {
		query = "PRAGMA query_only = on"
	}
	if _, err := c.ExecContext(ctx, query, nil); err != nil {
		return nil, err
	}
	return c.sqliteConn.BeginTx(ctx, opts)
}

// A database that refuses writes for a while, as in a failover, costs no
// message and needs no restart; nothing spins meanwhile and nothing is left
// behind afterwards. Here for a second or two, in full for nearly a minute each.
// Reported as jobrunr/jobrunr#1264, vgarvardt/gue#202, graphile/worker#449 and
// riverqueue/river#239.
func TestFailoverToAReadOnlyDatabase(t *testing.T) {
	failovers(t, func(t *testing.T, r *failover) {
		before, total := runtime.NumGoroutine(), 0
		for title, lease := range map[string]time.Duration{"within a lease": time.Hour, "beyond it": time.Second} {
			faulty := storetest.NewFaulty(r.store) // counts calls
			w, err := worker.NewOn(faulty, worker.Config{Lease: lease, Concurrency: 20, RetryPolicy: soon, Logger: discard()})
			require.NoError(t, err)
			began, resume := make(chan struct{}, 100), make(chan struct{})
			var ran tally
			worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
				began <- struct{}{}
				<-resume
				ran.add(m.ID)
				if m.Payload.N%2 == 0 && m.Attempt == 1 {
					return errBroken
				}
				return nil
			}, nil)
			ids := r.jobs(20, &client.EnqueueOptions{MaxRetries: 100})
			run := r.start(w)
			for range ids {
				receive(t, began)
			}
			r.begin()
			close(resume)
			calls := func() (n int) {
				for _, method := range []string{"Claim", "Settle", "Beat", "Register", "Pulse", "SetIdle", "Listen", "Lost"} {
					n += faulty.Calls(method)
				}
				return n
			}
			start, first := time.Now(), calls()
			atLeast := lease + time.Second
			if full {
				atLeast = 50 * time.Second
			}
			until(t, "it is away for a while", func() bool {
				_, err := r.client.Enqueue(t.Context(), job{}, nil)
				require.ErrorIs(t, err, client.ErrUnavailable)
				if lease == time.Hour && !full {
					return faulty.Calls("Settle") >= 5
				}
				return time.Since(start) > atLeast
			})
			require.Less(t, float64(calls()-first), 100+50*time.Since(start).Seconds(), title)
			r.end()

			// With the lease gone, the reaper gives them to others.
			stop := r.reapingThrough()
			r.wait(message.StatusSucceeded, ids...)
			stop()
			if lease == time.Hour {
				for i, id := range ids {
					require.Equal(t, 2-i%2, ran.of(id))
					require.Equal(t, 1-i%2, r.get(id).RetryCount)
				}
			}
			r.wait(message.StatusSucceeded, r.enqueue(job{N: 1}, nil))
			require.NoError(t, run.stop())
			total += len(ids) + 1
			require.Equal(t, total, r.count("SELECT count(*) FROM {{s}}all_messages"))
		}
		settled(t, before+r.db.Stats().OpenConnections)
	})
}

// reapingThrough is reaping on a database that may not be back yet.
func (r *failover) reapingThrough() (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			_, _ = r.store.BuryWorkers(ctx)
			_, _ = r.store.Rescue(ctx, 1000)
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// settled waits until no more goroutines are left than there may be.
func settled(t *testing.T, most int) {
	t.Helper()
	t.Helper()
	until(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= most })
}

// Connections that are cut again and again leave neither goroutines nor
// memory behind. Here ten times, in full 1,000 times.
// Reported as riverqueue/river#239.
func TestFailoverOverAndOver(t *testing.T) {
	cuts := 10
	if full {
		cuts = 1000
	}
	r, admin := newRig(t, testdb.Database(t)), testdb.Admin(t)
	var name string
	require.NoError(t, r.db.QueryRowContext(t.Context(), "SELECT current_database()").Scan(&name))
	before := runtime.NumGoroutine()
	w, _ := r.worker(worker.Config{}) // what a cut claim has taken comes back with a beat
	worker.Handle(w, func(context.Context, *worker.Message[job]) error { return nil }, nil)
	run := r.start(w)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var first uint64
	work := 0
	for i := range cuts {
		r.cut(admin, name)
		var id int64
		until(t, "it is back", func() bool {
			m, err := r.client.Enqueue(t.Context(), job{}, nil)
			if err != nil {
				require.ErrorIs(t, err, client.ErrUnavailable)
				return false
			}
			id = m.ID
			return true
		})
		work++
		until(t, "it has run", func() bool {
			m, err := r.client.Get(t.Context(), id)
			return err == nil && m.Status == message.StatusSucceeded
		})
		if i == cuts/2 {
			first = heap()
		}
	}
	require.Less(t, heap(), first+16<<20)
	require.GreaterOrEqual(t, r.counted(message.StatusSucceeded), work)
	require.NoError(t, run.stop())
	settled(t, before+r.db.Stats().OpenConnections)
}
