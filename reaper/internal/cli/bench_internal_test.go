package cli

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/internal/testdb"
)

func TestBenchCompare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                        string
		enqueued, handled, archived []int64
		want                        benchCheck
	}{
		{"all", []int64{1, 2, 9}, []int64{1, 2, 9}, []int64{1, 2, 9}, benchCheck{}},
		{"not handled", []int64{1, 2, 9}, []int64{1, 9}, []int64{1, 2, 9}, benchCheck{Missing: 1}},
		{"not archived", []int64{1, 2, 9}, []int64{1, 2, 9}, []int64{1, 2}, benchCheck{Missing: 1}},
		{"neither", []int64{1, 2, 9}, []int64{2, 9}, []int64{2, 9}, benchCheck{Missing: 1}},
		{"handled, never enqueued", []int64{2, 9}, []int64{1, 2, 3, 9, 10}, []int64{2, 9}, benchCheck{Strange: 3}},
		{"archived, never enqueued", []int64{2}, []int64{2}, []int64{1, 2, 3}, benchCheck{Strange: 2}},
		{"nothing at all", []int64{1, 2}, nil, nil, benchCheck{Missing: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, compare(c.enqueued, c.handled, c.archived))
		})
	}
}

func TestBenchRecordCountsDuplicates(t *testing.T) {
	t.Parallel()
	r := newBenchRecord(3)
	for _, id := range []int64{7, 5, 7} {
		require.False(t, r.complete())
		r.see(id)
	}
	require.True(t, r.complete())
	<-r.all
	r.see(6)
	ids, duplicates := r.handled()
	require.Equal(t, []int64{5, 6, 7}, ids)
	require.Equal(t, 1, duplicates)
}

func TestBenchVerdict(t *testing.T) {
	t.Parallel()
	var r benchResult
	r.add(benchRound{Messages: 10, benchCheck: benchCheck{Checked: true}})
	require.NoError(t, r.verdict())
	r.merge(benchCheck{Missing: 2})
	require.ErrorContains(t, r.verdict(), "2 messages missing")
}

func TestBenchPayloads(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 30, 100, 5000} {
		p := newBenchPayloads(size)
		seen := map[string]bool{}
		for n := range 5000 {
			text, err := json.Marshal(p.make(n))
			require.NoError(t, err)
			require.False(t, seen[string(text)])
			seen[string(text)] = true
			if size >= 30 {
				require.Len(t, text, size)
			}
		}
	}
}

func TestBenchLatencies(t *testing.T) {
	t.Parallel()
	var took []time.Duration
	for ms := 100; ms > 0; ms-- {
		took = append(took, time.Duration(ms)*time.Millisecond)
	}
	require.Equal(t, &latencies{P50: 50, P95: 95, P99: 99, Max: 100}, summarise(took))
	require.Equal(t, &latencies{P50: 1.5, P95: 1.5, P99: 1.5, Max: 1.5}, summarise([]time.Duration{1500 * time.Microsecond}))
}

func TestTracingIsComparedInPairs(t *testing.T) {
	t.Parallel()
	// The machine is slower by half from round to round; within each of them
	// the way with tracing is slower by a tenth.
	off := []benchRound{{EnqueuePer: 800, DrainPer: 400}, {EnqueuePer: 400, DrainPer: 200}, {EnqueuePer: 200, DrainPer: 100}, {EnqueuePer: 100, DrainPer: 50}}
	r := tracingResult{Tracing: "noop", Rounds: []benchRound{
		{EnqueuePer: 800, DrainPer: 360}, {EnqueuePer: 400, DrainPer: 180}, {EnqueuePer: 100, DrainPer: 90}, {EnqueuePer: 50, DrainPer: 45},
	}}
	r.summarise(off)
	require.InDelta(t, 250, r.EnqueuePer, 0)
	require.InDelta(t, 135, r.DrainPer, 0)
	require.InDelta(t, 0.75, r.EnqueueOverOff, 0)
	require.InDelta(t, 0.9, r.DrainOverOff, 0)
	require.InDelta(t, 2, middle([]float64{3, 1, 2}), 0)
}

func TestBar(t *testing.T) {
	t.Parallel()
	require.Equal(t, "drain  [###############               ]  50 % of 200", bar("drain", 100, 200))
	require.Contains(t, bar("drain", 250, 200), "100 % of 200")
}

func TestPeakRSS(t *testing.T) {
	t.Parallel()
	require.Greater(t, peakRSS(), int64(1<<20))
}

// snapshot holds one in a migrated database.
func snapshot(t *testing.T, db testdb.DB) (*heldSnapshot, *client.Client) {
	t.Helper()
	c, err := client.New(db.DB, client.Config{Schema: db.Schema})
	require.NoError(t, err)
	require.NoError(t, c.Migrate(t.Context()))
	d := newBenchDatabase(&database{DB: db.DB, Schema: db.Schema, location: location{Engine: enginePostgres}})
	if db.Schema == "" {
		d.Engine = engineSQLite
	}
	h, err := d.hold(t.Context(), "q")
	require.NoError(t, err)
	t.Cleanup(func() { h.release(t.Context()) })
	return h, c
}

func TestHeldSnapshotIsHeld(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		h, c := snapshot(t, db)
		_, err := c.EnqueueRaw(t.Context(), "k", "p", &client.EnqueueOptions{Queue: "q"})
		require.NoError(t, err)
		for range 2 {
			held, err := h.prove(t.Context())
			require.NoError(t, err)
			require.Positive(t, held)
		}
	})
}

func TestHeldSnapshotThatEndedIsAnError(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		h, c := snapshot(t, db)
		_, err := c.EnqueueRaw(t.Context(), "k", "p", &client.EnqueueOptions{Queue: "q"})
		require.NoError(t, err)
		_, err = h.conn.ExecContext(t.Context(), "COMMIT")
		require.NoError(t, err)
		_, err = h.prove(t.Context())
		require.ErrorIs(t, err, errSnapshotLost)
	})
}

func TestHeldSnapshotWhoseSessionDiedIsAnError(t *testing.T) {
	t.Parallel()
	db := testdb.Postgres(t)
	h, _ := snapshot(t, db)
	var pid int
	require.NoError(t, h.conn.NewRaw(`SELECT pg_backend_pid()`).Scan(t.Context(), &pid))
	_, err := db.NewRaw(`SELECT pg_terminate_backend(?)`, pid).Exec(t.Context())
	require.NoError(t, err)
	_, err = h.prove(t.Context())
	require.ErrorIs(t, err, errSnapshotLost)
}
