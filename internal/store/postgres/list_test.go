package postgres_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// pages walks a list to its end.
func pages(t *testing.T, f fixture, q store.ListQuery) (ids []int64, count int) {
	t.Helper()
	for {
		page, err := f.List(t.Context(), q)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Messages), q.Limit)
		for _, m := range page.Messages {
			ids = append(ids, m.ID)
		}
		count++
		if page.Next == 0 {
			return ids, count
		}
		if q.After != 0 {
			require.Equal(t, q.Descending, page.Next < q.After, "a page must lead on")
		}
		q.After = page.Next
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	all := map[string][]int64{}
	add := func(id int64, names ...string) {
		for _, n := range append(names, "all") {
			all[n] = append(all[n], id)
		}
	}
	for i := range 60 {
		rare := i%20 == 13
		columns, tenant := "tenant, correlation_id", "'common', 'c'"
		if rare {
			tenant = "'rare', 'r'"
		}
		var id int64
		status := i % 4
		switch status {
		case 0:
			id = f.message(t, columns, tenant)
		case 1:
			id = f.held(t, 1, "now()", columns, tenant)
		case 2:
			id = f.letter(t, columns, tenant)
		case 3:
			id = f.archived(t, "default", fmt.Sprintf("now() + %d * interval '1 hour'", i))
			f.exec(t, `UPDATE {{s}}archive SET tenant = $2 WHERE id = $1`, id, map[bool]string{true: "rare", false: "common"}[rare])
		}
		names := []string{string(message.Statuses()[[]int{0, 1, 3, 2}[status]])}
		if rare {
			names = append(names, "rare")
		}
		add(id, names...)
	}
	replayed := f.letter(t, "", "")
	require.NoError(t, f.Replay(t.Context(), replayed, operator))
	add(replayed, "pending")

	for _, descending := range []bool{false, true} {
		for _, limit := range []int{1, 7, 61} {
			for _, scan := range []int{0, 1, 15} {
				for name, q := range map[string]store.ListQuery{
					"all": {}, "rare": {Tenant: "rare"},
					"pending": {Status: message.StatusPending}, "processing": {Status: message.StatusProcessing},
					"succeeded": {Status: message.StatusSucceeded}, "dead": {Status: message.StatusDead},
				} {
					q.Limit, q.Scan, q.Descending = limit, scan, descending
					want := slices.Clone(all[name])
					if descending {
						slices.Reverse(want)
					}
					got, count := pages(t, f, q)
					require.Equal(t, want, got, "%s, descending %t, limit %d, scan %d", name, descending, limit, scan)
					if name == "all" && limit == 61 {
						require.Equal(t, 1, count, "a list without a filter is bounded by its limit only")
					}
				}
			}
		}
	}

	for _, q := range []store.ListQuery{{Queue: "other"}, {Kind: "other"}, {CorrelationID: "other"}} {
		q.Limit = 100
		got, _ := pages(t, f, q)
		require.Empty(t, got)
	}
	got, _ := pages(t, f, store.ListQuery{Queue: "default", Kind: "work", Limit: 100})
	require.Equal(t, all["all"], got)
}

func TestListValues(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.message(t, "due_at, expires_at, timeout_ms, headers", `'2031-02-03 04:05:06.789012+02', '2032-01-01Z', -1, '{"k":"ü\"7"}'`)
	held := f.held(t, 4, "'2030-01-01Z'", "due_at, timeout_ms", "now(), 250")
	endless := f.held(t, 4, "'infinity'", "", "")
	page, err := f.List(t.Context(), store.ListQuery{Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Messages, 3)
	for i, want := range []int64{id, held, endless} {
		m, err := f.Get(t.Context(), want)
		require.NoError(t, err)
		require.Equal(t, m, page.Messages[i], "Get and List agree")
		require.Equal(t, time.UTC, m.CreatedAt.Location())
		require.Equal(t, m.CreatedAt, m.UpdatedAt)
	}
	m := page.Messages[0]
	require.Equal(t, time.Date(2031, 2, 3, 2, 5, 6, 789012000, time.UTC), m.RetryAfter)
	require.Equal(t, time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC), m.ExpiresAt)
	require.Equal(t, time.Duration(-1), m.Timeout)
	require.Equal(t, map[string]string{"k": `ü"7`}, m.Headers)
	require.Zero(t, m.Deadline)
	m = page.Messages[1]
	require.Equal(t, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), m.Deadline)
	require.Zero(t, m.RetryAfter)
	require.Equal(t, 250*time.Millisecond, m.Timeout)
	require.Zero(t, page.Messages[2].Deadline, "infinity is no time")
}

func TestLetters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ids []int64
	for i := range 5 {
		ids = append(ids, f.letter(t, "tenant, error_class, fingerprint", fmt.Sprintf("'t%d', 'E', 'f'", i%2)))
	}
	resolved := f.letter(t, "resolved_at, resolution", "now(), 'resolved'")
	slices.Reverse(ids)
	get := func(q store.LetterQuery) (got []int64, last int64) {
		letters, err := f.Letters(t.Context(), q)
		require.NoError(t, err)
		for _, l := range letters {
			got, last = append(got, l.ID), l.LetterID
		}
		return got, last
	}
	first, last := get(store.LetterQuery{Limit: 2})
	require.Equal(t, ids[:2], first)
	rest, _ := get(store.LetterQuery{Limit: 10, After: last})
	require.Equal(t, ids[2:], rest)
	some, _ := get(store.LetterQuery{Limit: 10, Queue: "default", Kind: "work", Tenant: "t1", ErrorClass: "E", Fingerprint: "f", Decision: message.DecisionExhausted})
	require.Equal(t, []int64{ids[1], ids[3]}, some)
	none, _ := get(store.LetterQuery{Limit: 10, Decision: message.DecisionPoison})
	require.Empty(t, none)
	closed, _ := get(store.LetterQuery{Limit: 10, Resolved: true})
	require.Equal(t, []int64{resolved}, closed)
	_, err := f.Letter(t.Context(), 1<<40)
	require.ErrorIs(t, err, message.ErrNotFound)
	l, err := f.Letter(t.Context(), ids[0])
	require.NoError(t, err)
	require.Equal(t, 5, l.AttemptsUsed)
	require.Equal(t, "boom", l.LastError)
	require.Equal(t, "boom", l.ErrorMessage)
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.message(t, "", "")
	for range 3 {
		f.attempt(t, id, "now()")
	}
	attempts, err := f.Attempts(t.Context(), id, 2)
	require.NoError(t, err)
	require.Len(t, attempts, 2)
	require.Equal(t, []int64{1, 2}, []int64{attempts[0].LeaseToken, attempts[1].LeaseToken}, "the newest, the older first")
	require.Zero(t, attempts[0].StartedAt)
	require.Equal(t, time.UTC, attempts[0].FinishedAt.Location())
	_, err = f.Attempts(t.Context(), 1<<40, 2)
	require.ErrorIs(t, err, message.ErrNotFound)
}

func TestStats(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	none, err := f.Stats(t.Context())
	require.NoError(t, err)
	require.Empty(t, none)

	f.exec(t, `INSERT INTO {{s}}messages (queue, kind, payload, max_retries, priority, lane, due_at, losses, created_at)
		SELECT q, 'work', 'x', 5, p, l, d, s, now() - a FROM (VALUES
			('a', 0, '', NULL, 0, interval '1 minute'), ('a', 0, '', NULL, 0, '2 minutes'), ('a', 5, 'l', NULL, 0, '1 hour'),
			('a', 0, '', now() - interval '5 s', 0, '9 hours'), ('a', 0, '', now() + interval '5 hours', 0, '9 hours'),
			('a', 0, 'l', now() + interval '5 hours', 2, '9 hours'), ('a', 0, '', now() - interval '7 s', 2, '9 hours'),
			('b', 0, '', now() + interval '5 hours', 0, '0')) AS v (q, p, l, d, s, a)`)
	for i := range 3 {
		f.claim(t, 4, int64(i), "'infinity'", f.held(t, 4, "'infinity'", "", ""), f.message(t, "", ""))
	}
	f.letter(t, "", "")
	f.letter(t, "resolved_at", "now()")
	f.exec(t, `INSERT INTO {{s}}messages (queue, kind, payload, max_retries) SELECT 'crowd', 'work', 'x', 5 FROM generate_series(1, 10001)`)

	stats, err := f.Stats(t.Context())
	require.NoError(t, err)
	for i := range stats {
		if stats[i].Queue == "a" {
			require.InDelta(t, time.Hour, stats[i].OldestReady, float64(time.Minute), "the oldest of any priority and lane")
		}
		stats[i].OldestReady = 0
	}
	require.Equal(t, []store.QueueStats{
		{Queue: "a", Ready: 5, Scheduled: 2},
		{Queue: "b", Scheduled: 1},
		{Queue: "crowd", Ready: store.StatsCap},
		{Queue: "default", Ready: 3, Processing: 3, Dead: 1},
	}, stats)
}
