package worker_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/reaper"
	"github.com/styxmq/styx/worker"
)

// A process that is killed inside its handlers ends no span. The reaper's tells
// what it had held, and whoever runs a message then begins a trace of its own.
func TestTraceOfAKilledProcess(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		rec := record(t)
		send := func(attempts int) int64 {
			m, err := rec.client(r).Enqueue(t.Context(), job{Text: "hang"}, &client.EnqueueOptions{MaxRetries: attempts})
			require.NoError(t, err)
			return m.ID
		}
		lives, dies := send(3), send(1)
		first := r.spawn("work", leaseVariable+"=3s")
		for range 2 {
			first.next(t, "ran ")
		}
		lost := r.get(lives).WorkerID
		first.signal(t, syscall.SIGKILL)
		first.rest()
		require.Error(t, first.wait())

		rp, err := reaper.New(r.db.DB, reaper.Config{Schema: r.db.Schema, Logger: discard(), TracerProvider: rec.provider})
		require.NoError(t, err)
		until(t, "the reaper has taken back what the process held", func() bool {
			_, err := rp.RunOnce(t.Context())
			require.NoError(t, err)
			return r.get(dies).Status == message.StatusDead
		})
		m := r.get(lives)
		require.Equal(t, message.StatusPending, m.Status)
		require.Equal(t, 1, m.WorkerLosses)
		rec.work(r, worker.Config{}, succeed, r.done(message.StatusSucceeded, lives))

		require.Equal(t, []string{
			"1 send default producer",
			"2 send default producer",
			"3 reap default internal, creation 1, creation 2",
			"4 dead_letter default internal in 3, creation 2 (worker_lost)",
			"5 process default consumer, creation 1: succeeded",
		}, rec.story())
		spans := rec.spans()
		require.Len(t, spans, 6)
		reap, letter, process, settle := spans[2], spans[3], spans[4], spans[5]
		require.Equal(t, "github.com/styxmq/styx/reaper", reap.InstrumentationScope.Name)
		require.Equal(t, map[string]any{
			"messaging.system": "styx", "messaging.operation.name": "reap", "messaging.destination.name": "default",
			"messaging.batch.message_count": int64(2), "styx.dead": int64(1),
		}, attributes(reap.Attributes))
		for i, id := range []int64{lives, dies} {
			require.Equal(t, map[string]any{
				"messaging.message.id": literal(id), "styx.decision": "worker_lost", "styx.link": "creation",
			}, attributes(reap.Links[i].Attributes))
		}
		require.Equal(t, map[string]any{
			"messaging.system": "styx", "messaging.operation.name": "dead_letter", "messaging.destination.name": "default",
			"messaging.message.id": literal(dies), "styx.kind": "job", "styx.attempt": int64(1), "styx.max_attempts": int64(1),
			"styx.decision": "worker_lost", "error.type": "worker_lost",
		}, attributes(letter.Attributes))
		require.Equal(t, map[string]any{
			"messaging.system": "styx", "messaging.operation.name": "process", "messaging.operation.type": "process",
			"messaging.destination.name": "default", "messaging.message.id": literal(lives),
			"styx.kind": "job", "styx.attempt": int64(2), "styx.max_attempts": int64(3), "styx.outcome": "succeeded",
		}, attributes(process.Attributes))
		traces := map[trace.TraceID]bool{}
		for _, s := range []trace.SpanContext{spans[0].SpanContext, reap.SpanContext, process.SpanContext} {
			traces[s.TraceID()] = true
		}
		require.Len(t, traces, 3, "each begins a trace")
		require.Equal(t, process.SpanContext.SpanID(), settle.Links[0].SpanContext.SpanID())

		as := r.attempts(lives)
		require.Len(t, as, 1)
		require.Equal(t, lost, as[0].WorkerID)
		require.Equal(t, string(message.DecisionWorkerLost), as[0].Reason)
		require.Empty(t, as[0].TraceID, "nobody knows the span of the killed attempt")
	})
}
