//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/internal/torture/check"
	"github.com/styxmq/styx/internal/torture/history"
)

// Run tortures a database of its own and judges what came of it. The error is
// for a run that could not be carried out; broken promises are in the report.
// When ctx ends, the run does.
func Run(ctx context.Context, cfg Config) (report *check.Report, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	faults, err := cfg.selected()
	if err != nil {
		return nil, err
	}
	temporary := cfg.Dir == ""
	if temporary {
		if cfg.Dir, err = os.MkdirTemp("", "styx-torture-"); err != nil {
			return nil, fmt.Errorf("make a folder for the histories: %w", err)
		}
	} else if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder for the histories: %w", err)
	}
	fmt.Fprintf(cfg.Log, "torture: %s, seed %d, %d faults, histories in %s\n", cfg.Engine, cfg.Seed, len(faults), cfg.Dir)
	r := &coordinator{Config: cfg, faults: faults}
	report, err = r.run(ctx)
	if temporary && (cfg.Discard || err == nil && report.OK()) {
		err = errors.Join(err, os.RemoveAll(cfg.Dir))
	}
	return report, err
}

// coordinator carries out one run.
type coordinator struct {
	Config
	faults []Fault
	field  Field
	url    string // of the database, direct
	other  string // of the database, through the proxy
	pooled string // of the database, through the pooler, if there is one
	// addresses are those of the daemons.
	addresses []string
}

func (r *coordinator) run(ctx context.Context) (_ *check.Report, err error) {
	h, err := history.Create(r.Dir, "coordinator")
	if err != nil {
		return nil, err
	}
	r.field = Field{
		Length: r.Length, Lease: r.Lease, h: h, power: &sync.Mutex{},
		crew: &crew{
			binary: r.Binary, env: r.Env, dir: r.Dir, h: h, poison: r.Poison,
			members: map[string]*member{}, leaving: map[string]bool{},
		},
	}
	stop, err := r.prepare(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	defer r.field.crew.disband()
	if err := r.hire(ctx); err != nil {
		return nil, err
	}
	if err := r.watched(ctx, r.torture); err != nil {
		return nil, err
	}
	drained, err := r.drain(ctx)
	if err != nil {
		return nil, err
	}
	return r.judge(ctx, drained)
}

// watched runs watch beside f.
func (r *coordinator) watched(ctx context.Context, f func(ctx context.Context) error) error {
	if r.watch == nil {
		return f(ctx)
	}
	watching, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.watch(watching, r) }()
	err := f(ctx)
	stop()
	return errors.Join(err, <-ended)
}

// prepare makes the database.
func (r *coordinator) prepare(ctx context.Context) (stop func() error, err error) {
	stop = func() error { return nil }
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	if r.Engine == SQLite {
		r.url = filepath.Join(r.Dir, "styx.db")
		r.other = r.url
	} else {
		if stop, err = r.startServer(ctx); err != nil {
			return stop, err
		}
		r.skip()
	}
	db, err := open(ctx, r.Engine, r.url)
	if err != nil {
		return stop, err
	}
	inner := stop
	stop = func() error { return errors.Join(db.Close(), inner()) }
	r.field.DB = db
	c, err := client.New(db, client.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return stop, err
	}
	if err := c.Migrate(ctx); err != nil {
		return stop, err
	}
	if _, err = db.ExecContext(ctx, "CREATE TABLE torture_effects (id bigint NOT NULL, token bigint NOT NULL)"); err != nil {
		err = fmt.Errorf("make the table of effects: %w", err)
	}
	return stop, err
}

// hire starts all processes.
func (r *coordinator) hire(ctx context.Context) (err error) {
	if r.addresses, err = freeAddresses(ctx, r.Daemons); err != nil {
		return err
	}
	for _, job := range []struct {
		role        string
		n, parallel int
	}{
		{roleDaemon, r.Daemons, 1},
		{roleProducer, r.Producers + r.Daemons, 6},
		{roleWorker, r.Workers, 10},
		{roleReaper, r.Reapers, 1},
		{roleOperator, 1, 1},
		{roleConsumer, r.Daemons, 4},
	} {
		for i := range job.n {
			p := part{
				Role: job.role, Engine: r.Engine, Dir: r.Dir, Seed: r.Seed + uint64(i), Lease: r.Lease,
				Concurrency: job.parallel, Rate: r.Rate / float64(r.Producers+r.Daemons), Backlog: r.Backlog, Handler: r.Handler,
			}
			p.Spared, p.Vitals = r.spare && i == 0, r.vitals
			p.URL = r.urlOf(job.role, i)
			switch {
			case job.role == roleProducer && i >= r.Producers:
				p.Address = r.addresses[i-r.Producers]
			case job.role == roleDaemon, job.role == roleConsumer:
				p.Address = r.addresses[i]
			}
			if err := r.field.crew.hire(fmt.Sprintf("%s-%d", job.role, i), p); err != nil {
				return err
			}
		}
	}
	return nil
}

// tooLong is after how many times its duration a run ends without the messages
// that it should have.
const tooLong = 4

// torture inflicts faults until the time is over and enough was stored.
func (r *coordinator) torture(ctx context.Context) error {
	begun, rng := time.Now(), rand.New(rand.NewPCG(r.Seed, 0))
	if len(r.faults) > 0 && !pause(ctx, r.Calm) {
		return ctx.Err()
	}
	over := func() bool {
		so := time.Since(begun)
		return so >= r.Duration && (r.enough(ctx) || so >= tooLong*r.Duration)
	}
	for round := 0; !over(); round++ {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(r.faults) == 0 {
			pause(ctx, 200*time.Millisecond)
			continue
		}
		order := rng.Perm(len(r.faults))
		for len(order) > 0 && !over() {
			n := min(r.Together, len(order))
			if err := r.inflict(ctx, order[:n], rng); err != nil {
				return err
			}
			order = order[n:]
			if !pause(ctx, r.Calm) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// enough reports whether as many messages are stored as there must be. Ids
// are drawn one by one, so the highest tells it closely enough.
func (r *coordinator) enough(ctx context.Context) bool {
	if r.Messages == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	n := 0
	for _, text := range dumps[r.Engine].messages {
		k := 0
		if err := r.field.DB.QueryRowContext(ctx, "SELECT count(*) FROM ("+text+") AS m").Scan(&k); err != nil {
			return false
		}
		n += k
	}
	return n >= r.Messages
}

// inflict runs faults beside each other.
func (r *coordinator) inflict(ctx context.Context, which []int, rng *rand.Rand) error {
	var all sync.WaitGroup
	errs := make([]error, len(which))
	for i, n := range which {
		fault, field := r.faults[n], r.field
		field.Rand = rand.New(rand.NewPCG(rng.Uint64(), 0))
		all.Go(func() {
			r.field.h.Add(history.Event{Kind: history.Began, Name: fault.Name()})
			at := time.Now()
			if err := fault.Inflict(ctx, &field); err != nil {
				errs[i] = fmt.Errorf("fault %s: %w", fault.Name(), err)
			}
			r.field.h.Add(history.Event{Kind: history.Ended, Name: fault.Name()})
			fmt.Fprintf(r.Log, "torture: %s for %.1f s\n", fault.Name(), time.Since(at).Seconds())
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// drain ends the producers and the operator and waits until nothing is
// unfinished.
func (r *coordinator) drain(ctx context.Context) (time.Duration, error) {
	for _, role := range []string{roleProducer, roleOperator} {
		if !r.field.crew.dismiss(role, 2*patience) {
			return 0, fmt.Errorf("a %s did not end", role)
		}
	}
	at, told := time.Now(), time.Now()
	least, lessAt := -1, at
	for time.Since(lessAt) < r.Drain {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		n, err := unfinished(call, r.field.DB, r.Engine)
		cancel()
		if err == nil && n == 0 {
			return time.Since(at), nil
		}
		if err == nil && (least < 0 || n < least) {
			least, lessAt = n, time.Now()
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			fmt.Fprintf(r.Log, "torture: %d messages left to drain\n", n)
		}
		if !pause(ctx, 200*time.Millisecond) {
			return 0, ctx.Err()
		}
	}
	return time.Since(at), nil
}

// judge ends the rest of the processes and lets the checker look.
func (r *coordinator) judge(ctx context.Context, drained time.Duration) (*check.Report, error) {
	for _, role := range roles[2:] {
		if !r.field.crew.dismiss(role, 2*time.Minute) {
			return nil, fmt.Errorf("a %s did not end", role)
		}
	}
	final, err := dump(ctx, r.field.DB, r.Engine)
	if err != nil {
		return nil, err
	}
	events, err := history.Read(r.Dir)
	if err != nil {
		return nil, err
	}
	// PostgreSQL's clock is read as late as possible, SQLite's when the lock
	// has been taken.
	tolerance := 250 * time.Millisecond
	if r.Engine == SQLite {
		tolerance = 10 * time.Second
	}
	report := check.Run(events, final, check.Settings{
		Tolerance: tolerance.Microseconds(), MinTimeout: shortTimeout.Microseconds(),
	})
	report.Drain = drained
	return report, nil
}
