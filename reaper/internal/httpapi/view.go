package httpapi

import (
	"time"

	"github.com/styxmq/styx/client/message"
)

// messageView is a message as JSON: the ten keys of old first, in their
// order, null where there is nothing.
type messageView struct {
	ID         int64          `json:"id"`
	Queue      string         `json:"queue"`
	Payload    *string        `json:"payload"`
	Status     message.Status `json:"status"`
	RetryCount int            `json:"retry_count"`
	MaxRetries int            `json:"max_retries"`
	RetryAfter *time.Time     `json:"retry_after"`
	LastError  *string        `json:"last_error"`
	CreatedAt  time.Time      `json:"created_at"`
	UpdatedAt  time.Time      `json:"updated_at"`

	Kind              string            `json:"kind"`
	Priority          int               `json:"priority"`
	Attempt           int               `json:"attempt"`
	ProcessingTimeout *float64          `json:"processing_timeout"`
	ExpiresAt         *time.Time        `json:"expires_at"`
	Headers           map[string]string `json:"headers"`
	Tenant            *string           `json:"tenant"`
	CorrelationID     *string           `json:"correlation_id"`
	IdempotencyKey    *string           `json:"idempotency_key"`
	LeaseToken        int64             `json:"lease_token"`
	Deadline          *time.Time        `json:"deadline"`
	WorkerLosses      int               `json:"worker_losses"`
	Snoozes           int               `json:"snoozes"`
	ReplayCount       int               `json:"replay_count"`

	// PayloadBytes is the size of the whole payload, of which a list may
	// show the beginning only.
	PayloadBytes     int  `json:"payload_bytes"`
	PayloadTruncated bool `json:"payload_truncated"`
}

// atOnce is the least delay that counts as one. What comes back without one,
// as by a replay, is due when it was written, and waits for nothing.
const atOnce = 10 * time.Millisecond

// viewOf shows m to the caller; one who may not see them gets null for payload
// and error.
func (c *caller) viewOf(m *message.Message) *messageView {
	v := &messageView{
		ID: m.ID, Queue: m.Queue, Payload: &m.Payload, Status: m.Status,
		RetryCount: m.RetryCount, MaxRetries: m.MaxRetries,
		RetryAfter: moment(m.RetryAfter), LastError: text(m.LastError),
		CreatedAt: m.CreatedAt.UTC(), UpdatedAt: m.UpdatedAt.UTC(),
		Kind: m.Kind, Priority: m.Priority, Attempt: m.Attempt,
		ProcessingTimeout: optionalSeconds(m.Timeout), ExpiresAt: moment(m.ExpiresAt),
		Headers: m.Headers, Tenant: text(m.Tenant), CorrelationID: text(m.CorrelationID),
		IdempotencyKey: text(m.IdempotencyKey), LeaseToken: m.LeaseToken, Deadline: moment(m.Deadline),
		WorkerLosses: m.WorkerLosses, Snoozes: m.Snoozes, ReplayCount: m.ReplayCount,
		PayloadBytes: max(m.PayloadBytes, len(m.Payload)), PayloadTruncated: m.PayloadBytes > 0,
	}
	if m.Status == message.StatusPending && m.RetryAfter.Sub(m.UpdatedAt) < atOnce {
		v.RetryAfter = nil
	}
	if v.Headers == nil {
		v.Headers = map[string]string{}
	}
	if !c.sees() {
		v.Payload, v.LastError, v.PayloadTruncated = nil, nil, false
	}
	return v
}

func (c *caller) viewsOf(messages []message.Message) []*messageView {
	views := make([]*messageView, len(messages))
	for i := range messages {
		views[i] = c.viewOf(&messages[i])
	}
	return views
}

// letterView is a dead letter as JSON: the message, and how it died.
type letterView struct {
	*messageView
	LetterID      int64              `json:"letter_id"`
	Decision      message.Decision   `json:"decision"`
	FailureKind   *string            `json:"failure_kind"`
	ErrorClass    *string            `json:"error_class"`
	ErrorMessage  *string            `json:"error_message"`
	Stack         *string            `json:"stack"`
	Fingerprint   *string            `json:"fingerprint"`
	AttemptsUsed  int                `json:"attempts_used"`
	FirstFailedAt *time.Time         `json:"first_failed_at"`
	LastFailedAt  *time.Time         `json:"last_failed_at"`
	DeadAt        time.Time          `json:"dead_at"`
	ResolvedAt    *time.Time         `json:"resolved_at"`
	Resolution    *string            `json:"resolution"`
	ResolvedBy    *string            `json:"resolved_by"`
	ResolveReason *string            `json:"resolve_reason"`
	WorkerVersion *string            `json:"worker_version"`
	TraceID       *string            `json:"trace_id"`
	Attempts      *[]message.Attempt `json:"attempts,omitempty"`
}

func (c *caller) letterOf(l *message.DeadLetter) *letterView {
	return &letterView{
		messageView: c.viewOf(&l.Message),
		LetterID:    l.LetterID, Decision: l.Decision, FailureKind: text(string(l.FailureKind)),
		ErrorClass: text(l.ErrorClass), ErrorMessage: text(l.ErrorMessage), Stack: text(l.Stack),
		Fingerprint: text(l.Fingerprint), AttemptsUsed: l.AttemptsUsed,
		FirstFailedAt: moment(l.FirstFailedAt), LastFailedAt: moment(l.LastFailedAt), DeadAt: l.DeadAt.UTC(),
		ResolvedAt: moment(l.ResolvedAt), Resolution: text(l.Resolution), ResolvedBy: text(l.ResolvedBy),
		ResolveReason: text(l.ResolveReason), WorkerVersion: text(l.WorkerVersion), TraceID: text(l.TraceID),
	}
}

// moment is null for no time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// text is null for no text.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// optionalSeconds is null for no time.
func optionalSeconds(d time.Duration) *float64 {
	if d <= 0 {
		return nil
	}
	s := d.Seconds()
	return &s
}

// cursorOf is null for the last page.
func cursorOf(next string) *string { return text(next) }

// orEmpty shows an empty list, not null.
func orEmpty[E any](list []E) []E {
	if list == nil {
		return []E{}
	}
	return list
}
