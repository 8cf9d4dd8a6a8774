package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

// counts adds up the data points of every metric; of histograms their counts.
func counts(t *testing.T, reader *sdkmetric.ManualReader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	sums := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					sums[m.Name] += p.Value
					for _, key := range []attribute.Key{"tenant", "decision"} {
						if v, ok := p.Attributes.Value(key); ok {
							sums[m.Name+" "+v.AsString()] += p.Value
						}
					}
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					sums[m.Name] += int64(p.Count) //nolint:gosec // a handful
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					sums[m.Name] += int64(p.Count) //nolint:gosec // a handful
				}
			}
		}
	}
	return sums
}

func TestMeasurements(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		reader := sdkmetric.NewManualReader()
		p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		c, err := client.New(r.db.DB, client.Config{Schema: r.db.Schema, MeterProvider: p})
		require.NoError(t, err)
		w, _ := r.worker(worker.Config{
			MeterProvider: p, TenantMetrics: true, RetryPolicy: soon, Lease: 10 * time.Second, Grace: time.Second,
		})
		began, resume := make(chan struct{}, 1), make(chan struct{})
		worker.Handle(w, func(ctx context.Context, m *worker.Message[job]) error {
			switch {
			case m.Payload.Text == "poison":
				return worker.Permanent(errBroken)
			case m.Payload.Text == "flaky" && m.Attempt == 1:
				return errBroken
			case m.Payload.Text == "stuck" && m.Attempt == 1:
				began <- struct{}{}
				<-resume
			case m.Payload.Text == "tx":
				tx, err := r.db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				return errors.Join(m.CompleteTx(ctx, tx), tx.Commit())
			}
			return nil
		}, nil)
		var items []client.Item
		for _, text := range []string{"fine", "fine", "flaky", "poison", "tx", "stuck"} {
			items = append(items, client.Item{Payload: job{Text: text}, Options: &client.EnqueueOptions{Tenant: "acme"}})
		}
		ms, err := c.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
		run := r.start(w)
		receive(t, began)
		r.overdue(ms[5].ID)
		until(t, "it is lost", func() bool { r.reap(); return counts(t, reader)["styx.leases.lost"] == 1 })
		require.EqualValues(t, 1, counts(t, reader)["styx.handlers.stray"])
		close(resume)
		r.wait(message.StatusSucceeded, ms[0].ID, ms[1].ID, ms[2].ID, ms[4].ID, ms[5].ID)
		r.wait(message.StatusDead, ms[3].ID)
		require.NoError(t, run.stop())

		got := counts(t, reader)
		for name, want := range map[string]int64{
			"messaging.client.sent.messages": 6, "messaging.client.consumed.messages": 8, "styx.queue.wait": 8,
			"messaging.process.duration": 8, "styx.jobs.succeeded": 5, "styx.jobs.failed": 2, "styx.jobs.failed acme": 2,
			"styx.jobs.retried": 1, "styx.jobs.dead": 1, "styx.jobs.dead poison": 1, "styx.job.attempts": 6,
			"styx.leases.lost": 1, "styx.handlers.stray": 0,
		} {
			require.Equal(t, want, got[name], name)
		}
		require.Positive(t, got["styx.settle.batch.size"])
		require.Greater(t, got["styx.claims"], int64(2))
		require.NoError(t, p.Shutdown(context.WithoutCancel(t.Context())))
	})
}
