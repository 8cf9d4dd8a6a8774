package client

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

func contention() error { return fmt.Errorf("%w: deadlock", store.ErrContention) }

func TestContentionIsRetried(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{})
	f.purge = func(store.PurgeQuery) (int, error) { return 0, nil }
	for title, call := range map[string]func() error{
		"enqueue": func() error { _, err := c.Enqueue(t.Context(), note{}, nil); return err },
		"many":    func() error { _, err := c.EnqueueMany(t.Context(), []Item{{Payload: note{}}}); return err },
		"cancel":  func() error { return c.Cancel(t.Context(), 1, nil) },
		"replay":  func() error { return c.DeadLetters().Replay(t.Context(), 1, nil) },
		"resolve": func() error { return c.DeadLetters().Resolve(t.Context(), 1, nil) },
		"purge":   func() error { _, err := c.DeadLetters().Purge(t.Context(), PurgeOptions{All: true}); return err },
	} {
		f.calls, f.errs = 0, []error{contention(), contention()}
		require.NoError(t, call(), title)
		require.Equal(t, 3, f.calls, title)
	}
}

func TestContentionGivesUp(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{})
	for range 100 {
		f.errs = append(f.errs, contention())
	}
	_, err := c.Enqueue(t.Context(), note{}, nil)
	require.ErrorIs(t, err, ErrContention)
	require.Less(t, f.calls, 20)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBroken)
	f.calls = 0
	_, err = c.Enqueue(ctx, note{}, nil)
	require.ErrorIs(t, err, errBroken)
	require.ErrorIs(t, err, ErrContention)
	require.Equal(t, 1, f.calls)
}

func TestOtherErrorsAreReturnedAtOnce(t *testing.T) {
	t.Parallel()
	for _, want := range []error{
		fmt.Errorf("%w: refused", store.ErrUnavailable), errBroken, context.DeadlineExceeded,
		&message.DuplicateError{ID: 4}, message.ErrSchemaMissing,
	} {
		c, f := fakeClient(t, Config{})
		f.errs = []error{want, want}
		m, err := c.Enqueue(t.Context(), note{}, &EnqueueOptions{Queue: "mail"})
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, `enqueue "note" into "mail"`)
		require.Nil(t, m)
		require.Equal(t, 1, f.calls)
		require.Equal(t, errors.Is(want, store.ErrUnavailable), errors.Is(err, ErrUnavailable))
	}
}

func TestTransactionsAreNotRetried(t *testing.T) {
	t.Parallel()
	tx := bun.Tx{Tx: new(sql.Tx)}
	for _, call := range []func(c *Client) error{
		func(c *Client) error { _, err := c.EnqueueTx(t.Context(), tx, note{}, nil); return err },
		func(c *Client) error { _, err := c.EnqueueRawTx(t.Context(), tx, "k", "p", nil); return err },
		func(c *Client) error {
			_, err := c.EnqueueManyTx(t.Context(), tx, []Item{{Payload: note{}}})
			return err
		},
	} {
		c, f := fakeClient(t, Config{})
		f.errs = []error{contention()}
		require.ErrorIs(t, call(c), ErrContention)
		require.Equal(t, []bun.IConn{tx}, f.conns)
		require.NoError(t, call(c))
	}
}

func TestOnlyTransactionsAreTaken(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{})
	for title, test := range map[string]struct {
		tx   bun.IConn
		code string
	}{
		"nil":          {nil, message.CodeRequired},
		"nil *sql.Tx":  {(*sql.Tx)(nil), message.CodeRequired},
		"nil *bun.Tx":  {(*bun.Tx)(nil), message.CodeRequired},
		"zero bun.Tx":  {bun.Tx{}, message.CodeRequired},
		"nil conn":     {(*sql.Conn)(nil), message.CodeRequired},
		"zero conn":    {bun.Conn{}, message.CodeRequired},
		"pool":         {new(sql.DB), message.CodeInvalid},
		"pool of bun":  {new(bun.DB), message.CodeInvalid},
		"nil bun pool": {(*bun.DB)(nil), message.CodeInvalid},
	} {
		_, err := c.EnqueueTx(t.Context(), test.tx, note{}, nil)
		requireInvalid(t, err, "tx", test.code)
		_, err = c.EnqueueRawTx(t.Context(), test.tx, "k", "p", nil)
		requireInvalid(t, err, "tx", test.code)
		_, err = c.EnqueueManyTx(t.Context(), test.tx, []Item{{Payload: note{}}})
		requireInvalid(t, err, "tx", test.code)
		require.Zero(t, f.calls, title)
	}
	require.NoError(t, checkTx(new(sql.Tx)))
	require.NoError(t, checkTx(new(sql.Conn)))
	require.NoError(t, checkTx(bun.Conn{Conn: new(sql.Conn)}))
}

func TestEmptyBatchDoesNothing(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{})
	for _, items := range [][]Item{nil, {}} {
		messages, err := c.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
		require.Empty(t, messages)
	}
	require.Zero(t, f.calls)
}

func TestBatchKeepsItsOrder(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{})
	items := []Item{{Payload: number(1)}, {Payload: Raw{"other", "text"}, Options: &EnqueueOptions{Queue: "q"}}, {Payload: number(3)}}
	messages, err := c.EnqueueMany(t.Context(), items)
	require.NoError(t, err)
	require.Equal(t, 1, f.calls)
	require.Len(t, messages, 3)
	for i, want := range []string{"1", "text", "3"} {
		require.Equal(t, want, messages[i].Payload)
		require.Equal(t, int64(i+1), messages[i].ID)
	}
	require.Equal(t, "q", messages[1].Queue)
}

func TestBatchFindsItsOwnDuplicates(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{})
	key := func(queue string) *EnqueueOptions { return &EnqueueOptions{Queue: queue, IdempotencyKey: "k"} }
	_, err := c.EnqueueMany(t.Context(), []Item{{number(1), key("a")}, {number(1), key("b")}, {number(1), nil}, {number(1), nil}})
	require.NoError(t, err, "keys belong to a queue")

	f.calls = 0
	for second, mismatch := range map[Payload]bool{number(1): false, number(2): true, Raw{"other", "1"}: true} {
		_, err = c.EnqueueMany(t.Context(), []Item{{number(1), key("a")}, {number(9), nil}, {second, key("a")}})
		var duplicate *message.DuplicateError
		require.ErrorAs(t, err, &duplicate)
		require.Equal(t, message.DuplicateError{Queue: "a", Key: "k", Index: 2, Mismatch: mismatch}, *duplicate)
	}
	require.Zero(t, f.calls)
}

func TestActorsAreChecked(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{})
	requireInvalid(t, c.Cancel(t.Context(), 1, &CancelOptions{Actor: "a\n"}), "actor", message.CodeEncoding)
	requireInvalid(t, c.DeadLetters().Replay(t.Context(), 1, &ReplayOptions{Reason: "\x00"}), "reason", message.CodeEncoding)
	requireInvalid(t, c.DeadLetters().Resolve(t.Context(), 1, &ResolveOptions{Reason: string(make([]byte, 1025))}), "reason", message.CodeTooLong)
	require.Zero(t, f.calls)
}

func BenchmarkBuild(b *testing.B) {
	c := newClient(new(fakeStore), Config{})
	items := make([]Item, 1000)
	for i := range items {
		items[i].Payload = note{"hello, world"}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.buildAll(items, nil); err != nil {
			b.Fatal(err)
		}
	}
}
