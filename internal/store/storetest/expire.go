package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var expireProperties = []property{
	{"an expired message is not handed out", expireNotClaimed},
	{"Expire buries what has expired, and only that", expireBuries},
	{"at most limit expire in a call", expireLimit},
	{"a held message does not expire", expireHeld},
	{"an expired message keeps its key until somebody acts", expireKey},
	{"an expired message can be replayed", expireReplay},
	{"it expires by itself", expireByItself},
}

func (f *fixture) expireNow(ids ...int64) {
	f.t.Helper()
	for _, id := range ids {
		f.exec("UPDATE {{s}}messages SET expires_at = "+f.Engine.Ago(time.Second)+" WHERE id = ?", id)
	}
}

func expireNotClaimed(t *testing.T, f *fixture) {
	ready := f.put(store.NewMessage{ExpiresIn: time.Hour})
	due := f.put(store.NewMessage{ExpiresIn: time.Hour, Delay: time.Hour})
	suspect := f.suspects(1, store.NewMessage{ExpiresIn: time.Hour, Queue: "s"})[0]
	f.due(due)
	f.expireNow(ready, due, suspect)
	later := f.puts(3, store.NewMessage{ExpiresIn: time.Hour})
	w := f.worker()
	require.Equal(t, later, claimedIDs(w.takeAny("q", 10)))
	require.Empty(t, w.takeAny("s", 10))
	f.wantStatus(message.StatusPending, ready, due, suspect)
}

func expireBuries(t *testing.T, f *fixture) {
	ready := f.put(store.NewMessage{ExpiresIn: time.Hour, Payload: "p", Headers: map[string]string{"h": "v"}, MaxRetries: 4})
	scheduled := f.put(store.NewMessage{ExpiresIn: time.Hour, Delay: time.Hour})
	live := f.put(store.NewMessage{ExpiresIn: time.Hour})
	never := f.put(store.NewMessage{})
	rescued, err := f.Store.Expire(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, rescued)
	f.expireNow(ready, scheduled)
	rescued, err = f.Store.Expire(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, []int64{ready, scheduled}, rescuedIDs(rescued))
	for _, r := range rescued {
		require.Equal(t, message.DecisionExpired, r.Decision)
		require.True(t, r.Dead)
		require.Equal(t, "q", r.Queue)
	}
	f.wantStatus(message.StatusDead, ready, scheduled)
	f.wantStatus(message.StatusPending, live, never)
	l := f.letter(ready)
	require.Equal(t, message.DecisionExpired, l.Decision)
	require.Zero(t, l.AttemptsUsed)
	require.Equal(t, "p", l.Payload)
	require.Equal(t, map[string]string{"h": "v"}, l.Headers)
	require.Equal(t, 4, l.MaxRetries)
	require.False(t, l.DeadAt.IsZero())
	require.True(t, l.ResolvedAt.IsZero(), "it waits for somebody")
	rescued, err = f.Store.Expire(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, rescued)
}

func expireLimit(t *testing.T, f *fixture) {
	f.puts(25, store.NewMessage{ExpiresIn: time.Hour})
	f.exec("UPDATE {{s}}messages SET expires_at = " + f.Engine.Ago(time.Second))
	for _, want := range []int{10, 10, 5, 0} {
		rescued, err := f.Store.Expire(t.Context(), 10)
		require.NoError(t, err)
		require.Len(t, rescued, want)
	}
}

func expireHeld(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{ExpiresIn: time.Hour})
	w := f.worker()
	c := w.only("q")
	f.expireNow(id)
	rescued, err := f.Store.Expire(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, rescued)
	w.settle(succeed(c))
	f.wantStatus(message.StatusSucceeded, id)
}

func expireKey(t *testing.T, f *fixture) {
	m := keyed("k")
	m.ExpiresIn = time.Hour
	id := f.put(m)
	f.expireNow(id)
	_, err := f.Store.Expire(t.Context(), 10)
	require.NoError(t, err)
	f.wantHeld("k", id)
	require.NoError(t, f.Store.Resolve(t.Context(), id, store.Actor{Name: "a"}))
	f.put(m)
}

func expireReplay(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{ExpiresIn: time.Hour})
	f.expireNow(id)
	_, err := f.Store.Expire(t.Context(), 10)
	require.NoError(t, err)
	require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}))
	rescued, err := f.Store.Expire(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, rescued, "whoever replays wants it to run")
	require.Equal(t, id, f.worker().only("q").ID)
}

func expireByItself(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{ExpiresIn: 20 * time.Millisecond})
	require.Eventually(t, func() bool {
		rescued, err := f.Store.Expire(t.Context(), 10)
		require.NoError(t, err)
		return len(rescued) == 1 && rescued[0].ID == id
	}, patience, 5*time.Millisecond)
}
