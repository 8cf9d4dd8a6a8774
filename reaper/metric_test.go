package reaper_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/reaper"
)

// observed is a reaper at work and what it shows.
type observed struct {
	*reaper.Reaper
	reader *sdkmetric.ManualReader
	stop   func()
}

func (f *fixture) observed() observed {
	f.t.Helper()
	reader := sdkmetric.NewManualReader()
	p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	r, _ := f.reaper(f.open(), reaper.Config{
		MeterProvider: p, GaugeInterval: 100 * time.Millisecond, Rescue: "@every 100ms", Timeout: 30 * time.Second,
	})
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	o := observed{Reaper: r, reader: reader}
	o.stop = func() {
		if ctx.Err() == nil {
			cancel()
			require.NoError(f.t, <-done)
		}
	}
	f.t.Cleanup(o.stop)
	return o
}

// has returns the sum of a metric's data points, if there is any.
func (o observed) has(t *testing.T, name string) (sum float64, ok bool) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, o.reader.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					sum, ok = sum+p.Value, true
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					sum, ok = sum+float64(p.Value), true
				}
			}
		}
	}
	return sum, ok
}

func (o observed) shows(t *testing.T, name string, want float64) {
	t.Helper()
	require.Eventually(t, func() bool {
		got, ok := o.has(t, name)
		return ok && got == want
	}, patience, 10*time.Millisecond, "%s: %v", name, want)
}

func TestOneReaperAtATimeShowsTheGauges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.enqueue(3, client.EnqueueOptions{Queue: "a"})
		first := f.observed()
		first.shows(t, "styx.queue.depth", 3)
		second := f.observed()
		require.Eventually(t, func() bool { return second.Status().Gauge.Ticks > 2 }, patience, 10*time.Millisecond)
		_, ok := second.has(t, "styx.queue.depth")
		require.False(t, ok, "the first has the duty")
		_, ok = second.has(t, "styx.reaper.last_success.timestamp")
		require.True(t, ok, "its own runs everyone shows")
		first.stop()
		_, ok = first.has(t, "styx.queue.depth")
		require.False(t, ok)
		second.shows(t, "styx.queue.depth", 3)
		f.enqueue(2, client.EnqueueOptions{Queue: "b"})
		second.shows(t, "styx.queue.depth", 5)
	})
}

func TestReapedMessagesAreCounted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		o := f.observed()
		f.enqueue(2, client.EnqueueOptions{Queue: "a"})
		worker, claimed := f.claim("a", 2)
		f.silence(worker)
		o.shows(t, "styx.jobs.reaped", 2)
		o.shows(t, "styx.jobs.failed", 2)
		require.Len(t, claimed, 2)
	})
}

func TestNobodyIsAskedForGaugesThatNobodyTakes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r, _ := f.reaper(f.db.DB, reaper.Config{GaugeInterval: 100 * time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		require.Eventually(t, func() bool { return r.Status().Gauge.Ticks > 2 }, patience, 10*time.Millisecond)
		cancel()
		require.NoError(t, <-done)
		require.Zero(t, f.count("SELECT count(*) FROM {{s}}duties"))
	})
}

func TestGaugeIntervalIsChecked(t *testing.T) {
	t.Parallel()
	_, err := reaper.New(nil, reaper.Config{GaugeInterval: time.Millisecond})
	require.ErrorContains(t, err, "GaugeInterval must be at least 100 ms")
}
