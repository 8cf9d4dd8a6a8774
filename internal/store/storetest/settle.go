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

var settleProperties = []property{
	{"a settle needs token, worker and status", settleGuarded},
	{"the same outcome twice gets the first answer", settleTwice},
	{"another outcome after the first is refused", settleOtherwise},
	{"a batch in any order with stale ids among it", settleMixed},
	{"an outcome that stands twice in one batch", settleTwiceInBatch},
	{"batches that cross each other do not deadlock", settleCrossing},
	{"a thousand outcomes of all sorts in one batch", settleThousand},
	{"done forgets claims rows", settleDone},
	{"nothing to settle", settleNothing},
	{"a wrong place is no obstacle", settleWrongPlace},
	{"a settle in a transaction follows it", settleTx},
	{"effect and completion commit together", settleEffect},
	{"a refused settle leaves the transaction usable", settleTxRefused},
	{"a settle beside a transaction that rolls back loses nothing", settleWaits},
	{"Settled tells whether an attempt has an outcome", settledTells},
	{"Extend moves the deadline of a held message", extendMoves},
	{"Lost names what is not held any more", lostNames},
}

func settleGuarded(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{})
	w, other := f.worker(), f.worker()
	c := w.only("q")
	sorts := []func(store.Claimed) store.Settlement{
		succeed, bury,
		func(c store.Claimed) store.Settlement { return retry(c, 0) },
		func(c store.Claimed) store.Settlement { return release(c, 0) },
		func(c store.Claimed) store.Settlement { return snooze(c, 0) },
	}
	unchanged := f.get(id)
	for _, sort := range sorts {
		other.refused(sort(c))
		for _, wrong := range []int64{-1, 1} {
			stale := c
			stale.LeaseToken += wrong
			w.refused(sort(stale))
		}
		missing := c
		missing.ID += 1000
		w.refused(sort(missing))
		require.Equal(t, unchanged, f.get(id))
	}
	require.Empty(t, f.attempts(id))
	w.settle(release(c, 0))
	pending := f.get(id)
	for _, sort := range sorts {
		if sort(c).Verb == store.Release {
			continue // a repeat
		}
		w.refused(sort(c))
	}
	require.Equal(t, pending, f.get(id))
	again := other.only("q")
	for _, sort := range sorts {
		if sort(c).Verb != store.Release {
			w.refused(sort(c))
		}
	}
	other.settle(succeed(again))
	w.refused(succeed(c))
	w.refused(bury(c))
	f.wantStatus(message.StatusSucceeded, id)
}

func settleTwice(t *testing.T, f *fixture) {
	w := f.worker()
	for name, sort := range map[string]func(store.Claimed) store.Settlement{
		"succeed": succeed, "bury": bury,
		"retry":   func(c store.Claimed) store.Settlement { return retry(c, time.Hour) },
		"release": func(c store.Claimed) store.Settlement { return release(c, time.Hour) },
		"snooze":  func(c store.Claimed) store.Settlement { return snooze(c, time.Hour) },
	} {
		for _, budget := range []int{1, 3} {
			id := f.put(store.NewMessage{MaxRetries: budget})
			c := w.only("q")
			w.settle(sort(c))
			before := f.get(id)
			attempts := f.attempts(id)
			w.settle(sort(c))
			require.Equal(t, before, f.get(id), name)
			require.Equal(t, attempts, f.attempts(id), name)
			require.Equal(t, 1, f.count("SELECT count(*) FROM {{s}}all_messages WHERE id = ?", id), name)
		}
	}
}

func settleOtherwise(t *testing.T, f *fixture) {
	w := f.worker()
	sorts := []func(store.Claimed) store.Settlement{
		succeed, bury,
		func(c store.Claimed) store.Settlement { return retry(c, time.Hour) },
		func(c store.Claimed) store.Settlement { return release(c, time.Hour) },
		func(c store.Claimed) store.Settlement { return snooze(c, time.Hour) },
	}
	for i, first := range sorts {
		id := f.put(store.NewMessage{})
		c := w.only("q")
		w.settle(first(c))
		before := f.get(id)
		for k, second := range sorts {
			if i == k {
				continue
			}
			if s := second(c); s.Verb == store.Retry && first(c).Verb == store.Bury {
				w.try(s) // a retry that found its budget used up looks the same
				continue
			}
			w.refused(second(c))
		}
		require.Equal(t, before, f.get(id))
	}
}

func settleMixed(t *testing.T, f *fixture) {
	f.puts(40, store.NewMessage{})
	w, other := f.worker(), f.worker()
	got := w.take("q", 20)
	foreign := other.take("q", 20)
	var batch []store.Settlement
	var want []bool
	add := func(s store.Settlement, ok bool) { batch, want = append(batch, s), append(want, ok) }
	for i, c := range got {
		stale := c
		stale.LeaseToken += 5
		add(succeed(stale), false)
		switch i % 5 {
		case 0:
			add(succeed(c), true)
		case 1:
			add(retry(c, time.Hour), true)
		case 2:
			add(bury(c), true)
		case 3:
			add(release(c, 0), true)
		case 4:
			add(snooze(c, time.Hour), true)
		}
		add(bury(foreign[i]), false)
		add(store.Settlement{ID: 1 << 40, Token: 1, Verb: store.Succeed}, false)
	}
	slices.Reverse(batch)
	slices.Reverse(want)
	for i, err := range w.try(batch...) {
		if want[i] {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, message.ErrLeaseLost)
		}
	}
	for i, c := range got {
		status := []message.Status{
			message.StatusSucceeded, message.StatusPending, message.StatusDead, message.StatusPending, message.StatusPending,
		}[i%5]
		f.wantStatus(status, c.ID)
	}
	f.wantStatus(message.StatusProcessing, claimedIDs(foreign)...)
	for _, err := range other.try(succeed(foreign[0]), succeed(foreign[1])) {
		require.NoError(t, err)
	}
}

func settleTwiceInBatch(t *testing.T, f *fixture) {
	f.puts(3, store.NewMessage{})
	w := f.worker()
	got := w.take("q", 3)
	batch := []store.Settlement{
		succeed(got[0]), retry(got[1], time.Hour), bury(got[2]),
		succeed(got[0]), retry(got[1], time.Hour), bury(got[2]),
	}
	results := w.try(batch...)
	for i := range got {
		require.NoError(t, results[i])
		require.NoError(t, results[i+3])
	}
	f.wantStatus(message.StatusSucceeded, got[0].ID)
	f.wantStatus(message.StatusPending, got[1].ID)
	f.wantStatus(message.StatusDead, got[2].ID)
	require.Equal(t, 1, f.get(got[1].ID).RetryCount)
	require.Equal(t, 3, f.total())
}

func settleCrossing(t *testing.T, f *fixture) {
	const rounds, workers, each = 5, 4, 50
	for range rounds {
		f.puts(workers*each, store.NewMessage{MaxRetries: 1000})
		ws := make([]*worker, workers)
		var all []store.Claimed
		for i := range ws {
			ws[i] = f.worker()
			all = append(all, ws[i].take("q", each)...)
		}
		var wg sync.WaitGroup
		errs := make([]error, workers)
		for i, w := range ws {
			wg.Go(func() {
				batch := make([]store.Settlement, 0, len(all))
				for _, c := range all {
					if c.ID%2 == 0 {
						batch = append(batch, succeed(c))
					} else {
						batch = append(batch, retry(c, time.Hour))
					}
				}
				if i%2 == 1 {
					slices.Reverse(batch)
				}
				_, errs[i] = w.store.Settle(t.Context(), w.id, batch, nil)
			})
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		for _, c := range all {
			require.NotEqual(t, message.StatusProcessing, f.get(c.ID).Status)
		}
	}
}

func settleThousand(t *testing.T, f *fixture) {
	f.puts(1_000, store.NewMessage{})
	w := f.worker()
	got := w.take("q", 1_000)
	require.Len(t, got, 1_000)
	batch := make([]store.Settlement, len(got))
	for i, c := range got {
		switch i % 4 {
		case 0:
			batch[i] = succeed(c)
			batch[i].Note = "skipped: 'why' ✓"
		case 1:
			batch[i] = retry(c, time.Hour)
		case 2:
			batch[i] = bury(c)
		case 3:
			batch[i] = release(c, time.Hour)
		}
	}
	w.settle(batch...)
	require.Equal(t, 250, f.count("SELECT count(*) FROM {{s}}archive"))
	require.Equal(t, 250, f.count("SELECT count(*) FROM {{s}}dead_letters"))
	require.Equal(t, 500, f.count("SELECT count(*) FROM {{s}}messages WHERE status = 0"))
	require.Equal(t, 250, f.count("SELECT count(*) FROM {{s}}messages WHERE retry_count = 1"))
}

func settleDone(t *testing.T, f *fixture) {
	f.puts(4, store.NewMessage{})
	w, other := f.worker(), f.worker()
	first, second := w.take("q", 1), w.take("q", 1)
	foreign := other.take("q", 1)
	f.wantHints(2, w)
	_, err := f.Store.Settle(t.Context(), w.id, []store.Settlement{succeed(first[0])}, []int64{1, 99})
	require.NoError(t, err)
	f.wantHints(1, w)
	f.wantHints(1, other) // numbers are the worker's own
	w.settle(succeed(second[0]))
	other.settle(succeed(foreign[0]))
}

func settleNothing(t *testing.T, f *fixture) {
	w := f.worker()
	results, err := f.Store.Settle(t.Context(), w.id, nil, nil)
	require.NoError(t, err)
	require.Empty(t, results)
	f.put(store.NewMessage{})
	w.only("q")
	_, err = f.Store.Settle(t.Context(), w.id, nil, []int64{1})
	require.NoError(t, err)
	f.wantHints(0, w)
}

func settleWrongPlace(t *testing.T, f *fixture) {
	f.puts(3, store.NewMessage{})
	w := f.worker()
	got := w.take("q", 3)
	got[0].Place, got[1].Place, got[2].Place = got[1].Place, got[2].Place, 0
	w.settle(succeed(got[0]), succeed(got[2]))
	w.settle(retry(got[1], 0))
	f.wantStatus(message.StatusSucceeded, got[0].ID, got[2].ID)
	f.wantStatus(message.StatusPending, got[1].ID)
}
