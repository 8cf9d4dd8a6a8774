package client

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var fakeNow = time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)

// fakeStore records what reaches the database. A method that a test has not
// provided for is nil and panics.
type fakeStore struct {
	store.Store

	mu       sync.Mutex
	calls    int
	inserted []store.NewMessage
	conns    []bun.IConn
	// errs are returned by the calls that change something, one each.
	errs []error

	list    func(store.ListQuery) (store.ListPage, error)
	letters func(store.LetterQuery) ([]message.DeadLetter, error)
	purge   func(store.PurgeQuery) (int, error)
}

func (f *fakeStore) next() error {
	f.calls++
	if len(f.errs) == 0 {
		return nil
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	return err
}

func (f *fakeStore) Insert(_ context.Context, conn bun.IConn, m *store.NewMessage) (store.Inserted, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, conn)
	if err := f.next(); err != nil {
		return store.Inserted{}, err
	}
	return f.insert(*m), nil
}

func (f *fakeStore) InsertMany(_ context.Context, conn bun.IConn, ms []store.NewMessage) ([]store.Inserted, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, conn)
	if err := f.next(); err != nil {
		return nil, err
	}
	var out []store.Inserted
	for _, m := range ms {
		out = append(out, f.insert(m))
	}
	return out, nil
}

func (f *fakeStore) insert(m store.NewMessage) store.Inserted {
	f.inserted = append(f.inserted, m)
	in := store.Inserted{ID: int64(len(f.inserted)), CreatedAt: fakeNow}
	if m.Delay > 0 {
		in.RetryAfter = fakeNow.Add(m.Delay)
	}
	return in
}

func (f *fakeStore) List(_ context.Context, q store.ListQuery) (store.ListPage, error) {
	return f.list(q)
}

func (f *fakeStore) Letters(_ context.Context, q store.LetterQuery) ([]message.DeadLetter, error) {
	return f.letters(q)
}

func (f *fakeStore) Purge(_ context.Context, q store.PurgeQuery, _ store.Actor) (int, error) {
	if err := f.next(); err != nil {
		return 0, err
	}
	return f.purge(q)
}

func (f *fakeStore) Cancel(context.Context, int64, store.Actor) error  { return f.next() }
func (f *fakeStore) Replay(context.Context, int64, store.Actor) error  { return f.next() }
func (f *fakeStore) Resolve(context.Context, int64, store.Actor) error { return f.next() }

// fakeClient returns a client on a fake store.
func fakeClient(t *testing.T, cfg Config) (*Client, *fakeStore) {
	t.Helper()
	require.NoError(t, cfg.check().err())
	f := new(fakeStore)
	return newClient(f, cfg), f
}

// requireInvalid asserts that err is a refusal of the field with the code.
func requireInvalid(t *testing.T, err error, field, code string) {
	t.Helper()
	var invalid *message.ValidationError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, field, invalid.Field, invalid.Message)
	require.Equal(t, code, invalid.Code, invalid.Message)
}

type note struct {
	Text string `json:"text"`
}

func (note) Kind() string { return "note" }

var errBroken = errors.New("broken")
