package storetest

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var claimProperties = []property{
	{"an empty queue gives nothing and no claims row", claimEmpty},
	{"a claim takes at most its limit and says that there is more", claimLimit},
	{"a claim larger than a store makes leaves the rest to the next", claimLarge},
	{"only the kinds asked for, of the queue asked for", claimKinds},
	{"what other kinds leave is found by those who handle them", claimOtherKinds},
	{"a held message is not handed out again", claimOnce},
	{"a claim is recorded with worker, token and deadline", claimRecorded},
	{"no timeout means no deadline", claimNoDeadline},
	{"eight at once take each of 5,000 once", claimDisjoint},
	{"enqueues and claims at once lose nothing", claimWhileEnqueueing},
	{"a lower id that commits late is claimed", claimLateCommit},
	{"an open transaction is not passed over in the quiet", claimQuiet},
	{"NextDue is when the next postponed message is due", claimNextDue},
	{"the token grows with every claim for life", claimToken},
}

func claimEmpty(t *testing.T, f *fixture) {
	w := f.worker()
	c := w.cursor("nobody")
	for range 3 {
		b := w.claim(c, 10, true)
		require.Empty(t, b.Messages)
		require.False(t, b.Again)
		require.Negative(t, b.NextDue)
		c.Wake()
	}
	f.wantHints(0, w)
}

func claimLimit(t *testing.T, f *fixture) {
	ids := f.puts(25, store.NewMessage{})
	w := f.worker()
	c := w.cursor("q")
	var got []int64
	for _, want := range []int{10, 10, 5} {
		b := w.claim(c, 10, false)
		require.Len(t, b.Messages, want)
		if want == 10 {
			require.True(t, b.Again)
		}
		got = append(got, claimedIDs(b.Messages)...)
	}
	require.Equal(t, ids, got)
	f.wantHints(3, w)
	require.Empty(t, w.drain(c, 10, false))
}

func claimLarge(t *testing.T, f *fixture) {
	ids := f.puts(4500, store.NewMessage{})
	w := f.worker()
	c := w.cursor("q")
	got := w.claim(c, len(ids), false)
	require.GreaterOrEqual(t, len(got.Messages), 2000)
	require.True(t, got.Again)
	all := append(claimedIDs(got.Messages), claimedIDs(w.drain(c, len(ids), false))...)
	require.Equal(t, ids, all)
}

func claimKinds(t *testing.T, f *fixture) {
	a := f.puts(3, store.NewMessage{Kind: "a"})
	b := f.puts(3, store.NewMessage{Kind: "b"})
	c := f.puts(3, store.NewMessage{Kind: "c"})
	f.puts(3, store.NewMessage{Queue: "other", Kind: "a"})
	w := f.worker()
	got := w.drain(w.store.Cursor(w.spec("q", "c", "a")), 100, false)
	require.Equal(t, slices.Concat(a, c), claimedIDs(got))
	require.Equal(t, b, claimedIDs(w.take("q", 100)), "no kinds means every kind")
	require.Empty(t, w.drain(w.store.Cursor(w.spec("other", "b")), 100, false))
	require.Len(t, w.take("other", 100), 3)
}

// Rows of kinds that nobody here handles must not hide what comes after them,
// nor be hidden from a worker that handles them.
func claimOtherKinds(t *testing.T, f *fixture) {
	w := f.worker()
	mine := w.store.Cursor(w.spec("q", "mine"))
	f.puts(2_000, store.NewMessage{Kind: "other"})
	require.Empty(t, w.drain(mine, 10, false))
	first := f.puts(3, store.NewMessage{Kind: "mine"})
	mine.Wake()
	require.Equal(t, first, claimedIDs(w.drain(mine, 10, false)))
	f.puts(100, store.NewMessage{Kind: "other"})
	second := f.puts(3, store.NewMessage{Kind: "mine"})
	mine.Wake()
	require.Equal(t, second, claimedIDs(w.drain(mine, 10, false)))
	due := f.puts(1_500, store.NewMessage{Kind: "other", Delay: time.Hour})
	third := f.put(store.NewMessage{Kind: "mine", Delay: time.Hour})
	f.exec("UPDATE {{s}}messages SET due_at = "+f.Engine.Ago(time.Minute)+" WHERE id >= ? AND id <= ?", due[0], third)
	// A cursor may rely on time going forward only; a new one has seen none.
	mine = w.store.Cursor(w.spec("q", "mine"))
	require.Equal(t, []int64{third}, claimedIDs(w.drain(mine, 10, false)), "behind many due ones of another kind")
	require.Len(t, w.drain(w.store.Cursor(w.spec("q", "other")), 10_000, false), 3_600)
}

func claimOnce(t *testing.T, f *fixture) {
	f.puts(5, store.NewMessage{})
	one, two := f.worker(), f.worker()
	require.Len(t, one.take("q", 3), 3)
	require.Len(t, two.take("q", 10), 2)
	require.Empty(t, one.take("q", 10))
}

func claimRecorded(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{Timeout: 5 * time.Minute})
	plain := f.put(store.NewMessage{})
	w := f.worker()
	got := w.take("q", 2)
	require.Equal(t, []int64{id, plain}, claimedIDs(got))
	m := f.get(id)
	require.Equal(t, message.StatusProcessing, m.Status)
	require.Equal(t, w.id, m.WorkerID)
	require.EqualValues(t, 1, m.LeaseToken)
	require.Equal(t, 1, m.Attempt)
	require.WithinDuration(t, m.CreatedAt.Add(5*time.Minute+time.Hour), m.Deadline, 50*time.Second, "its own timeout + lease")
	m = f.get(plain)
	require.WithinDuration(t, m.CreatedAt.Add(time.Minute+time.Hour), m.Deadline, 50*time.Second, "the worker's timeout + lease")
}

func claimNoDeadline(t *testing.T, f *fixture) {
	own := f.put(store.NewMessage{Timeout: -1})
	w := f.worker()
	require.Equal(t, own, w.only("q").ID)
	require.True(t, f.get(own).Deadline.IsZero())

	workers := f.put(store.NewMessage{})
	spec := w.spec("q")
	spec.Timeout = -1
	require.Len(t, w.drain(w.store.Cursor(spec), 10, false), 1)
	require.True(t, f.get(workers).Deadline.IsZero())
	require.Empty(t, f.rescue())

	f.silence(w)
	require.Equal(t, []int64{own, workers}, rescuedIDs(f.rescue()), "only the worker's death ends it")
}

func claimDisjoint(t *testing.T, f *fixture) {
	const claimers, total = 8, 5_000
	ids := f.puts(total, store.NewMessage{})
	workers := make([]*worker, claimers)
	for i := range workers {
		workers[i] = register(t, f.Store)
	}
	var wg sync.WaitGroup
	taken := make([][]int64, claimers)
	errs := make([]error, claimers)
	var left sync.Map
	for _, id := range ids {
		left.Store(id, true)
	}
	for i, w := range workers {
		wg.Go(func() {
			c := w.cursor("q")
			for {
				w.number++
				b, err := c.Claim(t.Context(), store.ClaimRequest{Number: w.number, Limit: 37})
				if err != nil {
					errs[i] = err
					return
				}
				taken[i] = append(taken[i], claimedIDs(b.Messages)...)
				for _, m := range b.Messages {
					left.Delete(m.ID)
				}
				if len(b.Messages) == 0 && !b.Again {
					rest := false
					left.Range(func(any, any) bool { rest = true; return false })
					if !rest {
						return
					}
					c.Wake()
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, ids, sorted(slices.Concat(taken...)))
}

func claimWhileEnqueueing(t *testing.T, f *fixture) {
	const producers, each, claimers = 4, 150, 3
	var producing, claiming sync.WaitGroup
	errs := make([]error, producers)
	for i := range producers {
		producing.Go(func() {
			for n := range each {
				m := filled(store.NewMessage{Priority: n % 2})
				if _, err := f.Store.Insert(t.Context(), nil, &m); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { producing.Wait(); close(done) }()
	workers := make([]*worker, claimers)
	for i := range workers {
		workers[i] = register(t, f.Store)
	}
	taken := make([][]int64, claimers)
	claimErrs := make([]error, claimers)
	var found atomic.Int64
	for i, w := range workers {
		claiming.Go(func() {
			c := w.cursor("q")
			var until time.Time
			for found.Load() < producers*each && (until.IsZero() || time.Now().Before(until)) {
				w.number++
				b, err := c.Claim(t.Context(), store.ClaimRequest{Number: w.number, Limit: 20})
				if err != nil {
					claimErrs[i] = err
					return
				}
				found.Add(int64(len(b.Messages)))
				taken[i] = append(taken[i], claimedIDs(b.Messages)...)
				if b.Again || len(b.Messages) > 0 {
					continue
				}
				select {
				case <-done:
					if until.IsZero() {
						until = time.Now().Add(patience)
					}
				default:
				}
				c.Wake()
			}
		})
	}
	claiming.Wait()
	for _, err := range append(errs, claimErrs...) {
		require.NoError(t, err)
	}
	all := slices.Concat(taken...)
	require.Empty(t, f.listIDs(store.ListQuery{Status: message.StatusPending, Limit: 100}), "passed over")
	require.Len(t, all, producers*each)
	require.Len(t, slices.Compact(sorted(all)), producers*each)
}

// ThreeDotsLabs/watermill#311: a lower id that committed late was skipped for
// ever.
func claimLateCommit(t *testing.T, f *fixture) {
	w := f.worker()
	c := w.cursor("q")
	for round := range 3 {
		f.puts(5, store.NewMessage{})
		c.Wake()
		require.Len(t, w.drain(c, 100, false), 5, "round %d", round)

		tx := f.begin(nil)
		late := f.putTx(tx, store.NewMessage{})
		if f.Engine.AbortsTx { // else writers wait for each other
			later := f.puts(20, store.NewMessage{})
			require.Greater(t, later[0], late)
			c.Wake()
			require.Equal(t, later, claimedIDs(w.drain(c, 100, false)))
			require.Empty(t, w.drain(c, 100, false))
			c.Wake()
			require.Empty(t, w.drain(c, 100, false))
			f.puts(20, store.NewMessage{})
			require.Len(t, f.worker().take("q", 100), 20)
		}
		require.NoError(t, tx.Commit())
		c.Wake()
		require.Equal(t, []int64{late}, claimedIDs(w.drain(c, 100, false)), "round %d", round)
	}
}

// With nothing else going on, no later transaction tells that the one which is
// still open has drawn its id.
// Reported as ThreeDotsLabs/watermill#223.
func claimQuiet(t *testing.T, f *fixture) {
	w := f.worker()
	c := w.cursor("q")
	delayed := w.cursor("d")
	for round := range 10 {
		tx := f.begin(nil)
		late := f.putTx(tx, store.NewMessage{})
		due := f.putTx(tx, store.NewMessage{Queue: "d", Delay: time.Millisecond})
		if f.Engine.AbortsTx { // else a claim waits for the transaction
			for range 6 {
				c.Wake()
				require.Empty(t, w.drain(c, 10, false))
				delayed.Wake()
				require.Empty(t, w.drain(delayed, 10, false))
			}
		}
		require.NoError(t, tx.Commit())
		c.Wake()
		require.Equal(t, []int64{late}, claimedIDs(w.drain(c, 10, false)), "round %d", round)
		require.Eventually(t, func() bool {
			delayed.Wake()
			got := w.drain(delayed, 10, false)
			return len(got) == 1 && got[0].ID == due
		}, patience, time.Millisecond)
	}
}

func claimNextDue(t *testing.T, f *fixture) {
	w := f.worker()
	c := w.cursor("q")
	f.put(store.NewMessage{Queue: "other", Delay: time.Minute})
	require.Negative(t, w.claim(c, 10, false).NextDue)
	f.put(store.NewMessage{Delay: 2 * time.Hour})
	sooner := f.put(store.NewMessage{Delay: time.Hour})
	c.Wake()
	b := w.claim(c, 10, false)
	require.Empty(t, b.Messages)
	require.InDelta(t, time.Hour, b.NextDue, float64(5*time.Minute))
	f.due(sooner)
	c.Wake()
	require.Equal(t, []int64{sooner}, claimedIDs(w.drain(c, 10, false)))
	c.Wake()
	b = w.claim(c, 10, false)
	require.Empty(t, b.Messages)
	require.InDelta(t, 2*time.Hour, b.NextDue, float64(5*time.Minute))
}

func claimToken(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 10})
	var token int64
	next := func() (*worker, store.Claimed) {
		t.Helper()
		w := f.worker()
		c := w.only("q")
		require.Equal(t, id, c.ID)
		token++
		require.Equal(t, token, c.LeaseToken)
		require.Equal(t, token, f.get(id).LeaseToken)
		return w, c
	}
	w, c := next()
	w.settle(retry(c, 0))
	w, c = next()
	w.settle(release(c, 0))
	w, c = next()
	w.settle(snooze(c, 0))
	_, c = next()
	f.overdue(c.ID)
	require.Len(t, f.rescue(), 1)
	f.due(id)
	w, _ = next()
	f.silence(w)
	require.Len(t, f.rescue(), 1)
	f.due(id)
	w, c = next()
	w.settle(bury(c))
	require.Equal(t, token, f.letter(id).LeaseToken)
	require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}))
	require.Equal(t, token, f.get(id).LeaseToken)
	w, c = next()
	w.settle(succeed(c))
	require.Equal(t, token, f.get(id).LeaseToken)
}
