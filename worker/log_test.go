package worker_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/worker"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// One line for each failed attempt and each dead letter, with all that is
// needed to find the message and to count such failures.
func TestLogLines(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, log := r.worker(worker.Config{RetryPolicy: soon})
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			switch m.Attempt {
			case 1:
				return wrap(io.ErrUnexpectedEOF)
			case 2:
				panic("odd")
			default:
				return worker.Permanent(errBroken)
			}
		}, nil)
		worker.Handle(w, others, nil)
		id := r.enqueue(job{}, &client.EnqueueOptions{
			Queue: "default", Tenant: "acme", CorrelationID: "order 42", IdempotencyKey: "key 1", MaxRetries: 7,
		})
		fine := r.enqueue(other{}, &client.EnqueueOptions{Tenant: "acme"})
		run := r.start(w)
		r.wait(message.StatusDead, id)
		r.wait(message.StatusSucceeded, fine)
		require.NoError(t, run.stop())

		lines := log.lines(t)
		require.Len(t, lines, 3)
		for i, want := range []map[string]any{
			{"level": "WARN", "msg": lineFailed, "decision": "retry", "failure_kind": "transient", "error_class": "*errors.errorString", "error": "outer: inner: unexpected EOF"},
			{"level": "WARN", "msg": lineFailed, "decision": "retry", "failure_kind": "unknown", "error_class": "panic(string)", "error": "panic: odd"},
			{"level": "ERROR", "msg": lineDead, "decision": "poison", "failure_kind": "permanent", "error_class": "*errors.errorString", "error": errBroken.Error()},
		} {
			line := lines[i]
			for key, value := range want {
				require.Equal(t, value, line[key], key)
			}
			for key, value := range map[string]any{
				"queue": "default", "kind": "job", "id": float64(id), "attempt": float64(i + 1), "max_retries": 7.0,
				"tenant": "acme", "correlation_id": "order 42", "idempotency_key": "key 1",
			} {
				require.Equal(t, value, line[key], key)
			}
			require.Len(t, line["fingerprint"], 16)
			require.Positive(t, line["elapsed"])
		}
		require.Equal(t, lines[2]["fingerprint"], r.letter(id).Fingerprint)
	})
}

// Failures of one cause have one fingerprint, whatever their numbers.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, _ := r.worker(worker.Config{})
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			return worker.Permanent(wrap(statusError(m.Payload.N)))
		}, nil)
		ids := r.jobs(3, nil)
		r.start(w)
		r.wait(message.StatusDead, ids...)
		require.Equal(t, r.letter(ids[0]).Fingerprint, r.letter(ids[2]).Fingerprint)
		require.Equal(t, "worker_test.statusError", r.letter(ids[0]).ErrorClass)
	})
}

// Nothing is said while nothing happens, and of what goes well.
func TestSilence(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		w, log := r.worker(worker.Config{Lease: 500 * time.Millisecond, PollInterval: 10 * time.Millisecond})
		worker.Handle(w, func(_ context.Context, m *worker.Message[job]) error {
			switch {
			case m.Payload.N == 1:
				return worker.Ignore(errBroken)
			case m.Payload.N == 2 && m.Snoozes == 0:
				return worker.Snooze(time.Second)
			}
			return nil
		}, nil)
		ids := r.jobs(20, nil)
		run := r.start(w)
		r.wait(message.StatusSucceeded, ids...)
		require.NoError(t, run.stop())
		require.Empty(t, log.String())
	})
}
