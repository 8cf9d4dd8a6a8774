package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/telemetry"
)

// ErrAlreadyRun is returned by a second call of Run; a worker runs once.
var ErrAlreadyRun = errors.New("worker: has been run already")

// AbandonedError reports handlers that had not returned at the end of the
// grace. Their messages were given back uncharged; the goroutines run on
// until they end by themselves.
type AbandonedError struct {
	// Messages are those whose handlers run on.
	Messages []message.Message
}

// Error names the first few.
func (e *AbandonedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "worker: %d handlers had not returned when the grace ended:", len(e.Messages))
	for i, m := range e.Messages {
		if i == 5 {
			b.WriteString(" …")
			break
		}
		fmt.Fprintf(&b, " %q message %d;", m.Kind, m.ID)
	}
	return strings.TrimSuffix(b.String(), ";")
}

// startTimeout bounds each step of a start. It is long, since connections
// take their time when many processes start at once.
const startTimeout = 30 * time.Second

// run is one call of Run.
type run struct {
	*Worker
	log     logger
	queues  []*queue
	settler *settler

	began     time.Time
	base      context.Context // values for every handler's context, never ends
	crew      *crew           // runs the handlers
	running   sync.WaitGroup  // handler goroutines
	busy      atomic.Int64    // messages that are claimed and not settled
	strayMu   sync.Mutex
	strays    map[*task]struct{} // whose outcome does not count any more
	listening atomic.Bool
	beatNow   chan struct{}
}

// Run serves the queues until ctx ends, then drains: it claims nothing more,
// lets handlers finish for Config.Grace while it keeps their leases, gives
// back what is left, uncharged, and returns. It returns nil when every handler
// has returned, and an *AbandonedError otherwise.
//
// Before it serves, it returns message.ErrSchemaMissing or ErrSchemaNewer when
// the schema does not fit, an error of the database when it cannot be
// reached, and a *message.ValidationError when no handler is registered.
// Later trouble with the database is logged and survived. A second call
// returns ErrAlreadyRun.
func (w *Worker) Run(ctx context.Context) error {
	w.mu.Lock()
	if w.begun {
		w.mu.Unlock()
		return ErrAlreadyRun
	}
	if len(w.handlers)+len(w.queueHandlers) == 0 {
		w.mu.Unlock()
		return &message.ValidationError{Field: "handlers", Code: message.CodeRequired, Message: "register a handler before Run."}
	}
	w.begun = true
	w.mu.Unlock()

	if err := w.checkSchema(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	r := &run{Worker: w, log: newLogger(w.cfg.Logger), beatNow: make(chan struct{}, 1), strays: map[*task]struct{}{}}
	r.began = time.Now()
	r.base, r.crew = context.WithoutCancel(ctx), &crew{work: r.execute}
	defer r.crew.close()
	for _, q := range w.cfg.Queues {
		if len(w.handlers) == 0 && w.queueHandlers[q.Name] == nil {
			continue // no message there would find a handler
		}
		r.queues = append(r.queues, r.newQueue(q))
		r.metrics.Prepare(ctx, q.Name, r.queues[len(r.queues)-1].kinds)
	}
	r.settler = newSettler(r)
	settleCtx, stopSettling := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSettling()
	go r.settler.loop(settleCtx)

	err := r.serve(ctx, stopSettling)
	return err
}

func (w *Worker) checkSchema(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout) // a pool may have no connection to give
	defer cancel()
	current, known, err := w.store.SchemaVersion(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("look at the schema: %w", err)
	case current > known:
		return fmt.Errorf("%w: it is at %d, this version knows %d", message.ErrSchemaNewer, current, known)
	case current < known:
		return fmt.Errorf("%w: it is at %d, this version needs %d", message.ErrSchemaMissing, current, known)
	}
	return nil
}

// newQueue works out which kinds a queue's cursor claims and the longest
// timeout that its deadline must allow for.
func (r *run) newQueue(spec Queue) *queue {
	q := &queue{spec: spec, slots: newSlots(spec.Concurrency), line: newLine(spec.Concurrency, spec.Ahead), awake: make(chan struct{}, 1)}
	longest := func(d time.Duration) {
		if d == 0 {
			d = spec.Timeout
		}
		if d < 0 || q.timeout < 0 {
			q.timeout = -1
			return
		}
		q.timeout = max(q.timeout, d)
	}
	for kind, h := range r.handlers {
		q.kinds = append(q.kinds, kind)
		longest(h.options.Timeout)
	}
	slices.Sort(q.kinds)
	if h := r.queueHandlers[spec.Name]; h != nil {
		q.kinds = nil
		longest(h.options.Timeout)
	}
	return q
}

// serve runs incarnations, one after the other, until ctx ends.
func (r *run) serve(ctx context.Context, stopSettling context.CancelFunc) error {
	var listener sync.WaitGroup
	listenCtx, stopListening := context.WithCancel(context.WithoutCancel(ctx))
	listener.Go(func() { r.listen(listenCtx) })
	defer func() {
		stopListening()
		listener.Wait()
	}()
	for first := true; ; first = false {
		inc, pulse, err := r.register(ctx, first)
		switch {
		case err != nil && ctx.Err() != nil: // handlers of dead incarnations may still run
			return r.drain(newIncarnation(0), new(sync.WaitGroup), stopSettling)
		case err != nil:
			stopSettling()
			r.settler.finish()
			return err
		}
		if drained, err := r.live(ctx, inc, pulse, stopSettling); drained {
			return err
		}
	}
}

// register makes an incarnation; but for the first it tries until it works.
func (r *run) register(ctx context.Context, first bool) (*incarnation, store.Pulse, error) {
	host, _ := os.Hostname()
	info := store.WorkerInfo{
		Name: r.cfg.Name, Host: host, Version: r.cfg.Version, PID: os.Getpid(), Lease: r.cfg.Lease,
	}
	for _, q := range r.queues {
		info.Queues = append(info.Queues, q.spec.Name)
		info.Concurrency += q.spec.Concurrency
	}
	for kind := range r.handlers {
		info.Kinds = append(info.Kinds, kind)
	}
	slices.Sort(info.Kinds)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		pulse, err := r.registerOnce(ctx, info)
		if err == nil {
			return pulse.inc, pulse.pulse, nil
		}
		if first || ctx.Err() != nil {
			return nil, nil, fmt.Errorf("register the worker: %w", err)
		}
		r.log.beat(ctx, err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

type registered struct {
	inc   *incarnation
	pulse store.Pulse
}

func (r *run) registerOnce(ctx context.Context, info store.WorkerInfo) (registered, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	pulse, err := r.store.Pulse(ctx)
	if err != nil {
		return registered{}, err
	}
	id, err := r.store.Register(ctx, info)
	if err != nil {
		_ = pulse.Close()
		return registered{}, err
	}
	return registered{newIncarnation(id), pulse}, nil
}

// live runs an incarnation until it is dead or ctx ends; then, in the latter
// case, it drains.
func (r *run) live(ctx context.Context, inc *incarnation, pulse store.Pulse, stopSettling context.CancelFunc) (drained bool, err error) {
	var beats, fetchers sync.WaitGroup
	beatCtx, stopBeating := context.WithCancel(context.WithoutCancel(ctx))
	beats.Go(func() { r.beat(beatCtx, inc, pulse) })
	for _, q := range r.queues {
		fetchers.Go(func() { r.fetch(ctx, q, inc) })
	}
	select {
	case <-inc.ended:
	case <-ctx.Done():
	}
	if drained = ctx.Err() != nil; drained {
		err = r.drain(inc, &fetchers, stopSettling)
	} else {
		fetchers.Wait()
		r.unwaitAll()
	}
	stopBeating()
	beats.Wait()
	if drained {
		if !inc.dead() {
			// Whatever a lost reply left behind.
			_ = r.beatOnce(context.WithoutCancel(ctx), inc, pulse, r.cfg.Lease/3)
		}
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		_ = r.store.Unregister(leave, inc.id)
		cancel()
	}
	_ = pulse.Close()
	return drained, err
}

// drain lets handlers finish until the grace ends.
func (r *run) drain(inc *incarnation, fetchers *sync.WaitGroup, stopSettling context.CancelFunc) error {
	ended := time.Now()
	hurry := time.AfterFunc(r.cfg.Grace-r.cfg.Grace/5, func() { inc.interrupt(ErrShutdown) })
	defer hurry.Stop()
	fetchers.Wait()
	r.unwaitAll()
	returned := make(chan struct{})
	go func() {
		r.running.Wait()
		close(returned)
	}()
	end := time.NewTimer(time.Until(ended.Add(r.cfg.Grace)))
	defer end.Stop()
	var left *AbandonedError
	select {
	case <-returned:
	case <-end.C:
		inc.interrupt(ErrShutdown)
		left = r.abandonAll(inc)
	}
	// What is not recorded a lease after the grace is not waited for.
	giveUp := time.AfterFunc(max(time.Until(ended.Add(r.cfg.Grace)), 0)+time.Second, stopSettling)
	defer giveUp.Stop()
	r.settler.finish()
	if left != nil {
		return left
	}
	return nil
}

// unwaitAll gives back what waits for a slot, once nothing more is claimed.
func (r *run) unwaitAll() {
	for _, q := range r.queues {
		r.unwait(q, func(*task) bool { return true }, "shutdown")
	}
}

// abandonAll gives back the messages of handlers that have not returned.
func (r *run) abandonAll(inc *incarnation) *AbandonedError {
	var left AbandonedError
	for _, t := range inc.all() {
		if t.state.CompareAndSwap(stateRunning, stateAbandoned) {
			t.stopTimer()
			r.adrift(t)
			r.metrics.Abandoned(t.Context, t.m.Queue, t.m.Kind)
			t.endAbandoned(telemetry.OutcomeReleased)
			s := store.Settlement{ID: t.m.ID, Token: t.m.LeaseToken, Verb: store.Release, Reason: "shutdown"}
			r.settler.put(t, s)
			r.log.abandoned(t)
		}
	}
	r.strayMu.Lock()
	defer r.strayMu.Unlock()
	for t := range r.strays {
		left.Messages = append(left.Messages, t.m.Message)
	}
	if len(left.Messages) == 0 {
		return nil
	}
	return &left
}

// adrift notes a handler that runs on although its outcome does not count.
func (r *run) adrift(t *task) {
	r.strayMu.Lock()
	defer r.strayMu.Unlock()
	if _, known := r.strays[t]; !known {
		r.strays[t] = struct{}{}
		r.metrics.Stray(t.Context, t.m.Queue, 1)
	}
}

// ashore notes that it has returned.
func (r *run) ashore(t *task) {
	r.strayMu.Lock()
	defer r.strayMu.Unlock()
	if _, known := r.strays[t]; known {
		delete(r.strays, t)
		r.metrics.Stray(t.Context, t.m.Queue, -1)
	}
}

// listen wakes fetchers when messages arrive, for as long as the database
// lets it.
func (r *run) listen(ctx context.Context) {
	told := false
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := r.store.Listen(ctx, func(queue string) {
			pause = 100 * time.Millisecond
			r.listening.Store(true)
			r.wake(queue)
		})
		r.listening.Store(false)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, store.ErrNoListen) {
			r.log.pollOnly(ctx, r.cfg.PollInterval)
			return
		}
		if !told {
			r.log.listen(ctx, err)
		}
		told = true
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (r *run) wake(queue string) {
	for _, q := range r.queues {
		if queue == "" || q.spec.Name == queue {
			q.wake()
		}
	}
}

func (r *run) wakeAll() { r.wake("") }
