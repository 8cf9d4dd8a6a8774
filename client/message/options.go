package message

import "time"

// Limits and defaults that hold for every way of enqueueing.
const (
	// DefaultQueue takes messages that name no queue.
	DefaultQueue = "default"
	// DefaultMaxRetries is the number of attempts when nothing else is said.
	DefaultMaxRetries = 5
	// MaxMaxRetries is the largest number of attempts.
	MaxMaxRetries = 1000
	// MinPriority is the most urgent priority, MaxPriority the least; 0,
	// the default, stands between them.
	MinPriority = -9
	// MaxPriority is the least urgent priority.
	MaxPriority = 9
	// DefaultPayloadLimit is the largest payload in bytes.
	DefaultPayloadLimit = 1 << 20
	// MaxNameLength is the largest queue name, kind and tenant in bytes.
	MaxNameLength = 128
	// MaxKeyLength is the largest idempotency key and correlation id in
	// bytes.
	MaxKeyLength = 255
	// MaxHeaders is the largest number of headers, MaxHeaderBytes the
	// largest size of all their names and values together.
	MaxHeaders = 64
	// MaxHeaderBytes is the largest size of all headers in bytes.
	MaxHeaderBytes = 16 << 10
	// MaxDelay is how far ahead a message can be scheduled or expire: ten
	// years.
	MaxDelay = 3653 * 24 * time.Hour
	// MaxTimeout is the longest timeout of one attempt: 30 days.
	MaxTimeout = 30 * 24 * time.Hour
	// DefaultIdempotencyWindow is how long a key stays taken after success.
	DefaultIdempotencyWindow = 24 * time.Hour
)

// EnqueueOptions are the settings of one enqueue. The zero value takes every
// default. A field that the call leaves zero is taken from the payload
// type's own defaults (its method EnqueueDefaults), then from the client's
// configuration.
type EnqueueOptions struct {
	// Queue names the queue: valid UTF-8, 1 to 128 bytes, no control
	// characters. Defaults to "default".
	Queue string
	// Delay postpones the message by the database's clock. Zero and
	// negative mean at once; more than MaxDelay is refused. Only one of
	// Delay and RunAt may be set.
	Delay time.Duration
	// RunAt postpones the message to a time. Zero and past mean at once;
	// later than MaxDelay from now is refused.
	RunAt time.Time
	// Priority orders ready messages of one queue, from MinPriority (first)
	// to MaxPriority (last). Defaults to 0.
	Priority int
	// MaxRetries is the number of attempts, 1 to MaxMaxRetries. Defaults to
	// DefaultMaxRetries.
	MaxRetries int
	// Timeout limits one attempt, up to MaxTimeout; -1 means none. Defaults
	// to 0, which leaves it to the worker.
	Timeout time.Duration
	// IdempotencyKey makes a second enqueue with the same key in the same
	// queue return a DuplicateError while the first message is pending,
	// processing or dead, and for the client's idempotency window after it
	// succeeded. Up to MaxKeyLength bytes. Empty means no key.
	IdempotencyKey string
	// Tenant is on whose behalf the work is done. Up to MaxNameLength bytes.
	Tenant string
	// CorrelationID ties messages of one business transaction together. Up
	// to MaxKeyLength bytes.
	CorrelationID string
	// Headers travel with the message, outside the payload. Names are 1 to
	// 128 bytes of UTF-8; at most MaxHeaders of them and MaxHeaderBytes in
	// all.
	Headers map[string]string
	// ExpiresIn ends the message as dead, with the decision expired, when
	// nobody has started it that long after the enqueue (or after its delay
	// is over). Zero means never; negative is refused.
	ExpiresIn time.Duration
}

// Merge returns o with every zero field taken from defaults. Headers are
// joined, those of o winning. RunAt and Delay count as one field.
func (o EnqueueOptions) Merge(defaults EnqueueOptions) EnqueueOptions {
	if o.Queue == "" {
		o.Queue = defaults.Queue
	}
	if o.Delay == 0 && o.RunAt.IsZero() {
		o.Delay, o.RunAt = defaults.Delay, defaults.RunAt
	}
	if o.Priority == 0 {
		o.Priority = defaults.Priority
	}
	if o.MaxRetries == 0 {
		o.MaxRetries = defaults.MaxRetries
	}
	if o.Timeout == 0 {
		o.Timeout = defaults.Timeout
	}
	if o.IdempotencyKey == "" {
		o.IdempotencyKey = defaults.IdempotencyKey
	}
	if o.Tenant == "" {
		o.Tenant = defaults.Tenant
	}
	if o.CorrelationID == "" {
		o.CorrelationID = defaults.CorrelationID
	}
	if o.ExpiresIn == 0 {
		o.ExpiresIn = defaults.ExpiresIn
	}
	if len(defaults.Headers) > 0 {
		joined := make(map[string]string, len(defaults.Headers)+len(o.Headers))
		for k, v := range defaults.Headers {
			joined[k] = v
		}
		for k, v := range o.Headers {
			joined[k] = v
		}
		o.Headers = joined
	}
	return o
}
