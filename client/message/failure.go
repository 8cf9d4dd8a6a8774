package message

import "time"

// FailureKind says whether a failure is worth another attempt.
type FailureKind string

// The kinds of failure.
const (
	// FailureTransient passes by itself: retried within the budget.
	FailureTransient FailureKind = "transient"
	// FailurePermanent never passes: dead at once.
	FailurePermanent FailureKind = "permanent"
	// FailureUnknown is everything else: retried, with its delay doubled.
	FailureUnknown FailureKind = "unknown"
)

// Valid reports whether k is one of the three kinds.
func (k FailureKind) Valid() bool {
	return k == FailureTransient || k == FailurePermanent || k == FailureUnknown
}

// Decision is why a message is dead.
type Decision string

// The decisions kept with a dead letter.
const (
	// DecisionPoison: the failure is permanent.
	DecisionPoison Decision = "poison"
	// DecisionExhausted: the budget of attempts is used up.
	DecisionExhausted Decision = "exhausted"
	// DecisionTimedOut: the last attempt ran out of time.
	DecisionTimedOut Decision = "timed_out"
	// DecisionWorkerLost: the worker vanished during the last attempt.
	DecisionWorkerLost Decision = "worker_lost"
	// DecisionExpired: nobody started it before ExpiresAt.
	DecisionExpired Decision = "expired"
	// DecisionCancelled: somebody cancelled it; resolved at once.
	DecisionCancelled Decision = "cancelled"
	// DecisionQuarantined: an operator set it aside.
	DecisionQuarantined Decision = "quarantined"
)

// Decisions lists every decision.
func Decisions() []Decision {
	return []Decision{
		DecisionPoison, DecisionExhausted, DecisionTimedOut, DecisionWorkerLost,
		DecisionExpired, DecisionCancelled, DecisionQuarantined,
	}
}

// Outcome is how an attempt ended.
type Outcome string

// The outcomes of an attempt. A success leaves no attempt row; the archive
// has it.
const (
	// OutcomeRetried: failed, and the message went back to pending.
	OutcomeRetried Outcome = "retried"
	// OutcomeDead: failed, and the message is dead.
	OutcomeDead Outcome = "dead"
	// OutcomeReleased: given back uncharged, as at a shutdown.
	OutcomeReleased Outcome = "released"
	// OutcomeSnoozed: postponed by its handler, uncharged.
	OutcomeSnoozed Outcome = "snoozed"
)

// Attempt is the record of one attempt that did not succeed. Attempts
// survive a replay; they go when their message is purged or leaves the
// archive.
type Attempt struct {
	ID        int64 `json:"id"`
	MessageID int64 `json:"message_id"`
	// Number is the attempt's number within its budget, from 1 on. It
	// starts again with a replay; LeaseToken does not.
	Number     int     `json:"attempt"`
	LeaseToken int64   `json:"lease_token"`
	Outcome    Outcome `json:"outcome"`
	// Charged reports whether the attempt counts against MaxRetries.
	Charged      bool        `json:"charged"`
	FailureKind  FailureKind `json:"failure_kind,omitempty"`
	ErrorClass   string      `json:"error_class,omitempty"`
	ErrorMessage string      `json:"error_message,omitempty"`
	Stack        string      `json:"stack,omitempty"`
	// Worker is the incarnation that ran the attempt.
	WorkerID int64 `json:"worker_id"`
	// Reason says what released or reaped the attempt, such as shutdown.
	Reason     string    `json:"reason,omitempty"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	FinishedAt time.Time `json:"finished_at"`
	// RetryAfter is when the next attempt was due, zero when there is none.
	RetryAfter time.Time `json:"retry_after,omitzero"`
	TraceID    string    `json:"trace_id,omitempty"`
}

// DeadLetter is a message that will not run again by itself, with all that
// an operator needs to decide about it. The embedded Message is intact:
// payload, headers and keys are those of the enqueue.
type DeadLetter struct {
	Message
	// LetterID identifies this death; a message that dies again after a
	// replay has another.
	LetterID     int64       `json:"letter_id"`
	Decision     Decision    `json:"decision"`
	FailureKind  FailureKind `json:"failure_kind,omitempty"`
	ErrorClass   string      `json:"error_class,omitempty"`
	ErrorMessage string      `json:"error_message,omitempty"`
	// Stack holds the first frames of the last failure's stack.
	Stack string `json:"stack,omitempty"`
	// Fingerprint groups failures of one cause.
	Fingerprint string `json:"fingerprint,omitempty"`
	// AttemptsUsed is the number of charged attempts.
	AttemptsUsed  int       `json:"attempts_used"`
	FirstFailedAt time.Time `json:"first_failed_at,omitzero"`
	LastFailedAt  time.Time `json:"last_failed_at,omitzero"`
	DeadAt        time.Time `json:"dead_at"`
	// ResolvedAt is zero while the letter waits for somebody.
	ResolvedAt time.Time `json:"resolved_at,omitzero"`
	// Resolution is how it was resolved: replayed, resolved or cancelled.
	Resolution string `json:"resolution,omitempty"`
	// ResolvedBy and ResolveReason are what the operator gave.
	ResolvedBy    string `json:"resolved_by,omitempty"`
	ResolveReason string `json:"resolve_reason,omitempty"`
	WorkerVersion string `json:"worker_version,omitempty"`
	TraceID       string `json:"trace_id,omitempty"`
}

// The texts of DeadLetter.Resolution.
const (
	// ResolutionReplayed: the message was put back.
	ResolutionReplayed = "replayed"
	// ResolutionResolved: somebody dealt with it and closed it.
	ResolutionResolved = "resolved"
	// ResolutionCancelled: it was cancelled before it ran.
	ResolutionCancelled = "cancelled"
)
