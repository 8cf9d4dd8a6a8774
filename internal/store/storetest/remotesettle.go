package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var remoteSettleProperties = []property{
	{"each outcome does what a worker's does", remoteOutcomes},
	{"the exact schedule of retries, to the last attempt", remoteSchedule},
	{"an unknown id and another queue are not found", remoteUnknown},
	{"without a token only the status counts", remoteTokenless},
	{"a stale token is a lost lease, in whatever status", remoteStale},
	{"the same outcome under the same token again is fine", remoteRepeat},
	{"a mixed batch answers each item", remoteMixed},
	{"success frees the key after its window", remoteKey},
	{"a replay starts afresh and keeps its budget", remoteReplay},
}

func remoteOutcomes(t *testing.T, f *fixture) {
	f.puts(4, store.NewMessage{Timeout: time.Minute, Headers: map[string]string{"h": "v"}})
	got := f.lend(4)
	good := remotely(got[0], store.Succeed)
	good.Note = "fine"
	f.told(good)
	require.Equal(t, message.StatusSucceeded, f.get(got[0].ID).Status)
	require.Equal(t, 1, f.count("SELECT count(*) FROM {{s}}archive WHERE note = 'fine' AND started_at IS NULL"))

	bad := remotely(got[1], store.Retry)
	bad.Delay = time.Hour
	f.told(bad)
	m := f.get(got[1].ID)
	require.Equal(t, message.StatusPending, m.Status)
	require.Equal(t, 1, m.RetryCount)
	require.Equal(t, "broken", m.LastError)
	require.WithinDuration(t, m.UpdatedAt.Add(time.Hour), m.RetryAfter, 0)
	a := f.attempts(m.ID)
	require.Len(t, a, 1)
	require.Equal(t, message.OutcomeRetried, a[0].Outcome)
	require.Equal(t, store.RemoteWorker, a[0].WorkerID)
	require.Equal(t, got[1].LeaseToken, a[0].LeaseToken)
	require.True(t, a[0].StartedAt.IsZero(), "not known")
	require.True(t, a[0].Charged)

	f.told(remotely(got[2], store.Bury))
	l := f.letter(got[2].ID)
	require.Equal(t, "broken", l.ErrorMessage)
	require.Equal(t, 1, l.AttemptsUsed)
	require.Equal(t, map[string]string{"h": "v"}, l.Headers)

	back := remotely(got[3], store.Release)
	back.Delay = time.Hour
	f.told(back)
	m = f.get(got[3].ID)
	require.Equal(t, message.StatusPending, m.Status)
	require.Zero(t, m.RetryCount)
	require.WithinDuration(t, m.UpdatedAt.Add(time.Hour), m.RetryAfter, 0)
}

func remoteSchedule(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{MaxRetries: 16})
	for n := 1; n < 16; n++ {
		m := f.lendOne()
		require.Equal(t, n, m.Attempt)
		f.told(remotely(m, store.Retry))
		m = f.get(id)
		require.Equal(t, n, m.RetryCount)
		want := min(time.Hour, time.Second<<n)
		require.WithinDuration(t, m.UpdatedAt.Add(want), m.RetryAfter, 0, "attempt %d: no jitter", n)
		f.due(id)
	}
	f.told(remotely(f.lendOne(), store.Retry))
	f.wantStatus(message.StatusDead, id)
	l := f.letter(id)
	require.Equal(t, 16, l.AttemptsUsed)
	require.Equal(t, message.DecisionExhausted, l.Decision)
}

func remoteUnknown(t *testing.T, f *fixture) {
	m := f.lendAfter(store.NewMessage{})
	for _, verb := range []store.Verb{store.Succeed, store.Retry, store.Bury, store.Release} {
		for _, token := range []int64{0, m.LeaseToken} {
			s := remotely(m, verb)
			s.Token = token
			results, err := f.Store.SettleRemote(t.Context(), "other", []store.RemoteSettlement{s})
			require.NoError(t, err)
			require.ErrorIs(t, results[0], message.ErrNotFound)
			s.ID += 1000
			require.ErrorIs(t, f.tell(s)[0], message.ErrNotFound)
		}
	}
	f.wantStatus(message.StatusProcessing, m.ID)
}

// lendAfter stores a message and claims it.
func (f *fixture) lendAfter(m store.NewMessage) message.Message {
	f.t.Helper()
	id := f.put(m)
	got := f.lendOne()
	require.Equal(f.t, id, got.ID)
	return got
}

func remoteTokenless(t *testing.T, f *fixture) {
	verbs := []store.Verb{store.Succeed, store.Retry, store.Bury, store.Release}
	refused := func(id int64, current message.Status) {
		t.Helper()
		for _, verb := range verbs {
			f.wantState(f.tell(remotely(message.Message{ID: id}, verb))[0], current)
		}
	}
	for verb, want := range map[store.Verb]message.Status{
		store.Succeed: message.StatusSucceeded, store.Retry: message.StatusPending,
		store.Bury: message.StatusDead, store.Release: message.StatusPending,
	} {
		m := f.lendAfter(store.NewMessage{})
		s := remotely(m, verb)
		s.Token, s.Delay = 0, time.Hour
		f.told(s)
		f.wantStatus(want, m.ID)
		refused(m.ID, want)
	}
	id := f.put(store.NewMessage{})
	refused(id, message.StatusPending)
	require.Equal(t, id, f.worker().only("q").ID)
	f.told(remotely(message.Message{ID: id}, store.Succeed))
}

func remoteStale(t *testing.T, f *fixture) {
	first := f.lendAfter(store.NewMessage{})
	f.told(remotely(first, store.Release))
	second := f.lendOne()
	stale := func() {
		t.Helper()
		for _, verb := range []store.Verb{store.Succeed, store.Retry, store.Bury} {
			require.ErrorIs(t, f.tell(remotely(first, verb))[0], message.ErrLeaseLost)
		}
	}
	stale()
	f.wantStatus(message.StatusProcessing, first.ID)
	f.told(remotely(second, store.Retry))
	stale()
	f.due(first.ID)
	f.told(remotely(f.lendOne(), store.Succeed))
	stale()
	f.wantStatus(message.StatusSucceeded, first.ID)
}

func remoteRepeat(t *testing.T, f *fixture) {
	for _, verb := range []store.Verb{store.Succeed, store.Retry, store.Bury, store.Release} {
		m := f.lendAfter(store.NewMessage{})
		s := remotely(m, verb)
		if verb == store.Release {
			s.Delay = time.Hour
		}
		f.told(s)
		before := f.get(m.ID)
		f.told(s)
		f.told(s, s)
		require.Equal(t, before, f.get(m.ID), "once")
		for _, other := range []store.Verb{store.Succeed, store.Release, store.Bury} {
			if other != verb {
				require.ErrorIs(t, f.tell(remotely(m, other))[0], message.ErrLeaseLost)
			}
		}
	}
	m := f.lendAfter(store.NewMessage{})
	s := remotely(m, store.Succeed)
	f.told(s, s)
	m = f.lendAfter(store.NewMessage{})
	s.ID, s.Token = m.ID, 0
	results := f.tell(s, s)
	require.NoError(t, results[0])
	f.wantState(results[1], message.StatusSucceeded)
}

func remoteMixed(t *testing.T, f *fixture) {
	f.puts(5, store.NewMessage{MaxRetries: 1})
	got := f.lend(5)
	done := got[4]
	f.told(remotely(done, store.Succeed))
	stale, gone := remotely(got[3], store.Succeed), remotely(got[3], store.Retry)
	stale.Token++
	gone.ID += 1000
	tokenless := remotely(message.Message{ID: done.ID}, store.Retry)
	results := f.tell(
		remotely(got[2], store.Succeed), stale, remotely(got[1], store.Retry), tokenless, gone,
		remotely(got[0], store.Release), remotely(done, store.Succeed))
	require.NoError(t, results[0])
	require.ErrorIs(t, results[1], message.ErrLeaseLost)
	require.NoError(t, results[2])
	f.wantState(results[3], message.StatusSucceeded)
	require.ErrorIs(t, results[4], message.ErrNotFound)
	require.NoError(t, results[5])
	require.NoError(t, results[6])
	f.wantStatus(message.StatusSucceeded, got[2].ID, done.ID)
	f.wantStatus(message.StatusProcessing, got[3].ID)
	f.wantStatus(message.StatusDead, got[1].ID)
	f.wantStatus(message.StatusPending, got[0].ID)
	require.Empty(t, f.tell())
}

func remoteKey(t *testing.T, f *fixture) {
	keyed := store.NewMessage{IdempotencyKey: "k", Digest: "d"}
	m := f.lendAfter(keyed)
	f.told(remotely(m, store.Succeed))
	require.NotZero(t, f.put(keyed), "a window of 0 ends with the success")
}

func remoteReplay(t *testing.T, f *fixture) {
	m := f.lendAfter(store.NewMessage{MaxRetries: 2})
	f.told(remotely(m, store.Bury))
	require.NoError(t, f.Store.Replay(t.Context(), m.ID, store.Actor{Name: "a"}))
	back := f.get(m.ID)
	require.Equal(t, message.StatusPending, back.Status)
	require.Zero(t, back.RetryCount)
	require.Empty(t, back.LastError)
	require.Equal(t, 2, back.MaxRetries)
	require.Equal(t, m.LeaseToken, back.LeaseToken)
}
