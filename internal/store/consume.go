package store

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
)

// Consumer serves a worker.
type Consumer interface {
	// Register makes an incarnation of a worker and returns its id, which
	// is never used again.
	Register(ctx context.Context, w WorkerInfo) (int64, error)
	// Unregister ends an incarnation in good order. What it still holds is
	// rescued like a dead worker's.
	Unregister(ctx context.Context, workerID int64) error
	// Pulse reserves a connection for beats.
	Pulse(ctx context.Context) (Pulse, error)
	// Cursor returns the claimer of one queue.
	Cursor(spec CursorSpec) Cursor
	// Settle records outcomes of messages that the worker holds, all in
	// one transaction, and forgets the claims rows in done. The slice that
	// it returns has an error for each settlement: nil, or
	// message.ErrLeaseLost. err is for the call as a whole, and then it is
	// unknown what was recorded; repeating the call is safe.
	Settle(ctx context.Context, workerID int64, batch []Settlement, done []int64) (results []error, err error)
	// SettleTx records one outcome as part of the caller's transaction.
	SettleTx(ctx context.Context, conn bun.IConn, workerID int64, s Settlement) error
	// Settled reports whether the attempt with this token has been settled,
	// as success or not. A message that is still held is not.
	Settled(ctx context.Context, id, token int64) (bool, error)
	// Extend sets the deadline of a held message to d from now and returns
	// it, or message.ErrLeaseLost.
	Extend(ctx context.Context, workerID, id, token int64, d time.Duration) (time.Time, error)
	// Lost returns those of the messages that the worker does not hold any
	// more under the given tokens.
	Lost(ctx context.Context, workerID int64, held []Lease) ([]Lease, error)
	// Listen calls wake with the name of a queue when messages may have
	// arrived there, or with "" for any, until ctx ends. It returns
	// ErrNoListen at once when the connection cannot be listened on, and
	// other errors when the connection is lost.
	Listen(ctx context.Context, wake func(queue string)) error
	// SetIdle tells producers whether the worker wants to be woken for the
	// queue.
	SetIdle(ctx context.Context, workerID int64, queue string, idle bool) error
}

// WorkerInfo describes a worker to operators.
type WorkerInfo struct {
	Name, Host, Version string
	PID                 int
	Queues, Kinds       []string
	Concurrency         int
	// Lease is how long after a beat the worker counts as alive.
	Lease time.Duration
}

// Lease names a held message.
type Lease struct{ ID, Token int64 }

// Pulse beats on a connection of its own. It is not safe for concurrent use.
type Pulse interface {
	// Beat shows that the worker is alive. It returns message.ErrLeaseLost
	// when the incarnation is dead or unknown.
	Beat(ctx context.Context, b Beat) (BeatReply, error)
	// Close gives the connection back.
	Close() error
}

// Beat is one sign of life.
type Beat struct {
	WorkerID int64
	// Done are claim numbers all of whose messages are settled; their rows
	// are deleted.
	Done []int64
	// Known are the other claim numbers that the worker still uses, up to
	// and including UpTo, the newest it had begun. What is not known is an
	// orphan.
	Known []int64
	UpTo  int64
}

// BeatReply tells what a beat found.
type BeatReply struct {
	// Orphans counts messages that were claimed without the worker's
	// knowledge and have been released.
	Orphans int
}

// CursorSpec says what a cursor claims.
type CursorSpec struct {
	WorkerID int64
	Queue    string
	// Kinds are those that the worker handles; empty means every kind.
	Kinds []string
	// Timeout is the longest that one attempt may take, where a message
	// does not say; negative is for ever. Lease is added for the deadline.
	Timeout, Lease time.Duration
}

// Cursor claims from one queue for one worker. It is not safe for concurrent
// use.
type Cursor interface {
	// Claim runs at most one statement that claims, under the given number.
	// When err is not nil it is unknown whether messages were claimed; the
	// number must then be treated as an orphan.
	Claim(ctx context.Context, r ClaimRequest) (Batch, error)
	// Wake makes the next Claim look at everything, as after a notification
	// or a poll.
	Wake()
}

// ClaimRequest asks for messages.
type ClaimRequest struct {
	// Number is the worker's own number of this claim, ascending.
	Number int64
	// Limit is the largest number of messages, at least 1.
	Limit int
	// Suspect permits one message with a worker loss in its history; such
	// messages are never returned otherwise, and come alone.
	Suspect bool
	// Announced says that a message is known to have arrived, so that a claim
	// finds one more likely than not.
	Announced bool
}

// Batch is the result of a claim.
type Batch struct {
	Messages []Claimed
	// Again reports that another Claim may find more at once.
	Again bool
	// NextDue is how long from now on the next postponed message of the
	// queue is due; negative when there is none.
	NextDue time.Duration
}

// Claimed is a message in the worker's hands.
type Claimed struct {
	message.Message
	// Place is the store's own hint of where the row is; 0 is none.
	Place uint64
}

// Verb is what a settlement does.
type Verb uint8

// The verbs.
const (
	// Succeed moves the message to the archive.
	Succeed Verb = iota + 1
	// Retry charges the attempt and sends the message back after Delay; it
	// buries instead when the budget is used up.
	Retry
	// Bury charges the attempt and moves the message to the dead letters.
	Bury
	// Release sends the message back after Delay, uncharged.
	Release
	// Snooze is a release that is counted.
	Snooze
)

// Settlement is the outcome of one attempt.
type Settlement struct {
	ID, Token int64
	Place     uint64
	Verb      Verb
	// Keyed reports that the message has an idempotency key.
	Keyed bool
	// Delay until the message is due again.
	Delay time.Duration
	// Elapsed is how long the attempt ran.
	Elapsed time.Duration
	// Note is kept with a success, Reason with a release.
	Note, Reason string
	// Failure is set for Retry and Bury.
	Failure *Failure
}

// Failure describes why an attempt failed; its texts are sanitised already.
type Failure struct {
	Kind        message.FailureKind
	Decision    message.Decision
	Class       string
	Message     string
	Stack       string
	Fingerprint string
	// TraceID is the trace of the attempt: its id, or a traceparent, which
	// names the span too. Readers get the id; a replay gives the message a
	// traceparent as the header styx-died-in.
	TraceID string
	Version string
}
