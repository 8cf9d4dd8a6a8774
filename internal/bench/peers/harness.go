package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// harness runs scenarios and keeps their figures.
type harness struct {
	options

	postgres *postgresServer
	progress io.Writer
	records  []record
}

// record is what one run has given.
type record struct {
	Scenario string  `json:"scenario"`
	System   string  `json:"system"`
	Round    int     `json:"round"`
	Seconds  float64 `json:"seconds"`
	Metrics  metrics `json:"metrics,omitempty"`
	Error    string  `json:"error,omitempty"`
}

// runAll runs every scenario for every system, round by round, so that what
// changes on the machine meanwhile meets all of them.
func (h *harness) runAll(ctx context.Context) (err error) {
	if h.postgres, err = startPostgres(ctx, h.hugePages); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.postgres.stop()) }()
	for _, s := range scenarios() {
		if !slices.Contains(h.scenarios, s.name) {
			continue
		}
		rounds := h.rounds
		if s.bad {
			rounds = h.badRounds
		}
		for round := 1; round <= rounds; round++ {
			for _, name := range s.systems {
				if !slices.Contains(h.systems, name) {
					continue
				}
				e, err := lookUp(name)
				if err != nil {
					return err
				}
				h.once(ctx, s, e, round, rounds)
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
		}
	}
	return nil
}

// once runs one scenario with one system. A failure is recorded, and the
// others go on.
func (h *harness) once(ctx context.Context, s scenario, e entry, round, rounds int) {
	fmt.Fprintf(h.progress, "%s  %-15s %-15s round %d of %d ", time.Now().Format(time.TimeOnly), s.name, e.name, round, rounds)
	start := time.Now()
	r := &run{h: h, entry: e}
	err := r.begin(ctx)
	if err == nil {
		err = s.run(ctx, r)
	}
	err = errors.Join(err, r.end(ctx))
	rec := record{Scenario: s.name, System: e.name, Round: round, Seconds: time.Since(start).Seconds(), Metrics: r.metrics}
	if err != nil {
		rec.Error = err.Error()
		if !s.stepwise {
			rec.Metrics = nil
		}
		fmt.Fprintf(h.progress, "FAILED: %v\n", err)
	} else {
		fmt.Fprintf(h.progress, "%5.1f s\n", rec.Seconds)
	}
	h.records = append(h.records, rec)
}

// failures returns the runs that have failed.
func (h *harness) failures() []record {
	return slices.DeleteFunc(slices.Clone(h.records), func(r record) bool { return r.Error == "" })
}

// values returns the figure of each round.
func (h *harness) values(scenario, system, name string) (values []float64) {
	for _, r := range h.records {
		if r.Scenario != scenario || r.System != system {
			continue
		}
		for _, m := range r.Metrics {
			if m.Name == name {
				values = append(values, m.Value)
			}
		}
	}
	return values
}

// median returns the middle figure of the rounds, and whether there is one.
func (h *harness) median(scenario, system, name string) (float64, bool) {
	values := h.values(scenario, system, name)
	return median(values), len(values) > 0
}
