package reaper

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/engine"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/telemetry"
	"github.com/styxmq/styx/reaper/internal/gauge"
	"github.com/styxmq/styx/reaper/internal/maintain"
)

// maintainer is what a reaper needs of a store.
type maintainer interface {
	store.Maintainer
	SchemaVersion(ctx context.Context) (current, known int, err error)
	Ticked(ctx context.Context) error
}

// Reaper keeps the queues of a database healthy. Make it with New. It is safe
// for concurrent use.
type Reaper struct {
	cfg   Config
	store maintainer
	log   *logger
	now   func() time.Time
	begun atomic.Bool
	jobs  []*job

	tracing   *telemetry.Tracing
	metrics   *telemetry.ReaperMetrics
	collector *gauge.Collector // nil when there is none
}

// New returns a reaper of the queues in db, which was opened with
// client/postgres or client/sqlite or is the application's own. It does not
// touch the database and starts nothing. Settings that are not valid give
// joined *message.ValidationErrors, each naming its setting.
func New(db *bun.DB, cfg Config) (*Reaper, error) {
	cfg = cfg.withDefaults()
	st, err := engine.New(db, cfg.Schema)
	if err != nil {
		st = nil
	}
	r, refused := newReaper(st, cfg, time.Now)
	if err := errors.Join(err, refused); err != nil {
		return nil, err
	}
	return r, nil
}

// newReaper takes the store as it is, and what shows the time to the
// schedules.
func newReaper(st maintainer, cfg Config, now func() time.Time) (*Reaper, error) {
	errs := []error{cfg.validate()}
	r := &Reaper{cfg: cfg, store: st, now: now, log: &logger{l: cfg.Logger, down: map[string]trouble{}}}
	for _, j := range []struct {
		setting, name, spec string
		run                 func(ctx context.Context, t *tally) error
	}{
		{"Rescue", "rescue", cfg.Rescue, r.rescue},
		{"Sweep", "sweep", cfg.Sweep, r.sweeper()},
		{"Maintain", "maintain", cfg.Maintain, r.maintainer()},
	} {
		s, err := parseSpec(j.setting, j.spec, cfg.Location)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.jobs = append(r.jobs, &job{r: r, name: j.name, schedule: s, run: j.run, status: JobStatus{Spec: j.spec}})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	r.tracing = telemetry.NewTracing(scope, cfg.TracerProvider, cfg.Propagator, nil)
	r.metrics = telemetry.NewReaperMetrics(cfg.MeterProvider, cfg.TenantMetrics)
	r.gauger()
	return r, nil
}

// settings are those of a service whose moves are counted in t.
func (r *Reaper) settings(t *tally) maintain.Settings {
	return maintain.Settings{Store: r.store, Batch: r.cfg.Batch, Timeout: r.cfg.Timeout, Moved: t.moved}
}

// rescue is the job of that name.
func (r *Reaper) rescue(ctx context.Context, t *tally) error {
	done, err := maintain.Rescue{Settings: r.settings(t)}.RunOnce(ctx)
	t.workers(done.Workers)
	if ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) {
		return err
	}
	_, expire := maintain.Expire{Settings: r.settings(t)}.RunOnce(ctx)
	if err := errors.Join(err, expire); err != nil {
		return err
	}
	return r.ticked(ctx)
}

// sweeper makes the job sweep, which remembers where it was.
func (r *Reaper) sweeper() func(context.Context, *tally) error {
	var sweep maintain.Sweep
	return func(ctx context.Context, t *tally) error {
		sweep.Settings = r.settings(t)
		_, err := sweep.RunOnce(ctx)
		return err
	}
}

// maintainer makes the job maintain.
func (r *Reaper) maintainer() func(context.Context, *tally) error {
	retain := maintain.Retain{Retention: r.retention()}
	return func(ctx context.Context, t *tally) error {
		prepare := maintain.Prepare{Settings: r.settings(t)}.RunOnce(ctx)
		if ctx.Err() != nil || errors.Is(prepare, store.ErrUnavailable) {
			return prepare
		}
		retain.Settings = r.settings(t)
		done, _, err := retain.RunOnce(ctx)
		t.retained(done)
		return errors.Join(prepare, err)
	}
}

func (r *Reaper) retention() store.Retention {
	return store.Retention{
		Archive: max(r.cfg.ArchiveRetention, 0), Resolved: max(r.cfg.ResolvedRetention, 0), Dead: max(r.cfg.DeadRetention, 0),
		Batch: r.cfg.Batch,
	}
}

// RunOnce does everything once and completely: it takes back all that is
// lost, looking through every message, ends what has expired, makes room, and
// deletes all that is older than its retention. Other reapers may run
// meanwhile, this one's Run too.
//
// It returns what was done, also beside an error, which does not keep the
// rest from being done unless the database is away or ctx has ended. A
// statement under way when ctx ends has 2 seconds more. A schema that does not
// fit is message.ErrSchemaMissing or ErrSchemaNewer.
func (r *Reaper) RunOnce(ctx context.Context) (Report, error) {
	if err := r.checkSchema(ctx); err != nil {
		return Report{}, err
	}
	t := r.newTally()
	t.keep = true
	err := r.everything(ctx, t)
	t.trace.end(err)
	r.log.did(ctx, "once", t)
	return Report{Counts: t.counts, Moved: t.list}, err
}

func (r *Reaper) everything(ctx context.Context, t *tally) error {
	sweep := maintain.Sweep{Settings: r.settings(t)}
	retain := maintain.Retain{Settings: r.settings(t), Retention: r.retention()}
	var errs []error
	for _, step := range []func() error{
		func() error { return r.rescue(ctx, t) },
		func() error { _, err := sweep.Whole(ctx); return err },
		func() error { return maintain.Prepare{Settings: r.settings(t)}.RunOnce(ctx) },
		func() error {
			done, err := retain.Whole(ctx)
			t.retained(done)
			return err
		},
	} {
		err := step()
		errs = append(errs, err)
		if ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) {
			break
		}
	}
	return errors.Join(errs...)
}

func (r *Reaper) checkSchema(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	current, known, err := r.store.SchemaVersion(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("look at the schema: %w", err)
	case current > known:
		return fmt.Errorf("%w: it is at %d, this version knows %d", message.ErrSchemaNewer, current, known)
	case current < known:
		return fmt.Errorf("%w: it is at %d, this version needs %d", message.ErrSchemaMissing, current, known)
	}
	return nil
}

// Status shows what the jobs of Run have done so far.
func (r *Reaper) Status() Status {
	s := Status{Rescue: r.jobs[0].show(), Sweep: r.jobs[1].show(), Maintain: r.jobs[2].show()}
	if r.collector != nil {
		s.Gauge = r.jobs[3].show()
	}
	return s
}
