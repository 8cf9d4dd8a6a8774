package telemetry

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/styxmq/styx/internal/store"
)

// Gauges show the latest numbers that were computed of a database. Reading
// them costs nothing there. It is safe for concurrent use.
type Gauges struct {
	latest atomic.Pointer[computed]
	probe  metric.Int64Counter
	now    func() time.Time
	stop   metric.Registration

	depth, oldest, overdue, workers, dlqDepth, dlqAge metric.Float64ObservableGauge
	firstSeen, attemptsP95, oldestTx, collected       metric.Float64ObservableGauge
	byQueue, byStatus                                 *family
}

type computed struct {
	gauges    store.Gauges
	at, until time.Time
}

// NewGauges registers the gauges; nil is the global provider. Close ends them.
// now shows the time.
func NewGauges(p metric.MeterProvider, now func() time.Time) (*Gauges, error) {
	m := newMaker(p)
	g := &Gauges{
		probe: m.counter(nameReaped), now: now,
		depth: m.observed(nameDepth), oldest: m.observed(nameOldestPending), overdue: m.observed(nameOverdue),
		workers: m.observed(nameWorkers), dlqDepth: m.observed(nameDLQDepth), dlqAge: m.observed(nameDLQAge),
		firstSeen: m.observed(nameFirstSeen), attemptsP95: m.observed(nameAttemptsP95),
		oldestTx: m.observed(nameOldestTx), collected: m.observed(nameCollected),
		byQueue: newFamily(nil, byQueue()), byStatus: newFamily(nil, byQueue(), label{key: labelStatus}),
	}
	var err error
	g.stop, err = m.meter.RegisterCallback(g.observe, g.depth, g.oldest, g.overdue, g.workers, g.dlqDepth, g.dlqAge,
		g.firstSeen, g.attemptsP95, g.oldestTx, g.collected)
	if err != nil {
		return nil, fmt.Errorf("register gauges: %w", err)
	}
	return g, nil
}

// Enabled reports whether anybody takes measurements.
func (g *Gauges) Enabled(ctx context.Context) bool { return g.probe.Enabled(ctx) }

// Show replaces the numbers. They are shown for d.
func (g *Gauges) Show(numbers store.Gauges, d time.Duration) {
	now := g.now()
	numbers.Queues = g.merge(numbers.Queues)
	g.latest.Store(&computed{gauges: numbers, at: now, until: now.Add(d)})
}

// merge makes one of the queues past the limit.
func (g *Gauges) merge(all []store.QueueGauges) []store.QueueGauges {
	merged := make([]store.QueueGauges, 0, min(len(all), maxQueues+1))
	other := -1
	for _, q := range all {
		if q.Queue == "" {
			continue
		}
		if name := g.byQueue.bound(0, q.Queue); name == q.Queue {
			merged = append(merged, q)
			continue
		}
		if other < 0 {
			other = len(merged)
			merged = append(merged, store.QueueGauges{QueueStats: store.QueueStats{Queue: Overflow}})
		}
		o := &merged[other]
		o.Ready += q.Ready
		o.Scheduled += q.Scheduled
		o.Processing += q.Processing
		o.Dead += q.Dead
		o.Overdue += q.Overdue
		o.Workers += q.Workers
		o.OldestReady = max(o.OldestReady, q.OldestReady)
		o.DeadAgeP95 = max(o.DeadAgeP95, q.DeadAgeP95)
		o.AttemptsP95 = max(o.AttemptsP95, q.AttemptsP95)
	}
	return merged
}

// Hide shows nothing until the next Show: another process does.
func (g *Gauges) Hide() { g.latest.Store(nil) }

// Close ends the gauges. A second call does nothing.
func (g *Gauges) Close() { handle(g.stop.Unregister()) }

func (g *Gauges) observe(_ context.Context, o metric.Observer) error {
	c := g.latest.Load()
	if c == nil || g.now().After(c.until) {
		return nil
	}
	o.ObserveFloat64(g.collected, float64(c.at.UnixMicro())/1e6)
	if c.gauges.OldestTransaction >= 0 {
		o.ObserveFloat64(g.oldestTx, c.gauges.OldestTransaction.Seconds())
	}
	for i := range c.gauges.Queues {
		g.observeQueue(o, &c.gauges.Queues[i])
	}
	// These come and go: a family of them all would fill up.
	fingerprints := newFamily(nil, byQueue(), byKind(), byClass(), label{key: labelFingerprint})
	for _, f := range c.gauges.Fingerprints {
		s := fingerprints.of(values{f.Queue, f.Kind, f.ErrorClass, f.Fingerprint})
		o.ObserveFloat64(g.firstSeen, float64(f.FirstSeen.UnixMicro())/1e6, metric.WithAttributeSet(s.attrs))
	}
	return nil
}

func (g *Gauges) observeQueue(o metric.Observer, q *store.QueueGauges) {
	name := metric.WithAttributeSet(g.byQueue.of(values{q.Queue}).attrs)
	for status, n := range map[string]int{"ready": q.Ready, "scheduled": q.Scheduled, "processing": q.Processing} {
		o.ObserveFloat64(g.depth, float64(n), metric.WithAttributeSet(g.byStatus.of(values{q.Queue, status}).attrs))
	}
	o.ObserveFloat64(g.oldest, q.OldestReady.Seconds(), name)
	o.ObserveFloat64(g.overdue, float64(q.Overdue), name)
	o.ObserveFloat64(g.workers, float64(q.Workers), name)
	o.ObserveFloat64(g.dlqDepth, float64(q.Dead), name)
	o.ObserveFloat64(g.dlqAge, q.DeadAgeP95.Seconds(), name)
	o.ObserveFloat64(g.attemptsP95, float64(q.AttemptsP95), name)
}
