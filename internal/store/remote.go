package store

import (
	"context"
	"time"

	"github.com/styxmq/styx/client/message"
)

// RemoteWorker is the worker id of what is claimed without an incarnation, as
// over HTTP. It never beats: only the deadline ends its leases.
const RemoteWorker int64 = -1

// Remote serves consumers that hold no incarnation: each claim has a deadline
// of its own, and nothing beats for it.
type Remote interface {
	// ClaimRemote claims at most r.Limit messages in the order of the queue,
	// none of a paused one, and returns them as they are then. Whatever was
	// committed before the call is found. A message with a worker loss in
	// its history comes alone. An error leaves it open whether something was
	// claimed; the deadlines end it.
	ClaimRemote(ctx context.Context, r RemoteClaim) ([]message.Message, error)
	// SettleRemote records outcomes, all in one transaction. A zero token
	// stands for whoever holds the message now. The slice that it returns
	// has an error for each settlement: nil, message.ErrNotFound (also for
	// a message of another queue), message.ErrLeaseLost when a token is
	// stale, a *message.StateError when the message is not processing. The
	// same outcome under the same token again is nil. err is for the call
	// as a whole, and then it is unknown what was recorded.
	SettleRemote(ctx context.Context, queue string, batch []RemoteSettlement) (results []error, err error)
	// ExtendRemote sets the deadline to d from now and returns it. Errors
	// are those of one settlement.
	ExtendRemote(ctx context.Context, queue string, id, token int64, d time.Duration) (time.Time, error)
}

// RemoteClaim asks for messages without an incarnation.
type RemoteClaim struct {
	Queue string
	// Kinds are those wanted; empty means every kind.
	Kinds []string
	Limit int
	// Lease is how long the caller may hold a message; 0 takes the
	// message's own timeout, else Default. That a message has no timeout
	// does not make its lease endless.
	Lease, Default time.Duration
}

// RemoteSettlement is the outcome of one attempt.
type RemoteSettlement struct {
	ID, Token int64
	// Verb is Succeed, Retry, Bury or Release.
	Verb Verb
	// Delay until the message is due again. Negative, for a Retry, is the
	// exact schedule: 2, 4, 8, 16 … seconds by the new retry count, at most
	// an hour.
	Delay time.Duration
	// Note is kept with a success, Reason with a release.
	Note, Reason string
	// Failure is set for Retry and Bury.
	Failure *Failure
}

// Steward runs queues.
type Steward interface {
	// Pause stops claims from a queue, from the next look of each worker on
	// (within a second or so), until resumed or until it ends. A repeat
	// replaces reason and end.
	Pause(ctx context.Context, r PauseRequest, by Actor) error
	// Resume lifts a pause; without one it changes nothing and returns
	// false.
	Resume(ctx context.Context, queue string, by Actor) (bool, error)
	// Pauses returns the pauses in force, by queue.
	Pauses(ctx context.Context) ([]Pause, error)
	// Workers returns the workers that live, newest first, at most limit.
	Workers(ctx context.Context, limit int) ([]WorkerState, error)
	// Audit returns what operators did, newest first. See AuditQuery.
	Audit(ctx context.Context, q AuditQuery) ([]AuditEntry, error)
	// Ticked records that a reaper has finished a tick. It is cheap to call
	// often: a record that is a few seconds old may be left as it is.
	Ticked(ctx context.Context) error
	// Condition says what a diagnosis needs beyond counts.
	Condition(ctx context.Context) (Condition, error)
}

// PauseRequest names a queue and how long it shall be paused.
type PauseRequest struct {
	Queue string
	// Until or For ends the pause; both zero is for ever.
	Until time.Time
	For   time.Duration
}

// Pause is a queue that is not claimed from.
type Pause struct {
	Queue string
	Since time.Time
	// Until is zero for ever.
	Until  time.Time
	Actor  string
	Reason string
}

// WorkerState is a worker that lives.
type WorkerState struct {
	ID int64
	WorkerInfo
	StartedAt, BeatAt time.Time
}

// AuditQuery selects entries. Empty fields select everything.
type AuditQuery struct {
	Queue     string
	MessageID int64
	// After is the id where the page begins: smaller ones follow.
	After int64
	Limit int
}

// AuditEntry is one thing that an operator did.
type AuditEntry struct {
	ID        int64
	At        time.Time
	Action    string
	Actor     string
	Origin    string
	Reason    string
	Queue     string
	MessageID int64
	Affected  int64
}

// Condition is the state of the database around the queues.
type Condition struct {
	// LastTick is how long ago a reaper finished a tick, give or take five
	// seconds; negative: never.
	LastTick time.Duration
	// OldestTransaction is the age of the oldest open transaction or
	// snapshot of the server, which holds vacuum back; 0 where there is
	// none or the engine has no such thing.
	OldestTransaction time.Duration
	OldestPID         int64
	OldestQuery       string
	// SynchronousCommit reports whether a commit waits for the disk.
	SynchronousCommit bool
	// Overdue counts processing messages whose deadline passed more than
	// ten seconds ago, up to StatsCap.
	Overdue int
	// Unhandled are kinds of ready messages, of a sample of the oldest, that
	// no live worker of their queue handles: at most 20. Queues at which a
	// remote claim waits are left out, where that is known.
	Unhandled []Unhandled
	// MaxConnections and Connections are the server's; 0 where the engine
	// has none.
	MaxConnections, Connections int
}

// Unhandled is a kind that no live worker of the queue handles.
type Unhandled struct{ Queue, Kind string }
