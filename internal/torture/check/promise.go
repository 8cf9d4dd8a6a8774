package check

import "fmt"

// Promise names what was broken.
type Promise string

// The promises.
const (
	// Lost: acknowledged, or seen to run, and nowhere in the end.
	Lost Promise = "lost"
	// Stuck: neither succeeded nor dead after the drain.
	Stuck Promise = "stuck"
	// Unexpected: there, though nobody enqueued it or its transaction was
	// rolled back.
	Unexpected Promise = "unexpected"
	// StoredTwice: one enqueue made two messages.
	StoredTwice Promise = "stored twice"
	// TwoPlaces: one message stands in two places.
	TwoPlaces Promise = "two places"
	// TokenReused: two attempts had the same lease token.
	TokenReused Promise = "token reused"
	// TwoOwners: an attempt began while the one before had not been ended
	// by anybody.
	TwoOwners Promise = "two owners"
	// StaleSettle: an outcome was accepted which the attempt's own handler
	// had not come to.
	StaleSettle Promise = "stale settle"
	// FalseRejection: an outcome was refused although nobody had ended the
	// attempt.
	FalseRejection Promise = "false rejection"
	// EarlyLoss: an attempt was taken from a worker within its lease, or
	// before its deadline.
	EarlyLoss Promise = "early loss"
	// DuplicateEffect: a CompleteTx left more than one effect of a message.
	DuplicateEffect Promise = "duplicate effect"
	// TornEffect: effect and completion did not commit together.
	TornEffect Promise = "torn effect"
	// OverBudget: more attempts were charged than the message may use.
	OverBudget Promise = "over budget"
	// BrokenProcess: a process ended by itself, as it never should.
	BrokenProcess Promise = "broken process"
)

// Violation is one broken promise.
type Violation struct {
	Promise Promise
	ID      int64
	Detail  string
}

// String is the violation in one line.
func (v Violation) String() string {
	if v.ID == 0 {
		return fmt.Sprintf("%s: %s", v.Promise, v.Detail)
	}
	return fmt.Sprintf("%s: message %d: %s", v.Promise, v.ID, v.Detail)
}
