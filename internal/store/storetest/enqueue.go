package storetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var enqueueProperties = []property{
	{"every field comes back", enqueueKeepsFields},
	{"defaults are those of the zero value", enqueueZero},
	{"ids ascend and never return", idsNeverReturn},
	{"an id beyond 32 bits lives a whole life", wideIDs},
	{"a delay counts from the database's now", enqueueDelay},
	{"a time in the future postpones", enqueueRunAt},
	{"a past or zero time means at once", enqueuePast},
	{"far times are kept", enqueueFar},
	{"expiry counts from when the message is due", enqueueExpiry},
	{"a message that nobody stored is not found", enqueueUnknown},
	{"sessions in different time zones agree", enqueueZones},
	{"a call whose context has ended changes nothing", enqueueCancelled},
	{"messages that come together are stored each as it is", enqueueTogether},
}

func enqueueKeepsFields(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{
		Queue: `a/b?c#d "é"`, Kind: "mail.welcome", Payload: `{"to":"a@example.com"}`,
		Priority: -9, MaxRetries: 7, Timeout: 90 * time.Second,
		IdempotencyKey: "order 42 ✓", Digest: "d", KeyWindow: time.Hour,
		Tenant: "acme", CorrelationID: "c-1", Headers: map[string]string{"h": "v", "empty": ""},
	})
	m := f.get(id)
	require.False(t, m.CreatedAt.IsZero())
	require.Equal(t, message.Message{
		ID: id, Queue: `a/b?c#d "é"`, Kind: "mail.welcome", Payload: `{"to":"a@example.com"}`,
		Status: message.StatusPending, Priority: -9, Attempt: 1, MaxRetries: 7, Timeout: 90 * time.Second,
		Headers: map[string]string{"h": "v", "empty": ""},
		Tenant:  "acme", CorrelationID: "c-1", IdempotencyKey: "order 42 ✓",
		CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt,
	}, m)

	w := f.worker()
	got := w.only(`a/b?c#d "é"`)
	require.Equal(t, id, got.ID)
	require.Equal(t, "mail.welcome", got.Kind)
	require.Equal(t, `{"to":"a@example.com"}`, got.Payload)
	require.Equal(t, -9, got.Priority)
	require.Equal(t, 7, got.MaxRetries)
	require.Equal(t, 90*time.Second, got.Timeout)
	require.Equal(t, map[string]string{"h": "v", "empty": ""}, got.Headers)
	require.Equal(t, "acme", got.Tenant)
	require.Equal(t, "c-1", got.CorrelationID)
	require.Equal(t, "order 42 ✓", got.IdempotencyKey)
	require.WithinDuration(t, m.CreatedAt, got.CreatedAt, 0)
	require.EqualValues(t, 1, got.LeaseToken)
}

func enqueueZero(t *testing.T, f *fixture) {
	in := f.insert(store.NewMessage{})
	require.True(t, in.RetryAfter.IsZero())
	m := f.get(in.ID)
	require.WithinDuration(t, in.CreatedAt, m.CreatedAt, 0)
	require.Equal(t, message.StatusPending, m.Status)
	require.Equal(t, 1, m.Attempt)
	require.Zero(t, m.RetryCount)
	require.Zero(t, m.Priority)
	require.Zero(t, m.Timeout)
	require.True(t, m.RetryAfter.IsZero())
	require.True(t, m.ExpiresAt.IsZero())
	require.True(t, m.Deadline.IsZero())
	require.Empty(t, m.Headers)
	require.Empty(t, m.Tenant)
	require.Empty(t, m.CorrelationID)
	require.Empty(t, m.IdempotencyKey)
	require.Empty(t, m.LastError)
	require.Zero(t, m.LeaseToken)
	require.Zero(t, m.WorkerID)
	require.False(t, m.UpdatedAt.IsZero())

	id := f.put(store.NewMessage{Timeout: -1})
	require.Negative(t, f.get(id).Timeout, "no timeout is not the worker's")
}

func idsNeverReturn(t *testing.T, f *fixture) {
	first := f.put(store.NewMessage{})
	more := f.puts(3, store.NewMessage{})
	last := f.put(store.NewMessage{})
	require.True(t, slices.IsSorted(more))
	require.Less(t, first, more[0])
	require.Less(t, more[2], last)

	w := f.worker()
	for _, c := range w.take("q", 10) {
		w.settle(succeed(c))
	}
	f.define("DELETE FROM {{s}}archive")
	require.Zero(t, f.total())
	again := f.put(store.NewMessage{})
	require.Greater(t, again, last, "also when every row is gone")
}

// PR sidekiq/sidekiq#7014, PR airbytehq/airbyte#15908: ids above 2^31 failed
// in one rarely used statement.
// Reported as graphile/worker#617.
func wideIDs(t *testing.T, f *fixture) {
	const beyond = 3_000_000_000
	first := f.put(store.NewMessage{})
	f.exec("UPDATE {{s}}messages SET id = ? WHERE id = ?", int64(beyond), first)
	w := f.worker()
	for _, verb := range []func(store.Claimed) store.Settlement{
		func(c store.Claimed) store.Settlement { return retry(c, 0) },
		func(c store.Claimed) store.Settlement { return release(c, 0) },
		func(c store.Claimed) store.Settlement { return snooze(c, 0) },
		bury,
	} {
		c := w.only("q")
		require.EqualValues(t, beyond, c.ID)
		w.settle(verb(c))
	}
	require.NoError(t, f.Store.Replay(t.Context(), beyond, store.Actor{Name: "a"}))
	c := w.only("q")
	_, err := f.Store.Extend(t.Context(), w.id, c.ID, c.LeaseToken, time.Minute)
	require.NoError(t, err)
	lost, err := f.Store.Lost(t.Context(), w.id, []store.Lease{{ID: c.ID, Token: c.LeaseToken}})
	require.NoError(t, err)
	require.Empty(t, lost)
	f.overdue(c.ID)
	require.Equal(t, []int64{beyond}, rescuedIDs(f.rescue()))
	f.due(beyond)
	w.settle(succeed(w.only("q")))
	f.wantStatus(message.StatusSucceeded, beyond)
	require.Len(t, f.attempts(beyond), 5)
}

func enqueueDelay(t *testing.T, f *fixture) {
	in := f.insert(store.NewMessage{Delay: time.Hour})
	require.WithinDuration(t, in.CreatedAt.Add(time.Hour), in.RetryAfter, time.Minute)
	require.WithinDuration(t, in.RetryAfter, f.get(in.ID).RetryAfter, 0)
	w := f.worker()
	require.Empty(t, w.take("q", 10))
	f.due(in.ID)
	require.Equal(t, []int64{in.ID}, claimedIDs(w.take("q", 10)))

	short := f.put(store.NewMessage{Queue: "short", Delay: 30 * time.Millisecond})
	require.Eventually(t, func() bool {
		got := w.take("short", 10)
		return len(got) == 1 && got[0].ID == short
	}, patience, 5*time.Millisecond)
}

func enqueueRunAt(t *testing.T, f *fixture) {
	// A zone whose offset is not whole hours: fastclaw-ai/fastclaw#86.
	at := time.Now().Add(90 * time.Minute).In(time.FixedZone("", 5*3600+45*60)).Truncate(time.Millisecond)
	in := f.insert(store.NewMessage{RunAt: at})
	require.WithinDuration(t, at, in.RetryAfter, 0)
	require.WithinDuration(t, at, f.get(in.ID).RetryAfter, 0)
	many := f.puts(2, store.NewMessage{RunAt: at})
	require.WithinDuration(t, at, f.get(many[1]).RetryAfter, 0)
	require.Empty(t, f.worker().take("q", 10))
}

// PR fastclaw-ai/fastclaw#86, raystack/entropy#91: a past time was read as an
// interval and ran years later.
func enqueuePast(t *testing.T, f *fixture) {
	var ids []int64
	for _, at := range []time.Time{
		time.Now().Add(-time.Hour), time.Unix(0, 0), time.Unix(-1, 0), time.Date(1, 2, 3, 4, 5, 6, 0, time.UTC), {},
	} {
		ids = append(ids, f.put(store.NewMessage{RunAt: at}))
		ids = append(ids, f.puts(2, store.NewMessage{RunAt: at})...)
	}
	ids = append(ids, f.put(store.NewMessage{Delay: 0}))
	got := claimedIDs(f.worker().take("q", 100))
	require.ElementsMatch(t, ids, got)
}

func enqueueFar(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{Delay: message.MaxDelay, ExpiresIn: message.MaxDelay, Timeout: message.MaxTimeout})
	m := f.get(id)
	require.WithinDuration(t, m.CreatedAt.Add(message.MaxDelay), m.RetryAfter, time.Hour)
	require.WithinDuration(t, m.RetryAfter.Add(message.MaxDelay), m.ExpiresAt, time.Hour)
	require.Equal(t, message.MaxTimeout, m.Timeout)
	f.due(id)
	w := f.worker()
	c := w.only("q")
	require.Equal(t, id, c.ID)
	w.settle(retry(c, message.MaxDelay))
	require.WithinDuration(t, m.RetryAfter, f.get(id).RetryAfter, time.Hour)
}

func enqueueExpiry(t *testing.T, f *fixture) {
	m := f.get(f.put(store.NewMessage{ExpiresIn: time.Hour}))
	require.WithinDuration(t, m.CreatedAt.Add(time.Hour), m.ExpiresAt, time.Minute)
	m = f.get(f.put(store.NewMessage{Delay: 2 * time.Hour, ExpiresIn: time.Hour}))
	require.WithinDuration(t, m.RetryAfter.Add(time.Hour), m.ExpiresAt, time.Minute)
	at := time.Now().Add(3 * time.Hour)
	m = f.get(f.puts(1, store.NewMessage{RunAt: at, ExpiresIn: time.Hour})[0])
	require.WithinDuration(t, at.Add(time.Hour), m.ExpiresAt, time.Minute)
	m = f.get(f.put(store.NewMessage{RunAt: time.Now().Add(-24 * time.Hour), ExpiresIn: time.Hour}))
	require.WithinDuration(t, m.CreatedAt.Add(time.Hour), m.ExpiresAt, time.Minute, "a past time is now")
}

func enqueueUnknown(t *testing.T, f *fixture) {
	for _, id := range []int64{0, -1, 1 << 31, 1<<53 + 1, math.MaxInt64} {
		_, err := f.Store.Get(t.Context(), id)
		require.ErrorIs(t, err, message.ErrNotFound)
		_, err = f.Store.Attempts(t.Context(), id, 10)
		require.ErrorIs(t, err, message.ErrNotFound)
		_, err = f.Store.Letter(t.Context(), id)
		require.ErrorIs(t, err, message.ErrNotFound)
	}
}

// Reopen may give its sessions another time zone.
// Reported as fastclaw-ai/fastclaw#86.
func enqueueZones(t *testing.T, f *fixture) {
	ctx := t.Context()
	elsewhere := f.Reopen(t)
	at := time.Now().Add(36 * time.Hour).Truncate(time.Millisecond)
	for _, m := range []store.NewMessage{{RunAt: at}, {Delay: 36 * time.Hour}, {RunAt: at, ExpiresIn: time.Hour}} {
		m = filled(m)
		in, err := elsewhere.Insert(ctx, nil, &m)
		require.NoError(t, err)
		require.WithinDuration(t, at, in.RetryAfter, time.Minute)
		here := f.get(in.ID)
		there, err := elsewhere.Get(ctx, in.ID)
		require.NoError(t, err)
		require.Equal(t, here, there)
		require.WithinDuration(t, time.Now(), here.CreatedAt, time.Minute)
		require.WithinDuration(t, in.RetryAfter, here.RetryAfter, 0)
		require.Equal(t, time.UTC, here.CreatedAt.Location())
	}
	now := filled(store.NewMessage{RunAt: time.Now().Add(-time.Second)})
	in, err := elsewhere.Insert(ctx, nil, &now)
	require.NoError(t, err)
	w := register(t, elsewhere)
	c := w.only("q")
	require.Equal(t, in.ID, c.ID)
	require.Empty(t, f.rescue(), "its lease is a lease here too")
	w.settle(retry(c, time.Hour))
	require.WithinDuration(t, time.Now().Add(time.Hour), f.get(c.ID).RetryAfter, time.Minute)
	f.due(c.ID)
	w.settle(succeed(w.only("q")))
	f.wantStatus(message.StatusSucceeded, c.ID)
}

func enqueueCancelled(t *testing.T, f *fixture) {
	id := f.put(store.NewMessage{})
	w := f.worker()
	c := w.only("q")
	f.put(store.NewMessage{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := filled(store.NewMessage{})
	_, err := f.Store.Insert(ctx, nil, &m)
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.Store.InsertMany(ctx, nil, copies(3, m))
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.Store.Settle(ctx, w.id, []store.Settlement{succeed(c)}, nil)
	require.ErrorIs(t, err, context.Canceled)
	_, err = w.cursor("q").Claim(ctx, store.ClaimRequest{Number: 99, Limit: 1})
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.Store.Get(ctx, id)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, f.Store.Cancel(ctx, id, ann), context.Canceled)
	_, err = f.Store.Rescue(ctx, 10)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, f.total())
	f.wantStatus(message.StatusProcessing, id)
	w.settle(succeed(c))
	require.Len(t, w.take("q", 10), 1)
}

// Messages that come one by one at the same time may share a statement. Each
// keeps its own fields, and none pays for what is wrong with another.
func enqueueTogether(t *testing.T, f *fixture) {
	const senders, each = 24, 8
	type sent struct {
		want message.Message
		err  error
	}
	results := make([]sent, senders*each)
	begin := make(chan struct{})
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			<-begin
			for n := range each {
				i := s*each + n
				results[i].want, results[i].err = f.sendOdd(i)
			}
		})
	}
	close(begin)
	all.Wait()

	ids := map[int64]struct{}{}
	refused := 0
	for i, r := range results {
		if i%16 == 15 && f.Engine.Name == PostgreSQL.Name { // SQLite would store it
			require.Error(t, r.err, "message %d holds what no text can", i)
			refused++
			continue
		}
		require.NoError(t, r.err, "message %d", i)
		got := f.get(r.want.ID)
		require.WithinDuration(t, r.want.RetryAfter, got.RetryAfter, time.Microsecond, "message %d", i)
		require.Equal(t, r.want.ExpiresAt.IsZero(), got.ExpiresAt.IsZero(), "message %d", i)
		r.want.RetryAfter, r.want.ExpiresAt, r.want.UpdatedAt = got.RetryAfter, got.ExpiresAt, got.UpdatedAt
		require.Equal(t, r.want, got, "message %d", i)
		ids[got.ID] = struct{}{}
	}
	require.Len(t, ids, senders*each-refused)
	require.Equal(t, len(ids), f.total(), "nothing is stored twice")
}

// sendOdd stores the i-th of a row of messages that have little in common, and
// returns it as it should come back.
func (f *fixture) sendOdd(i int) (message.Message, error) {
	m := store.NewMessage{
		Queue: fmt.Sprintf("q%d", i%3), Kind: fmt.Sprintf("k%d", i%2), Payload: fmt.Sprintf(`{"i":%d}`, i),
		MaxRetries: 1 + i%7,
	}
	switch i % 16 {
	case 3:
		m.Priority, m.Timeout = -2, 3*time.Second
	case 5:
		m.Tenant, m.Headers = "acme", map[string]string{"a": `"\`, "ü": ""}
	case 7:
		m.Delay = time.Hour
	case 9:
		m.RunAt, m.ExpiresIn = time.Now().Add(2*time.Hour).Truncate(time.Microsecond), time.Hour
	case 11:
		m.CorrelationID = "c"
	case 15:
		m.Payload = "a\xff\x00"
	}
	in, err := f.Store.Insert(f.t.Context(), nil, &m)
	want := message.Message{
		ID: in.ID, Queue: m.Queue, Kind: m.Kind, Payload: m.Payload, Status: message.StatusPending,
		Priority: m.Priority, Attempt: 1, MaxRetries: m.MaxRetries, Timeout: m.Timeout, Headers: m.Headers,
		Tenant: m.Tenant, CorrelationID: m.CorrelationID, RetryAfter: in.RetryAfter, CreatedAt: in.CreatedAt,
	}
	if m.ExpiresIn > 0 {
		want.ExpiresAt = in.RetryAfter.Add(m.ExpiresIn)
	}
	return want, err
}
