package store

import (
	"context"
	"time"

	"github.com/styxmq/styx/client/message"
)

// Maintainer serves the reaper. Every method may run in any number of
// processes at once.
type Maintainer interface {
	// BuryWorkers marks workers dead that have not beaten within their lease, and
	// forgets those that have been dead for a day. It returns the newly
	// dead.
	BuryWorkers(ctx context.Context) (dead []int64, err error)
	// Rescue takes lost messages back, at most limit: those whose deadline
	// has passed and those of workers that are not alive. Call it again
	// while it returns limit.
	Rescue(ctx context.Context, limit int) ([]Rescued, error)
	// Sweep rescues lost messages that no claims row names, looking at ids
	// after the given one; it returns the id to go on from, 0 at the end.
	Sweep(ctx context.Context, after int64, limit int) (rescued []Rescued, next int64, err error)
	// Expire buries pending messages whose time has passed, at most limit.
	Expire(ctx context.Context, limit int) ([]Rescued, error)
	// Prepare makes room for what the coming week will store, where the
	// engine needs that.
	Prepare(ctx context.Context) error
	// Retain deletes what is older than the retention, in small steps; more
	// reports that work is left.
	Retain(ctx context.Context, r Retention) (done Retained, more bool, err error)
}

// Rescued is a message that the reaper moved. Its payload and times are not
// read.
type Rescued struct {
	message.Message
	// Decision is why: worker_lost, timed_out or expired.
	Decision message.Decision
	// Dead reports that the message is dead now; otherwise it is pending.
	Dead bool
}

// Retention says how long things are kept; 0 and less keeps them for ever.
type Retention struct {
	// Archive is for succeeded messages, Resolved for resolved letters,
	// Dead for letters that wait.
	Archive, Resolved, Dead time.Duration
	// Batch is the largest number of rows of a step.
	Batch int
}

// Retained counts what retention deleted.
type Retained struct {
	// Archived counts messages where the engine deletes by row, Partitions
	// the partitions dropped where it does not.
	Archived, Partitions int
	Letters, Keys        int
	Attempts             int
}

// Any reports whether anything was deleted.
func (r Retained) Any() bool { return r != Retained{} }
