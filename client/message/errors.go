package message

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

var (
	// ErrNotFound: there is no such message, dead letter or attempt.
	ErrNotFound = errors.New("message: not found")
	// ErrLeaseLost: the caller does not hold the message any more. It is
	// also the cause of a handler's context when that happens to it.
	ErrLeaseLost = errors.New("message: lease lost")
	// ErrSchemaNewer: the database was migrated by a newer version of Styx
	// than this one knows.
	ErrSchemaNewer = errors.New("message: the database schema is newer than this version knows")
	// ErrSchemaMissing: the database holds no schema of Styx, or an older
	// one; run the migration.
	ErrSchemaMissing = errors.New("message: the database schema is missing or old, run the migration")
	// ErrTxDone: the transaction handed to an EnqueueTx or CompleteTx has
	// failed or ended already, so nothing can be written in it.
	ErrTxDone = errors.New("message: transaction has failed or ended")
)

// The codes of a ValidationError.
const (
	// CodeRequired: the field is empty and must not be.
	CodeRequired = "required"
	// CodeInvalid: the value is not permitted.
	CodeInvalid = "invalid"
	// CodeTooLong: the value is larger than its limit.
	CodeTooLong = "too_long"
	// CodeEncoding: the text is not valid UTF-8 or holds a NUL or another
	// character that is not permitted.
	CodeEncoding = "encoding"
	// CodeOutOfRange: a number or time is outside its range.
	CodeOutOfRange = "out_of_range"
)

// ValidationError reports a value that was refused before anything was
// written. Find it with errors.As.
type ValidationError struct {
	// Field names the value as JSON does, such as max_retries; an item of a
	// batch has its index, such as messages[3].payload.
	Field string
	// Code is one of the Code constants.
	Code string
	// Message is a sentence for people.
	Message string
}

// Error returns the field and the sentence.
func (e *ValidationError) Error() string {
	return fmt.Sprintf("message: invalid %s: %s", e.Field, e.Message)
}

// StateError reports that a message is not in the status that the operation
// needs. Find it with errors.As.
type StateError struct {
	ID int64
	// Operation is what was asked, such as replay.
	Operation string
	// Current is the status that the message has.
	Current Status
}

// Error says what was asked and where the message stands.
func (e *StateError) Error() string {
	return fmt.Sprintf("message: cannot %s message %d, which is %s", e.Operation, e.ID, e.Current)
}

// DuplicateError reports that another message holds the idempotency key.
// Find it with errors.As.
type DuplicateError struct {
	Queue string
	Key   string
	// ID is the message that holds the key; 0 when the database could not
	// tell, as inside a REPEATABLE READ or SERIALIZABLE transaction that
	// lost the race.
	ID int64
	// Mismatch reports that kind or payload differ from those first
	// enqueued with the key: the key was used for two purposes.
	Mismatch bool
	// Index is the position in the batch of an EnqueueMany, otherwise 0.
	Index int
}

// Error names the queue, the key and the holder.
func (e *DuplicateError) Error() string {
	s := fmt.Sprintf("message: idempotency key %s of queue %s is held by message %d", quote(e.Key), quote(e.Queue), e.ID)
	if e.ID == 0 {
		s = fmt.Sprintf("message: idempotency key %s of queue %s is held by another message", quote(e.Key), quote(e.Queue))
	}
	if e.Mismatch {
		s += ", which differs in kind or payload"
	}
	return s
}

// quote shows a text from outside on one line, cut to a readable length.
func quote(s string) string {
	const limit = 64
	if len(s) > limit {
		cut := limit
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strconv.Quote(s)
}
