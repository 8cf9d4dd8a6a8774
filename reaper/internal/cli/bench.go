package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

const (
	benchMaxMessages = 100_000_000
	benchMaxRounds   = 1000
	benchMaxSingles  = 1000
	// benchCleanupTimeout bounds the clean-up, which goes on after an
	// interrupt.
	benchCleanupTimeout = 5 * time.Minute
)

// benchOptions are the flags of bench.
type benchOptions struct {
	messages, concurrency, payloadBytes, rounds int
	singles                                     int // goroutines, 0 for none
	latencyMessages                             int
	latencyRate                                 float64
	holdSnapshot, tracing, keep                 bool
}

// bench is one run of the command.
type bench struct {
	benchOptions
	db     *benchDatabase
	client *client.Client
	// telemetry is that of the client and of the workers.
	telemetry benchTelemetry
	logger    *slog.Logger
	queue     string
	payloads  *benchPayloads
	progress  *progress
	first     int64 // the lowest and highest id of the run
	last      int64
}

func newBenchCommand(a *app) *cobra.Command {
	var o benchOptions
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast messages are enqueued and worked on this database",
		Long: `Enqueue messages, drain them with a real worker whose handler does nothing,
compare the messages that the handlers saw with those in the archive, one by
one, and then measure the time from an enqueue to the start of its handler on an
idle queue, with a worker at its default settings.

It uses the same API as any program, a queue of its own, and the settings of the
database as they are. An empty database is migrated first. At the end all that
it stored is deleted again, unless --keep is given. Do not run it beside work
that matters: it takes all that the database gives.

Rates are messages a second. The drain is timed from the start of the worker
until it has stopped with every outcome recorded. wal_bytes_per_message counts
what the whole server writes meanwhile, from the enqueue to the end of the drain.

--compare-tracing tells what tracing costs. Each round is done three times:
without telemetry (off), with providers that record nothing (noop), and with an
OpenTelemetry SDK whose exporter throws away the spans of 1 % of the attempts
(sampled), each of them first in every third round. The rates are medians;
"of off" is the median of the quotients of two drains, or enqueues, of the same
round. All the other numbers are then of the rounds without telemetry.`,
		Example: `  reaper bench
  reaper bench --messages 200000 --concurrency 2000 -o json
  reaper bench --rounds 6 --hold-snapshot
  reaper bench --compare-tracing --latency-messages 0`,
		Args: cobra.NoArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			if o.tracing && !cmd.Flags().Changed("rounds") {
				o.rounds = benchTracingRounds
			}
			if err := o.check(); err != nil {
				return err
			}
			return a.bench(ctx, o)
		}),
	}
	flags := cmd.Flags()
	flags.IntVar(&o.messages, "messages", 100_000, "how many messages to enqueue and drain")
	flags.IntVar(&o.concurrency, "concurrency", 2000, "how many handlers run at once in the drain")
	flags.IntVar(&o.payloadBytes, "payload-bytes", 100, "the size of a payload; every payload is different")
	flags.IntVar(&o.rounds, "rounds", 1, "how often to do that, one after the other (with --compare-tracing 6 times unless told otherwise)")
	flags.BoolVar(&o.holdSnapshot, "hold-snapshot", false, "keep a REPEATABLE READ transaction open throughout")
	flags.BoolVar(&o.tracing, "compare-tracing", false, "do each round without tracing, with providers that record nothing, and with an SDK that samples 1 %")
	flags.IntVar(&o.singles, "single-enqueue", 0, "also measure this many goroutines that enqueue one by one; 0 is none")
	flags.IntVar(&o.latencyMessages, "latency-messages", 300, "how many messages to measure the latency with; 0 is none")
	flags.Float64Var(&o.latencyRate, "latency-rate", 50, "how many of these to enqueue a second")
	flags.BoolVar(&o.keep, "keep", false, "leave the messages where they are")
	return cmd
}

func (o benchOptions) check() error {
	for _, c := range []struct {
		flag               string
		value, least, most int
	}{
		{"messages", o.messages, 1, benchMaxMessages},
		{"concurrency", o.concurrency, 1, worker.MaxConcurrency},
		{"payload-bytes", o.payloadBytes, 1, message.DefaultPayloadLimit},
		{"rounds", o.rounds, 1, benchMaxRounds},
		{"single-enqueue", o.singles, 0, benchMaxSingles},
		{"latency-messages", o.latencyMessages, 0, benchMaxMessages},
	} {
		if c.value < c.least || c.value > c.most {
			return usageError{text: fmt.Sprintf("--%s must be %d to %d, not %d", c.flag, c.least, c.most, c.value)}
		}
	}
	if math.IsNaN(o.latencyRate) || o.latencyRate <= 0 || o.latencyRate > 10_000 {
		return usageError{text: fmt.Sprintf("--latency-rate must be above 0 and at most 10000, not %v", o.latencyRate)}
	}
	return nil
}

func (a *app) bench(ctx context.Context, o benchOptions) (err error) {
	loc, err := a.locate()
	if err != nil {
		return err
	}
	_, missing := os.Stat(loc.file)
	db, err := a.openDatabase(ctx, true)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, db.Close())
		if !o.keep && loc.file != "" && errors.Is(missing, fs.ErrNotExist) {
			err = errors.Join(err, os.Remove(loc.file)) // made for this run
		}
	}()
	c, err := a.client(db)
	if err != nil {
		return err
	}
	a.announce(ctx, db)
	b := &bench{
		benchOptions: o, db: newBenchDatabase(db), client: c, logger: a.logger,
		queue:    "bench-" + strings.ToLower(rand.Text()[:12]),
		payloads: newBenchPayloads(o.payloadBytes),
		progress: newProgress(a.stderr),
	}
	made, err := b.migrate(ctx)
	if err != nil {
		return err
	}
	result, err := b.run(ctx)
	clean := b.cleanUp(ctx, made)
	if err != nil {
		return errors.Join(err, clean)
	}
	return errors.Join(a.print(result, result.write), result.verdict(), clean)
}

// migrate makes the schema where there is none, and tells whether it has.
func (b *bench) migrate(ctx context.Context) (made bool, err error) {
	current, known, err := b.client.Migrations().Version(ctx)
	switch {
	case err != nil:
		return false, err
	case current == 0:
		return true, b.client.Migrate(ctx)
	case current > known:
		return false, message.ErrSchemaNewer
	case current < known:
		return false, message.ErrSchemaMissing
	}
	return false, nil
}

// run measures everything.
func (b *bench) run(ctx context.Context) (*benchResult, error) {
	result, err := b.newResult(ctx)
	if err != nil {
		return nil, err
	}
	var held *heldSnapshot
	if b.holdSnapshot {
		if held, err = b.db.hold(ctx, b.queue); err != nil {
			return nil, err
		}
		defer held.release(ctx)
	}
	rounds := b.plainRounds
	if b.tracing {
		rounds = b.compareTracing
	}
	if err := rounds(ctx, result); err != nil {
		return nil, err
	}
	if b.singles > 0 {
		if err := b.single(ctx, result); err != nil {
			return nil, err
		}
	}
	if b.latencyMessages > 0 {
		if err := b.latency(ctx, result); err != nil {
			return nil, err
		}
	}
	if held != nil {
		if result.SnapshotHeld, err = held.prove(ctx); err != nil {
			return nil, err
		}
	}
	result.PeakRSS = peakRSS()
	return result, nil
}

// cleanUp deletes what the run stored, even after an interrupt: the whole
// schema, if the run made it and nobody else has used it since.
func (b *bench) cleanUp(ctx context.Context, made bool) error {
	if b.keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), benchCleanupTimeout)
	defer cancel()
	b.progress.say("cleaning up")
	defer b.progress.clear()
	if made {
		others, err := b.db.others(ctx, b.queue)
		if err != nil {
			return err
		}
		if !others {
			if _, err := b.client.Migrations().Down(ctx, 0); err != nil {
				return err
			}
			return b.db.shrink(ctx)
		}
	}
	return b.db.forget(ctx, b.queue, b.first, b.last)
}
