package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// ReaperMetrics measure what a reaper does. It is safe for concurrent use.
type ReaperMetrics struct {
	tenants bool

	reaped, failed, retried, dead, failures metric.Int64Counter
	success                                 metric.Float64Gauge
	duration                                metric.Float64Histogram

	reap, failure, kind, bury, job *family
}

// NewReaperMetrics makes the instruments; nil is the global provider. tenants
// says whether failures are counted by tenant too.
func NewReaperMetrics(p metric.MeterProvider, tenants bool) *ReaperMetrics {
	m := newMaker(p)
	return &ReaperMetrics{
		tenants: tenants,
		reaped:  m.counter(nameReaped), failed: m.counter(nameFailed), retried: m.counter(nameRetried),
		dead: m.counter(nameDead), failures: m.counter(nameReaperFailures),
		success: m.gauge(nameReaperSuccess), duration: m.seconds(nameReaperDuration),
		reap:    newFamily(nil, byQueue(), label{key: labelDecision}, label{key: labelResult}),
		failure: failures(), kind: newFamily(nil, byQueue(), byKind()), bury: burials(),
		job: newFamily(nil, label{key: labelTask}),
	}
}

// Enabled reports whether anybody takes measurements.
func (m *ReaperMetrics) Enabled(ctx context.Context) bool { return m.reaped.Enabled(ctx) }

// Reaped counts messages that were moved.
func (m *ReaperMetrics) Reaped(ctx context.Context, batch []store.Rescued) {
	if !m.Enabled(ctx) {
		return
	}
	for i := range batch {
		r := &batch[i]
		result := "requeued"
		if r.Dead {
			result = "dead"
			m.dead.Add(ctx, 1, m.bury.of(values{r.Queue, r.Kind, string(r.Decision)}).add...)
		}
		m.reaped.Add(ctx, 1, m.reap.of(values{r.Queue, string(r.Decision), result}).add...)
		class := LostClass(r.Decision)
		if class == "" {
			continue // nothing was attempted
		}
		tenant := ""
		if m.tenants {
			tenant = r.Tenant
		}
		m.failed.Add(ctx, 1, m.failure.of(values{r.Queue, r.Kind, tenant, class}).add...)
		if !r.Dead {
			m.retried.Add(ctx, 1, m.kind.of(values{r.Queue, r.Kind}).add...)
		}
	}
}

// LostClass is the error class of attempts that a reaper ended; expiry is no
// failure and has none.
func LostClass(d message.Decision) string {
	switch d {
	case message.DecisionWorkerLost:
		return "styx.WorkerLost"
	case message.DecisionTimedOut:
		return "styx.TimedOut"
	default:
		return ""
	}
}

// Ran counts a run of a job, which began at began and ended with err. cut
// reports that it was cut short by the end of the reaper.
func (m *ReaperMetrics) Ran(ctx context.Context, job string, began, ended time.Time, err error, cut bool) {
	if cut || !m.Enabled(ctx) {
		return
	}
	s := m.job.of(values{job})
	m.duration.Record(ctx, max(0, ended.Sub(began).Seconds()), s.record...)
	if err != nil {
		m.failures.Add(ctx, 1, s.add...)
		return
	}
	m.failures.Add(ctx, 0, s.add...)
	m.success.Record(ctx, float64(ended.UnixMicro())/1e6, s.record...)
}
