package maintain_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/reaper/internal/maintain"
)

// fake is a store of which a test sets the methods that it needs.
type fake struct {
	store.Maintainer

	bury    func() ([]int64, error)
	rescue  func(limit int) ([]store.Rescued, error)
	sweep   func(after int64, limit int) ([]store.Rescued, int64, error)
	prepare func(ctx context.Context) error
	retain  func(ctx context.Context, r store.Retention) (store.Retained, bool, error)
}

func (f fake) BuryWorkers(context.Context) ([]int64, error) { return f.bury() }

func (f fake) Rescue(_ context.Context, limit int) ([]store.Rescued, error) { return f.rescue(limit) }

func (f fake) Expire(_ context.Context, limit int) ([]store.Rescued, error) { return f.rescue(limit) }

func (f fake) Sweep(_ context.Context, after int64, limit int) ([]store.Rescued, int64, error) {
	return f.sweep(after, limit)
}

func (f fake) Prepare(ctx context.Context) error { return f.prepare(ctx) }

func (f fake) Retain(ctx context.Context, r store.Retention) (store.Retained, bool, error) {
	return f.retain(ctx, r)
}

// settings of a service on the fake; moved counts the messages it tells of.
func settings(f fake, batch int, moved *int) maintain.Settings {
	return maintain.Settings{
		Store: f, Batch: batch, Timeout: 30 * time.Second,
		Moved: func(_ context.Context, all []store.Rescued) { *moved += len(all) },
	}
}

// supply returns n things in batches.
func supply(n int) func(limit int) ([]store.Rescued, error) {
	return func(limit int) ([]store.Rescued, error) {
		part := make([]store.Rescued, min(n, limit))
		n -= len(part)
		return part, nil
	}
}

func TestRescueGoesOnUntilNothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 99, 100, 101, 1000} {
		var moved int
		f := fake{bury: func() ([]int64, error) { return []int64{7}, nil }, rescue: supply(n)}
		done, err := maintain.Rescue{Settings: settings(f, 100, &moved)}.RunOnce(t.Context())
		require.NoError(t, err)
		require.Equal(t, maintain.Rescued{Workers: []int64{7}, Messages: n}, done)
		require.Equal(t, n, moved)

		f.rescue = supply(n)
		expired, err := maintain.Expire{Settings: settings(f, 100, &moved)}.RunOnce(t.Context())
		require.NoError(t, err)
		require.Equal(t, n, expired)
	}
}

func TestTroubleWithWorkersDoesNotKeepFromRescuing(t *testing.T) {
	t.Parallel()
	var moved int
	why := errors.New("permission denied")
	f := fake{bury: func() ([]int64, error) { return []int64{7}, why }, rescue: supply(3)}
	done, err := maintain.Rescue{Settings: settings(f, 100, &moved)}.RunOnce(t.Context())
	require.ErrorIs(t, err, why)
	require.Equal(t, 3, done.Messages)
	require.Equal(t, []int64{7}, done.Workers)

	f.bury = func() ([]int64, error) { return nil, store.ErrUnavailable }
	f.rescue = func(int) ([]store.Rescued, error) {
		t.Error("the database is away")
		return nil, nil
	}
	_, err = maintain.Rescue{Settings: settings(f, 100, &moved)}.RunOnce(t.Context())
	require.ErrorIs(t, err, store.ErrUnavailable)
}

func TestWhatWasMovedBesideAnErrorIsTold(t *testing.T) {
	t.Parallel()
	var moved int
	why := errors.New("tidy up")
	f := fake{rescue: func(int) ([]store.Rescued, error) { return make([]store.Rescued, 4), why }}
	n, err := maintain.Expire{Settings: settings(f, 4, &moved)}.RunOnce(t.Context())
	require.ErrorIs(t, err, why)
	require.Equal(t, 4, n)
	require.Equal(t, 4, moved)
}

func TestCollisionsAreTriedAgain(t *testing.T) {
	t.Parallel()
	var calls, moved int
	f := fake{prepare: func(context.Context) error {
		if calls++; calls < 4 {
			return store.ErrContention
		}
		return nil
	}}
	require.NoError(t, maintain.Prepare{Settings: settings(f, 1, &moved)}.RunOnce(t.Context()))
	require.Equal(t, 4, calls)
	f.prepare = func(context.Context) error { calls++; return store.ErrContention }
	require.ErrorIs(t, maintain.Prepare{Settings: settings(f, 1, &moved)}.RunOnce(t.Context()), store.ErrContention)
	require.Less(t, calls, 20, "not for ever")
}

func TestNothingBeginsAfterTheEnd(t *testing.T) {
	t.Parallel()
	var moved int
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	f := fake{prepare: func(context.Context) error { t.Error("begun"); return nil }}
	require.ErrorIs(t, maintain.Prepare{Settings: settings(f, 1, &moved)}.RunOnce(ended), context.Canceled)
}

// table is a fake of n messages with ids from 1 on, of which each tenth is
// lost.
func table(n *int64, looks map[int64]int) func(int64, int) ([]store.Rescued, int64, error) {
	return func(after int64, limit int) (all []store.Rescued, next int64, err error) {
		for id := after + 1; id <= min(after+int64(limit), *n); id++ {
			looks[id]++
			if id%10 == 0 {
				all = append(all, store.Rescued{})
			}
		}
		if next = after + int64(limit); next > *n {
			next = 0
		}
		return all, next, nil
	}
}

func TestSweepSeesEveryMessageWithinAFewRuns(t *testing.T) {
	t.Parallel()
	var moved int
	n, looks := int64(5000), map[int64]int{}
	s := maintain.Sweep{Settings: settings(fake{sweep: table(&n, looks)}, 10, &moved)}
	for range 20 { // learns how many there are
		_, err := s.RunOnce(t.Context())
		require.NoError(t, err)
	}
	for range 5 {
		clear(looks)
		for range 4 {
			_, err := s.RunOnce(t.Context())
			require.NoError(t, err)
		}
		require.Len(t, looks, int(n), "all are seen in four runs, wherever they begin")
		require.LessOrEqual(t, looks[1], 2, "and not much more often")
	}
	n = 50_000 // grows tenfold
	clear(looks)
	for range 15 {
		_, err := s.RunOnce(t.Context())
		require.NoError(t, err)
	}
	require.Len(t, looks, int(n))
}

func TestSweepOfTheWholeBeginsAtTheFirst(t *testing.T) {
	t.Parallel()
	var moved int
	n, looks := int64(1000), map[int64]int{}
	s := maintain.Sweep{Settings: settings(fake{sweep: table(&n, looks)}, 10, &moved)}
	_, err := s.RunOnce(t.Context())
	require.NoError(t, err)
	clear(looks)
	moved = 0
	got, err := s.Whole(t.Context())
	require.NoError(t, err)
	require.Equal(t, 100, got)
	require.Equal(t, 100, moved)
	require.Len(t, looks, int(n))
	for id, times := range looks {
		require.Equal(t, 1, times, id)
	}
}

func TestSweepGoesOnWhereItFailed(t *testing.T) {
	t.Parallel()
	var (
		moved int
		from  []int64
		why   error
	)
	f := fake{sweep: func(after int64, limit int) ([]store.Rescued, int64, error) {
		from = append(from, after)
		if after == 20 && why != nil {
			return nil, after, why
		}
		return nil, (after + int64(limit)) % 50, nil
	}}
	s := maintain.Sweep{Settings: settings(f, 10, &moved)}
	why = errors.New("no")
	_, err := s.RunOnce(t.Context())
	require.ErrorIs(t, err, why)
	why = nil
	_, err = s.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{0, 10, 20, 20, 30, 40}, from)
}

// Public report: riverqueue/river#575: a delete that takes longer than it may
// must not fail for ever.
func TestRetentionTakesSmallerStepsWhenAStepFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const perRow = 100 * time.Millisecond
		left, moved := 2000, 0
		f := fake{retain: func(ctx context.Context, r store.Retention) (store.Retained, bool, error) {
			select {
			case <-time.After(time.Duration(min(left, r.Batch)) * perRow):
				n := min(left, r.Batch)
				left -= n
				return store.Retained{Archived: n}, left > 0, nil
			case <-ctx.Done():
				return store.Retained{}, false, ctx.Err()
			}
		}}
		s := settings(f, 1000, &moved)
		s.Timeout = 5 * time.Second
		r := maintain.Retain{Settings: s}
		before := left
		for range 3 {
			_, more, err := r.RunOnce(t.Context())
			require.NoError(t, err)
			require.True(t, more)
			require.Less(t, left, before, "each run gets on")
			before = left
		}
		done, err := r.Whole(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, done.Archived)
		require.Zero(t, left)
	})
}

func TestRetentionIsBoundedByTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		moved := 0
		f := fake{retain: func(context.Context, store.Retention) (store.Retained, bool, error) {
			<-time.After(time.Second)
			return store.Retained{Letters: 1}, true, nil
		}}
		began := time.Now()
		r := maintain.Retain{Settings: settings(f, 1000, &moved)}
		done, more, err := r.RunOnce(t.Context())
		require.NoError(t, err)
		require.True(t, more)
		require.LessOrEqual(t, time.Since(began), 30*time.Second)
		require.Equal(t, int(time.Since(began)/time.Second), done.Letters)
	})
}

func TestRetentionGivesUpWhatFailsRowByRow(t *testing.T) {
	t.Parallel()
	var batches []int
	moved, why := 0, errors.New("permission denied")
	f := fake{retain: func(_ context.Context, r store.Retention) (store.Retained, bool, error) {
		batches = append(batches, r.Batch)
		return store.Retained{Keys: 1}, false, why
	}}
	r := maintain.Retain{Settings: settings(f, 1000, &moved)}
	done, _, err := r.RunOnce(t.Context())
	require.ErrorIs(t, err, why)
	require.Equal(t, []int{1000, 250, 62, 15, 3, 1}, batches)
	require.Equal(t, len(batches), done.Keys, "what was done beside the error counts")
	_, _, err = r.RunOnce(t.Context())
	require.ErrorIs(t, err, why)
	require.Len(t, batches, 7, "once only then")
}
