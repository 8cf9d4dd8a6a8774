// Package gauge keeps the numbers about a database fresh that metrics show.
// Of all processes that could do it one at a time does.
package gauge

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/telemetry"
)

// duty is the name of what the collectors of a database share.
const duty = "gauges"

// leaveTimeout bounds the farewell.
const leaveTimeout = 2 * time.Second

// Collector computes gauges when it is its turn. Make it with New. It is safe
// for concurrent use.
type Collector struct {
	store    store.Gauger
	interval time.Duration
	timeout  time.Duration
	holder   string

	mu     sync.Mutex
	shown  *telemetry.Gauges
	onDuty bool
}

// New returns a collector that RunOnce is called on once per interval, and
// whose work may take as long as timeout.
func New(st store.Gauger, interval, timeout time.Duration) *Collector {
	return &Collector{store: st, interval: interval, timeout: timeout, holder: rand.Text()}
}

// Open begins to show what will be computed, in g. Close ends it.
func (c *Collector) Open(g *telemetry.Gauges) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = g
}

// RunOnce computes the gauges if nobody else does, and if anybody takes them.
// As long as the duty is this collector's the numbers are shown: for three
// intervals and what the work may take.
func (c *Collector) RunOnce(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shown == nil || !c.shown.Enabled(ctx) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	held := 3*c.interval + c.timeout
	mine, err := c.store.TakeDuty(ctx, duty, c.holder, held)
	if err != nil {
		return err
	}
	if c.onDuty = mine; !mine {
		c.shown.Hide()
		return nil
	}
	numbers, err := c.store.Gauge(ctx)
	if err != nil {
		return fmt.Errorf("collect gauges: %w", err)
	}
	c.shown.Show(numbers, held)
	return nil
}

// Close shows nothing more and hands the duty over. It may take 2 seconds.
func (c *Collector) Close(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shown == nil {
		return
	}
	c.shown.Close()
	c.shown = nil
	if !c.onDuty {
		return
	}
	c.onDuty = false
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	_ = c.store.LeaveDuty(ctx, duty, c.holder) // else it ends by itself
}
