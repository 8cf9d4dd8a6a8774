package store

import "time"

// NewMessage is a message to be stored: valid, with every default applied.
type NewMessage struct {
	Queue, Kind, Payload string
	Priority, MaxRetries int
	// Timeout of one attempt; 0 is the worker's, negative none.
	Timeout time.Duration
	// Delay or RunAt postpone the message; both zero is at once, and so is
	// a RunAt that has passed.
	Delay time.Duration
	RunAt time.Time
	// ExpiresIn counts from when the message is due; 0 is never.
	ExpiresIn time.Duration
	// IdempotencyKey is empty for none; Digest tells two uses of one key
	// apart, KeyWindow is how long it stays taken after success.
	IdempotencyKey, Digest string
	KeyWindow              time.Duration
	Tenant, CorrelationID  string
	Headers                map[string]string
}

// Postponed reports whether the message has a delay or time.
func (m *NewMessage) Postponed() bool { return m.Delay > 0 || !m.RunAt.IsZero() }

// Inserted is what the database says of a stored message.
type Inserted struct {
	ID        int64
	CreatedAt time.Time
	// RetryAfter is zero for a message that is ready at once.
	RetryAfter time.Time
}
