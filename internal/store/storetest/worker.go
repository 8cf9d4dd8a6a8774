package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// worker is a registered incarnation with its own numbers of claims. It is
// used by one goroutine.
type worker struct {
	t      *testing.T
	store  store.Store
	id     int64
	number int64
}

// worker registers one whose lease outlives the test.
func (f *fixture) worker() *worker {
	f.t.Helper()
	return register(f.t, f.Store)
}

func register(t *testing.T, s store.Store) *worker {
	t.Helper()
	id, err := s.Register(t.Context(), store.WorkerInfo{
		Name: "tester", Host: "host", Version: "v1", PID: 7,
		Queues: []string{"q", `odd "q", \ {}`}, Kinds: []string{"k"},
		Concurrency: 10, Lease: time.Hour,
	})
	require.NoError(t, err)
	require.Positive(t, id)
	return &worker{t: t, store: s, id: id}
}

// spec is what the worker's cursors claim unless a property says otherwise.
func (w *worker) spec(queue string, kinds ...string) store.CursorSpec {
	return store.CursorSpec{
		WorkerID: w.id, Queue: queue, Kinds: kinds,
		Timeout: time.Minute, Lease: time.Hour,
	}
}

// cursor returns one that claims every kind of the queue.
func (w *worker) cursor(queue string) store.Cursor { return w.store.Cursor(w.spec(queue)) }

// claim runs one claim under the next number.
func (w *worker) claim(c store.Cursor, limit int, suspect bool) store.Batch {
	w.t.Helper()
	w.number++
	b, err := c.Claim(w.t.Context(), store.ClaimRequest{Number: w.number, Limit: limit, Suspect: suspect})
	require.NoError(w.t, err)
	require.LessOrEqual(w.t, len(b.Messages), limit)
	for _, m := range b.Messages {
		require.Equal(w.t, message.StatusProcessing, m.Status)
		require.Equal(w.t, w.id, m.WorkerID)
		require.Equal(w.t, m.RetryCount+1, m.Attempt)
		require.Positive(w.t, m.LeaseToken)
	}
	return b
}

// drain claims with c until the store says that nothing is left, at most
// limit messages.
func (w *worker) drain(c store.Cursor, limit int, suspect bool) []store.Claimed {
	w.t.Helper()
	const rounds = 10_000
	var got []store.Claimed
	for range rounds {
		if len(got) >= limit {
			return got
		}
		b := w.claim(c, limit-len(got), suspect)
		got = append(got, b.Messages...)
		if !b.Again {
			return got
		}
	}
	w.t.Fatalf("the store says Again after %d claims", rounds)
	return nil
}

// take claims up to limit messages with a new cursor.
func (w *worker) take(queue string, limit int) []store.Claimed {
	w.t.Helper()
	return w.drain(w.cursor(queue), limit, false)
}

// takeAny is take with suspects, however many.
func (w *worker) takeAny(queue string, limit int) []store.Claimed {
	w.t.Helper()
	c := w.cursor(queue)
	var all []store.Claimed
	for len(all) < limit {
		got := w.drain(c, limit-len(all), true)
		if len(got) == 0 {
			break
		}
		all = append(all, got...)
		c.Wake()
	}
	return all
}

// only claims exactly one message.
func (w *worker) only(queue string) store.Claimed {
	w.t.Helper()
	got := w.takeAny(queue, 1)
	require.Len(w.t, got, 1)
	return got[0]
}

// settle records outcomes all of which must be accepted.
func (w *worker) settle(batch ...store.Settlement) {
	w.t.Helper()
	for i, err := range w.try(batch...) {
		require.NoError(w.t, err, "settlement %d of %+v", i, batch[i])
	}
}

// try records outcomes and returns an answer for each.
func (w *worker) try(batch ...store.Settlement) []error {
	w.t.Helper()
	results, err := w.store.Settle(w.t.Context(), w.id, batch, nil)
	require.NoError(w.t, err)
	require.Len(w.t, results, len(batch))
	return results
}

// refused checks that a settlement changes nothing.
func (w *worker) refused(s store.Settlement) {
	w.t.Helper()
	require.ErrorIs(w.t, w.try(s)[0], message.ErrLeaseLost)
}

func claimedIDs(got []store.Claimed) []int64 {
	ids := make([]int64, len(got))
	for i := range got {
		ids[i] = got[i].ID
	}
	return ids
}

func outcome(c store.Claimed, verb store.Verb) store.Settlement {
	return store.Settlement{
		ID: c.ID, Token: c.LeaseToken, Place: c.Place, Verb: verb, Keyed: c.IdempotencyKey != "",
		Elapsed: 3 * time.Millisecond,
	}
}

func succeed(c store.Claimed) store.Settlement { return outcome(c, store.Succeed) }

// failure is one with every field set.
func failure(kind message.FailureKind, decision message.Decision) *store.Failure {
	return &store.Failure{
		Kind: kind, Decision: decision, Class: "test.Error", Message: `no "luck" \ ünder {} ?`,
		Stack: "main.handle\n\tmain.go:7", Fingerprint: "f1", TraceID: "0af7651916cd43dd8448eb211c80319c", Version: "v1.2.3",
	}
}

func retry(c store.Claimed, delay time.Duration) store.Settlement {
	s := outcome(c, store.Retry)
	s.Delay = delay
	s.Failure = failure(message.FailureTransient, message.DecisionExhausted)
	return s
}

func bury(c store.Claimed) store.Settlement {
	s := outcome(c, store.Bury)
	s.Failure = failure(message.FailurePermanent, message.DecisionPoison)
	return s
}

func release(c store.Claimed, delay time.Duration) store.Settlement {
	s := outcome(c, store.Release)
	s.Delay, s.Reason = delay, "shutdown"
	return s
}

func snooze(c store.Claimed, delay time.Duration) store.Settlement {
	s := outcome(c, store.Snooze)
	s.Delay = delay
	return s
}
