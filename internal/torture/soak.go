//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/styxmq/styx/internal/torture/check"
)

// soakFaults are those of a soak: failures, restarts of the workers and of the
// server, and a snapshot that is held. Dead messages are replayed throughout.
var soakFaults = []string{"kill-workers", "rolling-restart", "crash", "poison-1", "poison-10", "held-snapshot"}

// SoakConfig says how a soak goes. The zero value takes an hour.
type SoakConfig struct {
	// Duration defaults to an hour, Every, how often a sample is taken, to a
	// 360th of it.
	Duration, Every time.Duration
	// Rate is how many messages per second are enqueued at most. Defaults to
	// 150.
	Rate float64
	// Faults defaults to failures, restarts and a held snapshot, each for
	// Length, after which nothing happens for as long. Length defaults to a
	// 120th of Duration.
	Faults []string
	Length time.Duration
	// Seed is that of [Config].
	Seed uint64
	// CSV and SVG are the files of the samples and of their picture, made
	// anew; empty for none.
	CSV, SVG string
	// Log takes a line for each fault. Defaults to none.
	Log io.Writer
}

// SoakReport is what a soak came to.
type SoakReport struct {
	// Report is about the promises, as of every run.
	*check.Report
	Samples  []Sample
	Flatness []Flatness
}

// Flat reports whether nothing grew.
func (r *SoakReport) Flat() bool {
	for _, f := range r.Flatness {
		if !f.Flat {
			return false
		}
	}
	return true
}

// WriteFlatness writes a line for each series.
func (r *SoakReport) WriteFlatness(w io.Writer) {
	for _, f := range r.Flatness {
		verdict := "flat"
		if !f.Flat {
			verdict = "NOT FLAT"
		}
		fmt.Fprintf(w, "%-42s first third %10.1f, last third %10.1f %-4s %s\n", f.Title, f.First, f.Last, f.Unit, verdict)
	}
}

// Soak lets a queue on PostgreSQL run for long, with faults, and measures what
// must not grow: dead rows, sizes, waits, memory and goroutines. One worker and
// one reaper live throughout. When ctx ends, the soak does, with its error.
func Soak(ctx context.Context, cfg SoakConfig) (*SoakReport, error) {
	if cfg.Duration == 0 {
		cfg.Duration = time.Hour
	}
	if cfg.Every == 0 {
		cfg.Every = max(cfg.Duration/360, 500*time.Millisecond)
	}
	if cfg.Length == 0 {
		cfg.Length = max(cfg.Duration/120, time.Second)
	}
	if cfg.Rate == 0 {
		cfg.Rate = 150
	}
	if cfg.Faults == nil {
		cfg.Faults = soakFaults
	}
	var out SoakReport
	report, err := Run(ctx, Config{
		Duration: cfg.Duration, Seed: cfg.Seed, Faults: cfg.Faults, Length: cfg.Length, Calm: cfg.Length,
		Rate: cfg.Rate, Workers: 3, Daemons: -1, Lease: min(15*time.Second, max(2*time.Second, cfg.Duration/60)), Log: cfg.Log,
		spare: true, vitals: cfg.Every,
		watch: func(ctx context.Context, r *coordinator) error {
			s := &sampler{r: r}
			s.begin(ctx)
			begun := time.Now()
			take := func(ctx context.Context) {
				if values, err := s.take(ctx); err == nil { // else there is one the next time
					out.Samples = append(out.Samples, Sample{time.Since(begun), values})
				}
			}
			for pause(ctx, cfg.Every) {
				take(ctx)
			}
			// A short one on a slow machine has to have one.
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), repairTime)
			defer cancel()
			for len(out.Samples) == 0 && pause(last, cfg.Every) {
				take(last)
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	out.Report, out.Flatness = report, flatness(out.Samples)
	err = errors.Join(
		toFile(cfg.CSV, func(w io.Writer) error { return writeSamples(w, out.Samples) }),
		toFile(cfg.SVG, func(w io.Writer) error { return drawSamples(w, out.Samples) }),
	)
	return &out, err
}

func toFile(path string, write func(w io.Writer) error) (err error) {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := write(f); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
