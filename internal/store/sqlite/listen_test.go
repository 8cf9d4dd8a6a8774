package sqlite_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store/sqlite"
)

// patience bounds every wait for an event.
const patience = 20 * time.Second

// listen returns what the store wakes for, once it listens.
func listen(t *testing.T, s *sqlite.Store) <-chan string {
	t.Helper()
	woken := make(chan string, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Listen(ctx, func(queue string) { woken <- queue }) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	m := newMessage("")
	m.Queue = "warm"
	require.Eventually(t, func() bool {
		_, err := s.Insert(t.Context(), nil, &m)
		require.NoError(t, err)
		for {
			select {
			case queue := <-woken:
				if queue == "warm" {
					return true
				}
			default:
				return false
			}
		}
	}, patience, time.Millisecond)
	return woken
}

func wait(t *testing.T, woken <-chan string, want string) {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case queue := <-woken:
			if queue == want {
				return
			}
		case <-limit:
			require.Fail(t, "not woken", "for %q", want)
		}
	}
}

func TestWokenByTheSamePool(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	woken := listen(t, s)
	m := newMessage("")
	for range 5 {
		_, err := open(t, db).Insert(t.Context(), nil, &m)
		require.NoError(t, err)
		wait(t, woken, "q")
	}
}

func TestWokenByAnotherPool(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	other := reopen(t, db)
	woken := listen(t, s)
	m := newMessage("")
	for range 5 {
		_, err := other.Insert(t.Context(), nil, &m)
		require.NoError(t, err)
		wait(t, woken, "")
	}
}

func TestWokenByTheApplication(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	woken := listen(t, s)
	m := newMessage("")
	for range 5 {
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = s.Insert(t.Context(), tx, &m)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		wait(t, woken, "")
	}
}

// With a pool of one connection nothing is reserved.
func TestSmallPool(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	db.SetMaxOpenConns(1)
	woken := listen(t, s)
	p, err := s.Pulse(t.Context())
	require.NoError(t, err)
	worker := register(t, s)
	m := newMessage("")
	_, err = s.Insert(t.Context(), nil, &m)
	require.NoError(t, err)
	wait(t, woken, "q")
	require.Len(t, claim(t, s, worker, 10), 1)
	_, err = p.Beat(t.Context(), beatOf(worker))
	require.NoError(t, err)
	require.NoError(t, p.Close())
}
