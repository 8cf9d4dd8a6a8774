package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/styxmq/styx/internal/failure"
)

// The causes with which a handler's context ends; message.ErrLeaseLost is
// the third.
var (
	// ErrTimeout: the attempt has used up its time.
	ErrTimeout = errors.New("worker: attempt timed out")
	// ErrShutdown: the worker's grace is nearly over. A handler that
	// returns this cause, or context.Canceled, gives its message back
	// uncharged.
	ErrShutdown = errors.New("worker: shutting down")
)

// outcome is an error that says what to do with the message. The outermost
// one in a chain wins.
type outcome interface {
	error
	outcome() verdict
}

type verb uint8

const (
	permanent verb = iota + 1
	ignore
	retryAfter
	snooze
)

type verdict struct {
	verb  verb
	delay time.Duration
}

type outcomeError struct {
	err  error
	what string
	verdict
}

func (e *outcomeError) Error() string {
	if e.err == nil {
		return "worker: " + e.what
	}
	return e.err.Error()
}

func (e *outcomeError) Unwrap() error    { return e.err }
func (e *outcomeError) outcome() verdict { return e.verdict }

// ErrorClass is that of the error inside: an outcome says what to do with a
// failure, not which one it is.
func (e *outcomeError) ErrorClass() string {
	switch {
	case e.err != nil:
		return failure.Class(e.err)
	case e.verb == snooze:
		return "worker.Snooze"
	}
	return "worker.RetryAfter"
}

// Permanent marks an error that no retry can mend: the message is dead at
// once. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &outcomeError{err: err, what: "permanent", verdict: verdict{verb: permanent}}
}

// Ignore marks an error that is no failure, such as an effect that had
// happened already: the message succeeds, and the error's text is kept as a
// note. Ignore(nil) is nil.
func Ignore(err error) error {
	if err == nil {
		return nil
	}
	return &outcomeError{err: err, what: "ignored", verdict: verdict{verb: ignore}}
}

// RetryAfter marks a failure with its own delay, such as that of a
// Retry-After header; a negative one means at once. The attempt is charged,
// and the message is dead when its budget is used up. RetryAfter(d, nil) is
// a failure too.
func RetryAfter(d time.Duration, err error) error {
	return &outcomeError{
		err: err, what: fmt.Sprintf("retry after %s", d), verdict: verdict{verb: retryAfter, delay: max(0, d)},
	}
}

// Snooze puts the message back for a while without charging the attempt. A
// message can be snoozed Config.MaxSnoozes times; after that it is a failure.
func Snooze(d time.Duration) error {
	return &outcomeError{what: fmt.Sprintf("snooze %s", d), verdict: verdict{verb: snooze, delay: max(0, d)}}
}

// verdictOf finds the outermost outcome in the chain.
func verdictOf(err error) (verdict, bool) {
	var o outcome
	if errors.As(err, &o) {
		return o.outcome(), true
	}
	return verdict{}, false
}
