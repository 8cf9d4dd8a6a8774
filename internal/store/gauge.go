package store

import (
	"context"
	"time"
)

// The bounds of what Gauge looks at.
const (
	// GaugeQueues is the largest number of queues whose percentiles are
	// computed.
	GaugeQueues = 500
	// GaugeSample is the number of messages of a queue, of each table, whose
	// attempts are looked at.
	GaugeSample = 200
	// GaugeFingerprints is the largest number of fingerprints that are
	// returned, the newest.
	GaugeFingerprints = 50
)

// Gauger computes what metrics show of a database, for one process at a time.
type Gauger interface {
	// TakeDuty makes the holder the one who has a duty for d from now, and
	// reports whether it is; it is not while another holds it. A repeat
	// by the holder prolongs it.
	TakeDuty(ctx context.Context, duty, holder string, d time.Duration) (bool, error)
	// LeaveDuty lets another holder have the duty at once. It changes
	// nothing for who does not hold it.
	LeaveDuty(ctx context.Context, duty, holder string) error
	// Gauge computes everything, at a cost that is bounded by the number of
	// queues and not by that of messages or letters.
	Gauge(ctx context.Context) (Gauges, error)
}

// Gauges are numbers about a database.
type Gauges struct {
	// Queues has every queue that has messages, waiting letters or workers.
	Queues []QueueGauges
	// Fingerprints are those of waiting letters whose oldest such letter is
	// the youngest, newest first.
	Fingerprints []FirstSeen
	// OldestTransaction is how long the oldest transaction has held back
	// what vacuum may remove, among those that this role may see; 0 for
	// none, negative where the engine has no such thing.
	OldestTransaction time.Duration
}

// QueueGauges are numbers about one queue.
type QueueGauges struct {
	QueueStats
	// DeadAgeP95 is the 95th percentile of the ages of the waiting letters:
	// at most so many of them, one in twenty, have waited for longer. From
	// StatsCap letters on it is an upper bound.
	DeadAgeP95 time.Duration
	// AttemptsP95 is the 95th percentile of the attempts that messages which
	// failed have used, of a sample of those that wait for a retry and the
	// newest dead ones.
	AttemptsP95 int
	// Overdue counts processing messages whose deadline has passed, among
	// the first that are found.
	Overdue int
	// Workers counts those alive that serve the queue.
	Workers int
}

// FirstSeen tells of a fingerprint and the oldest waiting letter with it.
type FirstSeen struct {
	Queue, Kind, ErrorClass, Fingerprint string
	FirstSeen                            time.Time
}

// P95 is the index of the 95th percentile among n things in descending order.
func P95(n int) int { return n / 20 }
