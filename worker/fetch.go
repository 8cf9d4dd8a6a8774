package worker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

const (
	// maxClaim is the largest claim for slots that are free.
	maxClaim = 1000
	// maxAhead is the largest Config.Ahead. Of what is claimed ahead, whose
	// payloads are bounded, more may come at once: where many processes wait
	// for their turn to claim, each turn costs them and the server as much as
	// some hundred messages.
	maxAhead = 2000
	// claimTimeout bounds one claim.
	claimTimeout = 10 * time.Second
	// busyFor is how long a queue must be full of work before its worker
	// stops asking to be woken.
	busyFor = time.Second
	// maxPause bounds the wait after an error.
	maxPause = 2 * time.Second
)

// suspects is held while a message with a worker loss in its history runs in
// this process: at most one does, so that a payload which kills its process
// does not take another such message with it.
var suspects atomic.Bool

// queue is a served queue.
type queue struct {
	spec  Queue
	slots *slots
	line  *line
	kinds []string // empty: every kind
	// timeout is the longest of its handlers', for the deadline in the
	// database; negative is none.
	timeout time.Duration
	awake   chan struct{}
}

// wake makes the queue's fetcher look at once.
func (q *queue) wake() {
	select {
	case q.awake <- struct{}{}:
	default:
	}
}

// most is the largest claim that is made now.
func (q *queue) most() int { return max(maxClaim, q.line.ahead()) }

// fetcher claims for one queue and one incarnation.
type fetcher struct {
	r      *run
	q      *queue
	inc    *incarnation
	cursor store.Cursor
	idle   bool // producers know that this worker wants to be woken
	full   time.Time
	pause  time.Duration
	// announced says that this queue was woken since the last claim.
	announced bool
}

// fetch claims until ctx or the incarnation ends.
func (r *run) fetch(ctx context.Context, q *queue, inc *incarnation) {
	f := &fetcher{r: r, q: q, inc: inc}
	f.cursor = r.store.Cursor(store.CursorSpec{
		WorkerID: inc.id, Queue: q.spec.Name, Kinds: q.kinds, Timeout: q.timeout, Lease: r.cfg.Lease,
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-inc.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		n := min(q.slots.wait(ctx, q.line.ahead), q.most())
		if n == 0 || !r.settler.admit(ctx, n) {
			return
		}
		if inc.dead() || ctx.Err() != nil {
			r.settler.admitted(n)
			return
		}
		// While it waited to be admitted, more slots became free.
		batch, err := f.claim(ctx, min(max(n, q.slots.room(q.line.ahead)), q.most()))
		r.settler.admitted(n)
		switch {
		case err != nil:
			r.log.claim(ctx, q.spec.Name, err)
			r.beatSoon()
			f.pause = min(max(2*f.pause, 20*time.Millisecond), maxPause)
			f.sleep(ctx, f.pause)
			f.cursor.Wake()
			continue
		case batch.Again:
			f.pause = 0
			f.busy(ctx)
			continue
		}
		f.pause = 0
		if !f.rest(ctx) {
			continue // producers know only now: look once more
		}
		wait := r.untilPoll()
		if batch.NextDue >= 0 {
			wait = min(wait, max(batch.NextDue, time.Millisecond))
		}
		f.sleep(ctx, wait)
		f.cursor.Wake()
	}
}

// untilPoll is how long it is until the idle queues are looked into, all at the
// same time, since that costs less.
func (r *run) untilPoll() time.Duration {
	return r.cfg.PollInterval - time.Since(r.began)%r.cfg.PollInterval
}

// claim makes one claim and starts its messages. It has half of the grace to
// come to its end when ctx has ended, since what it claims must be accounted
// for.
func (f *fetcher) claim(ctx context.Context, limit int) (store.Batch, error) {
	select {
	case <-f.q.awake:
		f.announced = true
		f.cursor.Wake()
	default:
	}
	suspect := suspects.CompareAndSwap(false, true)
	number := f.inc.ledger.begin()
	claimCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	atEnd := context.AfterFunc(ctx, func() { time.AfterFunc(f.r.cfg.Grace/2, cancel) })
	began := time.Now()
	batch, err := f.cursor.Claim(claimCtx, store.ClaimRequest{
		Number: number, Limit: limit, Suspect: suspect, Announced: f.announced,
	})
	f.announced = false
	atEnd()
	cancel()
	if err != nil {
		f.inc.ledger.failed(number)
	} else {
		f.inc.ledger.claimed(number, len(batch.Messages))
	}
	if suspect && (len(batch.Messages) == 0 || batch.Messages[0].WorkerLosses == 0) {
		suspects.Store(false)
		suspect = false
	}
	f.r.metrics.Claimed(ctx, f.q.spec.Name, batch.Messages, began, err)
	f.r.begin(ctx, f.q, f.inc, number, batch.Messages, suspect)
	return batch, err
}

// busy stops asking to be woken after a second of work.
func (f *fetcher) busy(ctx context.Context) {
	if f.full.IsZero() {
		f.full = time.Now()
	}
	if f.idle && time.Since(f.full) > busyFor && f.setIdle(ctx, false) == nil {
		f.idle = false
	}
}

func (f *fetcher) setIdle(ctx context.Context, idle bool) error {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	return f.r.store.SetIdle(ctx, f.inc.id, f.q.spec.Name, idle)
}

// rest asks to be woken. It reports whether that had been so before the last
// claim; if not, a message may have arrived between the two.
func (f *fetcher) rest(ctx context.Context) bool {
	f.full = time.Time{}
	if f.idle || !f.r.listening.Load() {
		return true
	}
	if err := f.setIdle(ctx, true); err != nil {
		return true // the poll serves
	}
	f.idle = true
	f.cursor.Wake()
	return false
}

func (f *fetcher) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-f.q.awake:
		f.announced = true
	case <-timer.C:
	}
}

// begin starts the handlers of a batch, or gives the messages back when the
// worker is stopping or was found dead.
func (r *run) begin(ctx context.Context, q *queue, inc *incarnation, number int64, claimed []store.Claimed, suspect bool) {
	if len(claimed) == 0 {
		return
	}
	q.slots.take(len(claimed))
	r.busy.Add(int64(len(claimed)))
	r.running.Add(len(claimed))
	b := &batch{tasks: make([]task, len(claimed))}
	b.left.Store(int64(len(claimed)))
	list := make([]*task, len(claimed))
	now := time.Now()
	for i := range claimed {
		t := &b.tasks[i]
		t.r, t.batch, t.inc, t.queue, t.number, t.m, t.claimed, t.suspect = r, b, inc, q, number, &claimed[i], now, suspect
		t.m.Status = message.StatusProcessing
		t.handler = r.handlerOf(q.spec.Name, t.m.Kind)
		t.Context, t.cancel = context.WithCancelCause(r.base)
		list[i] = t
	}
	inc.add(list)
	ready := list[:0]
	var first time.Time
	// What a dead incarnation has claimed nobody has begun: it goes back too,
	// unless a reaper was faster.
	stopping := ctx.Err() != nil || inc.dead()
	for _, t := range list {
		switch {
		case t.state.Load() != stateRunning:
			r.returned(t)
		case stopping || t.handler == nil:
			r.giveBack(t, store.Settlement{Verb: store.Release})
		case t.m.Attempt > t.m.MaxRetries:
			r.giveBack(t, r.overspent(t))
		default:
			ready = append(ready, t)
		}
	}
	turns := q.line.enter(ready, now)
	if len(turns) < len(ready) {
		b.waits = now.Add(r.patience())
		first = b.waits
	}
	for _, t := range turns {
		if at := t.begin(now); first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	b.watch(first)
	r.crew.add(turns)
}

// patience is how long a message waits for a slot before it is given back. The
// deadline in the database, which counts from the claim, has room for less than
// a lease.
func (r *run) patience() time.Duration { return min(aheadAge, r.cfg.Lease/2) }

// unwait gives back what waits for a slot, or lets go of it when it is not held
// any more.
func (r *run) unwait(q *queue, which func(t *task) bool, reason string) {
	for _, t := range q.line.quit(which) {
		r.giveBack(t, store.Settlement{Verb: store.Release, Reason: reason})
	}
}

// giveBack settles a message whose handler is not run.
func (r *run) giveBack(t *task, s store.Settlement) {
	defer r.returned(t)
	if t.state.CompareAndSwap(stateRunning, stateReturned) {
		s.ID, s.Token, s.Place = t.m.ID, t.m.LeaseToken, t.m.Place
		r.settler.put(t, s)
	}
}

// overspent buries a message that has no attempt left, such as one whose
// counters were changed by hand.
func (r *run) overspent(t *task) store.Settlement {
	s := store.Settlement{Verb: store.Bury, Failure: &store.Failure{
		Kind: message.FailureUnknown, Decision: message.DecisionExhausted, Class: "worker.Overspent",
		Message: "all attempts were used before this one began", Version: r.cfg.Version,
	}}
	r.log.failed(t, &s)
	return s
}

// timeoutOf applies: the message beats the kind beats the queue.
func (r *run) timeoutOf(t *task) time.Duration {
	if t.m.Timeout != 0 {
		return t.m.Timeout
	}
	if d := t.handler.options.Timeout; d != 0 {
		return d
	}
	return t.queue.spec.Timeout
}
