package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	client "github.com/styxmq/styx/client/sqlite"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/store/sqlite"
	"github.com/styxmq/styx/internal/testdb"
)

func newMessage(key string) store.NewMessage {
	return store.NewMessage{
		Queue: "q", Kind: "k", Payload: "{}", MaxRetries: 3,
		IdempotencyKey: key, Digest: "d", KeyWindow: time.Hour,
	}
}

func TestEnqueuesAreGrouped(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	// Statements of one transaction share created_at, since the clock is
	// read once for it.
	const callers, each = 16, 50
	held := newMessage("held")
	holder, err := s.Insert(t.Context(), nil, &held)
	require.NoError(t, err)
	var wg sync.WaitGroup
	ids := make([][]int64, callers)
	refused := make([]int, callers)
	errs := make([]error, callers)
	for i := range callers {
		wg.Go(func() {
			for n := range each {
				key := ""
				if i == 3 {
					key = "held"
				} else if n%5 == 0 {
					key = fmt.Sprint(i, " ", n)
				}
				m := newMessage(key)
				in, err := s.Insert(t.Context(), nil, &m)
				if d, ok := errors.AsType[*message.DuplicateError](err); ok && d.ID == holder.ID {
					refused[i]++
					continue
				}
				errs[i] = errors.Join(errs[i], err)
				ids[i] = append(ids[i], in.ID)
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		require.NoError(t, err)
		if i == 3 {
			require.Equal(t, each, refused[i], "the duplicates alone fail")
			continue
		}
		require.Zero(t, refused[i])
		require.True(t, slices.IsSorted(ids[i]))
	}
	all := slices.Concat(ids...)
	slices.Sort(all)
	require.Len(t, slices.Compact(all), (callers-1)*each)
	require.Equal(t, (callers-1)*each+1, count(t, db, "SELECT count(*) FROM styx_all_messages"))
	require.Less(t, count(t, db, "SELECT count(DISTINCT created_at) FROM styx_contents"), callers*each, "some were written together")
}

func count(tb testing.TB, db testdb.DB, query string, args ...any) (n int) {
	tb.Helper()
	require.NoError(tb, db.DB.DB.QueryRowContext(tb.Context(), query, args...).Scan(&n), query)
	return n
}

// While another transaction has the write lock, a caller whose context ends
// gets its error at once, and what it wanted to store is not stored later.
func TestEnqueueHonoursItsContext(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "DELETE FROM styx_audit_log")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() {
		m := newMessage("gone")
		_, err := s.Insert(ctx, nil, &m)
		errs <- err
	}()
	cancel()
	require.ErrorIs(t, <-errs, context.Canceled)
	patient := make(chan error, 1)
	go func() {
		m := newMessage("kept")
		_, err := s.Insert(t.Context(), nil, &m)
		patient <- err
	}()
	require.NoError(t, tx.Commit())
	require.NoError(t, <-patient)
	require.Equal(t, 1, count(t, db, "SELECT count(*) FROM styx_messages"))
}

func TestIDsNeverComeBack(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	worker := register(t, s)
	var last int64
	for range 3 {
		m := newMessage("")
		in, err := s.Insert(t.Context(), nil, &m)
		require.NoError(t, err)
		require.Greater(t, in.ID, last)
		last = in.ID
		got := claim(t, s, worker, 10)
		require.Len(t, got, 1)
		results, err := s.Settle(t.Context(), worker, []store.Settlement{{ID: in.ID, Token: 1, Verb: store.Succeed}}, nil)
		require.NoError(t, err)
		require.NoError(t, results[0])
		_, err = db.ExecContext(t.Context(), "UPDATE styx_archive SET finished_at = 1")
		require.NoError(t, err)
		done, _, err := s.Retain(t.Context(), store.Retention{Archive: time.Hour, Batch: 10})
		require.NoError(t, err)
		require.Equal(t, 1, done.Archived, "no row is left")
		require.Zero(t, count(t, db, "SELECT count(*) FROM styx_contents"))
	}
}

var numbers struct {
	sync.Mutex
	last int64
}

func register(tb testing.TB, s *sqlite.Store) int64 {
	tb.Helper()
	id, err := s.Register(tb.Context(), store.WorkerInfo{Name: "w", Lease: time.Hour})
	require.NoError(tb, err)
	return id
}

func claim(tb testing.TB, s *sqlite.Store, worker int64, limit int) []store.Claimed {
	tb.Helper()
	numbers.Lock()
	numbers.last++
	number := numbers.last
	numbers.Unlock()
	c := s.Cursor(store.CursorSpec{WorkerID: worker, Queue: "q", Timeout: time.Minute, Lease: time.Hour})
	b, err := c.Claim(tb.Context(), store.ClaimRequest{Number: number, Limit: limit})
	require.NoError(tb, err)
	return b.Messages
}

// A transaction that SQLite has rolled back by itself would take the message
// as one of its own.
func TestTransactionThatIsGoneIsRefused(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.Tx.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	m := newMessage("")
	_, err = s.Insert(t.Context(), tx, &m)
	require.ErrorIs(t, err, message.ErrTxDone)
	_, err = s.InsertMany(t.Context(), tx, []store.NewMessage{m})
	require.ErrorIs(t, err, message.ErrTxDone)
	_ = tx.Rollback()
	require.Zero(t, count(t, db, "SELECT count(*) FROM styx_all_messages"))
}

// In a transaction that began with a read, as a pool without _txlock has
// them, a commit of somebody else in between is a conflict, not a hang.
func TestOldSnapshotIsAConflict(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	c, err := db.DB.DB.Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	exec := func(query string) {
		t.Helper()
		_, err := c.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
	m := newMessage("")
	exec("BEGIN")
	_, err = s.Insert(t.Context(), c, &m)
	require.NoError(t, err, "its first statement takes the newest state")
	exec("COMMIT")
	exec("BEGIN")
	var n int
	require.NoError(t, c.QueryRowContext(t.Context(), "SELECT count(*) FROM styx_messages").Scan(&n))
	_, err = s.Insert(t.Context(), nil, &m)
	require.NoError(t, err)
	_, err = s.Insert(t.Context(), c, &m)
	require.ErrorIs(t, err, store.ErrContention)
	exec("ROLLBACK")
	require.Equal(t, 2, count(t, db, "SELECT count(*) FROM styx_all_messages"))
}

// A transaction of another pool on the same file serves as well, also when
// the statements have been prepared on the store's own.
func TestTransactionOfAnotherPool(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	m := newMessage("")
	for range 5 {
		_, err := s.Insert(t.Context(), nil, &m)
		require.NoError(t, err)
	}
	again, err := client.Open(t.Context(), db.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, again.Close()) }()
	tx, err := again.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = s.Insert(t.Context(), tx, &m)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.Equal(t, 6, count(t, db, "SELECT count(*) FROM styx_all_messages"))
}
