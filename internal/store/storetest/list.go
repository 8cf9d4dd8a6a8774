package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// PR sidekiq/sidekiq#7014: pages had gaps and repeats as rows moved.
var listProperties = []property{
	{"an empty database has no pages", listEmpty},
	{"every page size gives every message once, both ways", listPages},
	{"filters", listFilters},
	{"a page says where the next begins", listNext},
	{"a bounded scan still finds everything", listScan},
	{"an offset skips what matches, however few rows a look takes in", listOffset},
	{"pages are whole while messages move", listMoving},
	{"a message that was replayed is listed once", listReplayed},
	{"rows carry what Get returns", listRows},
}

// listIDs reads every page.
func (f *fixture) listIDs(q store.ListQuery) []int64 {
	f.t.Helper()
	var ids []int64
	for {
		page, err := f.Store.List(f.t.Context(), q)
		require.NoError(f.t, err)
		require.LessOrEqual(f.t, len(page.Messages), q.Limit)
		for _, m := range page.Messages {
			ids = append(ids, m.ID)
		}
		if page.Next == 0 {
			return ids
		}
		if q.After != 0 {
			require.Equal(f.t, q.Descending, page.Next < q.After, "pages must go on")
		}
		q.After = page.Next
	}
}

// everywhere stores n messages of each status, mixed, and returns their ids
// by status.
func (f *fixture) everywhere(n int) map[message.Status][]int64 {
	f.t.Helper()
	ids := make(map[message.Status][]int64)
	f.puts(4*n, store.NewMessage{})
	w := f.worker()
	for i, c := range w.take("q", 4*n) {
		status := message.Statuses()[i%4]
		ids[status] = append(ids[status], c.ID)
		switch status {
		case message.StatusPending:
			w.settle(retry(c, time.Hour))
		case message.StatusSucceeded:
			w.settle(succeed(c))
		case message.StatusDead:
			w.settle(bury(c))
		case message.StatusProcessing:
		}
	}
	return ids
}

func listEmpty(t *testing.T, f *fixture) {
	for _, q := range []store.ListQuery{{Limit: 1}, {Limit: 1, Descending: true}, {Limit: 1, After: 99}, {Limit: 1, Queue: "q"}} {
		page, err := f.Store.List(t.Context(), q)
		require.NoError(t, err)
		require.Empty(t, page.Messages)
		require.Zero(t, page.Next)
	}
}

func listPages(t *testing.T, f *fixture) {
	byStatus := f.everywhere(10)
	var all []int64
	for _, ids := range byStatus {
		all = append(all, ids...)
	}
	slices.Sort(all)
	for _, limit := range []int{1, 3, 7, 39, 40, 41, 1000} {
		require.Equal(t, all, f.listIDs(store.ListQuery{Limit: limit}))
		down := f.listIDs(store.ListQuery{Limit: limit, Descending: true})
		slices.Reverse(down)
		require.Equal(t, all, down)
	}
	require.Equal(t, all[25:], f.listIDs(store.ListQuery{Limit: 4, After: all[24]}))
	down := f.listIDs(store.ListQuery{Limit: 4, After: all[24], Descending: true})
	slices.Reverse(down)
	require.Equal(t, all[:24], down)
	for status, ids := range byStatus {
		require.Equal(t, ids, f.listIDs(store.ListQuery{Limit: 3, Status: status}))
	}
}

func listFilters(t *testing.T, f *fixture) {
	queue := f.put(store.NewMessage{Queue: "other"})
	kind := f.put(store.NewMessage{Kind: "other"})
	tenant := f.put(store.NewMessage{Tenant: "other"})
	correlation := f.put(store.NewMessage{CorrelationID: "other"})
	all := f.put(store.NewMessage{Queue: "other", Kind: "other", Tenant: "other", CorrelationID: "other"})
	plain := f.put(store.NewMessage{})
	check := func() {
		t.Helper()
		for _, c := range []struct {
			q    store.ListQuery
			want []int64
		}{
			{store.ListQuery{Queue: "other"}, []int64{queue, all}},
			{store.ListQuery{Kind: "other"}, []int64{kind, all}},
			{store.ListQuery{Tenant: "other"}, []int64{tenant, all}},
			{store.ListQuery{CorrelationID: "other"}, []int64{correlation, all}},
			{store.ListQuery{Queue: "other", Kind: "other", Tenant: "other", CorrelationID: "other"}, []int64{all}},
			{store.ListQuery{Queue: "q", Kind: "k"}, []int64{tenant, correlation, plain}},
			{store.ListQuery{Queue: "nobody"}, nil},
			{store.ListQuery{Queue: "Other"}, nil},
		} {
			for _, limit := range []int{1, 2, 100} {
				c.q.Limit = limit
				require.Equal(t, c.want, f.listIDs(c.q), "%+v", c.q)
			}
		}
	}
	check()
	w := f.worker()
	got := append(w.take("q", 10), w.take("other", 10)...)
	require.Len(t, got, 6)
	check()
	for i, c := range got {
		if i%2 == 0 {
			w.settle(succeed(c))
		} else {
			w.settle(bury(c))
		}
	}
	check()
}

func listNext(t *testing.T, f *fixture) {
	ids := f.puts(5, store.NewMessage{})
	page, err := f.Store.List(t.Context(), store.ListQuery{Limit: 2})
	require.NoError(t, err)
	require.Len(t, page.Messages, 2)
	require.Equal(t, ids[1], page.Next)
	page, err = f.Store.List(t.Context(), store.ListQuery{Limit: 2, After: ids[3]})
	require.NoError(t, err)
	require.Len(t, page.Messages, 1)
	require.Zero(t, page.Next)
	page, err = f.Store.List(t.Context(), store.ListQuery{Limit: 5})
	require.NoError(t, err)
	require.Len(t, page.Messages, 5)
	require.Zero(t, page.Next, "no page is promised where none is")
}

func listScan(t *testing.T, f *fixture) {
	byStatus := f.everywhere(50)
	f.puts(300, store.NewMessage{Queue: "other"})
	last := f.put(store.NewMessage{Queue: "rare"})
	for _, scan := range []int{1, 7, 100, 10_000} {
		q := store.ListQuery{Queue: "rare", Limit: 10, Scan: scan}
		require.Equal(t, []int64{last}, f.listIDs(q))
		q.Descending = true
		require.Equal(t, []int64{last}, f.listIDs(q))
		q = store.ListQuery{Status: message.StatusDead, Limit: 6, Scan: scan}
		require.Equal(t, byStatus[message.StatusDead], f.listIDs(q))
		q.Descending = true
		down := f.listIDs(q)
		slices.Reverse(down)
		require.Equal(t, byStatus[message.StatusDead], down)
	}
}

// Reported as oban-bg/oban_web#8.
func listMoving(t *testing.T, f *fixture) {
	const n = 300
	ids := f.puts(n, store.NewMessage{MaxRetries: 1000})
	ctx := t.Context()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var moveErr error
	var moves int
	wg.Go(func() {
		c := register(t, f.Store)
		cursor := c.cursor("q")
		for {
			select {
			case <-stop:
				return
			default:
			}
			c.number++
			b, err := cursor.Claim(ctx, store.ClaimRequest{Number: c.number, Limit: 20})
			if err != nil {
				moveErr = err
				return
			}
			batch := make([]store.Settlement, len(b.Messages))
			for i, m := range b.Messages {
				moves++
				switch moves % 4 {
				case 0:
					batch[i] = succeed(m)
				case 1:
					batch[i] = bury(m)
				default:
					batch[i] = retry(m, 0)
				}
			}
			if _, err := c.store.Settle(ctx, c.id, batch, nil); err != nil {
				moveErr = err
				return
			}
			for i, m := range b.Messages {
				if batch[i].Verb == store.Bury {
					if err := f.Store.Replay(ctx, m.ID, ann); err != nil {
						moveErr = err
						return
					}
				}
			}
			if !b.Again {
				cursor.Wake()
			}
		}
	})
	for round := range 12 {
		q := store.ListQuery{Limit: 7, Descending: round%2 == 1}
		got := f.listIDs(q)
		if q.Descending {
			slices.Reverse(got)
		}
		require.Equal(t, ids, got)
		require.Equal(t, ids, f.listIDs(store.ListQuery{Queue: "q", Limit: 11}))
		_, err := f.Store.Get(ctx, ids[round])
		require.NoError(t, err)
	}
	close(stop)
	wg.Wait()
	require.NoError(t, moveErr)
	require.Positive(t, moves)
}

func listReplayed(t *testing.T, f *fixture) {
	id := f.kill(store.NewMessage{})
	for range 2 {
		require.NoError(t, f.Store.Replay(t.Context(), id, ann))
		require.Equal(t, []int64{id}, f.listIDs(store.ListQuery{Limit: 10}))
		require.Empty(t, f.listIDs(store.ListQuery{Limit: 10, Status: message.StatusDead}))
		w := f.worker()
		w.settle(bury(w.only("q")))
		require.Equal(t, []int64{id}, f.listIDs(store.ListQuery{Limit: 10}))
	}
	require.NoError(t, f.Store.Resolve(t.Context(), id, ann))
	require.Equal(t, []int64{id}, f.listIDs(store.ListQuery{Limit: 10, Status: message.StatusDead}))
}

func listRows(t *testing.T, f *fixture) {
	f.everywhere(2)
	page, err := f.Store.List(t.Context(), store.ListQuery{Limit: 100})
	require.NoError(t, err)
	require.Len(t, page.Messages, 8)
	for _, m := range page.Messages {
		got := f.get(m.ID)
		require.Equal(t, got.Status, m.Status)
		require.Equal(t, got.Queue, m.Queue)
		require.Equal(t, got.Kind, m.Kind)
		require.Equal(t, got.RetryCount, m.RetryCount)
		require.Equal(t, got.LeaseToken, m.LeaseToken)
		require.Equal(t, got.CreatedAt, m.CreatedAt)
		require.Equal(t, got.UpdatedAt, m.UpdatedAt)
		require.Equal(t, got.RetryAfter, m.RetryAfter)
		require.Equal(t, got.Deadline, m.Deadline)
		require.Equal(t, got.LastError, m.LastError)
	}
}

func listOffset(t *testing.T, f *fixture) {
	ids := f.everywhere(5)
	all := sorted(slices.Concat(ids["pending"], ids["processing"], ids["succeeded"], ids["dead"]))
	walk := func(q store.ListQuery) (got []int64) {
		for {
			page, err := f.Store.List(t.Context(), q)
			require.NoError(t, err)
			require.LessOrEqual(t, page.Skipped, q.Offset)
			if q.Offset -= page.Skipped; q.Offset > 0 {
				require.Empty(t, page.Messages)
			}
			got = append(got, messageIDs(page.Messages)...)
			if page.Next == 0 {
				return got
			}
			q.After = page.Next
		}
	}
	for _, descending := range []bool{false, true} {
		for status, want := range map[message.Status][]int64{"": all, message.StatusPending: ids["pending"], message.StatusDead: ids["dead"]} {
			want = sorted(slices.Clone(want))
			if descending {
				slices.Reverse(want)
			}
			for _, offset := range []int{0, 1, 3, len(want) - 1, len(want), len(want) + 7} {
				for _, scan := range []int{0, 3} {
					q := store.ListQuery{Queue: "q", Status: status, Descending: descending, Offset: offset, Limit: 4, Scan: scan}
					require.Equal(t, want[min(offset, len(want)):], append([]int64{}, walk(q)...), "%+v", q)
				}
			}
		}
	}
}
