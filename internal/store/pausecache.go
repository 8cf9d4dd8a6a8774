package store

import (
	"context"
	"sync"
	"time"
)

// PauseEvery is how old the pauses may be that a claim goes by.
const PauseEvery = time.Second

// PauseCache remembers which queues are paused, so that claims need not ask
// each time. The zero value is ready; it is safe for concurrent use.
type PauseCache struct {
	mu     sync.Mutex
	paused map[string]struct{} // nil: not known
	asked  time.Time
	// loading is closed when the query under way has ended; nil if there is
	// none.
	loading chan struct{}
	forgot  bool
}

// Paused reports whether the queue is paused, as load said within PauseEvery.
// One caller at a time loads; meanwhile the others go by what was known
// before, or wait where nothing was.
func (c *PauseCache) Paused(ctx context.Context, queue string, load func(context.Context) ([]string, error)) (bool, error) {
	for {
		c.mu.Lock()
		fresh := time.Since(c.asked) < PauseEvery
		if c.paused != nil && (fresh || c.loading != nil) {
			_, paused := c.paused[queue]
			c.mu.Unlock()
			return paused, nil
		}
		if c.loading == nil {
			break
		}
		loading := c.loading
		c.mu.Unlock()
		select {
		case <-loading:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	began, loading := time.Now(), make(chan struct{})
	c.loading, c.forgot = loading, false
	c.mu.Unlock()

	queues, err := load(ctx)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.loading = nil
	close(loading)
	if err != nil {
		return false, err
	}
	found := make(map[string]struct{}, len(queues))
	for _, q := range queues {
		found[q] = struct{}{}
	}
	if !c.forgot {
		c.paused, c.asked = found, began
	}
	_, paused := found[queue]
	return paused, nil
}

// Forget makes the next claim ask, after a change.
func (c *PauseCache) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused, c.forgot = nil, true
}
