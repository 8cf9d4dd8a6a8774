package store

import (
	"time"

	"github.com/styxmq/styx/client/message"
)

// StatsCap bounds every count of QueueStats: a count that reaches it means
// that many or more.
const StatsCap = 10_000

// ListQuery selects messages. Empty fields select everything.
type ListQuery struct {
	Queue, Kind, Tenant, CorrelationID string
	Status                             message.Status
	// After is the id where the page begins: larger ids when ascending,
	// smaller ones when Descending. 0 is the start.
	After      int64
	Descending bool
	// Offset is how many of the rows that match are skipped; its cost is
	// theirs.
	Offset int
	// Limit is the largest number of rows, at least 1.
	Limit int
	// Scan bounds the rows looked at; 0 is the store's default.
	Scan int
	// Preview is how many bytes of payloads and errors are returned; 0 is
	// all. See Preview; the database sends no more than PreviewRead.
	Preview int
}

// ListPage is one page of a list.
type ListPage struct {
	Messages []message.Message
	// Next is After of the next page; 0 when there is none. A page may hold
	// fewer than Limit messages, or none, and still have a next one: Scan
	// rows were looked at.
	Next int64
	// Skipped counts the rows of Offset that were found. While they are
	// fewer, the page is empty, and the rest is to be skipped from Next on.
	Skipped int
}

// QueueStats counts one queue.
type QueueStats struct {
	Queue string
	// Ready are due, Scheduled are not yet, both pending.
	Ready, Scheduled, Processing, Dead int
	// OldestReady is how long the oldest ready message has been due.
	OldestReady time.Duration
}

// LetterQuery selects dead letters. Empty fields select everything.
type LetterQuery struct {
	Queue, Kind, Tenant, ErrorClass, Fingerprint string
	Decision                                     message.Decision
	// Resolved selects the resolved ones instead of those that wait.
	Resolved bool
	// After is the letter id where the page begins, newest first.
	After int64
	Limit int
	// Preview is that of ListQuery, of stacks too.
	Preview int
}

// PurgeQuery selects dead letters to delete.
type PurgeQuery struct {
	// ID selects the letters of one message, resolved or not.
	ID int64
	// Queue selects one queue, empty all; only letters that are Resolved,
	// or only ones that wait.
	Queue    string
	Resolved bool
	// OlderThan counts from the death, or from the resolution of a
	// resolved letter.
	OlderThan time.Duration
	Limit     int
}

// Actor says who asked for a change, from where, and why.
type Actor struct{ Name, Origin, Reason string }
