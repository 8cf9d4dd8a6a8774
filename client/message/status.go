package message

import "fmt"

// Status says where a message stands. Its values are the texts that the
// database view all_messages and the HTTP API show.
type Status string

// The four states of a message.
const (
	// StatusPending waits for a worker, at once or from a later time on.
	StatusPending Status = "pending"
	// StatusProcessing is held by one worker, under a lease.
	StatusProcessing Status = "processing"
	// StatusSucceeded is done, and kept in the archive for its retention.
	StatusSucceeded Status = "succeeded"
	// StatusDead will not run again unless somebody replays it.
	StatusDead Status = "dead"
)

// Statuses lists every status, in the order of a message's life.
func Statuses() []Status {
	return []Status{StatusPending, StatusProcessing, StatusSucceeded, StatusDead}
}

// Valid reports whether s is one of the four states.
func (s Status) Valid() bool {
	switch s {
	case StatusPending, StatusProcessing, StatusSucceeded, StatusDead:
		return true
	}
	return false
}

// ParseStatus returns the status with the given text, or a [ValidationError]
// of the field "status".
func ParseStatus(text string) (Status, error) {
	if s := Status(text); s.Valid() {
		return s, nil
	}
	return "", &ValidationError{
		Field: "status", Code: CodeInvalid,
		Message: fmt.Sprintf("status must be pending, processing, succeeded or dead, not %s.", quote(text)),
	}
}

// Event is what moves a message from one status to another.
type Event string

// The events of a message's life.
const (
	// EventClaim hands the message to a worker.
	EventClaim Event = "claim"
	// EventSucceed is a worker's report of success.
	EventSucceed Event = "succeed"
	// EventRetry is a failure with budget left.
	EventRetry Event = "retry"
	// EventBury is a failure that is permanent or has used up the budget.
	EventBury Event = "bury"
	// EventRelease gives the message back without charging an attempt.
	EventRelease Event = "release"
	// EventReap is the loss of the lease, with budget left.
	EventReap Event = "reap"
	// EventExpire ends a message that was not started in time.
	EventExpire Event = "expire"
	// EventCancel ends a pending message on request.
	EventCancel Event = "cancel"
	// EventReplay puts a dead message back.
	EventReplay Event = "replay"
)

// Events lists every event.
func Events() []Event {
	return []Event{
		EventClaim, EventSucceed, EventRetry, EventBury, EventRelease,
		EventReap, EventExpire, EventCancel, EventReplay,
	}
}

// Transition is one arrow of the state diagram.
type Transition struct {
	From  Status
	Event Event
	To    Status
}

// Transitions returns every permitted arrow; whatever is not listed is
// refused with a [StateError]. The slice is the caller's own.
func Transitions() []Transition {
	return []Transition{
		{StatusPending, EventClaim, StatusProcessing},
		{StatusPending, EventExpire, StatusDead},
		{StatusPending, EventCancel, StatusDead},
		{StatusProcessing, EventSucceed, StatusSucceeded},
		{StatusProcessing, EventRetry, StatusPending},
		{StatusProcessing, EventBury, StatusDead},
		{StatusProcessing, EventRelease, StatusPending},
		{StatusProcessing, EventReap, StatusPending},
		{StatusDead, EventReplay, StatusPending},
	}
}

// After returns the status that event leads to from s; ok is false when the
// event is not permitted there.
func (s Status) After(event Event) (next Status, ok bool) {
	for _, t := range Transitions() {
		if t.From == s && t.Event == event {
			return t.To, true
		}
	}
	return "", false
}
