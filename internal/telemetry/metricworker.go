package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// WorkerMetrics measure what a worker does. It is safe for concurrent use.
type WorkerMetrics struct {
	tenants bool

	operation, process, wait                           metric.Float64Histogram
	attempts, batch                                    metric.Int64Histogram
	consumed, claims, succeeded, failed, retried, dead metric.Int64Counter
	again, released, lost, abandoned                   metric.Int64Counter
	stray                                              metric.Int64UpDownCounter

	receive, received, processed, settle     *family
	queue, result, kind, failure, bury, back *family
}

// NewWorkerMetrics makes the instruments; nil is the global provider. tenants
// says whether failures are counted by tenant too.
func NewWorkerMetrics(p metric.MeterProvider, tenants bool) *WorkerMetrics {
	m := newMaker(p)
	return &WorkerMetrics{
		tenants:   tenants,
		operation: m.seconds(nameOperationDuration), process: m.seconds(nameProcessDuration), wait: m.seconds(nameWait),
		attempts: m.sizes(nameAttempts), batch: m.sizes(nameSettleBatch),
		consumed: m.counter(nameConsumed), claims: m.counter(nameClaims), succeeded: m.counter(nameSucceeded),
		failed: m.counter(nameFailed), retried: m.counter(nameRetried), dead: m.counter(nameDead),
		again: m.counter(nameDeadAgain), released: m.counter(nameReleased), lost: m.counter(nameLeasesLost), abandoned: m.counter(nameAbandoned),
		stray:   m.upDown(nameStray),
		receive: operation("receive", "receive"), received: operation("receive", ""),
		processed: operation(OperationProcess, OperationProcess), settle: operation(OperationSettle, OperationSettle),
		queue: newFamily(nil, byQueue()), result: newFamily(nil, byQueue(), label{key: labelResult}),
		kind: newFamily(nil, byQueue(), byKind()), failure: failures(), bury: burials(),
		back: newFamily(nil, byQueue(), label{key: labelResult}),
	}
}

// The results of a release.
const (
	resultReleased = "released"
	resultSnoozed  = "snoozed"
)

func failures() *family { return newFamily(nil, byQueue(), byKind(), byTenant(), byClass()) }
func burials() *family  { return newFamily(nil, byQueue(), byKind(), label{key: labelDecision}) }

// Enabled reports whether anybody takes measurements.
func (m *WorkerMetrics) Enabled(ctx context.Context) bool { return m.consumed.Enabled(ctx) }

// Prepare makes the counters of a queue appear at 0, so that their first
// increase is seen as one.
func (m *WorkerMetrics) Prepare(ctx context.Context, queue string, kinds []string) {
	if !m.Enabled(ctx) {
		return
	}
	m.lost.Add(ctx, 0, m.queue.of(values{queue}).add...)
	m.stray.Add(ctx, 0, m.queue.of(values{queue}).add...)
	for _, result := range []string{resultReleased, resultSnoozed} {
		m.released.Add(ctx, 0, m.back.of(values{queue, result}).add...)
	}
	for _, kind := range kinds {
		s := m.kind.of(values{queue, kind})
		m.succeeded.Add(ctx, 0, s.add...)
		m.retried.Add(ctx, 0, s.add...)
		m.again.Add(ctx, 0, s.add...)
		m.abandoned.Add(ctx, 0, s.add...)
		for _, decision := range []message.Decision{message.DecisionExhausted, message.DecisionPoison} {
			m.dead.Add(ctx, 0, m.bury.of(values{queue, kind, string(decision)}).add...)
		}
	}
}

// Claimed counts one claim, which began at began, and how long its messages
// had waited.
func (m *WorkerMetrics) Claimed(ctx context.Context, queue string, batch []store.Claimed, began time.Time, err error) {
	if !m.Enabled(ctx) {
		return
	}
	now := time.Now()
	result := "some"
	switch {
	case err != nil:
		result = "error"
	case len(batch) == 0:
		result = "empty"
	}
	m.claims.Add(ctx, 1, m.result.of(values{queue, result}).add...)
	if result == "empty" {
		return
	}
	m.operation.Record(ctx, now.Sub(began).Seconds(), m.receive.of(values{queue, ErrorType(err)}).record...)
	if len(batch) == 0 {
		return
	}
	m.consumed.Add(ctx, int64(len(batch)), m.received.of(values{queue}).add...)
	record := m.queue.of(values{queue}).record
	for i := range batch {
		due := batch[i].CreatedAt
		if batch[i].RetryAfter.After(due) {
			due = batch[i].RetryAfter
		}
		m.wait.Record(ctx, max(0, now.Sub(due).Seconds()), record...)
	}
}

// Ending is the end of an attempt.
type Ending struct {
	Message    *message.Message
	Settlement *store.Settlement
	// Lost reports that the outcome did not count.
	Lost bool
}

// Ended counts an attempt that has been recorded, or could not be because the
// lease was lost. Ask Enabled before.
func (m *WorkerMetrics) Ended(ctx context.Context, a Ending) {
	queue, kind, s := a.Message.Queue, a.Message.Kind, a.Settlement
	class := ""
	if s.Failure != nil {
		class = s.Failure.Class
	}
	if a.Lost {
		m.process.Record(ctx, s.Elapsed.Seconds(), m.processed.of(values{queue, "lease_lost"}).record...)
		m.lost.Add(ctx, 1, m.queue.of(values{queue}).add...)
		return
	}
	if s.Elapsed > 0 {
		m.process.Record(ctx, s.Elapsed.Seconds(), m.processed.of(values{queue, class}).record...)
	}
	switch s.Verb {
	case store.Succeed:
		m.succeeded.Add(ctx, 1, m.kind.of(values{queue, kind}).add...)
		m.attempts.Record(ctx, int64(a.Message.Attempt), m.queue.of(values{queue}).record...)
	case store.Retry, store.Bury:
		tenant := ""
		if m.tenants {
			tenant = a.Message.Tenant
		}
		m.failed.Add(ctx, 1, m.failure.of(values{queue, kind, tenant, class}).add...)
		if s.Verb == store.Retry {
			m.retried.Add(ctx, 1, m.kind.of(values{queue, kind}).add...)
			return
		}
		decision := ""
		if s.Failure != nil {
			decision = string(s.Failure.Decision)
		}
		m.dead.Add(ctx, 1, m.bury.of(values{queue, kind, decision}).add...)
		m.attempts.Record(ctx, int64(a.Message.Attempt), m.queue.of(values{queue}).record...)
		if a.Message.ReplayCount > 0 {
			m.again.Add(ctx, 1, m.kind.of(values{queue, kind}).add...)
		}
	case store.Release:
		m.released.Add(ctx, 1, m.back.of(values{queue, resultReleased}).add...)
	case store.Snooze:
		m.released.Add(ctx, 1, m.back.of(values{queue, resultSnoozed}).add...)
	}
}

// Settled counts one call that records outcomes.
func (m *WorkerMetrics) Settled(ctx context.Context, n int, began time.Time, err error) {
	if !m.Enabled(ctx) {
		return
	}
	m.operation.Record(ctx, time.Since(began).Seconds(), m.settle.of(values{"", ErrorType(err)}).record...)
	if err == nil {
		m.batch.Record(ctx, int64(n))
	}
}

// Abandoned counts a handler that did not return in time.
func (m *WorkerMetrics) Abandoned(ctx context.Context, queue, kind string) {
	m.abandoned.Add(ctx, 1, m.kind.of(values{queue, kind}).add...)
}

// Stray counts a handler whose outcome does not count any more (1), or that
// such a one has returned (-1).
func (m *WorkerMetrics) Stray(ctx context.Context, queue string, change int64) {
	m.stray.Add(ctx, change, m.queue.of(values{queue}).add...)
}
