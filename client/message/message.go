package message

import "time"

// Message is one unit of work. The database owns it: a value is a copy made
// at one moment and changes nothing when it is changed.
type Message struct {
	// ID identifies the message for life; it is never used again. Ids grow
	// in the order of enqueueing and order the queue.
	ID int64 `json:"id"`
	// Queue names the queue. Queues come into being with their first message.
	Queue string `json:"queue"`
	// Kind names the sort of work, and with it the handler.
	Kind string `json:"kind"`
	// Payload is opaque text: whatever was enqueued, byte for byte.
	Payload string `json:"payload"`
	// PayloadBytes is the size of the whole payload where Payload is only
	// its beginning, as in a list with a preview; 0 where it is whole.
	PayloadBytes int `json:"payload_bytes,omitempty"`
	// Status is where the message stood when this copy was made.
	Status Status `json:"status"`
	// Priority orders ready messages of one queue: lower runs sooner.
	Priority int `json:"priority"`
	// Attempt is the number of the current or next attempt, from 1 on:
	// RetryCount + 1.
	Attempt int `json:"attempt"`
	// RetryCount counts the attempts charged since the enqueue or the last
	// replay.
	RetryCount int `json:"retry_count"`
	// MaxRetries is the number of attempts that the message may use; at 1
	// it is never retried.
	MaxRetries int `json:"max_retries"`
	// Timeout limits one attempt; 0 leaves it to the worker.
	Timeout time.Duration `json:"timeout,omitempty"`
	// RetryAfter is the time before which the message is not claimed; zero
	// when it is ready at once.
	RetryAfter time.Time `json:"retry_after,omitzero"`
	// ExpiresAt is the time after which the message is not started any
	// more; zero for never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// LastError is the text of the latest failure, empty before the first.
	LastError string `json:"last_error,omitempty"`
	// Headers are the caller's own and the trace context.
	Headers map[string]string `json:"headers,omitempty"`
	// Tenant is on whose behalf the work is done.
	Tenant string `json:"tenant,omitempty"`
	// CorrelationID ties messages of one business transaction together.
	CorrelationID string `json:"correlation_id,omitempty"`
	// IdempotencyKey is the key that this message holds in its queue.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// LeaseToken grows by one with every claim, through dead letter and
	// replay too, and is never used again. It fences stale workers off here
	// and can do the same in a store downstream.
	LeaseToken int64 `json:"lease_token"`
	// WorkerLosses counts how often the worker of this message vanished.
	WorkerLosses int `json:"worker_losses,omitempty"`
	// Snoozes counts how often a handler postponed the message.
	Snoozes int `json:"snoozes,omitempty"`
	// ReplayCount counts how often the message was put back from the dead.
	ReplayCount int `json:"replay_count,omitempty"`
	// CreatedAt is the database's time of the enqueue.
	CreatedAt time.Time `json:"created_at"`
	// UpdatedAt is the database's time of the latest change of status that
	// is recorded; a claim is recorded with its deadline only.
	UpdatedAt time.Time `json:"updated_at"`
	// Deadline is when a processing message counts as timed out even though
	// its worker lives; zero for never and in other states.
	Deadline time.Time `json:"deadline,omitzero"`
	// WorkerID is the incarnation of the worker that holds or last held the
	// message; 0 when none does.
	WorkerID int64 `json:"worker_id,omitempty"`
}
