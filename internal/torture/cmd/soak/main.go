//go:build unix

// Command soak lets a queue on a PostgreSQL server of its own run for long,
// with failures, retries, replays, restarts and a held snapshot, and shows
// whether anything grows:
//
//	soak [-duration 1h] [-every 10s] [-rate 150] [-csv FILE] [-svg FILE]
//
// It exits with 1 when a promise was broken or something grew, with 2 when the
// run could not be carried out.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/styxmq/styx/internal/torture"
)

func main() {
	if torture.IsRole() {
		os.Exit(torture.RunRole(context.Background()))
	}
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg := torture.SoakConfig{Log: os.Stderr}
	flag.DurationVar(&cfg.Duration, "duration", 0, "how long to enqueue (default 1h)")
	flag.DurationVar(&cfg.Every, "every", 0, "how often to measure (default a 360th of that)")
	flag.DurationVar(&cfg.Length, "length", 0, "how long a fault lasts, and the calm after it (default a 120th)")
	flag.Float64Var(&cfg.Rate, "rate", 0, "messages per second at most (default 150)")
	flag.Uint64Var(&cfg.Seed, "seed", 0, "order of the faults and sort of the messages (default: the time)")
	flag.StringVar(&cfg.CSV, "csv", "", "file for the figures")
	flag.StringVar(&cfg.SVG, "svg", "", "file for their picture")
	flag.Parse()
	report, err := torture.Soak(ctx, cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 2
	}
	report.Write(os.Stdout)
	report.WriteFlatness(os.Stdout)
	if !report.OK() || !report.Flat() {
		return 1
	}
	return 0
}
