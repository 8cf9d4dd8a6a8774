package client_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/testdb"
)

// Reported as airbytehq/airbyte#15908.
func TestListIsWholeWhileRowsMove(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		const n = 500
		items := make([]client.Item, n)
		for i := range items {
			items[i].Payload = order{i}
		}
		messages, err := b.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
		verbs := []store.Verb{store.Succeed, store.Bury, store.Retry, store.Release}
		for _, descending := range []bool{false, true} {
			want := ids(messages)
			if descending {
				slices.Reverse(want)
			}
			var seen []int64
			opts := client.ListOptions{Descending: descending, Limit: 20}
			for round := 0; ; round++ {
				page, err := b.List(t.Context(), opts)
				require.NoError(t, err)
				seen = append(seen, ids(page.Messages)...)
				if page.Next == "" {
					break
				}
				opts.Cursor = page.Next
				claimed := b.claim(t, message.DefaultQueue, 15)
				b.settle(t, verbs[round%len(verbs)], claimed...)
			}
			require.Equal(t, want, seen)
		}
	})
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		enqueue := func(kind string, opts client.EnqueueOptions) int64 {
			m, err := b.EnqueueRaw(t.Context(), kind, "x", &opts)
			require.NoError(t, err)
			return m.ID
		}
		done := enqueue("a", client.EnqueueOptions{Queue: "done", Tenant: "t1"})
		b.settle(t, store.Succeed, b.claim(t, "done", 1)...)
		dead := enqueue("a", client.EnqueueOptions{Queue: "dead", Tenant: "t2", CorrelationID: "c"})
		b.settle(t, store.Bury, b.claim(t, "dead", 1)...)
		busy := enqueue("b", client.EnqueueOptions{Queue: "busy", Tenant: "t1"})
		require.Len(t, b.claim(t, "busy", 1), 1)
		idle := enqueue("b", client.EnqueueOptions{Queue: "idle", Tenant: "t2"})
		later := enqueue("a", client.EnqueueOptions{Queue: "idle", CorrelationID: "c", Delay: time.Hour})

		for _, test := range []struct {
			opts client.ListOptions
			want []int64
		}{
			{client.ListOptions{}, []int64{done, dead, busy, idle, later}},
			{client.ListOptions{Descending: true}, []int64{later, idle, busy, dead, done}},
			{client.ListOptions{Status: message.StatusPending}, []int64{idle, later}},
			{client.ListOptions{Status: message.StatusProcessing}, []int64{busy}},
			{client.ListOptions{Status: message.StatusSucceeded}, []int64{done}},
			{client.ListOptions{Status: message.StatusDead}, []int64{dead}},
			{client.ListOptions{Queue: "idle"}, []int64{idle, later}},
			{client.ListOptions{Kind: "a"}, []int64{done, dead, later}},
			{client.ListOptions{Tenant: "t1"}, []int64{done, busy}},
			{client.ListOptions{CorrelationID: "c"}, []int64{dead, later}},
			{client.ListOptions{CorrelationID: "c", Status: message.StatusDead, Queue: "dead", Kind: "a", Tenant: "t2"}, []int64{dead}},
			{client.ListOptions{Queue: "nowhere"}, []int64{}},
		} {
			for _, limit := range []int{0, 1, 2, client.MaxPageSize} {
				test.opts.Limit = limit
				require.Equal(t, test.want, ids(b.all(t, test.opts)), "%+v", test.opts)
			}
		}
		for _, m := range b.all(t, client.ListOptions{}) {
			alone, err := b.Get(t.Context(), m.ID)
			require.NoError(t, err)
			require.Equal(t, *alone, m, "a list shows what Get does")
		}
	})
}

// Reported as sidekiq/sidekiq#7014 and riverqueue/riverui#496.
func TestUnknownIDs(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		for _, id := range []int64{0, -1, 1, 1 << 31, 1<<53 + 1, math.MaxInt64, math.MinInt64} {
			_, err := b.Get(t.Context(), id)
			require.ErrorIs(t, err, message.ErrNotFound)
			_, err = b.Attempts(t.Context(), id)
			require.ErrorIs(t, err, message.ErrNotFound)
			_, err = b.DeadLetters().Get(t.Context(), id)
			require.ErrorIs(t, err, message.ErrNotFound)
			require.ErrorIs(t, b.Cancel(t.Context(), id, nil), message.ErrNotFound)
			require.ErrorIs(t, b.DeadLetters().Replay(t.Context(), id, nil), message.ErrNotFound)
			require.ErrorIs(t, b.DeadLetters().Resolve(t.Context(), id, nil), message.ErrNotFound)
		}
		require.Empty(t, b.all(t, client.ListOptions{}))
		stats, err := b.Stats(t.Context())
		require.NoError(t, err)
		require.Empty(t, stats)
		page, err := b.DeadLetters().List(t.Context(), client.DeadLetterOptions{})
		require.NoError(t, err)
		require.Empty(t, page.DeadLetters)
	})
}

func TestStats(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		b.kill(t, "q", 2)
		var items []client.Item
		for range 5 {
			items = append(items, client.Item{Payload: order{}, Options: &client.EnqueueOptions{Queue: "q"}})
		}
		items = append(items, client.Item{Payload: order{}, Options: &client.EnqueueOptions{Queue: "q", Delay: time.Hour}},
			client.Item{Payload: order{}, Options: &client.EnqueueOptions{Queue: "other"}})
		_, err := b.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
		claimed := b.claim(t, "q", 3)
		b.settle(t, store.Succeed, claimed[0])

		stats, err := b.Stats(t.Context())
		require.NoError(t, err)
		require.Len(t, stats, 2)
		require.Positive(t, stats[1].OldestReady)
		for i := range stats {
			stats[i].OldestReady = 0
		}
		require.Equal(t, []client.QueueStats{
			{Queue: "other", Ready: 1},
			{Queue: "q", Ready: 2, Scheduled: 1, Processing: 2, Dead: 2},
		}, stats)
	})
}

// Ids do not commit in their order: what commits late stands in every list
// that begins afterwards, and is the only thing missing from one under way.
// PostgreSQL only: SQLite has one writer.
// Reported as ThreeDotsLabs/watermill#311.
func TestListShowsWhatCommitsLate(t *testing.T) {
	t.Parallel()
	b := newRig(t, testdb.Postgres(t))
	tx, err := b.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	late, err := b.EnqueueTx(t.Context(), tx, order{1}, nil)
	require.NoError(t, err)
	var others []int64
	for i := range 4 {
		m, err := b.Enqueue(t.Context(), order{i}, nil)
		require.NoError(t, err)
		others = append(others, m.ID)
	}
	first, err := b.List(t.Context(), client.ListOptions{Limit: 2})
	require.NoError(t, err)
	require.Equal(t, others[:2], ids(first.Messages))
	require.NoError(t, tx.Commit())
	require.Equal(t, others[2:], ids(b.all(t, client.ListOptions{Limit: 2, Cursor: first.Next})))
	require.Equal(t, append([]int64{late.ID}, others...), ids(b.all(t, client.ListOptions{Limit: 2})))
	stats, err := b.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 5, stats[0].Ready)
}

func TestListOffset(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		var want []int64
		for i := range 12 {
			queue := []string{"a", "b"}[i%2]
			m := b.raw(t, client.EnqueueOptions{Queue: queue})
			if queue == "a" {
				want = append(want, m.ID)
			}
		}
		for offset := range 8 {
			from := min(offset, len(want))
			require.Equal(t, want[from:], append([]int64{}, ids(b.all(t, client.ListOptions{Queue: "a", Offset: offset, Limit: 20}))...))
			page, err := b.List(t.Context(), client.ListOptions{Queue: "a", Offset: offset, Limit: 2})
			require.NoError(t, err)
			require.Equal(t, want[from:min(from+2, len(want))], append([]int64{}, ids(page.Messages)...))
			if page.Next == "" {
				continue
			}
			page, err = b.List(t.Context(), client.ListOptions{Queue: "a", Cursor: page.Next, Limit: 100})
			require.NoError(t, err)
			require.Equal(t, want[from+2:], append([]int64{}, ids(page.Messages)...), "the next page skips nothing more")
		}
		for _, opts := range []client.ListOptions{{Offset: -1}, {Offset: client.MaxOffset + 1}, {Offset: 1, Cursor: "x"}} {
			_, err := b.List(t.Context(), opts)
			require.ErrorContains(t, err, "offset")
		}
	})
}

// A preview says what it left out, on every page; Get shows all.
func TestListPreviews(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		const n = 5
		text := strings.Repeat("ü", 1000)
		for range n {
			_, err := b.EnqueueRaw(t.Context(), "raw", text, nil)
			require.NoError(t, err)
		}
		opts := client.ListOptions{Limit: 2, Preview: 101}
		seen := 0
		for {
			page, err := b.List(t.Context(), opts)
			require.NoError(t, err)
			for _, m := range page.Messages {
				seen++
				require.Equal(t, text[:100], m.Payload)
				require.Equal(t, len(text), m.PayloadBytes)
			}
			if page.Next == "" {
				break
			}
			opts.Cursor = page.Next
			opts.Preview = 100 + seen%2 // another one on every page
		}
		require.Equal(t, n, seen)
		for _, m := range b.all(t, client.ListOptions{}) {
			require.Equal(t, text, m.Payload)
			require.Zero(t, m.PayloadBytes)
		}
		_, err := b.List(t.Context(), client.ListOptions{Preview: -1})
		requireField(t, err, "preview")
		_, err = b.DeadLetters().List(t.Context(), client.DeadLetterOptions{Preview: -1})
		requireField(t, err, "preview")
	})
}
