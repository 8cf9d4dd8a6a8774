package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var letterProperties = []property{
	{"a letter carries everything", letterCarries},
	{"a letter of a first failure and of the last", letterTimes},
	{"letters are listed newest first, page by page", letterPages},
	{"letters are filtered", letterFilters},
	{"a message that dies again has another letter", letterAgain},
	{"cancel ends a pending message as a resolved letter", letterCancel},
	{"resolve closes a letter", letterResolve},
	{"what is not dead cannot be resolved", letterResolveStates},
	{"what is not pending cannot be cancelled", letterCancelStates},
}

func letterCarries(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{
		Queue: "mail", Kind: "welcome", Payload: `{"to": "a@example.com"}`, Priority: -3, MaxRetries: 4,
		Timeout: 90 * time.Second, ExpiresIn: 24 * time.Hour, IdempotencyKey: "k", Digest: "d", KeyWindow: time.Hour,
		Tenant: "acme", CorrelationID: "c-1", Headers: map[string]string{"traceparent": "00-x"},
	})
	enqueued := f.get(id)
	w := f.worker()
	w.settle(snooze(w.only("mail"), 0))
	w.settle(retry(w.only("mail"), 0))
	s := bury(w.only("mail"))
	w.settle(s)
	l := f.letter(id)
	m := f.get(id)
	require.Equal(t, message.StatusDead, m.Status)
	require.Equal(t, m, l.Message)
	require.Equal(t, message.Message{
		ID: id, Queue: "mail", Kind: "welcome", Payload: `{"to": "a@example.com"}`, Status: message.StatusDead, Priority: -3,
		Attempt: m.Attempt, RetryCount: 2, MaxRetries: 4, Timeout: 90 * time.Second, ExpiresAt: enqueued.ExpiresAt,
		LastError: s.Failure.Message, Headers: enqueued.Headers, Tenant: "acme", CorrelationID: "c-1", IdempotencyKey: "k",
		LeaseToken: 3, Snoozes: 1, CreatedAt: enqueued.CreatedAt, UpdatedAt: m.UpdatedAt, WorkerID: w.id,
	}, l.Message)
	require.Positive(t, l.LetterID)
	require.Equal(t, message.DecisionPoison, l.Decision)
	require.Equal(t, message.FailurePermanent, l.FailureKind)
	require.Equal(t, s.Failure.Class, l.ErrorClass)
	require.Equal(t, s.Failure.Message, l.ErrorMessage)
	require.Equal(t, s.Failure.Stack, l.Stack)
	require.Equal(t, s.Failure.Fingerprint, l.Fingerprint)
	require.Equal(t, s.Failure.Version, l.WorkerVersion)
	require.Equal(t, s.Failure.TraceID, l.TraceID)
	require.Equal(t, 2, l.AttemptsUsed)
	require.False(t, l.DeadAt.IsZero())
	require.True(t, l.ResolvedAt.IsZero())
	require.Empty(t, l.Resolution)
	require.Empty(t, l.ResolvedBy)
	require.Empty(t, l.ResolveReason)
}

func letterTimes(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{})
	w := f.worker()
	w.settle(retry(w.only("q"), 0))
	f.exec("UPDATE {{s}}attempts SET finished_at = " + f.Engine.Ago(time.Hour))
	first := f.attempts(id)[0].FinishedAt
	w.settle(bury(w.only("q")))
	l := f.letter(id)
	require.WithinDuration(t, first, l.FirstFailedAt, 0)
	require.WithinDuration(t, first.Add(time.Hour), l.LastFailedAt, time.Minute)
	require.WithinDuration(t, l.LastFailedAt, l.DeadAt, 0)

	l = f.letter(f.kill(store.NewMessage{}))
	require.WithinDuration(t, l.DeadAt, l.FirstFailedAt, 0)
	require.WithinDuration(t, l.DeadAt, l.LastFailedAt, 0)
}

// letterIDs reads every page.
func (f *fixture) letterIDs(q store.LetterQuery) []int64 {
	f.t.Helper()
	var ids []int64
	for {
		page, err := f.Store.Letters(f.t.Context(), q)
		require.NoError(f.t, err)
		require.LessOrEqual(f.t, len(page), q.Limit)
		for _, l := range page {
			if q.After != 0 {
				require.Less(f.t, l.LetterID, q.After, "newest first")
			}
			q.After = l.LetterID
			ids = append(ids, l.ID)
		}
		if len(page) < q.Limit {
			return ids
		}
	}
}

func letterPages(t *testing.T, f *fixture) {
	f.puts(25, store.NewMessage{})
	w := f.worker()
	var want []int64
	for _, c := range w.take("q", 25) {
		w.settle(bury(c))
		want = append([]int64{c.ID}, want...)
	}
	for _, limit := range []int{1, 7, 25, 1000} {
		require.Equal(t, want, f.letterIDs(store.LetterQuery{Limit: limit}))
	}
	require.Empty(t, f.letterIDs(store.LetterQuery{Limit: 10, Resolved: true}))
}

func letterFilters(t *testing.T, f *fixture) {
	w := f.worker()
	die := func(m store.NewMessage, change func(*store.Failure)) int64 {
		t.Helper()
		id := f.put(m)
		s := bury(w.only(filled(m).Queue))
		change(s.Failure)
		w.settle(s)
		return id
	}
	same := func(*store.Failure) {}
	plain := die(store.NewMessage{}, same)
	queue := die(store.NewMessage{Queue: "other"}, same)
	kind := die(store.NewMessage{Kind: "other"}, same)
	tenant := die(store.NewMessage{Tenant: "other"}, same)
	class := die(store.NewMessage{}, func(f *store.Failure) { f.Class = "other" })
	finger := die(store.NewMessage{}, func(f *store.Failure) { f.Fingerprint = "other" })
	decision := die(store.NewMessage{}, func(f *store.Failure) { f.Decision = message.DecisionQuarantined })
	resolved := die(store.NewMessage{Queue: "other"}, same)
	require.NoError(t, f.Store.Resolve(t.Context(), resolved, store.Actor{Name: "a"}))
	for _, c := range []struct {
		q    store.LetterQuery
		want []int64
	}{
		{store.LetterQuery{}, []int64{decision, finger, class, tenant, kind, queue, plain}},
		{store.LetterQuery{Queue: "other"}, []int64{queue}},
		{store.LetterQuery{Kind: "other"}, []int64{kind}},
		{store.LetterQuery{Tenant: "other"}, []int64{tenant}},
		{store.LetterQuery{ErrorClass: "other"}, []int64{class}},
		{store.LetterQuery{Fingerprint: "other"}, []int64{finger}},
		{store.LetterQuery{Decision: message.DecisionQuarantined}, []int64{decision}},
		{store.LetterQuery{Resolved: true}, []int64{resolved}},
		{store.LetterQuery{Resolved: true, Queue: "other"}, []int64{resolved}},
		{store.LetterQuery{Resolved: true, Queue: "q"}, nil},
		{store.LetterQuery{Queue: "other", Kind: "other"}, nil},
		{store.LetterQuery{Queue: "nobody"}, nil},
	} {
		c.q.Limit = 3
		require.Equal(t, c.want, f.letterIDs(c.q), "%+v", c.q)
	}
}

func letterAgain(t *testing.T, f *fixture) {
	id := f.kill(store.NewMessage{})
	first := f.letter(id)
	require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a", Reason: "fixed"}))
	w := f.worker()
	w.settle(bury(w.only("q")))
	second := f.letter(id)
	require.Greater(t, second.LetterID, first.LetterID, "the newest")
	require.True(t, second.ResolvedAt.IsZero())
	require.Equal(t, 1, second.ReplayCount)
	require.Equal(t, 1, second.AttemptsUsed)
	require.EqualValues(t, 2, second.LeaseToken)
	require.Equal(t, []int64{id}, f.letterIDs(store.LetterQuery{Limit: 10}))
	require.Equal(t, []int64{id}, f.letterIDs(store.LetterQuery{Limit: 10, Resolved: true}), "the old one is kept")
	require.Equal(t, 1, f.total())
}

func letterCancel(t *testing.T, f *fixture) {
	ready := f.put(store.NewMessage{Payload: "p"})
	scheduled := f.put(store.NewMessage{Delay: time.Hour})
	for _, id := range []int64{ready, scheduled} {
		require.NoError(t, f.Store.Cancel(t.Context(), id, store.Actor{Name: "ann", Reason: "wrong address"}))
		f.wantStatus(message.StatusDead, id)
		l := f.letter(id)
		require.Equal(t, message.DecisionCancelled, l.Decision)
		require.Equal(t, message.ResolutionCancelled, l.Resolution)
		require.Equal(t, "ann", l.ResolvedBy)
		require.Equal(t, "wrong address", l.ResolveReason)
		require.False(t, l.ResolvedAt.IsZero())
		require.Zero(t, l.AttemptsUsed)
	}
	require.Equal(t, "p", f.letter(ready).Payload)
	require.Empty(t, f.letterIDs(store.LetterQuery{Limit: 10}), "nobody need look at them")
	require.Empty(t, f.worker().takeAny("q", 10))
	require.Equal(t, 2, f.count("SELECT count(*) FROM {{s}}audit_log WHERE actor = 'ann'"))
}

func letterResolve(t *testing.T, f *fixture) {
	id := f.kill(store.NewMessage{})
	require.NoError(t, f.Store.Resolve(t.Context(), id, store.Actor{Name: "ann", Reason: "by hand"}))
	f.wantStatus(message.StatusDead, id)
	l := f.letter(id)
	require.Equal(t, message.ResolutionResolved, l.Resolution)
	require.Equal(t, "ann", l.ResolvedBy)
	require.Equal(t, "by hand", l.ResolveReason)
	require.False(t, l.ResolvedAt.IsZero())
	require.Equal(t, message.DecisionPoison, l.Decision)
	require.Len(t, f.attempts(id), 1)
	require.Equal(t, 1, f.count("SELECT count(*) FROM {{s}}audit_log WHERE actor = 'ann' AND message_id = ?", id))
}

// wantState checks that an operation is refused because of the status.
func wantState(t *testing.T, err error, id int64, current message.Status) {
	t.Helper()
	var state *message.StateError
	require.ErrorAs(t, err, &state)
	require.Equal(t, id, state.ID)
	require.Equal(t, current, state.Current)
	require.NotEmpty(t, state.Operation)
}

// inEachState returns a message in each state but dead.
func (f *fixture) inEachState() map[message.Status]int64 {
	f.t.Helper()
	w := f.worker()
	done := f.put(store.NewMessage{})
	w.settle(succeed(w.only("q")))
	held := f.put(store.NewMessage{})
	w.only("q")
	return map[message.Status]int64{
		message.StatusSucceeded: done, message.StatusProcessing: held, message.StatusPending: f.put(store.NewMessage{}),
	}
}

func letterResolveStates(t *testing.T, f *fixture) {
	for status, id := range f.inEachState() {
		wantState(t, f.Store.Resolve(t.Context(), id, store.Actor{Name: "a"}), id, status)
		f.wantStatus(status, id)
	}
	require.ErrorIs(t, f.Store.Resolve(t.Context(), 1<<40, store.Actor{Name: "a"}), message.ErrNotFound)
	replayed := f.kill(store.NewMessage{Queue: "r"})
	require.NoError(t, f.Store.Replay(t.Context(), replayed, store.Actor{Name: "a"}))
	wantState(t, f.Store.Resolve(t.Context(), replayed, store.Actor{Name: "a"}), replayed, message.StatusPending)
}

func letterCancelStates(t *testing.T, f *fixture) {
	for status, id := range f.inEachState() {
		if status != message.StatusPending {
			wantState(t, f.Store.Cancel(t.Context(), id, store.Actor{Name: "a"}), id, status)
			f.wantStatus(status, id)
		}
	}
	dead := f.kill(store.NewMessage{Queue: "d"})
	wantState(t, f.Store.Cancel(t.Context(), dead, store.Actor{Name: "a"}), dead, message.StatusDead)
	require.True(t, f.letter(dead).ResolvedAt.IsZero())
	require.ErrorIs(t, f.Store.Cancel(t.Context(), 1<<40, store.Actor{Name: "a"}), message.ErrNotFound)
}
