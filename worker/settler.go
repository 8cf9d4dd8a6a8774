package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

const (
	// settleBatch is the largest number of outcomes of one statement.
	settleBatch = 1000
	// settleGather is how long outcomes are collected while other handlers
	// still run.
	settleGather = time.Millisecond
	// settleTimeout bounds one call.
	settleTimeout = 10 * time.Second
	// settleAhead is how many outcomes may wait before no claim is begun. More
	// than one batch, so that the next one is ready at once.
	settleAhead = 2 * settleBatch
	// askAhead is how many messages claims under way may ask for before
	// another is begun.
	askAhead = 4 * settleBatch
	// forgetBatch is how many claims rows are worth deleting with a settle
	// instead of waiting for the next beat.
	forgetBatch = 16
)

// settled is an outcome on its way to the database.
type settled struct {
	task *task
	s    store.Settlement
}

// settler groups outcomes and records them. One goroutine does it: two would
// only contend for the same rows and locks.
type settler struct {
	r    *run
	stop chan struct{}
	done chan struct{}
	wake chan struct{} // holds a token when the loop has something to look at

	mu      sync.Mutex
	waiting []settled
	asked   int          // messages that claims under way may bring
	claims  []*admission // who wants to claim, in turn
	want    int          // how many must wait for the loop to be woken; 0: it does not sleep

	// of the loop alone, kept for the next batch
	spare    []settled
	outcomes []store.Settlement
	tasks    []*task
}

func newSettler(r *run) *settler {
	return &settler{r: r, stop: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// put hands an outcome over. It does not block: what can come is bounded by
// what was claimed, and fetchers ask for room before they claim.
func (s *settler) put(t *task, o store.Settlement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, settled{t, o})
	if s.want > 0 && len(s.waiting) >= s.want {
		s.want = 0
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// admission is a fetcher's wish to claim.
type admission struct {
	n       int
	granted chan struct{}
}

// admit blocks until it is the caller's turn to claim n messages: not while
// the database is far behind with outcomes, nor while others have asked for
// so many that it will be. It reports false when ctx ended first; otherwise
// admitted must be called after the claim.
func (s *settler) admit(ctx context.Context, n int) bool {
	a := &admission{n, make(chan struct{})}
	s.mu.Lock()
	s.claims = append(s.claims, a)
	s.grant()
	s.mu.Unlock()
	select {
	case <-a.granted:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.claims, a)
	if i >= 0 {
		s.claims = slices.Delete(s.claims, i, i+1)
		return false
	}
	return true
}

// admitted ends a claim that admit has let pass.
func (s *settler) admitted(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked -= n
	s.grant()
}

// grant lets those pass whose turn it is.
func (s *settler) grant() {
	n := 0
	for n < len(s.claims) && len(s.waiting) < settleAhead && s.asked < askAhead {
		s.asked += s.claims[n].n
		close(s.claims[n].granted)
		n++
	}
	s.claims = slices.Delete(s.claims, 0, n)
}

// finish waits until every claimed message is settled or given up.
func (s *settler) finish() {
	close(s.stop)
	<-s.done
}

func (s *settler) loop(ctx context.Context) {
	defer close(s.done)
	stop := s.stop
	var ended <-chan struct{} // counts, like busy, once there is nothing more to come
	for {
		if s.ready(1) {
			s.settle(ctx, s.gather())
			continue
		}
		var look <-chan time.Time
		if stop == nil {
			if s.r.busy.Load() == 0 || ctx.Err() != nil {
				return
			}
			look = time.After(5 * time.Millisecond)
		}
		select {
		case <-s.wake:
		case <-stop:
			stop, ended = nil, ctx.Done()
		case <-ended:
		case <-look:
		}
	}
}

// ready reports whether n outcomes wait, and asks to be woken when they do
// not yet.
func (s *settler) ready(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) >= n {
		s.want = 0
		return true
	}
	s.want = n
	return false
}

// gather waits a moment for handlers that are still running, and takes what
// is ready then.
func (s *settler) gather() []settled {
	var timer *time.Timer
	for !s.ready(min(settleBatch, max(1, int(s.r.busy.Load())))) {
		if timer == nil {
			timer = time.NewTimer(settleGather)
			defer timer.Stop()
		}
		select {
		case <-s.wake:
			continue
		case <-timer.C:
		}
		break
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want = 0
	batch := s.waiting
	if len(batch) <= settleBatch {
		s.waiting = s.spare[:0]
	} else {
		batch = append(s.spare[:0], batch[:settleBatch]...)
		n := copy(s.waiting, s.waiting[settleBatch:])
		clear(s.waiting[n:])
		s.waiting = s.waiting[:n]
	}
	s.grant()
	return batch
}

// settle records a batch, each incarnation's part by itself.
func (s *settler) settle(ctx context.Context, batch []settled) {
	defer func(whole []settled) {
		clear(whole) // it is kept, its tasks must not be
		s.spare = whole
	}(batch)
	for len(batch) > 0 {
		inc := batch[0].task.inc
		n := 1
		for n < len(batch) && batch[n].task.inc == inc {
			n++
		}
		s.record(ctx, inc, batch[:n])
		batch = batch[n:]
	}
}

// record settles one incarnation's outcomes, and keeps trying while the
// database is away and the lease is not over. Repeating is safe: what was
// recorded the first time gets the same answer.
func (s *settler) record(ctx context.Context, inc *incarnation, batch []settled) {
	outcomes, tasks := s.outcomes[:0], s.tasks[:0]
	for i := range batch {
		outcomes, tasks = append(outcomes, batch[i].s), append(tasks, batch[i].task)
	}
	s.outcomes, s.tasks = outcomes, tasks
	defer func() {
		s.r.busy.Add(-int64(len(batch)))
		inc.remove(tasks...)
		clear(outcomes)
		clear(tasks)
	}()
	ctx, span := s.r.settleSpan(ctx, batch)
	done := inc.ledger.done(forgetBatch)
	patience := time.Time{}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		results, err := s.call(ctx, inc, outcomes, done)
		if err == nil {
			inc.ledger.deleted(done)
			lost := s.report(ctx, batch, results)
			endSettle(span, lost, nil)
			return
		}
		if errors.Is(err, store.ErrContention) && pause < 100*time.Millisecond {
			time.Sleep(pause)
			continue
		}
		s.r.log.settle(ctx, len(batch), err)
		if inc.dead() && patience.IsZero() {
			patience = time.Now().Add(s.r.cfg.Lease)
		}
		if ctx.Err() != nil || !patience.IsZero() && time.Now().After(patience) {
			inc.ledger.undone(done)
			endSettle(span, 0, err)
			s.r.log.gaveUp(batch, err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (s *settler) call(ctx context.Context, inc *incarnation, outcomes []store.Settlement, done []int64) ([]error, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	began := time.Now()
	results, err := s.r.store.Settle(ctx, inc.id, outcomes, done)
	s.r.metrics.Settled(ctx, len(outcomes), began, err)
	return results, err
}

// report goes through what was recorded, and counts what came too late.
func (s *settler) report(ctx context.Context, batch []settled, results []error) (lost int) {
	s.r.measure(ctx, batch, results)
	for i, err := range results {
		if errors.Is(err, message.ErrLeaseLost) {
			lost++
			s.r.log.lost(batch[i].task)
			continue
		}
		s.r.recorded(ctx, batch[i].task, &batch[i].s)
	}
	return lost
}
