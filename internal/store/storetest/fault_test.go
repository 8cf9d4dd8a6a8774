package storetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/store/storetest"
)

// counting answers the calls that these tests make; any other would panic.
type counting struct {
	store.Store
	mu        sync.Mutex
	cancelled int
	beats     int
	claims    int
	closed    int
}

func (c *counting) Cancel(context.Context, int64, store.Actor) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled++
	return nil
}

func (c *counting) Listen(ctx context.Context, wake func(string)) error {
	wake("")
	<-ctx.Done()
	return ctx.Err()
}

func (c *counting) Pulse(context.Context) (store.Pulse, error)        { return part{c}, nil }
func (c *counting) Cursor(store.CursorSpec) store.Cursor              { return part{c} }
func (c *counting) SchemaVersion(context.Context) (a, b int, _ error) { return 1, 2, nil }

type part struct{ c *counting }

func (p part) Beat(context.Context, store.Beat) (store.BeatReply, error) {
	p.c.beats++
	return store.BeatReply{Orphans: 3}, nil
}

func (p part) Claim(context.Context, store.ClaimRequest) (store.Batch, error) {
	p.c.claims++
	return store.Batch{Messages: make([]store.Claimed, 2)}, nil
}

func (p part) Wake() {}

func (p part) Close() error {
	p.c.closed++
	return nil
}

func TestFaultyBeforeKeepsTheCallFromTheDatabase(t *testing.T) {
	t.Parallel()
	under := &counting{}
	f := storetest.NewFaulty(under)
	boom := errors.New("boom")
	f.Before(func(method string) error {
		if method == "Cancel" {
			return boom
		}
		return nil
	})
	require.ErrorIs(t, f.Cancel(t.Context(), 1, store.Actor{}), boom)
	require.Zero(t, under.cancelled)
	current, known, err := f.SchemaVersion(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, []int{current, known})
	f.Before(nil)
	require.NoError(t, f.Cancel(t.Context(), 1, store.Actor{}))
	require.Equal(t, 1, under.cancelled)
	require.Equal(t, 2, f.Calls("Cancel"))
}

func TestFaultyAfterLosesTheReply(t *testing.T) {
	t.Parallel()
	under := &counting{}
	f := storetest.NewFaulty(under)
	boom := errors.New("boom")
	c := f.Cursor(store.CursorSpec{})
	p, err := f.Pulse(t.Context())
	require.NoError(t, err)
	f.After(func(string) error { return boom })

	require.ErrorIs(t, f.Cancel(t.Context(), 1, store.Actor{}), boom)
	b, err := c.Claim(t.Context(), store.ClaimRequest{Number: 1, Limit: 2})
	require.ErrorIs(t, err, boom)
	require.Empty(t, b.Messages)
	reply, err := p.Beat(t.Context(), store.Beat{})
	require.ErrorIs(t, err, boom)
	require.Zero(t, reply.Orphans)
	require.Equal(t, []int{1, 1, 1}, []int{under.cancelled, under.claims, under.beats}, "each was carried out")

	_, err = f.Pulse(t.Context())
	require.ErrorIs(t, err, boom)
	require.Equal(t, 1, under.closed, "a pulse that nobody got is closed")
	f.After(nil)
	require.NoError(t, p.Close())
}

func TestFaultyOutage(t *testing.T) {
	t.Parallel()
	under := &counting{}
	f := storetest.NewFaulty(under)
	listening := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- f.Listen(t.Context(), func(string) { close(listening) })
	}()
	<-listening
	f.Down()
	f.Down()
	require.ErrorIs(t, <-ended, store.ErrUnavailable)
	require.ErrorIs(t, f.Cancel(t.Context(), 1, store.Actor{}), store.ErrUnavailable)
	require.ErrorIs(t, f.Listen(t.Context(), func(string) {}), store.ErrUnavailable)
	f.Up()
	f.Up()
	require.NoError(t, f.Cancel(t.Context(), 1, store.Actor{}))

	f.Before(func(string) error { f.Down(); return nil })
	require.ErrorIs(t, f.Cancel(t.Context(), 1, store.Actor{}), store.ErrUnavailable, "under way when it began")
	require.Equal(t, 2, under.cancelled)
	f.Before(nil)
	f.Up()

	ctx, cancel := context.WithCancel(t.Context())
	listening = make(chan struct{})
	go func() { ended <- f.Listen(ctx, func(string) { close(listening) }) }()
	<-listening
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestFaultyIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	under := &counting{}
	f := storetest.NewFaulty(under)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				switch i % 4 {
				case 0:
					f.Down()
				case 1:
					f.Up()
				case 2:
					f.Before(func(string) error { return nil })
				default:
					_ = f.Cancel(t.Context(), 1, store.Actor{})
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 400, f.Calls("Cancel"))
}
