package worker

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/styxmq/styx/client/message"
)

// The defaults of Exponential.
const (
	DefaultBase   = 2 * time.Second
	DefaultCap    = time.Hour
	DefaultJitter = 0.25
)

// Failure is what a RetryPolicy is asked about.
type Failure struct {
	// Message is the message whose attempt has failed.
	Message message.Message
	// Attempt is the number of the failed attempt, from 1 on.
	Attempt int
	Kind    message.FailureKind
	Err     error
}

// RetryPolicy gives the time from a failure to the next attempt. It must be
// safe for concurrent use. The worker keeps every delay between 1 ms and
// message.MaxDelay, and uses Exponential{} when a policy panics.
type RetryPolicy interface {
	Delay(f Failure) time.Duration
}

// Exponential doubles the delay with each attempt: Base × 2^(attempt-1), at
// most Cap, then spread evenly by ± Jitter so that messages that failed
// together do not come back together. Failures of unknown kind wait twice as
// long. The result is above 0 and never above Cap. Its zero value uses the
// defaults.
type Exponential struct {
	// Base is the delay after the first failure. Defaults to DefaultBase.
	Base time.Duration
	// Cap is the longest delay. Defaults to DefaultCap.
	Cap time.Duration
	// Jitter is the share of the delay by which it varies, from 0 to 1;
	// negative means none and more than 1 means 1. Defaults to
	// DefaultJitter.
	Jitter float64
}

var _ RetryPolicy = Exponential{}

// Delay returns the delay after the failure.
func (e Exponential) Delay(f Failure) time.Duration {
	base, limit, jitter := e.Base, e.Cap, e.Jitter
	if base <= 0 {
		base = DefaultBase
	}
	if limit <= 0 {
		limit = DefaultCap
	}
	if jitter == 0 || math.IsNaN(jitter) {
		jitter = DefaultJitter
	}
	jitter = min(max(jitter, 0), 1)
	d := float64(base) * math.Pow(2, float64(max(f.Attempt, 1)-1))
	if f.Kind == message.FailureUnknown {
		d *= 2
	}
	d = min(d, float64(limit))
	d *= 1 + jitter*(2*rand.Float64()-1) //nolint:gosec // jitter needs no secrecy
	if d >= float64(limit) {             // which may round up beyond what a Duration holds
		return limit
	}
	return max(1, time.Duration(d))
}

// Delays is an explicit list: the first delay follows the first failure, and
// so on; the last serves all that come after it. An empty list retries at
// once. There is no jitter.
type Delays []time.Duration

var _ RetryPolicy = Delays(nil)

// Delay returns the delay after the failure.
func (d Delays) Delay(f Failure) time.Duration {
	if len(d) == 0 {
		return 0
	}
	return d[min(max(f.Attempt, 1), len(d))-1]
}

// RetryFunc is a function as a policy.
type RetryFunc func(f Failure) time.Duration

var _ RetryPolicy = RetryFunc(nil)

// Delay calls the function.
func (f RetryFunc) Delay(failure Failure) time.Duration { return f(failure) }
