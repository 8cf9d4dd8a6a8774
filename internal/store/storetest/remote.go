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

// A consumer that holds no incarnation, such as one behind HTTP, has nothing
// but a token and a deadline.
var remoteProperties = []property{
	{"a remote claim takes in order, each message once", remoteOrder},
	{"a remote claim is recorded with token and deadline", remoteRecorded},
	{"kinds and queues are told apart", remoteKinds},
	{"what was just enqueued, replayed or released is claimed at once", remoteFresh},
	{"what is due comes before what never waited", remoteDueFirst},
	{"a suspect comes alone", remoteSuspect},
	{"claims at once take each message once", remoteDisjoint},
	{"nobody's silence ends a remote lease", remoteSilence},
	{"a remote lease ends at its deadline, charged", remoteDeadline},
	{"remote leases and workers share a queue", remoteShared},
	{"an extension moves the deadline both ways", remoteExtend},
	{"no claims row outlives its lease", remoteHints},
}

// lend claims remotely.
func (f *fixture) lend(limit int, kinds ...string) []message.Message {
	f.t.Helper()
	got, err := f.Store.ClaimRemote(f.t.Context(), store.RemoteClaim{
		Queue: "q", Kinds: kinds, Limit: limit, Default: time.Hour,
	})
	require.NoError(f.t, err)
	require.LessOrEqual(f.t, len(got), limit)
	return got
}

// lendOne claims the one message that is there.
func (f *fixture) lendOne() message.Message {
	f.t.Helper()
	got := f.lend(1)
	require.Len(f.t, got, 1)
	return got[0]
}

func messageIDs(ms []message.Message) []int64 {
	ids := make([]int64, len(ms))
	for i := range ms {
		ids[i] = ms[i].ID
	}
	return ids
}

// tell settles remotely and returns the answers.
func (f *fixture) tell(batch ...store.RemoteSettlement) []error {
	f.t.Helper()
	results, err := f.Store.SettleRemote(f.t.Context(), "q", batch)
	require.NoError(f.t, err)
	require.Len(f.t, results, len(batch))
	return results
}

// told settles what must be accepted.
func (f *fixture) told(batch ...store.RemoteSettlement) {
	f.t.Helper()
	for i, err := range f.tell(batch...) {
		require.NoError(f.t, err, "settlement %d", i)
	}
}

func remotely(m message.Message, verb store.Verb) store.RemoteSettlement {
	s := store.RemoteSettlement{ID: m.ID, Token: m.LeaseToken, Verb: verb}
	switch verb {
	case store.Retry, store.Bury:
		s.Delay, s.Failure = -1, &store.Failure{
			Kind: message.FailureUnknown, Decision: message.DecisionExhausted, Class: "remote", Message: "broken", Fingerprint: "f",
		}
	case store.Release:
		s.Reason = "released"
	case store.Succeed, store.Snooze:
	}
	return s
}

func remoteOrder(t *testing.T, f *fixture) {
	low := f.puts(5, store.NewMessage{Priority: 3})
	ids := f.puts(22, store.NewMessage{})
	var got []int64
	for _, limit := range []int{1, 1, 10, 10, 5} { // few enough that no turn is the least urgent's
		got = append(got, messageIDs(f.lend(limit))...)
	}
	require.Equal(t, slices.Concat(ids, low), got)
	require.Empty(t, f.lend(10))
}

func remoteRecorded(t *testing.T, f *fixture) {
	f.puts(2, store.NewMessage{Timeout: 5 * time.Minute, Tenant: "t", Headers: map[string]string{"a": "b"}})
	endless := f.put(store.NewMessage{Timeout: -1})
	claim := func(lease time.Duration) message.Message {
		got, err := f.Store.ClaimRemote(t.Context(), store.RemoteClaim{Queue: "q", Limit: 1, Lease: lease, Default: time.Hour})
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, f.get(got[0].ID), got[0], "as it is now")
		return got[0]
	}
	m := claim(0)
	require.Equal(t, message.StatusProcessing, m.Status)
	require.Equal(t, store.RemoteWorker, m.WorkerID)
	require.EqualValues(t, 1, m.LeaseToken)
	require.Equal(t, 1, m.Attempt)
	require.False(t, m.UpdatedAt.Before(m.CreatedAt))
	require.WithinDuration(t, m.UpdatedAt.Add(5*time.Minute), m.Deadline, 50*time.Second, "the message's own timeout")
	m = claim(time.Minute)
	require.WithinDuration(t, m.UpdatedAt.Add(time.Minute), m.Deadline, 50*time.Second, "the caller's lease")
	m = claim(0)
	require.Equal(t, endless, m.ID)
	require.WithinDuration(t, m.UpdatedAt.Add(time.Hour), m.Deadline, 50*time.Second, "none would never end")
}

func remoteKinds(t *testing.T, f *fixture) {
	a := f.puts(3, store.NewMessage{Kind: "a"})
	b := f.puts(3, store.NewMessage{Kind: "b"})
	f.puts(1, store.NewMessage{Queue: "other", Kind: "a"})
	require.Empty(t, f.lend(10, "c"))
	require.Equal(t, b, messageIDs(f.lend(10, "c", "b")))
	require.Equal(t, a, messageIDs(f.lend(10)), "no kinds means every kind")
}

// A claim sees whatever was committed before it, whatever the cursors have
// seen.
func remoteFresh(t *testing.T, f *fixture) {
	require.Empty(t, f.lend(10))
	for range 5 {
		id := f.put(store.NewMessage{})
		m := f.lendOne()
		require.Equal(t, id, m.ID)
		require.Empty(t, f.lend(10))
		f.told(remotely(m, store.Release))
		m = f.lendOne()
		require.Equal(t, id, m.ID)
		require.True(t, m.RetryAfter.IsZero())
		f.told(remotely(m, store.Bury))
		require.Empty(t, f.lend(10))
		require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}))
		m = f.lendOne()
		require.EqualValues(t, 3, m.LeaseToken)
		f.told(remotely(m, store.Succeed))
	}
}

func remoteDueFirst(t *testing.T, f *fixture) {
	ids := f.puts(4, store.NewMessage{})
	first := f.lend(2)
	f.told(remotely(first[0], store.Retry), remotely(first[1], store.Release))
	f.due(ids[0])
	got := messageIDs(f.lend(2))
	require.Equal(t, ids[:2], sorted(got))
	require.Equal(t, ids[2:], messageIDs(f.lend(10)))
}

func remoteSuspect(t *testing.T, f *fixture) {
	ids := f.suspects(2, store.NewMessage{})
	plain := f.puts(3, store.NewMessage{})
	var suspects, others []int64
	for range 10 {
		got := f.lend(10)
		if len(got) > 0 && got[0].WorkerLosses > 0 {
			require.Len(t, got, 1, "alone")
			suspects = append(suspects, got[0].ID)
			continue
		}
		for _, m := range got {
			require.Zero(t, m.WorkerLosses)
		}
		others = append(others, messageIDs(got)...)
	}
	require.Equal(t, ids, sorted(suspects))
	require.Equal(t, plain, sorted(others))
}

func remoteDisjoint(t *testing.T, f *fixture) {
	const claimers, total = 8, 400
	ids := f.puts(total, store.NewMessage{})
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		all []int64
	)
	for c := range claimers {
		wg.Go(func() {
			for {
				got, err := f.Store.ClaimRemote(t.Context(), store.RemoteClaim{Queue: "q", Limit: 1 + c%3, Default: time.Hour})
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				batch := make([]store.RemoteSettlement, len(got))
				for i := range got {
					batch[i] = remotely(got[i], store.Succeed)
				}
				results, err := f.Store.SettleRemote(t.Context(), "q", batch)
				for _, refused := range append(results, err) {
					if refused != nil {
						t.Errorf("settle: %v", refused)
					}
				}
				mu.Lock()
				all = append(all, messageIDs(got)...)
				done := len(all) >= total
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, ids, sorted(all))
	require.Equal(t, total, f.count("SELECT count(*) FROM {{s}}archive"))
}

func remoteSilence(t *testing.T, f *fixture) {
	f.puts(3, store.NewMessage{})
	got := f.lend(3)
	w := f.worker()
	f.silence(w)
	require.Empty(t, f.rescue())
	f.loseHints()
	require.Empty(t, f.rescue())
	require.Zero(t, f.worker().beat(store.Beat{UpTo: 1 << 40}).Orphans)
	f.wantStatus(message.StatusProcessing, messageIDs(got)...)
	for _, m := range got {
		f.told(remotely(m, store.Succeed))
	}
}

func remoteDeadline(t *testing.T, f *fixture) {
	ids := f.puts(3, store.NewMessage{MaxRetries: 2})
	got := f.lend(3)
	f.overdue(ids...)
	rescued := f.rescue()
	require.Equal(t, ids, rescuedIDs(rescued))
	for _, r := range rescued {
		require.Equal(t, message.DecisionTimedOut, r.Decision)
		require.False(t, r.Dead)
	}
	m := f.get(ids[0])
	require.Equal(t, message.StatusPending, m.Status)
	require.Equal(t, 1, m.RetryCount)
	require.Zero(t, m.WorkerLosses)
	require.NotContains(t, m.LastError, "-1")
	for _, verb := range []store.Verb{store.Succeed, store.Retry, store.Release} {
		require.ErrorIs(t, f.tell(remotely(got[0], verb))[0], message.ErrLeaseLost)
	}
	f.due(ids...)
	f.loseHints()
	require.Len(t, f.lend(3), 3)
	f.loseHints()
	f.overdue(ids...)
	rescued = f.rescue()
	require.Equal(t, ids, rescuedIDs(rescued), "the sweep finds what no hint names")
	require.True(t, rescued[0].Dead)
	f.wantStatus(message.StatusDead, ids...)
}

func remoteShared(t *testing.T, f *fixture) {
	ids := f.puts(4, store.NewMessage{})
	w := f.worker()
	mine := w.take("q", 2)
	theirs := f.lend(10)
	require.Equal(t, ids[2:], messageIDs(theirs))
	w.refused(store.Settlement{ID: theirs[0].ID, Token: theirs[0].LeaseToken, Verb: store.Succeed})
	f.told(remotely(theirs[0], store.Succeed), remotely(theirs[1], store.Succeed))
	f.told(remotely(mine[0].Message, store.Succeed))
	w.settle(succeed(mine[1]))
	f.wantStatus(message.StatusSucceeded, ids...)
}

func remoteExtend(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{})
	m := f.lendOne()
	extend := func(queue string, id, token int64, d time.Duration) (time.Time, error) {
		return f.Store.ExtendRemote(t.Context(), queue, id, token, d)
	}
	until, err := extend("q", id, m.LeaseToken, 3*time.Hour)
	require.NoError(t, err)
	require.Equal(t, until, f.get(id).Deadline)
	require.WithinDuration(t, m.UpdatedAt.Add(3*time.Hour), until, time.Minute)
	_, err = extend("q", id, m.LeaseToken+1, time.Hour)
	require.ErrorIs(t, err, message.ErrLeaseLost)
	_, err = extend("other", id, m.LeaseToken, time.Hour)
	require.ErrorIs(t, err, message.ErrNotFound)
	_, err = extend("q", id+1, 0, time.Hour)
	require.ErrorIs(t, err, message.ErrNotFound)

	until, err = extend("q", id, 0, time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, until, f.get(id).Deadline)
	require.Eventually(t, func() bool { // a shorter one counts too, without a sweep
		rescued, err := f.Store.Rescue(t.Context(), 10)
		require.NoError(t, err)
		return len(rescued) == 1
	}, patience, 10*time.Millisecond)
	_, err = extend("q", id, m.LeaseToken, time.Hour)
	require.ErrorIs(t, err, message.ErrLeaseLost)
	_, err = extend("q", id, 0, time.Hour)
	f.wantState(err, message.StatusPending)
}

// wantState checks that an operation was refused in a status.
func (f *fixture) wantState(err error, current message.Status) {
	f.t.Helper()
	var state *message.StateError
	require.ErrorAs(f.t, err, &state)
	require.Equal(f.t, current, state.Current)
}

func remoteHints(t *testing.T, f *fixture) {
	if !f.Engine.Hints {
		t.Skip("the engine has no claims rows")
	}
	hints := func() int { return f.count("SELECT count(*) FROM {{s}}claims") }
	f.puts(5, store.NewMessage{})
	got := f.lend(5)
	require.Equal(t, 5, hints())
	f.told(remotely(got[0], store.Succeed), remotely(got[1], store.Bury), remotely(got[2], store.Release))
	require.Equal(t, 2, hints())
	f.overdue(got[3].ID)
	require.Equal(t, []int64{got[3].ID}, rescuedIDs(f.rescue()))
	require.Equal(t, 1, hints(), "that of what is still held")
	f.due(got[3].ID)
	again := f.lend(5)
	require.Equal(t, []int64{got[2].ID, got[3].ID}, sorted(messageIDs(again)))
	require.Equal(t, 3, hints())
	require.Empty(t, f.rescue())
	for _, m := range append(again, got[4]) {
		f.told(remotely(m, store.Succeed))
	}
	require.Zero(t, hints())
}
