package reaper_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
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
	"github.com/styxmq/styx/reaper"
)

const patience = 30 * time.Second

// fixture is a migrated database and the hands of workers.
type fixture struct {
	t      *testing.T
	db     testdb.DB
	client *client.Client
	store  store.Store
	engine storetest.Engine
	prefix string
}

func each(t *testing.T, body func(t *testing.T, f *fixture)) {
	t.Helper()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		f := &fixture{t: t, db: db, engine: storetest.PostgreSQL, prefix: `"` + db.Schema + `".`}
		if db.Schema == "" {
			f.engine, f.prefix = storetest.SQLite, "styx_"
		}
		var err error
		f.client, err = client.New(db.DB, client.Config{Schema: db.Schema, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		require.NoError(t, f.client.Migrate(t.Context()))
		f.store, err = engine.New(db.DB, db.Schema)
		require.NoError(t, err)
		body(t, f)
	})
}

// open opens the database once more, as another process would.
func (f *fixture) open() *bun.DB {
	f.t.Helper()
	var (
		db  *bun.DB
		err error
	)
	if f.db.Schema == "" {
		db, err = sqlite.Open(f.t.Context(), f.db.URL)
	} else {
		db, err = postgres.Open(f.t.Context(), f.db.URL)
	}
	require.NoError(f.t, err)
	f.t.Cleanup(func() { require.NoError(f.t, db.Close()) })
	return db
}

// exec makes a state that no interface can make; it must change something.
func (f *fixture) exec(query string, args ...any) {
	f.t.Helper()
	result, err := f.db.ExecContext(f.t.Context(), f.text(query), args...)
	require.NoError(f.t, err, query)
	n, err := result.RowsAffected()
	require.NoError(f.t, err)
	require.Positive(f.t, n, "changed nothing: %s", query)
}

func (f *fixture) count(query string, args ...any) (n int) {
	f.t.Helper()
	require.NoError(f.t, f.db.QueryRowContext(f.t.Context(), f.text(query), args...).Scan(&n), query)
	return n
}

func (f *fixture) text(query string) string {
	return strings.NewReplacer("{{s}}", f.prefix, "{{long ago}}", f.engine.Ago(1000*24*time.Hour)).Replace(query)
}

// enqueue stores n messages with the options.
func (f *fixture) enqueue(n int, opts client.EnqueueOptions) []int64 {
	f.t.Helper()
	items := make([]client.Item, n)
	for i := range items {
		items[i] = client.Item{Payload: work{i}, Options: &opts}
	}
	messages, err := f.client.EnqueueMany(f.t.Context(), items)
	require.NoError(f.t, err)
	ids := make([]int64, n)
	for i, m := range messages {
		ids[i] = m.ID
	}
	return ids
}

type work struct {
	N int `json:"n"`
}

func (work) Kind() string { return "work" }

// claim registers a worker with a lease of an hour, which claims n messages of
// the queue.
func (f *fixture) claim(queue string, n int) (worker int64, claimed []store.Claimed) {
	f.t.Helper()
	worker, err := f.store.Register(f.t.Context(), store.WorkerInfo{Name: "test", Queues: []string{queue}, Lease: time.Hour})
	require.NoError(f.t, err)
	cursor := f.store.Cursor(store.CursorSpec{WorkerID: worker, Queue: queue, Timeout: time.Hour, Lease: time.Hour})
	for number := int64(1); len(claimed) < n; number++ {
		batch, err := cursor.Claim(f.t.Context(), store.ClaimRequest{Number: number, Limit: n - len(claimed)})
		require.NoError(f.t, err)
		require.NotEmpty(f.t, batch.Messages)
		claimed = append(claimed, batch.Messages...)
	}
	return worker, claimed
}

// silence makes a worker one that stopped beating long ago.
func (f *fixture) silence(worker int64) {
	f.t.Helper()
	f.exec("UPDATE {{s}}workers SET beat_at = {{long ago}} WHERE id = ?", worker)
}

// overdue lets the deadlines of a worker's messages pass.
func (f *fixture) overdue(worker int64) {
	f.t.Helper()
	f.exec("UPDATE {{s}}messages SET deadline = {{long ago}} WHERE worker_id = ?", worker)
	if f.hasClaims() {
		f.exec("UPDATE {{s}}claims SET deadline = {{long ago}} WHERE worker_id = ?", worker)
	}
}

// hasClaims reports whether the engine keeps claims apart from messages.
func (f *fixture) hasClaims() bool { return f.db.Schema != "" }

func (f *fixture) settle(worker int64, verb store.Verb, claimed ...store.Claimed) {
	f.t.Helper()
	batch := make([]store.Settlement, len(claimed))
	for i, c := range claimed {
		batch[i] = store.Settlement{ID: c.ID, Token: c.LeaseToken, Place: c.Place, Verb: verb, Keyed: c.IdempotencyKey != ""}
		if verb == store.Bury {
			batch[i].Failure = &store.Failure{Kind: message.FailurePermanent, Decision: message.DecisionPoison, Class: "test.Error", Message: "no"}
		}
	}
	results, err := f.store.Settle(f.t.Context(), worker, batch, nil)
	require.NoError(f.t, err)
	for _, err := range results {
		require.NoError(f.t, err)
	}
}

func (f *fixture) get(id int64) message.Message {
	f.t.Helper()
	m, err := f.client.Get(f.t.Context(), id)
	require.NoError(f.t, err)
	return *m
}

// reaper makes a reaper whose log goes to the journal.
func (f *fixture) reaper(db *bun.DB, cfg reaper.Config) (*reaper.Reaper, *journal) {
	f.t.Helper()
	j := &journal{}
	cfg.Schema, cfg.Logger = f.db.Schema, slog.New(slog.NewJSONHandler(j, nil))
	r, err := reaper.New(db, cfg)
	require.NoError(f.t, err)
	return r, j
}

// once reaps everything.
func (f *fixture) once(cfg reaper.Config) (reaper.Report, *journal) {
	f.t.Helper()
	r, j := f.reaper(f.db.DB, cfg)
	report, err := r.RunOnce(f.t.Context())
	require.NoError(f.t, err)
	return report, j
}

// journal collects log lines.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

// lines returns the lines with the message, all for an empty one.
func (j *journal) lines(t *testing.T, msg string) []map[string]any {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	var list []map[string]any
	for line := range strings.Lines(j.b.String()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		if msg == "" || fields["msg"] == msg {
			list = append(list, fields)
		}
	}
	return list
}
