package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// patience bounds every wait for an event.
const patience = 20 * time.Second

// fixture is a database for one property and the ways to look into it.
type fixture struct {
	Opened
	t *testing.T
}

func begin(t *testing.T, open func(t *testing.T) Opened) *fixture {
	t.Helper()
	f := &fixture{Opened: open(t), t: t}
	_, err := f.Store.Migrate(t.Context())
	require.NoError(t, err)
	return f
}

// text expands {{s}} to the prefix of tables.
func (f *fixture) text(query string) string { return strings.ReplaceAll(query, "{{s}}", f.Prefix) }

// exec makes a state past the interfaces, which must change something.
func (f *fixture) exec(query string, args ...any) {
	f.t.Helper()
	result, err := f.DB.ExecContext(f.t.Context(), f.text(query), args...)
	require.NoError(f.t, err, query)
	n, err := result.RowsAffected()
	require.NoError(f.t, err)
	require.Positive(f.t, n, "changed nothing: %s", query)
}

// define runs a statement that affects no rows.
func (f *fixture) define(query string) {
	f.t.Helper()
	_, err := f.DB.ExecContext(f.t.Context(), f.text(query))
	require.NoError(f.t, err, query)
}

// count reads one number past the interfaces.
func (f *fixture) count(query string, args ...any) int {
	f.t.Helper()
	var n int
	require.NoError(f.t, f.DB.QueryRowContext(f.t.Context(), f.text(query), args...).Scan(&n), query)
	return n
}

// total counts the messages of all tables.
func (f *fixture) total() int {
	f.t.Helper()
	return f.count("SELECT count(*) FROM {{s}}all_messages")
}

// filled gives m what every message needs.
func filled(m store.NewMessage) store.NewMessage {
	if m.Queue == "" {
		m.Queue = "q"
	}
	if m.Kind == "" {
		m.Kind = "k"
	}
	if m.Payload == "" {
		m.Payload = "{}"
	}
	if m.MaxRetries == 0 {
		m.MaxRetries = 3
	}
	return m
}

// put stores one message.
func (f *fixture) put(m store.NewMessage) int64 {
	f.t.Helper()
	return f.insert(m).ID
}

func (f *fixture) insert(m store.NewMessage) store.Inserted {
	f.t.Helper()
	m = filled(m)
	in, err := f.Store.Insert(f.t.Context(), nil, &m)
	require.NoError(f.t, err)
	require.Positive(f.t, in.ID)
	return in
}

// puts stores n equal messages in one call.
func (f *fixture) puts(n int, m store.NewMessage) []int64 {
	f.t.Helper()
	ins, err := f.Store.InsertMany(f.t.Context(), nil, copies(n, m))
	require.NoError(f.t, err)
	require.Len(f.t, ins, n)
	return idsOf(ins)
}

func copies(n int, m store.NewMessage) []store.NewMessage {
	ms := make([]store.NewMessage, n)
	for i := range ms {
		ms[i] = filled(m)
	}
	return ms
}

func idsOf(ins []store.Inserted) []int64 {
	ids := make([]int64, len(ins))
	for i := range ins {
		ids[i] = ins[i].ID
	}
	return ids
}

func (f *fixture) get(id int64) message.Message {
	f.t.Helper()
	m, err := f.Store.Get(f.t.Context(), id)
	require.NoError(f.t, err)
	require.Equal(f.t, id, m.ID)
	return m
}

// wantStatus checks where a message stands.
func (f *fixture) wantStatus(want message.Status, ids ...int64) {
	f.t.Helper()
	for _, id := range ids {
		require.Equal(f.t, want, f.get(id).Status, "message %d", id)
	}
}

func (f *fixture) letter(id int64) message.DeadLetter {
	f.t.Helper()
	l, err := f.Store.Letter(f.t.Context(), id)
	require.NoError(f.t, err)
	return l
}

func (f *fixture) attempts(id int64) []message.Attempt {
	f.t.Helper()
	as, err := f.Store.Attempts(f.t.Context(), id, 1000)
	require.NoError(f.t, err)
	return as
}

// due ends the delay of messages.
func (f *fixture) due(ids ...int64) {
	f.t.Helper()
	for _, id := range ids {
		f.exec("UPDATE {{s}}messages SET due_at = "+f.Engine.Ago(time.Second)+" WHERE id = ?", id)
	}
}

// overdue lets the deadlines of held messages pass.
func (f *fixture) overdue(ids ...int64) {
	f.t.Helper()
	for _, id := range ids {
		f.exec("UPDATE {{s}}messages SET deadline = "+f.Engine.Ago(time.Minute)+" WHERE id = ? AND status = 1", id)
	}
	if f.Engine.Hints {
		f.define("UPDATE {{s}}claims SET deadline = " + f.Engine.Ago(time.Minute))
	}
}

// wantHints checks how many claims rows a worker has.
func (f *fixture) wantHints(want int, w *worker) {
	f.t.Helper()
	if f.Engine.Hints {
		require.Equal(f.t, want, f.count("SELECT count(*) FROM {{s}}claims WHERE worker_id = ?", w.id), "claims rows")
	}
}

// loseHints deletes the claims rows, as a restore or an edit by hand might.
func (f *fixture) loseHints() {
	f.t.Helper()
	if f.Engine.Hints {
		f.define("DELETE FROM {{s}}claims")
	}
}

// created makes messages of the table messages ones of long ago.
func (f *fixture) created(ago time.Duration) {
	f.t.Helper()
	f.exec("UPDATE {{s}}" + f.Engine.Created + " SET created_at = " + f.Engine.Ago(ago) + " WHERE id IN (SELECT id FROM {{s}}messages)")
}

// silence makes a worker one that stopped beating long ago.
func (f *fixture) silence(w *worker) {
	f.t.Helper()
	f.exec("UPDATE {{s}}workers SET beat_at = "+f.Engine.Ago(10*time.Hour)+" WHERE id = ?", w.id)
}

// rescue reaps until nothing is lost, sweep included.
func (f *fixture) rescue() []store.Rescued {
	f.t.Helper()
	_, err := f.Store.BuryWorkers(f.t.Context())
	require.NoError(f.t, err)
	const limit = 100
	var all []store.Rescued
	for {
		rescued, err := f.Store.Rescue(f.t.Context(), limit)
		require.NoError(f.t, err)
		require.LessOrEqual(f.t, len(rescued), limit)
		all = append(all, rescued...)
		if len(rescued) < limit {
			return append(all, f.sweep(limit)...)
		}
	}
}

// sweep looks at every id once.
func (f *fixture) sweep(limit int) []store.Rescued {
	f.t.Helper()
	var all []store.Rescued
	for after := int64(0); ; {
		rescued, next, err := f.Store.Sweep(f.t.Context(), after, limit)
		require.NoError(f.t, err)
		all = append(all, rescued...)
		if next == 0 {
			return all
		}
		require.Greater(f.t, next, after, "the sweep must go on")
		after = next
	}
}

// rescuedIDs returns the ids in ascending order.
func rescuedIDs(rescued []store.Rescued) []int64 {
	ids := make([]int64, len(rescued))
	for i := range rescued {
		ids[i] = rescued[i].ID
	}
	slices.Sort(ids)
	return ids
}

// kill stores a message and lets it die of a permanent failure.
func (f *fixture) kill(m store.NewMessage) int64 {
	f.t.Helper()
	id := f.put(m)
	w := f.worker()
	got := w.take(filled(m).Queue, 1)
	require.Equal(f.t, []int64{id}, claimedIDs(got))
	w.settle(bury(got[0]))
	return id
}
