package reaper

import (
	"context"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/telemetry"
)

// MaxMoved is the largest number of messages that a Report lists.
const MaxMoved = 1000

// Counts say how much was done.
type Counts struct {
	// DeadWorkers are workers that were found to have stopped beating.
	DeadWorkers int `json:"dead_workers"`
	// WorkerLost, TimedOut and Expired are the messages that were moved, by
	// the reason: their worker was dead, they ran past their deadline, they
	// were not started in time.
	WorkerLost int `json:"worker_lost"`
	TimedOut   int `json:"timed_out"`
	Expired    int `json:"expired"`
	// Dead are those of these messages that are dead now; the others are
	// pending.
	Dead int `json:"dead"`
	// Archived are succeeded messages deleted one by one, Partitions the
	// parts of the archive that went as a whole.
	Archived   int `json:"archived_deleted"`
	Partitions int `json:"partitions_dropped"`
	// Letters, Keys and Attempts are the dead letters, idempotency keys and
	// records of attempts that were deleted.
	Letters  int `json:"letters_deleted"`
	Keys     int `json:"keys_deleted"`
	Attempts int `json:"attempts_deleted"`
}

// Messages is the number of messages that were moved.
func (c Counts) Messages() int { return c.WorkerLost + c.TimedOut + c.Expired }

// Any reports whether anything was done.
func (c Counts) Any() bool { return c != Counts{} }

func (c *Counts) add(d Counts) {
	c.DeadWorkers += d.DeadWorkers
	c.WorkerLost += d.WorkerLost
	c.TimedOut += d.TimedOut
	c.Expired += d.Expired
	c.Dead += d.Dead
	c.Archived += d.Archived
	c.Partitions += d.Partitions
	c.Letters += d.Letters
	c.Keys += d.Keys
	c.Attempts += d.Attempts
}

// Report is what RunOnce did.
type Report struct {
	Counts
	// Moved are the messages that were moved, up to MaxMoved of them.
	Moved []Moved `json:"moved,omitempty"`
}

// Moved is a message that the reaper moved.
type Moved struct {
	ID             int64  `json:"id"`
	Queue          string `json:"queue"`
	Kind           string `json:"kind"`
	Tenant         string `json:"tenant,omitempty"`
	CorrelationID  string `json:"correlation_id,omitempty"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// Attempt is the number of the attempt that was lost, or would have
	// been the next of an expired message.
	Attempt    int   `json:"attempt"`
	MaxRetries int   `json:"max_retries"`
	LeaseToken int64 `json:"lease_token"`
	// WorkerID is the worker that held the message, 0 when none did.
	WorkerID int64 `json:"worker_id,omitempty"`
	// Decision is why: worker_lost, timed_out or expired.
	Decision message.Decision `json:"decision"`
	// Status is where the message is now: pending or dead.
	Status message.Status `json:"status"`
	// RetryAfter is when a pending one may run again.
	RetryAfter time.Time `json:"retry_after,omitzero"`
}

// Status shows what the jobs of Run have done.
type Status struct {
	Rescue   JobStatus `json:"rescue"`
	Sweep    JobStatus `json:"sweep"`
	Maintain JobStatus `json:"maintain"`
	// Gauge is zero when no gauges are computed.
	Gauge JobStatus `json:"gauge,omitzero"`
}

// JobStatus shows what one job has done since Run began. Times are of this
// machine's clock, and zero before there was such a thing.
type JobStatus struct {
	// Spec is the job's schedule, Next when it is due.
	Spec string    `json:"spec"`
	Next time.Time `json:"next,omitzero"`
	// Running reports that it is at work now.
	Running bool `json:"running"`
	// LastStart is when it last began, LastSuccess when it last ended well.
	LastStart   time.Time `json:"last_start,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	// LastError is how its latest run failed, empty if that went well.
	LastError string `json:"last_error,omitempty"`
	// Ticks counts its runs, Failures those of them that failed.
	Ticks    int64 `json:"ticks"`
	Failures int64 `json:"failures"`
	// Counts are of all runs together.
	Counts Counts `json:"counts"`
}

// maxTold is how many ids a log line lists.
const maxTold = 20

// tally collects what one run does.
type tally struct {
	log    *logger
	told   *telemetry.ReaperMetrics
	keep   bool // whether to fill list
	hooks  *Hooks
	trace  reaping
	counts Counts
	list   []Moved
	ids    []int64
	dead   []int64 // workers
}

func (r *Reaper) newTally() *tally {
	return &tally{log: r.log, told: r.metrics, hooks: &r.cfg.Hooks, trace: reaping{tracing: r.tracing, began: time.Now()}}
}

// moved takes what one statement moved.
func (t *tally) moved(ctx context.Context, batch []store.Rescued) {
	t.told.Reaped(ctx, batch)
	t.trace.add(ctx, batch)
	for i := range batch {
		m := &batch[i]
		switch m.Decision {
		case message.DecisionWorkerLost:
			t.counts.WorkerLost++
		case message.DecisionTimedOut:
			t.counts.TimedOut++
		default:
			t.counts.Expired++
		}
		if len(t.ids) < maxTold {
			t.ids = append(t.ids, m.ID)
		}
		if t.keep && len(t.list) < MaxMoved {
			t.list = append(t.list, newMoved(m))
		}
		if m.Dead {
			t.counts.Dead++
			t.log.buried(ctx, m)
		}
		t.tell(ctx, m)
	}
}

func newMoved(m *store.Rescued) Moved {
	status := message.StatusPending
	if m.Dead {
		status = message.StatusDead
	}
	return Moved{
		ID: m.ID, Queue: m.Queue, Kind: m.Kind, Tenant: m.Tenant, CorrelationID: m.CorrelationID,
		IdempotencyKey: m.IdempotencyKey, Attempt: m.Attempt, MaxRetries: m.MaxRetries, LeaseToken: m.LeaseToken,
		WorkerID: m.WorkerID, Decision: m.Decision, Status: status, RetryAfter: m.RetryAfter,
	}
}

func (t *tally) workers(dead []int64) {
	t.counts.DeadWorkers += len(dead)
	t.dead = append(t.dead, dead[:min(len(dead), maxTold-min(len(t.dead), maxTold))]...)
}

func (t *tally) retained(done store.Retained) {
	t.counts.Archived += done.Archived
	t.counts.Partitions += done.Partitions
	t.counts.Letters += done.Letters
	t.counts.Keys += done.Keys
	t.counts.Attempts += done.Attempts
}
