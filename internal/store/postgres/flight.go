package postgres

import (
	"context"
	"slices"
	"sync"
	"time"
)

// flightsMore is how many statements more there are at most when some are slow.
const flightsMore = 3

// flights lets callers that want the same sort of thing at the same time share
// a statement. Nobody waits for company: while few statements are under way
// each goes at once and alone, and those that arrive meanwhile go together as
// soon as one of them has ended.
type flights[T, R any] struct {
	// most is how many statements are under way before the next ones wait for
	// each other.
	most int
	// board says how many of those who wait go together, at least one, and may
	// put others first.
	board func(waiting []*passenger[T, R]) int
	// run does it for several at once. Its error is everyone's.
	run func(ctx context.Context, wants []T) ([]R, error)
	// patience is how long somebody waits before one statement more than most
	// is made, up to flightsMore of them; 0 is for ever.
	patience time.Duration

	mu      sync.Mutex
	under   int
	waiting []*passenger[T, R]
}

// passenger is somebody who waits for a flight.
type passenger[T, R any] struct {
	want   T
	flight *flight       // nil before it has begun
	done   chan struct{} // closed when got and err are known
	got    R
	err    error
}

// flight is a statement of several, under way.
type flight struct {
	present int // callers who still wait
	cancel  context.CancelFunc
}

// do returns what run made of want, or alone when nobody is in the way. When
// ctx ends first, what becomes of want is not known if its flight had begun.
func (f *flights[T, R]) do(ctx context.Context, want T, alone func() (R, error)) (R, error) {
	f.mu.Lock()
	if f.under < f.most {
		f.under++
		f.mu.Unlock()
		defer f.landed(ctx)
		return alone()
	}
	p := &passenger[T, R]{want: want, done: make(chan struct{})}
	f.waiting = append(f.waiting, p)
	f.mu.Unlock()
	var late <-chan time.Time
	if f.patience > 0 {
		timer := time.NewTimer(f.patience)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-p.done:
			return p.got, p.err
		case <-late:
			f.hurry(ctx, p)
			continue
		case <-ctx.Done():
		}
		if f.leave(p) {
			return p.got, p.err
		}
		var nothing R
		return nothing, ctx.Err()
	}
}

// hurry sends those who wait on their way although others are slow.
func (f *flights[T, R]) hurry(ctx context.Context, p *passenger[T, R]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.flight == nil && f.under < f.most+flightsMore {
		f.under++
		f.depart(ctx)
	}
}

// leave takes somebody out who does not wait any longer, and reports whether
// the outcome is known all the same. The last to leave a flight ends it, and
// waits for that.
func (f *flights[T, R]) leave(p *passenger[T, R]) (known bool) {
	f.mu.Lock()
	its := p.flight
	if its == nil {
		f.waiting = slices.DeleteFunc(f.waiting, func(o *passenger[T, R]) bool { return o == p })
		f.mu.Unlock()
		return false
	}
	its.present--
	last := its.present == 0
	f.mu.Unlock()
	if last {
		its.cancel()
		<-p.done
	}
	select {
	case <-p.done:
		return p.err == nil
	default:
		return false
	}
}

// landed lets those go who wait, when a statement has ended.
func (f *flights[T, R]) landed(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 || f.under > f.most {
		f.under--
		return
	}
	f.depart(ctx)
}

// depart starts a flight.
func (f *flights[T, R]) depart(ctx context.Context) {
	n := f.board(f.waiting)
	members := slices.Clone(f.waiting[:n])
	f.waiting = slices.Delete(f.waiting, 0, n)
	// It ends with the last of its members, not with whoever made room.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	its := &flight{present: n, cancel: cancel}
	for _, p := range members {
		p.flight = its
	}
	go f.fly(ctx, members, cancel)
}

// fly makes a flight. Its members' callers wait for it.
func (f *flights[T, R]) fly(ctx context.Context, members []*passenger[T, R], cancel context.CancelFunc) {
	defer cancel()
	wants := make([]T, len(members))
	for i, p := range members {
		wants[i] = p.want
	}
	got, err := f.run(ctx, wants)
	f.landed(ctx)
	for i, p := range members {
		if p.err = err; err == nil {
			p.got = got[i]
		}
		close(p.done)
	}
}
