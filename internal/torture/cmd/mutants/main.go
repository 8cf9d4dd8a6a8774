//go:build unix

// Command mutants builds the torture with seeded faults, runs each, and prints
// what the checker found. It exits with 1 when one escaped or when the run
// without any broke a promise. It needs the source, the go command, and
// PostgreSQL's binaries.
//
//	mutants [-only NAME,…] [-seed N]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/styxmq/styx/internal/torture/mutant"
)

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		code = 2
	}
	os.Exit(code)
}

func run() (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	only := flag.String("only", "", "names of mutants, separated by commas")
	seed := flag.Uint64("seed", 1, "seed of the runs")
	flag.Parse()
	mutants := mutant.Mutants()
	if *only != "" {
		names := strings.Split(*only, ",")
		mutants = slices.DeleteFunc(mutants, func(m mutant.Mutant) bool { return !slices.Contains(names, m.Name) })
	}
	dir, err := os.MkdirTemp("", "styx-mutants-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary, err := mutant.Build(ctx, dir)
	if err != nil {
		return 0, err
	}
	catches, control, err := mutant.Hunt(ctx, binary, mutants, *seed)
	if err != nil {
		return 0, fmt.Errorf("run without a mutant: %w", err)
	}
	mutant.Write(os.Stdout, catches)
	fmt.Println("without a mutant:")
	control.Write(os.Stdout)
	if !control.OK() || slices.ContainsFunc(catches, func(c mutant.Catch) bool { return !c.Caught }) {
		return 1, nil
	}
	return 0, nil
}
