//go:build unix

// Command torture proves on a database of its own that no acknowledged message
// is lost and none is stuck, whatever breaks:
//
//	torture [-engine postgres|sqlite] [-duration 10m] [-messages N] [-seed N]
//	        [-faults NAME,…|none] [-together N] [-lease 15s] …
//
// It ends with one line of figures and exits with 1 when a promise was broken,
// with 2 when the run could not be carried out.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
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
	cfg := torture.Config{Log: os.Stderr}
	flag.StringVar((*string)(&cfg.Engine), "engine", "postgres", "the database: postgres or sqlite")
	flag.DurationVar(&cfg.Duration, "duration", 0, "how long to enqueue (default 10m)")
	flag.IntVar(&cfg.Messages, "messages", 0, "how many messages must be stored, for up to four times the duration")
	flag.Uint64Var(&cfg.Seed, "seed", 0, "order of the faults and sort of the messages (default: the time)")
	faults := flag.String("faults", "all", "which faults, separated by commas, or none; of "+strings.Join(torture.Faults(torture.Postgres), ", "))
	flag.IntVar(&cfg.Together, "together", 0, "how many faults at once (default 1)")
	flag.DurationVar(&cfg.Length, "length", 0, "how long a fault lasts (default 10s)")
	flag.DurationVar(&cfg.Calm, "calm", 0, "how long nothing happens after it (default 5s)")
	flag.DurationVar(&cfg.Lease, "lease", 0, "lease of the workers (default 15s)")
	flag.Float64Var(&cfg.Rate, "rate", 0, "messages per second at most (default 600)")
	flag.Float64Var(&cfg.Poison, "poison", 0, "share of messages that do harm")
	flag.DurationVar(&cfg.Handler, "handler", 0, "how long a handler runs on average (default 8ms)")
	flag.DurationVar(&cfg.Drain, "drain", 0, "how long the queues may stand still in the end (default 5m)")
	flag.IntVar(&cfg.Workers, "workers", 0, "worker processes (default 4)")
	flag.IntVar(&cfg.Daemons, "daemons", 0, "processes that serve the HTTP API, each with a producer and a consumer of it (default 1, -1 for none)")
	flag.StringVar(&cfg.Dir, "dir", "", "folder for the histories (default: a temporary one)")
	flag.Parse()
	switch *faults {
	case "all":
	case "none":
		cfg.Faults = []string{}
	default:
		cfg.Faults = strings.Split(*faults, ",")
	}
	report, err := torture.Run(ctx, cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return 2
	}
	report.Write(os.Stdout)
	if !report.OK() {
		return 1
	}
	return 0
}
