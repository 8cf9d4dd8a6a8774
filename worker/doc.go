// Package worker runs handlers for messages.
//
//	type Welcome struct{ To string `json:"to"` }
//
//	func (Welcome) Kind() string { return "welcome" }
//
//	func send(ctx context.Context, m *worker.Message[Welcome]) error { … }
//
//	w, err := worker.New(db, worker.Config{})
//	worker.Handle(w, send, nil)
//	err = w.Run(ctx) // until ctx ends, then drains
//
// # Guarantees
//
// Delivery is at least once: a message is handed to one worker at a time,
// under a lease, and runs again when the worker is lost before its outcome
// is recorded. Outcomes are fenced: a worker that lost a message, because it
// was stopped, cut off or too slow, cannot change it any more. An effect that
// must happen exactly once belongs into the transaction of
// [Message.CompleteTx].
//
// Messages of one queue and priority start in the order of their ids; with
// more than one running at a time they do not end in it. Time is the
// database's clock.
//
// # Outcomes
//
// A handler's error decides, found through wraps, the outermost first: nil
// is success; [Permanent] is dead at once; [Ignore] is success with a note;
// [RetryAfter] is a failure with its own delay; [Snooze] puts the message
// back uncharged. Any other error is classified ([Classifier]) and retried
// within the budget ([RetryPolicy]). A panic, runtime.Goexit and a timeout are
// failures like any other.
//
// # Context
//
// A handler's context ends with a cause that context.Cause tells:
// [ErrTimeout], [ErrShutdown] or message.ErrLeaseLost. After a timeout an
// outcome counts for another 5 seconds; then the handler is abandoned, the
// failure recorded and its slot filled again. After a lease is lost nothing
// that the handler returns counts.
package worker
