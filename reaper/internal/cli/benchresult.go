package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"text/tabwriter"

	"github.com/styxmq/styx/worker"
)

// benchRound is one round of enqueueing and draining.
type benchRound struct {
	Messages   int     `json:"messages"`
	EnqueuePer float64 `json:"enqueue_per_s"`
	DrainPer   float64 `json:"drain_per_s"`
	TotalPer   float64 `json:"total_per_s"`
	// WAL is missing where the engine has none to tell of.
	WAL *float64 `json:"wal_bytes_per_message,omitempty"`
	benchCheck
}

// benchResult is what the command prints. The rates are those of the first
// round, the check is of everything.
type benchResult struct {
	benchRound
	SinglePer float64    `json:"single_enqueue_per_s,omitempty"`
	Latency   *latencies `json:"latency_ms,omitempty"`
	PeakRSS   int64      `json:"peak_rss_bytes"`
	// LastOverFirst compares the drain of the last round with the first.
	LastOverFirst float64      `json:"last_over_first,omitempty"`
	Rounds        []benchRound `json:"rounds,omitempty"`
	// Tracing compares ways to trace, those without first.
	Tracing []tracingResult `json:"tracing,omitempty"`
	// SnapshotHeld is for how many seconds a snapshot was held, proven.
	SnapshotHeld float64       `json:"snapshot_held_s,omitempty"`
	Queue        string        `json:"queue"`
	Engine       string        `json:"engine"`
	Versions     benchVersions `json:"versions"`
	Settings     benchSettings `json:"settings"`

	several bool
}

type benchVersions struct {
	Styx     string `json:"styx"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Server   string `json:"server"`
}

type benchSettings struct {
	Concurrency    int    `json:"concurrency"`
	PayloadBytes   int    `json:"payload_bytes"`
	EnqueueBatch   int    `json:"enqueue_batch"`
	Producers      int    `json:"enqueue_goroutines"`
	SingleEnqueue  int    `json:"single_enqueue_goroutines,omitempty"`
	LatencyWorkers int    `json:"latency_concurrency,omitempty"`
	Connections    int    `json:"max_open_connections"`
	Lease          string `json:"lease"`
	CPUs           int    `json:"cpus"`
	// Database are settings of the server or file, as they were found.
	Database map[string]string `json:"database"`
}

func (b *bench) newResult(ctx context.Context) (*benchResult, error) {
	server, settings, err := b.db.describe(ctx)
	if err != nil {
		return nil, err
	}
	v := version()
	r := &benchResult{
		Queue: b.queue, Engine: b.db.Engine,
		Versions: benchVersions{Styx: v.Version, Go: v.Go, Platform: v.Platform, Server: server},
		Settings: benchSettings{
			Concurrency: b.concurrency, PayloadBytes: b.payloadBytes, EnqueueBatch: b.batch(), Producers: benchProducers,
			SingleEnqueue: b.singles, Connections: b.db.Stats().MaxOpenConnections,
			Lease: worker.DefaultLease.String(), CPUs: runtime.NumCPU(), Database: settings,
		},
		several: b.rounds > 1,
	}
	if b.latencyMessages > 0 {
		r.Settings.LatencyWorkers = worker.DefaultConcurrency
	}
	return r, nil
}

// add takes the next round.
func (r *benchResult) add(round benchRound) {
	if r.Messages == 0 {
		r.benchRound = round
	} else {
		r.merge(round.benchCheck)
	}
	if r.several {
		r.Rounds = append(r.Rounds, round)
		r.LastOverFirst = math.Round(1000*round.DrainPer/r.DrainPer) / 1000
	}
}

// verdict is an error when something was lost or worked twice.
func (r *benchResult) verdict() error {
	if r.Checked {
		return nil
	}
	return fmt.Errorf("the check failed: %w", errors.Join(
		counted(r.Missing, "messages missing"),
		counted(r.Duplicates, "messages worked more often than once"),
		counted(r.Strange, "messages that were never enqueued"),
	))
}

func counted(n int, what string) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d %s", n, what)
}

// write prints the result for people.
func (r *benchResult) write(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(t, name+"\t"+format+"\n", args...)
	}
	line("messages", "%d of %d bytes", r.Messages, r.Settings.PayloadBytes)
	line("enqueue", "%.0f/s in batches of %d from %d goroutines", r.EnqueuePer, r.Settings.EnqueueBatch, r.Settings.Producers)
	line("drain", "%.0f/s at concurrency %d", r.DrainPer, r.Settings.Concurrency)
	line("both", "%.0f/s", r.TotalPer)
	if r.WAL != nil {
		line("WAL", "%.0f bytes a message", *r.WAL)
	}
	if r.SinglePer > 0 {
		line("enqueue one by one", "%.0f/s from %d goroutines", r.SinglePer, r.Settings.SingleEnqueue)
	}
	if l := r.Latency; l != nil {
		line("latency", "p50 %.1f ms, p95 %.1f ms, p99 %.1f ms, max %.1f ms", l.P50, l.P95, l.P99, l.Max)
	}
	for i, round := range r.Rounds {
		line(fmt.Sprint("round ", i+1), "enqueue %.0f/s, drain %.0f/s", round.EnqueuePer, round.DrainPer)
	}
	for i := range r.Tracing {
		r.Tracing[i].lines(line)
	}
	if r.several {
		line("last over first", "%.0f %%", 100*r.LastOverFirst)
	}
	if r.SnapshotHeld > 0 {
		line("snapshot", "held for %.1f s", r.SnapshotHeld)
	}
	line("peak memory", "%.1f MiB", float64(r.PeakRSS)/(1<<20))
	if r.Checked {
		line("check", "every message was worked once and is in the archive")
	} else {
		line("check", "FAILED: %d missing, %d duplicates, %d strange", r.Missing, r.Duplicates, r.Strange)
	}
	line("engine", "%s %s, reaper %s, %s, %s, %d CPUs", r.Engine, r.Versions.Server, r.Versions.Styx,
		r.Versions.Go, r.Versions.Platform, r.Settings.CPUs)
	for _, name := range slices.Sorted(maps.Keys(r.Settings.Database)) {
		line("  "+name, "%s", r.Settings.Database[name])
	}
	_ = t.Flush()
}
