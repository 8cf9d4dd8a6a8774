package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/telemetry"
)

// meter is a provider whose measurements a test reads.
type meter struct {
	metric.MeterProvider
	reader *sdkmetric.ManualReader
}

func newMeter(t *testing.T) meter {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.WithoutCancel(t.Context()))) })
	return meter{p, reader}
}

func (m meter) collect(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, m.reader.Collect(t.Context(), &all))
	found := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		require.Equal(t, telemetry.MeterName, scope.Scope.Name)
		require.Equal(t, telemetry.SchemaURL, scope.Scope.SchemaURL)
		for _, one := range scope.Metrics {
			found[one.Name] = one
		}
	}
	return found
}

// points are the values by their labels; of histograms the counts.
func points(t *testing.T, m metricdata.Metrics) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	add := func(s attribute.Set, v float64) {
		var labels []string
		for _, kv := range s.ToSlice() {
			labels = append(labels, string(kv.Key)+"="+kv.Value.AsString())
		}
		all[strings.Join(labels, " ")] = v
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, float64(p.Value))
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, p.Value)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, float64(p.Count))
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, float64(p.Count))
		}
	default:
		t.Fatalf("%s is a %T", m.Name, data)
	}
	return all
}

func ending(verb store.Verb, f *store.Failure) telemetry.Ending {
	return telemetry.Ending{
		Message:    &message.Message{Queue: "q", Kind: "k", Tenant: "acme", Attempt: 2},
		Settlement: &store.Settlement{Verb: verb, Failure: f, Elapsed: time.Second},
	}
}

// everything measures all that there is to measure.
func everything(t *testing.T, p metric.MeterProvider, tenants bool) *telemetry.Gauges {
	t.Helper()
	ctx := t.Context()
	c := telemetry.NewClientMetrics(p)
	c.Sent(ctx, "q", time.Now(), nil)
	c.SentMany(ctx, []store.NewMessage{{Queue: "q"}, {Queue: "q"}, {Queue: "r"}}, time.Now(), store.ErrUnavailable)

	w := telemetry.NewWorkerMetrics(p, tenants)
	w.Prepare(ctx, "q", []string{"k"})
	batch := []store.Claimed{{Message: message.Message{CreatedAt: time.Now().Add(-time.Hour)}}, {}}
	w.Claimed(ctx, "q", batch, time.Now(), nil)
	w.Claimed(ctx, "q", nil, time.Now(), nil)
	w.Claimed(ctx, "q", nil, time.Now(), context.DeadlineExceeded)
	boom := &store.Failure{Class: "boom", Decision: message.DecisionPoison}
	if w.Enabled(ctx) {
		w.Ended(ctx, ending(store.Succeed, nil))
		w.Ended(ctx, ending(store.Retry, boom))
		again := ending(store.Bury, boom)
		again.Message.ReplayCount = 1
		w.Ended(ctx, again)
		w.Ended(ctx, ending(store.Release, nil))
		w.Ended(ctx, ending(store.Snooze, nil))
		lost := ending(store.Succeed, nil)
		lost.Lost = true
		w.Ended(ctx, lost)
	}
	w.Settled(ctx, 6, time.Now(), nil)
	w.Settled(ctx, 6, time.Now(), store.ErrUnavailable)
	w.Abandoned(ctx, "q", "k")
	w.Stray(ctx, "q", 1)

	r := telemetry.NewReaperMetrics(p, tenants)
	r.Reaped(ctx, []store.Rescued{
		{Message: message.Message{Queue: "q", Kind: "k"}, Decision: message.DecisionWorkerLost},
		{Message: message.Message{Queue: "q", Kind: "k"}, Decision: message.DecisionTimedOut, Dead: true},
		{Message: message.Message{Queue: "q", Kind: "k"}, Decision: message.DecisionExpired, Dead: true},
	})
	r.Ran(ctx, "rescue", time.Now(), time.Unix(7, 0), nil, false)
	r.Ran(ctx, "rescue", time.Now(), time.Now(), errors.New("no"), false)
	r.Ran(ctx, "rescue", time.Now(), time.Now(), errors.New("no"), true)

	g, err := telemetry.NewGauges(p, func() time.Time { return time.Unix(100, 0) })
	require.NoError(t, err)
	g.Show(store.Gauges{
		Queues: []store.QueueGauges{{
			QueueStats: store.QueueStats{Queue: "q", Ready: 1, Scheduled: 2, Processing: 3, Dead: 4, OldestReady: 5 * time.Second},
			DeadAgeP95: 6 * time.Second, AttemptsP95: 7, Overdue: 8, Workers: 9,
		}},
		Fingerprints:      []store.FirstSeen{{Queue: "q", Kind: "k", ErrorClass: "boom", Fingerprint: "f", FirstSeen: time.Unix(11, 0)}},
		OldestTransaction: 10 * time.Second,
	}, time.Minute)
	return g
}

func TestEveryMetricIsMeasuredAsTheTableSays(t *testing.T) {
	t.Parallel()
	m := newMeter(t)
	g := everything(t, m, true)
	all := m.collect(t)
	for _, i := range telemetry.Instruments() {
		got, ok := all[i.Name]
		require.True(t, ok, i.Name)
		delete(all, i.Name)
		require.Equal(t, i.Unit, got.Unit, i.Name)
		require.Equal(t, i.Help, got.Description)
		require.NotEmpty(t, i.By)
		var labels []string
		see := func(s attribute.Set) {
			for _, kv := range s.ToSlice() {
				if !slices.Contains(labels, string(kv.Key)) {
					labels = append(labels, string(kv.Key))
				}
			}
		}
		switch data := got.Data.(type) {
		case metricdata.Sum[int64]:
			require.Equal(t, i.Type == telemetry.Counter, data.IsMonotonic, i.Name)
			require.Contains(t, []telemetry.Type{telemetry.Counter, telemetry.UpDownCounter}, i.Type)
			for _, p := range data.DataPoints {
				see(p.Attributes)
			}
		case metricdata.Gauge[float64]:
			require.Equal(t, telemetry.Gauge, i.Type, i.Name)
			for _, p := range data.DataPoints {
				see(p.Attributes)
			}
		case metricdata.Histogram[float64]:
			require.Equal(t, telemetry.Histogram, i.Type, i.Name)
			for _, p := range data.DataPoints {
				require.Equal(t, i.Buckets, p.Bounds, i.Name)
				see(p.Attributes)
			}
		case metricdata.Histogram[int64]:
			require.Equal(t, telemetry.Histogram, i.Type, i.Name)
			for _, p := range data.DataPoints {
				require.Equal(t, i.Buckets, p.Bounds, i.Name)
				see(p.Attributes)
			}
		}
		require.ElementsMatch(t, i.Labels, labels, i.Name)
	}
	require.Empty(t, all, "not in the table")
	g.Close()
	require.NotContains(t, m.collect(t), "styx.workers")
	g.Close()
}

func TestWhatIsMeasured(t *testing.T) {
	t.Parallel()
	m := newMeter(t)
	everything(t, m, false)
	all := m.collect(t)
	const system = " messaging.system=styx"
	for name, want := range map[string]map[string]float64{
		"messaging.client.sent.messages": {
			"messaging.destination.name=q messaging.operation.name=send" + system:                        1,
			"error.type=unavailable messaging.destination.name=q messaging.operation.name=send" + system: 2,
			"error.type=unavailable messaging.destination.name=r messaging.operation.name=send" + system: 1,
		},
		"messaging.client.consumed.messages": {"messaging.destination.name=q messaging.operation.name=receive" + system: 2},
		"messaging.process.duration": {
			"messaging.destination.name=q messaging.operation.name=process messaging.operation.type=process" + system:                       3,
			"error.type=boom messaging.destination.name=q messaging.operation.name=process messaging.operation.type=process" + system:       2,
			"error.type=lease_lost messaging.destination.name=q messaging.operation.name=process messaging.operation.type=process" + system: 1,
		},
		"styx.claims": {"queue=q result=some": 1, "queue=q result=empty": 1, "queue=q result=error": 1},
		"styx.jobs.failed": {
			"error_class=boom kind=k queue=q": 2, "error_class=styx.WorkerLost kind=k queue=q": 1,
			"error_class=styx.TimedOut kind=k queue=q": 1,
		},
		"styx.jobs.retried": {"kind=k queue=q": 2},
		"styx.jobs.dead": {
			"decision=exhausted kind=k queue=q": 0, "decision=poison kind=k queue=q": 1,
			"decision=timed_out kind=k queue=q": 1, "decision=expired kind=k queue=q": 1,
		},
		"styx.jobs.dead_again": {"kind=k queue=q": 1},
		"styx.jobs.succeeded":  {"kind=k queue=q": 1},
		"styx.jobs.released":   {"queue=q result=released": 1, "queue=q result=snoozed": 1},
		"styx.jobs.reaped": {
			"decision=worker_lost queue=q result=requeued": 1, "decision=timed_out queue=q result=dead": 1,
			"decision=expired queue=q result=dead": 1,
		},
		"styx.leases.lost":                          {"queue=q": 1},
		"styx.reaper.failures":                      {"task=rescue": 1},
		"styx.reaper.last_success.timestamp":        {"task=rescue": 7},
		"styx.queue.depth":                          {"queue=q status=ready": 1, "queue=q status=scheduled": 2, "queue=q status=processing": 3},
		"styx.dlq.depth":                            {"queue=q": 4},
		"styx.dlq.age.p95":                          {"queue=q": 6},
		"styx.retry.attempts.p95":                   {"queue=q": 7},
		"styx.oldest_transaction.age":               {"": 10},
		"styx.collector.last_success.timestamp":     {"": 100},
		"styx.dlq.fingerprint.first_seen.timestamp": {"error_class=boom fingerprint=f kind=k queue=q": 11},
	} {
		require.Equal(t, want, points(t, all[name]), name)
	}
}

func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	m := newMeter(t)
	w := telemetry.NewWorkerMetrics(m, true)
	const n = 3000
	for i := range n {
		e := ending(store.Retry, &store.Failure{Class: fmt.Sprint("c", i%700)})
		e.Message.Queue, e.Message.Kind, e.Message.Tenant = fmt.Sprint("q", i), fmt.Sprint("k", i), fmt.Sprint("t", i)
		w.Ended(t.Context(), e)
	}
	all := m.collect(t)
	for _, name := range []string{"styx.jobs.failed", "styx.jobs.retried", "messaging.process.duration"} {
		sum, other := 0.0, 0
		for labels, v := range points(t, all[name]) {
			sum += v
			if strings.Contains(labels, "=other") {
				other++
			}
			require.NotContains(t, labels, "otel.metric.overflow", "the SDK's own limit was reached")
		}
		require.InDelta(t, n, sum, 0, "nothing is left out")
		require.Positive(t, other)
		require.Less(t, len(points(t, all[name])), 2000)
	}
	require.Contains(t, points(t, all["styx.jobs.retried"]), "kind=k0 queue=q0", "the first keep their names")
	require.Contains(t, points(t, all["styx.jobs.retried"]), "kind=other queue=other")
}

func TestGaugesOfManyQueuesAreMerged(t *testing.T) {
	t.Parallel()
	m := newMeter(t)
	now := time.Unix(0, 0)
	g, err := telemetry.NewGauges(m, func() time.Time { return now })
	require.NoError(t, err)
	queues := make([]store.QueueGauges, 300)
	for i := range queues {
		queues[i] = store.QueueGauges{
			QueueStats: store.QueueStats{Queue: fmt.Sprintf("q%03d", i), Dead: 1, OldestReady: time.Duration(i) * time.Second}, Workers: 2,
		}
	}
	g.Show(store.Gauges{Queues: queues, OldestTransaction: -1}, time.Minute)
	all := m.collect(t)
	require.Len(t, points(t, all["styx.dlq.depth"]), 201)
	require.InDelta(t, 100, points(t, all["styx.dlq.depth"])["queue=other"], 0, "counts are added")
	require.InDelta(t, 200, points(t, all["styx.workers"])["queue=other"], 0)
	require.InDelta(t, 299, points(t, all["styx.queue.oldest_pending.age"])["queue=other"], 0, "of ages the largest")
	require.NotContains(t, all, "styx.oldest_transaction.age", "there is no such thing")

	now = now.Add(time.Minute + 1)
	require.NotContains(t, m.collect(t), "styx.dlq.depth", "what is old is not shown")
	g.Show(store.Gauges{Queues: queues[:1]}, time.Minute)
	require.Len(t, points(t, m.collect(t)["styx.dlq.depth"]), 1)
	g.Hide()
	require.NotContains(t, m.collect(t), "styx.dlq.depth")
}

func TestNobodyMeasuresForNothing(t *testing.T) {
	ctx := t.Context()
	for name, p := range map[string]metric.MeterProvider{"no-op": noop.NewMeterProvider(), "global without an SDK": nil} {
		t.Run(name, func(t *testing.T) {
			everything(t, p, true)
			c, w, r := telemetry.NewClientMetrics(p), telemetry.NewWorkerMetrics(p, true), telemetry.NewReaperMetrics(p, true)
			require.False(t, c.Enabled(ctx))
			require.False(t, w.Enabled(ctx))
			require.False(t, r.Enabled(ctx))
			now, batch, rescued := time.Now(), make([]store.Claimed, 10), make([]store.Rescued, 10)
			require.Zero(t, testing.AllocsPerRun(100, func() {
				c.Sent(ctx, "q", now, nil)
				w.Claimed(ctx, "q", batch, now, nil)
				w.Settled(ctx, 10, now, nil)
				r.Reaped(ctx, rescued)
			}))
		})
	}
}

func BenchmarkEnded(b *testing.B) {
	p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	w := telemetry.NewWorkerMetrics(p, false)
	e := ending(store.Succeed, nil)
	b.ReportAllocs()
	for b.Loop() {
		w.Ended(b.Context(), e)
	}
}
