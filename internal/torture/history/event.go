package history

// Kind is what happened.
type Kind string

// What a producer sees.
const (
	// Try is before an enqueue is sent, for each of Ops.
	Try Kind = "try"
	// Ack is after it was acknowledged; IDs has an id for each of Ops, 0
	// where the reply did not tell.
	Ack Kind = "ack"
	// Undone is after a transaction with an enqueue was rolled back: the
	// message must never be seen.
	Undone Kind = "undone"
)

// What a worker sees. ID and Token name the attempt.
const (
	// Start is when the handler begins, before it does anything.
	Start Kind = "start"
	// Effect is when the handler has done something outside the database.
	Effect Kind = "effect"
	// Ready is when success may be recorded from now on: before a
	// CompleteTx, and before the handler returns without an error.
	Ready Kind = "ready"
	// Fail is when a failure or a snooze may be recorded from now on: before
	// the handler returns an error, panics or ends by Goexit.
	Fail Kind = "fail"
	// Rejected is when the worker was told that the outcome does not count.
	Rejected Kind = "rejected"
	// Draining is when the process was asked to end in good order.
	Draining Kind = "draining"
)

// Replayed is when an operator's replay of message ID was acknowledged.
const Replayed Kind = "replayed"

// What the coordinator does.
const (
	// Gone is when a process ended; Name is the process, Note how.
	Gone Kind = "gone"
	// Began and Ended enclose a fault or phase; Name is its name.
	Began Kind = "began"
	Ended Kind = "ended"
	// Back is when the database takes connections again.
	Back Kind = "back"
	// Stepped is right before and right after the database's clock steps.
	Stepped Kind = "stepped"
	// Broken is when a process ended in a way that it must not.
	Broken Kind = "broken"
)

// Event is one line.
type Event struct {
	// At is the time by the clock of the machine, in microseconds since 1970.
	At   int64 `json:"t"`
	Kind Kind  `json:"k"`
	// Process is the name of the one who wrote it, taken from its file.
	Process string   `json:"-"`
	Ops     []string `json:"ops,omitempty"`
	IDs     []int64  `json:"ids,omitempty"`
	ID      int64    `json:"id,omitempty"`
	Token   int64    `json:"tok,omitempty"`
	Worker  int64    `json:"w,omitempty"`
	Name    string   `json:"n,omitempty"`
	Note    string   `json:"note,omitempty"`
	// Until is, at a Start, when the lease may end at the soonest, 0 where a
	// worker beats for it.
	Until int64 `json:"until,omitempty"`
}
