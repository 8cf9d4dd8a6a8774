package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/client/sqlite"
	"github.com/styxmq/styx/internal/engine"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/store/storetest"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/worker"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// soon is a retry policy for tests that want the next attempt.
var soon = worker.Delays{time.Millisecond}

var errBroken = errors.New("it is broken")

// job is the payload of most tests.
type job struct {
	N    int    `json:"n"`
	Text string `json:"text,omitempty"`
}

func (job) Kind() string { return "job" }

// rig is a migrated database and what a test needs around it.
type rig struct {
	t      *testing.T
	db     testdb.DB
	client *client.Client
	store  store.Store
	engine storetest.Engine
	prefix string
}

func each(t *testing.T, body func(t *testing.T, r *rig)) {
	t.Helper()
	testdb.Each(t, func(t *testing.T, db testdb.DB) { body(t, newRig(t, db)) })
}

// onPostgres runs what makes no sense on the other engine.
func onPostgres(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	return newRig(t, testdb.Postgres(t))
}

func newRig(t *testing.T, db testdb.DB) *rig {
	t.Helper()
	r := &rig{t: t, db: db, engine: storetest.PostgreSQL, prefix: `"` + db.Schema + `".`}
	if db.Schema == "" {
		r.engine, r.prefix = storetest.SQLite, "styx_"
	}
	var err error
	r.client, err = client.New(db.DB, client.Config{Schema: db.Schema, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, r.client.Migrate(t.Context()))
	r.store, err = engine.New(db.DB, db.Schema)
	require.NoError(t, err)
	return r
}

// open opens the database once more, as another process would.
func (r *rig) open() *bun.DB {
	r.t.Helper()
	db, err := openURL(r.t.Context(), r.db.Schema, r.db.URL)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, db.Close()) })
	return db
}

func openURL(ctx context.Context, schema, url string) (*bun.DB, error) {
	if schema == "" {
		return sqlite.Open(ctx, url)
	}
	return postgres.Open(ctx, url)
}

// worker makes a worker whose log goes to the journal.
func (r *rig) worker(cfg worker.Config) (*worker.Worker, *journal) {
	r.t.Helper()
	j := &journal{}
	cfg.Schema, cfg.Logger = r.db.Schema, slog.New(slog.NewJSONHandler(j, nil))
	w, err := worker.New(r.db.DB, cfg)
	require.NoError(r.t, err)
	return w, j
}

// faulty makes a worker on a store that fails on demand.
func (r *rig) faulty(cfg worker.Config) (*worker.Worker, *storetest.Faulty, *journal) {
	r.t.Helper()
	j, f := &journal{}, storetest.NewFaulty(r.store)
	cfg.Logger = slog.New(slog.NewJSONHandler(j, nil))
	w, err := worker.NewOn(f, cfg)
	require.NoError(r.t, err)
	return w, f, j
}

// running is a worker at work.
type running struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// start runs the worker until stop, or the end of the test.
func (r *rig) start(w *worker.Worker) *running {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	run := &running{t: r.t, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(run.done)
		run.err = w.Run(ctx)
	}()
	r.t.Cleanup(func() {
		cancel()
		_ = run.wait()
	})
	return run
}

func (run *running) wait() error {
	run.t.Helper()
	select {
	case <-run.done:
	case <-time.After(patience):
		run.t.Fatal("Run has not returned")
	}
	return run.err
}

// stop ends the worker's context and returns what Run does.
func (run *running) stop() error {
	run.t.Helper()
	run.cancel()
	return run.wait()
}

// enqueue stores a message; opts may be nil.
func (r *rig) enqueue(p client.Payload, opts *client.EnqueueOptions) int64 {
	r.t.Helper()
	m, err := r.client.Enqueue(r.t.Context(), p, opts)
	require.NoError(r.t, err)
	return m.ID
}

// jobs stores n jobs, numbered from 0 on.
func (r *rig) jobs(n int, opts *client.EnqueueOptions) []int64 {
	r.t.Helper()
	items := make([]client.Item, n)
	for i := range items {
		items[i] = client.Item{Payload: job{N: i}, Options: opts}
	}
	messages, err := r.client.EnqueueMany(r.t.Context(), items)
	require.NoError(r.t, err)
	ids := make([]int64, n)
	for i, m := range messages {
		ids[i] = m.ID
	}
	return ids
}

func (r *rig) get(id int64) message.Message {
	r.t.Helper()
	m, err := r.client.Get(r.t.Context(), id)
	require.NoError(r.t, err)
	return *m
}

func (r *rig) letter(id int64) message.DeadLetter {
	r.t.Helper()
	l, err := r.client.DeadLetters().Get(r.t.Context(), id)
	require.NoError(r.t, err)
	return *l
}

func (r *rig) attempts(id int64) []message.Attempt {
	r.t.Helper()
	as, err := r.client.Attempts(r.t.Context(), id)
	require.NoError(r.t, err)
	return as
}

// wait waits until the messages have the status, and returns the last.
func (r *rig) wait(status message.Status, ids ...int64) (last message.Message) {
	r.t.Helper()
	for _, id := range ids {
		until(r.t, "message is "+string(status), func() bool {
			last = r.get(id)
			return last.Status == status
		})
	}
	return last
}

// until waits for a condition in the test's own goroutine.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited for: %s", what)
		}
	}
}

// receive waits for a value.
func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing was received")
		panic("unreachable")
	}
}

// exec makes a state that no interface can make; it must change something.
func (r *rig) exec(query string, args ...any) {
	r.t.Helper()
	result, err := r.db.ExecContext(r.t.Context(), r.text(query), args...)
	require.NoError(r.t, err, query)
	n, err := result.RowsAffected()
	require.NoError(r.t, err)
	require.Positive(r.t, n, "changed nothing: %s", query)
}

func (r *rig) count(query string, args ...any) (n int) {
	r.t.Helper()
	require.NoError(r.t, r.db.QueryRowContext(r.t.Context(), r.text(query), args...).Scan(&n), query)
	return n
}

// counted counts the messages of a status, wherever they stand.
func (r *rig) counted(status message.Status) int {
	r.t.Helper()
	return r.count("SELECT count(*) FROM {{s}}all_messages WHERE status = ?", string(status))
}

func (r *rig) text(query string) string {
	return strings.NewReplacer("{{s}}", r.prefix, "{{long ago}}", r.engine.Ago(1000*time.Hour)).Replace(query)
}

// reap takes back what is lost, once.
func (r *rig) reap() []store.Rescued {
	r.t.Helper()
	_, err := r.store.BuryWorkers(r.t.Context())
	require.NoError(r.t, err)
	rescued, err := r.store.Rescue(r.t.Context(), 1000)
	require.NoError(r.t, err)
	return rescued
}

// reaping reaps twenty times a second until stop, or the end of the test.
func (r *rig) reaping() (stop func() []store.Rescued) {
	r.t.Helper()
	var (
		all  []store.Rescued
		wg   sync.WaitGroup
		once sync.Once
		quit = make(chan struct{})
	)
	wg.Go(func() {
		ctx, tick := context.WithoutCancel(r.t.Context()), time.NewTicker(50*time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			_, err := r.store.BuryWorkers(ctx)
			rescued, err2 := r.store.Rescue(ctx, 1000)
			if err := errors.Join(err, err2); err != nil && !errors.Is(err, store.ErrContention) {
				r.t.Errorf("reap: %v", err)
				return
			}
			all = append(all, rescued...)
		}
	})
	stop = func() []store.Rescued {
		once.Do(func() { close(quit) })
		wg.Wait()
		return all
	}
	r.t.Cleanup(func() { stop() })
	return stop
}

func in(queue string) *client.EnqueueOptions { return &client.EnqueueOptions{Queue: queue} }

func correlated(id string) *client.EnqueueOptions { return &client.EnqueueOptions{CorrelationID: id} }

func literal(n int64) string { return strconv.FormatInt(n, 10) }

// overdue lets the deadline of a held message pass.
func (r *rig) overdue(id int64) {
	r.t.Helper()
	r.exec("UPDATE {{s}}messages SET deadline = {{long ago}} WHERE id = ? AND status = 1", id)
	if r.engine.Hints {
		r.exec("UPDATE {{s}}claims SET deadline = {{long ago}}")
	}
}
