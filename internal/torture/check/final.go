package check

// Place is where a message stands.
type Place string

// The places.
const (
	Pending    Place = "pending"
	Processing Place = "processing"
	Succeeded  Place = "succeeded"
	Dead       Place = "dead"
)

// Final is what the database holds after the drain. Times are microseconds
// since 1970 by the database's clock, 0 for none.
type Final struct {
	Messages []Message
	Attempts []Attempt
	Workers  []Worker
	// Effects are the rows that handlers wrote in the transaction of their
	// CompleteTx.
	Effects []Lease
}

// Lease names an attempt of a message.
type Lease struct{ ID, Token int64 }

// Message is a message in one place.
type Message struct {
	Lease
	Op               string
	Place            Place
	Worker           int64
	Retries, Budget  int
	At               int64 // when it came there, for Succeeded and Dead
	CompletedInTx    bool  // it was to be completed in the handler's transaction
	DecisionOfDeath  string
	ReplaysOfMessage int
}

// Attempt is the record of an attempt that did not succeed.
type Attempt struct {
	Lease
	Worker                 int64
	Outcome, Reason, Class string
	At                     int64
}

// byReaper reports whether the reaper ended the attempt, not its worker.
func (a *Attempt) byReaper() bool { return a.Reason == reasonLost || a.Reason == reasonTimedOut }

// What the reaper writes as the reason.
const (
	reasonLost     = "worker_lost"
	reasonTimedOut = "timed_out"
)

// remote is the worker of what is held without one.
const remote = -1

// Worker is one incarnation of a worker.
type Worker struct {
	ID         int64
	Process    string
	Beat, Dead int64
	Lease      int64 // in microseconds
}
