//go:build unix

package mutant

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/styxmq/styx/internal/torture"
	"github.com/styxmq/styx/internal/torture/check"
)

const (
	// tries is how often a mutant is run until it is caught: whether it does
	// harm in a short run depends on the machine.
	tries = 4
	// parallel is how many run at once; they wait more than they work.
	parallel = 3
)

// Catch is what became of a mutant.
type Catch struct {
	Mutant Mutant
	// Caught reports that a promise of Mutant.Breaks was found broken; Broken
	// counts all that were.
	Caught bool
	Broken map[check.Promise]int
	First  string // the first violation
	Tries  int
	Took   time.Duration
	Err    error
}

// Hunt runs the mutants, and one run without any, which must keep every
// promise, with the program that [Build] made.
func Hunt(ctx context.Context, binary string, mutants []Mutant, seed uint64) (catches []Catch, control *check.Report, err error) {
	catches = make([]Catch, len(mutants))
	slots := make(chan struct{}, parallel)
	var all sync.WaitGroup
	all.Go(func() {
		slots <- struct{}{}
		defer func() { <-slots }()
		cfg := load("zombies", "kill-producers")
		cfg.Binary, cfg.Seed, cfg.Drain = binary, seed, 5*time.Minute
		control, err = torture.Run(ctx, cfg)
	})
	for i, m := range mutants {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			catches[i] = hunt(ctx, binary, m, seed)
		})
	}
	all.Wait()
	return catches, control, err
}

func hunt(ctx context.Context, binary string, m Mutant, seed uint64) Catch {
	c := Catch{Mutant: m}
	at := time.Now()
	for c.Tries < tries && !c.Caught && c.Err == nil {
		cfg := m.run
		cfg.Binary, cfg.Seed, cfg.Env = binary, seed+uint64(c.Tries), []string{variable + "=" + m.Name}
		cfg.Duration *= time.Duration(c.Tries + 1)
		cfg.Discard = true
		c.Tries++
		var report *check.Report
		if report, c.Err = torture.Run(ctx, cfg); c.Err != nil {
			break
		}
		c.Broken = report.Broken
		for _, v := range report.Violations {
			if slices.Contains(m.Breaks, v.Promise) {
				c.Caught, c.First = true, v.String()
				break
			}
		}
	}
	c.Took = time.Since(at)
	return c
}

// Write writes the table: mutant, what the checker found, how long it took.
func Write(w io.Writer, catches []Catch) {
	for _, c := range catches {
		verdict := "ESCAPED"
		switch {
		case c.Err != nil:
			verdict = "FAILED: " + c.Err.Error()
		case c.Caught:
			verdict = "caught"
		}
		var broken []string
		for p, n := range c.Broken {
			broken = append(broken, fmt.Sprintf("%s %d", p, n))
		}
		slices.Sort(broken)
		fmt.Fprintf(w, "%-24s %-8s %4.0f s  %s\n", c.Mutant.Name, verdict, c.Took.Seconds(), strings.Join(broken, ", "))
		fmt.Fprintf(w, "    %s\n", c.Mutant.Says)
		if c.First != "" {
			fmt.Fprintf(w, "    %s\n", c.First)
		}
	}
}
