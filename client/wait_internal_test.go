package client

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// waitStore is a queue in memory.
type waitStore struct {
	store.Store

	mu     sync.Mutex
	left   int
	claims int
	told   map[string]int
	ring   func(string)
	broken error
	// deaf is what Listen returns at once.
	deaf error
}

func (s *waitStore) ClaimRemote(_ context.Context, r store.RemoteClaim) ([]message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims++
	if s.broken != nil {
		return nil, s.broken
	}
	n := min(s.left, r.Limit)
	s.left -= n
	return make([]message.Message, n), nil
}

func (s *waitStore) SetIdle(_ context.Context, worker int64, queue string, idle bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if worker != store.RemoteWorker {
		return errors.New("somebody else")
	}
	if s.told == nil {
		s.told = map[string]int{}
	}
	s.told[queue]++
	if !idle {
		delete(s.told, queue)
	}
	return nil
}

func (s *waitStore) Listen(ctx context.Context, wake func(string)) error {
	if s.deaf != nil {
		return s.deaf
	}
	s.mu.Lock()
	s.ring = wake
	s.mu.Unlock()
	wake("")
	<-ctx.Done()
	return ctx.Err()
}

func (s *waitStore) put(n int) (claims int) {
	s.mu.Lock()
	s.left += n
	claims, ring := s.claims, s.ring
	s.mu.Unlock()
	if ring != nil {
		ring("q")
	}
	return claims
}

func (s *waitStore) counted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims
}

// crowded starts n claims that wait, and counts those that got something.
func crowded(t *testing.T, c *Client, n int) (wait func() int) {
	t.Helper()
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		got int
	)
	for range n {
		wg.Go(func() {
			claimed, err := c.Leases().Claim(t.Context(), "q", &ClaimOptions{Wait: MaxWait})
			if err != nil {
				t.Errorf("claim: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			got += len(claimed)
		})
	}
	return func() int {
		wg.Wait()
		return got
	}
}

func TestCrowdIsNoHerd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const crowd = 64
		s := new(waitStore)
		c := newClient(s, Config{})
		wait := crowded(t, c, crowd)
		<-time.After(10*time.Second + 300*time.Millisecond)
		synctest.Wait()
		require.Less(t, s.counted(), 2*crowd+40, "the polls are shared")

		before := s.put(1)
		synctest.Wait()
		require.LessOrEqual(t, s.counted()-before, 2*wakeFew, "one message wakes few")
		before = s.put(20)
		synctest.Wait()
		require.Less(t, s.counted()-before, 3*20)
		s.mu.Lock()
		require.Zero(t, s.left, "many wake many")
		require.Contains(t, s.told, "q")
		s.mu.Unlock()
		require.Equal(t, 21, wait())
		require.Empty(t, s.told)
		require.Empty(t, c.waits.crowds)
		require.Nil(t, c.waits.watch)
	})
}

func TestWaitWithoutNotifications(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &waitStore{deaf: store.ErrNoListen}
		c := newClient(s, Config{})
		wait := crowded(t, c, 3)
		<-time.After(5 * time.Second)
		s.put(1)
		<-time.After(pollAlone)
		synctest.Wait()
		s.mu.Lock()
		require.Zero(t, s.left, "a poll finds it")
		s.mu.Unlock()
		require.Equal(t, 1, wait())
	})
}

// A connection that is lost again and again does no harm, and an error of a
// claim ends that claim.
func TestWaitWithErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &waitStore{deaf: store.ErrUnavailable}
		c := newClient(s, Config{})
		wait := crowded(t, c, 3)
		<-time.After(10 * time.Second)
		s.put(3)
		require.Equal(t, 3, wait())
		require.Empty(t, s.told)

		s.broken = errBroken
		_, err := c.Leases().Claim(t.Context(), "q", &ClaimOptions{Wait: MaxWait})
		require.ErrorIs(t, err, errBroken)
		require.Nil(t, c.waits.watch)
	})
}

// Whoever leaves passes on the wake-up that was meant for him.
func TestCrowdPassesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &waitStore{deaf: store.ErrNoListen}
		c := newClient(s, Config{})
		r := store.RemoteClaim{Queue: "q", Limit: 1}
		one, two := c.waits.join(t.Context(), s, r), c.waits.join(t.Context(), s, r)
		c.waits.wake("other", 1)
		require.Empty(t, one.woken)
		c.waits.wake("q", 1)
		require.Len(t, one.woken, 1)
		require.Empty(t, two.woken)
		c.waits.leave(one)
		require.Len(t, two.woken, 1)
		c.waits.leave(two)
		require.Nil(t, c.waits.watch)
	})
}
