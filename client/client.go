package client

import (
	"log/slog"
	"maps"
	"time"

	"github.com/uptrace/bun"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/engine"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/telemetry"
)

// EnqueueOptions are the settings of one enqueue; see the fields of
// [message.EnqueueOptions].
type EnqueueOptions = message.EnqueueOptions

// MaxPayloadLimit is the largest Config.PayloadLimit: 256 MiB.
const MaxPayloadLimit = 256 << 20

// Config are the settings of a client. The zero value takes every default.
type Config struct {
	// Schema is the PostgreSQL schema that holds the tables. Programs with
	// one schema share its queues, those with another never meet. Defaults
	// to "styx"; with SQLite it must be empty.
	Schema string
	// PayloadLimit is the largest payload in bytes, up to MaxPayloadLimit;
	// larger ones are refused. Every worker that claims a message holds its
	// payload in memory. Defaults to message.DefaultPayloadLimit, 1 MiB.
	PayloadLimit int
	// IdempotencyWindow is how long an idempotency key stays taken after
	// its message has succeeded, up to message.MaxDelay. A negative window
	// frees the key with the success. Defaults to
	// message.DefaultIdempotencyWindow, 24 hours.
	IdempotencyWindow time.Duration
	// Defaults are the options of every message which neither the call nor
	// the payload type sets. It must hold no idempotency key.
	Defaults EnqueueOptions
	// Logger receives what no caller is told: a migration that was applied.
	// Defaults to slog.Default().
	Logger *slog.Logger
	// TracerProvider records a span for each enqueue, whose context the
	// message carries to its handler. Defaults to the global one of
	// OpenTelemetry, also when that is set after New; as long as there is
	// none, nothing is recorded, and a message carries the context of the
	// span that the caller's context has.
	TracerProvider trace.TracerProvider
	// MeterProvider takes measurements of enqueues. Defaults to the global
	// one of OpenTelemetry, also when that is set after New; as long as
	// there is none, nothing is measured.
	MeterProvider metric.MeterProvider
	// Propagator writes the context into the headers of a message and reads
	// one that the caller has put there. Workers need the same. Defaults to
	// W3C trace context, whatever the global one is.
	Propagator propagation.TextMapPropagator
	// Baggage lists the keys of the caller's baggage that messages carry.
	// They are stored with the message, in clear. Defaults to none.
	Baggage []string
	// Hooks are told what was done.
	Hooks Hooks
}

// Client enqueues messages and shows and changes them. Make it with [New].
// It is safe for concurrent use, needs no closing, and one of them serves a
// whole program.
type Client struct {
	batches batches
	store   store.Store
	cfg     Config
	logger  *slog.Logger
	tracing *telemetry.Tracing
	metrics *telemetry.ClientMetrics
	waits   waits
}

// New returns a client of the queues in db, whose dialect tells the engine:
// PostgreSQL or SQLite. It does not touch the database; the first call that
// does needs the schema that [Client.Migrate] makes.
//
// The database stays the caller's: the client never closes it, and uses
// connections of its pool for the length of a call. Changing cfg afterwards
// changes nothing. A bad setting is a [*message.ValidationError] that names
// it; several are joined.
func New(db *bun.DB, cfg Config) (*Client, error) {
	problems := cfg.check()
	st, err := engine.New(db, cfg.Schema)
	problems.collect(err)
	if err := problems.err(); err != nil {
		return nil, err
	}
	return newClient(st, cfg), nil
}

// newClient takes a configuration that has been checked.
func newClient(st store.Store, cfg Config) *Client {
	cfg = cfg.withDefaults()
	return &Client{
		store: st, cfg: cfg, logger: cfg.Logger,
		tracing: telemetry.NewTracing(scope, cfg.TracerProvider, cfg.Propagator, cfg.Baggage),
		metrics: telemetry.NewClientMetrics(cfg.MeterProvider),
	}
}

func (c Config) withDefaults() Config {
	if c.PayloadLimit == 0 {
		c.PayloadLimit = message.DefaultPayloadLimit
	}
	switch {
	case c.IdempotencyWindow == 0:
		c.IdempotencyWindow = message.DefaultIdempotencyWindow
	case c.IdempotencyWindow < 0:
		c.IdempotencyWindow = 0
	}
	c.Defaults.Headers = maps.Clone(c.Defaults.Headers)
	c.Defaults = c.Defaults.Merge(message.EnqueueOptions{
		Queue:      message.DefaultQueue,
		MaxRetries: message.DefaultMaxRetries,
	})
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// check looks at everything but the schema, which the store knows about.
func (c Config) check() *problems {
	p := new(problems)
	if c.PayloadLimit < 0 || c.PayloadLimit > MaxPayloadLimit {
		p.add("payload_limit", message.CodeOutOfRange, "payload_limit must be 0 to %d bytes, not %d.", MaxPayloadLimit, c.PayloadLimit)
	}
	if c.IdempotencyWindow > message.MaxDelay {
		p.add("idempotency_window", message.CodeOutOfRange,
			"idempotency_window must be at most %s, not %s.", message.MaxDelay, c.IdempotencyWindow)
	}
	p.prefix = "defaults."
	if c.Defaults.IdempotencyKey != "" {
		p.add("idempotency_key", message.CodeInvalid, "idempotency_key must be empty: all messages would share it.")
	}
	p.options(&c.Defaults)
	p.prefix = ""
	return p
}
