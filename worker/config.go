package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/name"
)

// The defaults of Config.
const (
	// DefaultConcurrency is how many handlers run at once for a queue.
	DefaultConcurrency = 10
	// DefaultTimeout limits one attempt.
	DefaultTimeout = time.Minute
	// DefaultLease is how long after its last beat a worker counts as alive.
	DefaultLease = 15 * time.Second
	// DefaultPollInterval is how often an idle worker looks for messages
	// without being woken.
	DefaultPollInterval = time.Second
	// DefaultGrace is how long Run drains after its context has ended.
	DefaultGrace = 25 * time.Second
	// DefaultMaxSnoozes is how often one message may be snoozed.
	DefaultMaxSnoozes = 100
	// MaxConcurrency is the largest concurrency of a queue.
	MaxConcurrency = 100_000
)

// abandonAfter is how long after a timeout an outcome still counts. The
// deadline in the database leaves room for it.
const abandonAfter = 5 * time.Second

// minPool is the smallest connection pool that a worker can serve: one
// connection beats, one listens, one claims and one settles.
const minPool = 4

// Config configures a Worker. Its zero value is ready to use.
type Config struct {
	// Schema is the PostgreSQL schema of the tables. Defaults to "styx".
	// SQLite has none.
	Schema string
	// Queues are those to serve. Defaults to the queue "default".
	Queues []Queue
	// Concurrency is how many handlers run at once for a queue that does
	// not say. Defaults to DefaultConcurrency.
	Concurrency int
	// Ahead is how many messages a worker may hold for a queue besides those
	// that run, at most 2,000. It makes claims larger where many processes
	// with few quick handlers each serve one queue. No more are held than are
	// done in 50 ms, nor than 8 MiB of payloads; what has waited for a second,
	// or half of a lease, is given back uncharged, as it is at a shutdown. But
	// when the process dies, each of them counts as lost by it, begun or not.
	// Defaults to 0: a worker claims no more than it has free slots.
	Ahead int
	// Timeout limits one attempt where neither message nor kind nor queue
	// says; -1 means no limit. Defaults to DefaultTimeout.
	Timeout time.Duration
	// Lease is how long this worker counts as alive after its last beat; it
	// beats three times as often. A shorter lease recovers a crash sooner
	// and tolerates shorter pauses. At least 500 ms. Defaults to
	// DefaultLease.
	Lease time.Duration
	// PollInterval is how often an idle worker looks for messages without
	// being woken. Defaults to DefaultPollInterval.
	PollInterval time.Duration
	// Grace is how long Run lets handlers finish after its context has
	// ended. In the last fifth of it their contexts are cancelled with
	// ErrShutdown; what has not returned at its end is given up. Defaults
	// to DefaultGrace.
	Grace time.Duration
	// MaxSnoozes is how often one message may be snoozed; after that a
	// snooze counts as a failure. Defaults to DefaultMaxSnoozes.
	MaxSnoozes int
	// RetryPolicy gives the delay of a retry where neither kind nor queue
	// says. Defaults to Exponential{}.
	RetryPolicy RetryPolicy
	// Classifier tells transient, permanent and unknown errors apart before
	// DefaultClassifier does. Defaults to none.
	Classifier Classifier
	// Middleware wraps every handler, the first outermost.
	Middleware []Middleware
	// Logger takes one line for each failed attempt and dead letter, and
	// for trouble with the database. Defaults to slog.Default().
	Logger *slog.Logger
	// TracerProvider records a span for each attempt, which the handler's
	// context carries. Defaults to the global one of OpenTelemetry, also
	// when that is set after New; as long as there is none, nothing is
	// recorded, and a handler's context carries that of the producer's span.
	TracerProvider trace.TracerProvider
	// MeterProvider takes measurements. Defaults to the global one of
	// OpenTelemetry, also when that is set after New; as long as there is
	// none, nothing is measured.
	MeterProvider metric.MeterProvider
	// TenantMetrics counts failures by tenant as well, up to 200 of them;
	// whoever may see the metrics sees their names then. Defaults to false.
	TenantMetrics bool
	// Propagator reads the context that a message carries in its headers;
	// producers need the same. Defaults to W3C trace context, whatever the
	// global one is.
	Propagator propagation.TextMapPropagator
	// Baggage lists the keys of a message's baggage that handlers see.
	// Defaults to none.
	Baggage []string
	// TraceMode says how the span of an attempt belongs to the producer's.
	// Defaults to TraceAuto.
	TraceMode TraceMode
	// Hooks are told what becomes of messages.
	Hooks Hooks
	// Name tells this worker from others to people. Defaults to the host's
	// name and the process id.
	Name string
	// Version is kept with dead letters, to tell which build failed.
	// Defaults to the main module's version.
	Version string
}

// Queue is a queue to serve.
type Queue struct {
	// Name of the queue.
	Name string
	// Concurrency is how many handlers run at once for this queue, apart
	// from other queues. Defaults to Config.Concurrency.
	Concurrency int
	// Ahead is how many messages the worker may hold besides those that run.
	// Defaults to Config.Ahead.
	Ahead int
	// Timeout limits one attempt; -1 means no limit. Defaults to
	// Config.Timeout.
	Timeout time.Duration
	// RetryPolicy gives the delay of a retry. Defaults to
	// Config.RetryPolicy.
	RetryPolicy RetryPolicy
}

func (c Config) withDefaults() Config {
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.PollInterval == 0 {
		c.PollInterval = DefaultPollInterval
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.MaxSnoozes == 0 {
		c.MaxSnoozes = DefaultMaxSnoozes
	}
	if c.RetryPolicy == nil {
		c.RetryPolicy = Exponential{}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Name == "" {
		host, _ := os.Hostname()
		c.Name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	if c.Version == "" {
		if info, ok := debug.ReadBuildInfo(); ok {
			c.Version = info.Main.Version
		}
	}
	queues := c.Queues
	if len(queues) == 0 {
		queues = []Queue{{Name: message.DefaultQueue}}
	}
	c.Queues = make([]Queue, len(queues))
	for i, q := range queues {
		if q.Concurrency == 0 {
			q.Concurrency = c.Concurrency
		}
		if q.Ahead == 0 {
			q.Ahead = c.Ahead
		}
		if q.Timeout == 0 {
			q.Timeout = c.Timeout
		}
		if q.RetryPolicy == nil {
			q.RetryPolicy = c.RetryPolicy
		}
		c.Queues[i] = q
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	refuse := func(bad bool, field, text string) {
		if bad {
			errs = append(errs, &message.ValidationError{Field: field, Code: message.CodeOutOfRange, Message: text})
		}
	}
	refuse(c.Lease < 500*time.Millisecond || c.Lease > time.Hour, "Lease", "Lease must be between 500 ms and 1 h.")
	refuse(c.PollInterval < time.Millisecond, "PollInterval", "PollInterval must be at least 1 ms.")
	refuse(c.Grace < 0, "Grace", "Grace must not be negative.")
	refuse(c.TraceMode < TraceAuto || c.TraceMode > TraceNone, "TraceMode", "TraceMode must be TraceAuto, TraceLink or TraceNone.")
	refuse(c.MaxSnoozes < 0, "MaxSnoozes", "MaxSnoozes must not be negative.")
	seen := map[string]bool{}
	for i, q := range c.Queues {
		field := fmt.Sprintf("Queues[%d].", i)
		if err := name.Check(field+"Name", q.Name); err != nil {
			errs = append(errs, err)
		}
		if seen[q.Name] {
			errs = append(errs, &message.ValidationError{
				Field: field + "Name", Code: message.CodeInvalid, Message: "each queue may be named once.",
			})
		}
		seen[q.Name] = true
		refuse(q.Concurrency < 1 || q.Concurrency > MaxConcurrency, field+"Concurrency",
			"Concurrency must be between 1 and 100,000.")
		refuse(q.Ahead < 0 || q.Ahead > maxAhead, field+"Ahead", "Ahead must be between 0 and 2,000.")
		refuse(q.Timeout < -1 || q.Timeout > message.MaxTimeout, field+"Timeout",
			"Timeout must be positive and at most 30 days, or -1 for none.")
	}
	return errors.Join(errs...)
}
