package reaper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/telemetry"
	"github.com/styxmq/styx/reaper/internal/gauge"
)

// minGaugeTimeout is what gauges may take however often they are computed.
const minGaugeTimeout = 5 * time.Second

// gauger adds the job that computes gauges, if the store can and the settings
// want it.
func (r *Reaper) gauger() {
	st, ok := r.store.(store.Gauger)
	if !ok || r.cfg.GaugeInterval < 0 {
		return
	}
	r.collector = gauge.New(st, r.cfg.GaugeInterval, min(r.cfg.Timeout, max(r.cfg.GaugeInterval, minGaugeTimeout)))
	r.jobs = append(r.jobs, &job{
		r: r, name: "gauge", schedule: every(r.cfg.GaugeInterval),
		status: JobStatus{Spec: "@every " + r.cfg.GaugeInterval.String()},
		run:    func(ctx context.Context, _ *tally) error { return r.collector.RunOnce(ctx) },
	})
}

// showGauges shows them until the function that it returns is called.
func (r *Reaper) showGauges(ctx context.Context) (end func(), err error) {
	if r.collector == nil {
		return func() {}, nil
	}
	g, err := telemetry.NewGauges(r.cfg.MeterProvider, time.Now)
	if err != nil {
		return nil, fmt.Errorf("show gauges: %w", err)
	}
	r.collector.Open(g)
	return func() { r.collector.Close(ctx) }, nil
}

// ran counts a run of the job.
func (j *job) ran(ctx context.Context, began time.Time, err error, cut bool) {
	j.r.metrics.Ran(ctx, j.name, began, j.wallClock(), err, cut || errors.Is(err, context.Canceled))
}
