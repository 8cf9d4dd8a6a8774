package reaper

import (
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/client/message"
)

// The defaults of Config.
const (
	// DefaultRescue is when lost and expired messages are looked for.
	DefaultRescue = "@every 1s"
	// DefaultSweep is when messages are looked through for lost ones that no
	// record of a claim leads to.
	DefaultSweep = "@every 1m"
	// DefaultMaintain is when old things are deleted.
	DefaultMaintain = "@every 1m"
	// DefaultArchiveRetention is how long succeeded messages are kept.
	DefaultArchiveRetention = 7 * 24 * time.Hour
	// DefaultResolvedRetention is how long resolved dead letters are kept.
	DefaultResolvedRetention = 90 * 24 * time.Hour
	// DefaultBatch is the largest number of rows of a statement.
	DefaultBatch = 1000
	// DefaultTimeout limits a statement.
	DefaultTimeout = 30 * time.Second
	// DefaultGaugeInterval is how often gauges are computed.
	DefaultGaugeInterval = 15 * time.Second
	// MinGaugeInterval is the shortest Config.GaugeInterval.
	MinGaugeInterval = 100 * time.Millisecond
	// MaxBatch is the largest Config.Batch.
	MaxBatch = 100_000
	// MinRetention is the shortest retention. A shorter one is taken for a
	// number without its unit.
	MinRetention = time.Second
)

// Config configures a Reaper. Its zero value is ready to use.
type Config struct {
	// Schema is the PostgreSQL schema of the tables. Defaults to "styx".
	// SQLite has none.
	Schema string
	// Rescue is when lost and expired messages are looked for, as a cron
	// spec; see the package's documentation. How soon after its worker's
	// lease a message runs again depends on it. A run that finds nothing is
	// cheap. Defaults to DefaultRescue.
	Rescue string
	// Sweep is when messages are looked through for lost ones that no record
	// of a claim leads to, as a cron spec. A run takes a part of them, so
	// that all are seen every few runs. Defaults to DefaultSweep.
	Sweep string
	// Maintain is when what is old is deleted and room is made for new
	// things, as a cron spec. Once a day is the least that is advisable; a
	// run that is not done after 20 seconds leaves the rest to the next.
	// Defaults to DefaultMaintain.
	Maintain string
	// Location is the time zone of cron specs without one. Defaults to UTC.
	Location *time.Location
	// ArchiveRetention is how long succeeded messages are kept, and the
	// attempts of messages that are nowhere any more. On PostgreSQL days go
	// as a whole, in UTC, and are kept for a day at least. 0 is the default,
	// negative is for ever. Defaults to DefaultArchiveRetention.
	ArchiveRetention time.Duration
	// ResolvedRetention is how long dead letters are kept once they are
	// replayed, resolved or cancelled. 0 is the default, negative is for
	// ever. Defaults to DefaultResolvedRetention.
	ResolvedRetention time.Duration
	// DeadRetention is how long dead letters wait for somebody before they
	// are deleted all the same, which the audit log then tells. Defaults to
	// 0, which is for ever; so is any negative one.
	DeadRetention time.Duration
	// Batch is the largest number of rows that one statement moves, looks
	// through or deletes, 1 to MaxBatch. Defaults to DefaultBatch.
	Batch int
	// Timeout limits each statement. Defaults to DefaultTimeout.
	Timeout time.Duration
	// GaugeInterval is how often the numbers about the database are computed
	// that metrics show, such as the depth of queues, at least 100 ms;
	// negative is never. Of all reapers one at a time computes and shows
	// them. Nothing is computed while no MeterProvider takes measurements.
	// Defaults to DefaultGaugeInterval.
	GaugeInterval time.Duration
	// MeterProvider takes measurements. Defaults to the global one of
	// OpenTelemetry, also when that is set after New; as long as there is
	// none, nothing is measured.
	MeterProvider metric.MeterProvider
	// TenantMetrics counts failures by tenant as well, up to 200 of them;
	// whoever may see the metrics sees their names then. Defaults to false.
	TenantMetrics bool
	// TracerProvider records a span for each run that moved messages, and one
	// for each message that died there. Defaults to the global one of
	// OpenTelemetry, also when that is set after New.
	TracerProvider trace.TracerProvider
	// Propagator reads the context that a message carries in its headers;
	// producers need the same. Defaults to W3C trace context.
	Propagator propagation.TextMapPropagator
	// Hooks are told what was done with messages.
	Hooks Hooks
	// Logger takes a line for each message that dies here, one for each run
	// that did something, and trouble when it begins and ends. Defaults to
	// slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Rescue == "" {
		c.Rescue = DefaultRescue
	}
	if c.Sweep == "" {
		c.Sweep = DefaultSweep
	}
	if c.Maintain == "" {
		c.Maintain = DefaultMaintain
	}
	if c.Location == nil {
		c.Location = time.UTC
	}
	if c.ArchiveRetention == 0 {
		c.ArchiveRetention = DefaultArchiveRetention
	}
	if c.ResolvedRetention == 0 {
		c.ResolvedRetention = DefaultResolvedRetention
	}
	if c.Batch == 0 {
		c.Batch = DefaultBatch
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.GaugeInterval == 0 {
		c.GaugeInterval = DefaultGaugeInterval
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// validate looks at everything but the cron specs and the schema.
func (c Config) validate() error {
	var errs []error
	refuse := func(bad bool, field, text string) {
		if bad {
			errs = append(errs, &message.ValidationError{Field: field, Code: message.CodeOutOfRange, Message: text})
		}
	}
	const retention = " must be at least 1 s, or negative to keep everything; has it a unit?"
	refuse(short(c.ArchiveRetention), "ArchiveRetention", "ArchiveRetention"+retention)
	refuse(short(c.ResolvedRetention), "ResolvedRetention", "ResolvedRetention"+retention)
	refuse(short(c.DeadRetention), "DeadRetention", "DeadRetention"+retention)
	refuse(c.Batch < 1 || c.Batch > MaxBatch, "Batch", "Batch must be between 1 and 100,000.")
	refuse(c.GaugeInterval >= 0 && c.GaugeInterval < MinGaugeInterval, "GaugeInterval",
		"GaugeInterval must be at least 100 ms, or negative for none.")
	refuse(c.Timeout < time.Millisecond, "Timeout", "Timeout must be at least 1 ms.")
	return errors.Join(errs...)
}

func short(d time.Duration) bool { return d > 0 && d < MinRetention }
