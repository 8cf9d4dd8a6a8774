package worker

import (
	"context"
	"errors"
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
	r     *run
	queue chan settled
	stop  chan struct{}
	done  chan struct{}
}

func newSettler(r *run, size int) *settler {
	return &settler{r: r, queue: make(chan settled, size), stop: make(chan struct{}), done: make(chan struct{})}
}

// put hands an outcome over. It blocks when the database is so far behind
// that no more handlers should start.
func (s *settler) put(t *task, o store.Settlement) {
	select {
	case s.queue <- settled{t, o}:
	case <-s.done:
	}
}

// finish waits until every claimed message is settled or given up.
func (s *settler) finish() {
	close(s.stop)
	<-s.done
}

func (s *settler) loop(ctx context.Context) {
	defer close(s.done)
	for {
		select {
		case first := <-s.queue:
			s.settle(ctx, s.gather(first))
		case <-s.stop:
			if s.r.busy.Load() == 0 || ctx.Err() != nil {
				return
			}
			select {
			case first := <-s.queue:
				s.settle(ctx, s.gather(first))
			case <-ctx.Done():
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
}

// settle records a batch, each incarnation's part by itself.
func (s *settler) settle(ctx context.Context, batch []settled) {
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

// gather collects what else is ready, and waits a moment for handlers that
// are still running.
func (s *settler) gather(first settled) []settled {
	batch := append(make([]settled, 0, settleBatch), first)
	var timer *time.Timer
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for len(batch) < settleBatch {
		select {
		case o := <-s.queue:
			batch = append(batch, o)
			continue
		default:
		}
		if s.r.busy.Load() <= int64(len(batch)) {
			return batch
		}
		if timer == nil {
			timer = time.NewTimer(settleGather)
		}
		select {
		case o := <-s.queue:
			batch = append(batch, o)
		case <-timer.C:
			return batch
		}
	}
	return batch
}

// record settles one incarnation's outcomes, and keeps trying while the
// database is away and the lease is not over. Repeating is safe: what was
// recorded the first time gets the same answer.
func (s *settler) record(ctx context.Context, inc *incarnation, batch []settled) {
	outcomes := make([]store.Settlement, len(batch))
	tasks := make([]*task, len(batch))
	for i := range batch {
		outcomes[i], tasks[i] = batch[i].s, batch[i].task
	}
	defer func() {
		s.r.busy.Add(-int64(len(batch)))
		inc.remove(tasks...)
	}()
	done := inc.ledger.done(forgetBatch)
	patience := time.Time{}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		results, err := s.call(ctx, inc, outcomes, done)
		if err == nil {
			inc.ledger.deleted(done)
			s.report(batch, results)
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
	return s.r.store.Settle(ctx, inc.id, outcomes, done)
}

func (s *settler) report(batch []settled, results []error) {
	for i, err := range results {
		if errors.Is(err, message.ErrLeaseLost) {
			s.r.log.lost(batch[i].task)
		}
	}
}
