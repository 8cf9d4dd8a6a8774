package storetest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// riverqueue/river#1302: the rescue read a snapshot and then updated by id
// alone, so that what had finished or was held anew meanwhile was put back.
var raceProperties = []property{
	{"what completes while the reaper looks stays done", raceCompleted},
	{"what is held anew while the reaper looks stays held", raceReclaimed},
	{"eight reapers move each lost message once", raceReapers},
	{"eight sweepers move each lost message once", raceSweepers},
	{"settles beside reapers do not deadlock and do not double", raceSettles},
	{"two cancel what others claim", raceCancel},
	{"Expire beside claims", raceExpire},
}

// during runs the reaper while a transaction of someone else is open.
func (f *fixture) during(change func(finish func())) []store.Rescued {
	f.t.Helper()
	type answer struct {
		rescued []store.Rescued
		err     error
	}
	answers := make(chan answer, 1)
	change(func() {
		go func() {
			rescued, err := f.Store.Rescue(f.t.Context(), 100)
			if err == nil {
				var more []store.Rescued
				more, _, err = f.Store.Sweep(f.t.Context(), 0, 100)
				rescued = append(rescued, more...)
			}
			answers <- answer{rescued, err}
		}()
	})
	a := <-answers
	require.NoError(f.t, a.err)
	return a.rescued
}

func raceCompleted(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{})
	w := f.worker()
	c := w.only("q")
	f.overdue(id)
	rescued := f.during(func(reap func()) {
		tx := f.begin(nil)
		require.NoError(t, f.Store.SettleTx(t.Context(), tx, w.id, succeed(c)))
		reap()
		require.NoError(t, tx.Commit())
	})
	require.Empty(t, rescued)
	f.wantStatus(message.StatusSucceeded, id)
	require.Empty(t, f.rescue())
	require.Equal(t, 1, f.total())
	require.Empty(t, f.attempts(id))
}

func raceReclaimed(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{})
	w, next := f.worker(), f.worker()
	c := w.only("q")
	f.overdue(id)
	rescued := f.during(func(reap func()) {
		tx := f.begin(nil)
		_, err := tx.ExecContext(t.Context(), f.text("UPDATE {{s}}messages SET lease_token = lease_token + 1, worker_id = ?, deadline = "+
			f.Engine.Ago(-time.Hour)+" WHERE id = ?"), next.id, id)
		require.NoError(t, err)
		reap()
		require.NoError(t, tx.Commit())
	})
	require.Empty(t, rescued)
	require.Empty(t, f.rescue())
	m := f.get(id)
	require.Equal(t, message.StatusProcessing, m.Status)
	require.Equal(t, next.id, m.WorkerID)
	require.Zero(t, m.RetryCount)
	w.refused(succeed(c))
	c.LeaseToken++
	next.settle(succeed(c))
}

// at runs work in n goroutines at once.
func at(n int, work func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			work(i)
		})
	}
	close(start)
	wg.Wait()
}

// mixed makes lost messages among living, finished and waiting ones, and
// returns the lost.
func (f *fixture) mixed(lost int) []int64 {
	f.t.Helper()
	f.puts(2*lost+lost/2, store.NewMessage{})
	dying, live := f.worker(), f.worker()
	var ids []int64
	for len(ids) < lost {
		ids = append(ids, claimedIDs(dying.take("q", 50))...)
		for i, c := range live.take("q", 50) {
			if i%2 == 0 {
				live.settle(succeed(c))
			}
		}
	}
	f.silence(dying)
	return ids
}

// wantRescuedOnce checks that exactly the lost messages were moved, once.
func (f *fixture) wantRescuedOnce(lost []int64, moved []store.Rescued) {
	f.t.Helper()
	require.Equal(f.t, sorted(slices.Clone(lost)), rescuedIDs(moved))
	charged := f.count("SELECT count(*) FROM {{s}}messages WHERE retry_count = 1 AND losses = 1 AND status = 0")
	require.Equal(f.t, len(lost), charged)
	require.Equal(f.t, len(lost), f.count("SELECT count(*) FROM {{s}}messages WHERE retry_count > 0"), "no other was touched")
	require.Equal(f.t, len(lost), f.count("SELECT count(*) FROM {{s}}attempts"), "one entry each in the history")
}

func raceReapers(t *testing.T, f *fixture) {
	const reapers = 8
	lost := f.mixed(1_000)
	before := f.count("SELECT count(*) FROM {{s}}archive")
	stores := []store.Store{f.Store, f.Reopen(t)}
	moved := make([][]store.Rescued, reapers)
	errs := make([]error, reapers)
	at(reapers, func(i int) {
		s := stores[i%2]
		if _, errs[i] = s.BuryWorkers(t.Context()); errs[i] != nil {
			return
		}
		for range 1_000 {
			rescued, err := s.Rescue(t.Context(), 50)
			moved[i] = append(moved[i], rescued...)
			if f.Engine.OneWriter && errors.Is(err, store.ErrContention) {
				continue // another process may hold the lock for long
			}
			if err != nil || len(rescued) == 0 {
				errs[i] = err
				return
			}
		}
	})
	for _, err := range errs {
		require.NoError(t, err)
	}
	all := append(slices.Concat(moved...), f.rescue()...)
	f.wantRescuedOnce(lost, all)
	require.Equal(t, before, f.count("SELECT count(*) FROM {{s}}archive"))
}

func raceSweepers(t *testing.T, f *fixture) {
	lost := f.mixed(300)
	f.loseHints()
	_, err := f.Store.BuryWorkers(t.Context())
	require.NoError(t, err)
	const sweepers = 8
	moved := make([][]store.Rescued, sweepers)
	errs := make([]error, sweepers)
	at(sweepers, func(i int) {
		for after := int64(0); ; {
			rescued, next, err := f.Store.Sweep(t.Context(), after, 40)
			moved[i] = append(moved[i], rescued...)
			if err != nil || next == 0 {
				errs[i] = err
				return
			}
			after = next
		}
	})
	for _, err := range errs {
		require.NoError(t, err)
	}
	f.wantRescuedOnce(lost, append(slices.Concat(moved...), f.rescue()...))
}

func raceSettles(t *testing.T, f *fixture) {
	const workers, each = 4, 100
	f.puts(workers*each, store.NewMessage{MaxRetries: 10})
	ws := make([]*worker, workers)
	held := make([][]store.Claimed, workers)
	for i := range ws {
		ws[i] = f.worker()
		held[i] = ws[i].take("q", each)
		require.Len(t, held[i], each)
	}
	f.overdue()
	f.exec("UPDATE {{s}}messages SET deadline = " + f.Engine.Ago(time.Minute) + " WHERE status = 1 AND id % 2 = 0")
	batches := make([][]store.Settlement, workers)
	results := make([][]error, workers)
	errs := make([]error, workers)
	var mu sync.Mutex
	var moved []store.Rescued
	at(2*workers, func(i int) {
		if i >= workers {
			rescued, err := f.Store.Rescue(t.Context(), 1_000)
			mu.Lock()
			defer mu.Unlock()
			moved = append(moved, rescued...)
			errs[i-workers] = errors.Join(errs[i-workers], err)
			return
		}
		var batch []store.Settlement
		for n, c := range held[i] {
			stale := c
			stale.LeaseToken++
			batch = append(batch, []store.Settlement{succeed(c), retry(c, time.Hour), bury(c), release(c, time.Hour)}[n%4])
			if n%10 == 0 {
				stale.ID = held[(i+1)%workers][n].ID
				batch = append(batch, succeed(stale))
			}
		}
		if i%2 == 1 {
			slices.Reverse(batch)
		}
		batches[i] = batch
		var err error
		results[i], err = f.Store.Settle(t.Context(), ws[i].id, batch, nil)
		mu.Lock()
		defer mu.Unlock()
		errs[i] = errors.Join(errs[i], err)
	})
	for _, err := range errs {
		require.NoError(t, err)
	}
	went := rescuedIDs(moved)
	for i, rs := range results {
		for n, err := range rs {
			if err != nil {
				require.ErrorIs(t, err, message.ErrLeaseLost)
				continue
			}
			s := batches[i][n]
			if s.Verb == store.Retry && slices.Contains(rescuedIDs(moved), s.ID) {
				continue // the reaper has charged it, which looks the same
			}
			went = append(went, s.ID)
		}
	}
	require.Len(t, went, workers*each, "each went one way")
	require.Len(t, slices.Compact(sorted(went)), workers*each)
	require.Equal(t, workers*each, f.total())
	require.Empty(t, f.rescue())
	require.Zero(t, f.count("SELECT count(*) FROM {{s}}messages WHERE status = 1"))
}

func raceCancel(t *testing.T, f *fixture) {
	ids := f.puts(100, store.NewMessage{})
	w := f.worker()
	var taken []store.Claimed
	cancelled := make([][]int64, 2)
	errs := make([]error, 2)
	at(3, func(i int) {
		if i == 2 {
			taken = w.take("q", 1_000)
			return
		}
		for _, id := range ids {
			err := f.Store.Cancel(t.Context(), id, store.Actor{Name: "a"})
			if err == nil {
				cancelled[i] = append(cancelled[i], id)
			} else if _, ok := errors.AsType[*message.StateError](err); !ok {
				errs[i] = err
			}
		}
	})
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
	all := slices.Concat(claimedIDs(taken), cancelled[0], cancelled[1])
	require.Equal(t, ids, sorted(all), "each was claimed or cancelled, once")
}

func raceExpire(t *testing.T, f *fixture) {
	expired := f.puts(200, store.NewMessage{ExpiresIn: time.Hour})
	f.exec("UPDATE {{s}}messages SET expires_at = " + f.Engine.Ago(time.Minute))
	fresh := f.puts(200, store.NewMessage{ExpiresIn: time.Hour})
	w := f.worker()
	var taken []store.Claimed
	moved := make([][]store.Rescued, 4)
	errs := make([]error, 4)
	at(5, func(i int) {
		if i == 4 {
			taken = w.take("q", 1_000)
			return
		}
		for {
			rescued, err := f.Store.Expire(t.Context(), 30)
			moved[i] = append(moved[i], rescued...)
			if err != nil || len(rescued) == 0 {
				errs[i] = err
				return
			}
		}
	})
	for _, err := range errs {
		require.NoError(t, err)
	}
	last, err := f.Store.Expire(t.Context(), 1_000)
	require.NoError(t, err)
	require.Equal(t, expired, rescuedIDs(append(slices.Concat(moved...), last...)))
	require.Equal(t, fresh, sorted(claimedIDs(taken)))
}
