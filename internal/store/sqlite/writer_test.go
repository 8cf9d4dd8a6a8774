package sqlite_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

func beatOf(worker int64) store.Beat { return store.Beat{WorkerID: worker} }

// hold keeps SQLite's write lock until the returned function is called.
func hold(t *testing.T, begin func(context.Context, string) error) (let func()) {
	t.Helper()
	require.NoError(t, begin(t.Context(), "BEGIN IMMEDIATE"))
	return func() { require.NoError(t, begin(t.Context(), "COMMIT")) }
}

// Every writer gives up with its context, whether it waits for SQLite's lock or
// behind one of its own process that does.
func TestWritersHonourTheirContext(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	worker := register(t, s)
	c, err := db.DB.DB.Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	let := hold(t, func(ctx context.Context, query string) error {
		_, err := c.ExecContext(ctx, query)
		return err
	})
	m := newMessage("")
	p, err := s.Pulse(t.Context())
	require.NoError(t, err)
	writers := []func(context.Context) error{
		func(ctx context.Context) error { _, err := s.Insert(ctx, nil, &m); return err },
		func(ctx context.Context) error {
			_, err := s.InsertMany(ctx, nil, []store.NewMessage{m})
			return err
		},
		func(ctx context.Context) error { _, err := s.Register(ctx, store.WorkerInfo{}); return err },
		func(ctx context.Context) error {
			_, err := s.Settle(ctx, worker, []store.Settlement{{ID: 1, Verb: store.Succeed}}, nil)
			return err
		},
		func(ctx context.Context) error { return s.Cancel(ctx, 1, store.Actor{}) },
		func(ctx context.Context) error { _, err := p.Beat(ctx, beatOf(worker)); return err },
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	errs := make(chan error)
	for _, write := range writers {
		go func() { errs <- write(ctx) }()
	}
	for range writers {
		require.ErrorIs(t, <-errs, context.DeadlineExceeded)
	}
	let()
	for _, write := range writers[:3] {
		require.NoError(t, write(t.Context()))
	}
	_, err = p.Beat(t.Context(), beatOf(worker))
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

// A pool that does not wait for locks by itself is waited for.
func TestWaitsWithoutBusyTimeout(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	other := reopen(t, db)
	db.SetMaxOpenConns(1)
	_, err := db.ExecContext(t.Context(), "PRAGMA busy_timeout = 0")
	require.NoError(t, err)
	tx, begun := make(chan struct{}), make(chan error, 1)
	go func() {
		ms := make([]store.NewMessage, 2000)
		for i := range ms {
			ms[i] = newMessage("")
		}
		close(tx)
		_, err := other.InsertMany(t.Context(), nil, ms)
		begun <- err
	}()
	<-tx
	m := newMessage("")
	for range 20 {
		_, err := s.Insert(t.Context(), nil, &m)
		require.NoError(t, err)
	}
	require.NoError(t, <-begun)
}

// An error in the middle of a transaction gives the lock and the connection
// back, and takes what it has written from the caller's.
func TestErrorsLeaveTheWriterUsable(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	_, err := db.ExecContext(t.Context(), `CREATE TRIGGER no BEFORE INSERT ON styx_contents WHEN new.payload = 'no'
	BEGIN SELECT raise(ABORT, 'no'); END`)
	require.NoError(t, err)
	bad := newMessage("")
	bad.Payload = "no"
	for range 20 {
		_, err = s.Insert(t.Context(), nil, &bad)
		require.Error(t, err)
		require.NotErrorIs(t, err, message.ErrSchemaMissing)
		_, err = s.InsertMany(t.Context(), nil, []store.NewMessage{newMessage(""), bad})
		require.Error(t, err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	good := newMessage("kept")
	_, err = s.Insert(t.Context(), tx, &good)
	require.NoError(t, err)
	_, err = s.InsertMany(t.Context(), tx, []store.NewMessage{newMessage("lost"), bad})
	require.Error(t, err)
	require.NoError(t, tx.Commit())
	require.Equal(t, 1, count(t, db, "SELECT count(*) FROM styx_messages"))
	require.Equal(t, 1, count(t, db, "SELECT count(*) FROM styx_contents"))
	require.Equal(t, 1, count(t, db, "SELECT count(*) FROM styx_keys"))
}

func TestPrepareCutsTheLogBack(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	db.SetMaxOpenConns(1)
	_, err := db.ExecContext(t.Context(), "PRAGMA wal_autocheckpoint = 0")
	require.NoError(t, err)
	size := func() int64 {
		info, err := os.Stat(db.URL + "-wal")
		require.NoError(t, err)
		return info.Size()
	}
	large := newMessage("")
	large.Payload = strings.Repeat("x", 1<<20)
	_, err = s.InsertMany(t.Context(), nil, []store.NewMessage{large})
	require.NoError(t, err)
	require.NoError(t, s.Prepare(t.Context()))
	require.Greater(t, size(), int64(1<<20), "a log of this size is left alone")
	for range 10 {
		_, err = s.InsertMany(t.Context(), nil, slices.Repeat([]store.NewMessage{large}, 7))
		require.NoError(t, err)
	}
	require.NoError(t, s.Prepare(t.Context()))
	require.Zero(t, size())
	require.Equal(t, 10_000, count(t, db, "PRAGMA busy_timeout"))
	require.Equal(t, 71, count(t, db, "SELECT count(*) FROM styx_messages"))
}
