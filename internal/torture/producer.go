//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/torture/history"
)

const (
	// callTimeout bounds one enqueue.
	callTimeout = 5 * time.Second
	// patience is how long a producer that was told to end still tries to
	// learn what became of its last enqueues.
	patience = 60 * time.Second
	// bulk is the size of an EnqueueMany.
	bulk = 10
)

// Where a producer dies when it is told to.
const (
	dieBefore = "before" // attempted, not sent
	dieDuring = "during" // while the statement or the commit is under way
	dieAfter  = "after"  // committed, not noted
)

// producer is a process that enqueues.
type producer struct {
	*player
	c              *client.Client
	api            *api // nil when it enqueues through the database
	seq            atomic.Int64
	poison, points atomic.Uint64 // shares, as bits of a float64
	full           atomic.Bool   // the backlog is large enough
	end            atomic.Value  // string: where to die
	rare           sync.Map      // deed -> *atomic.Int64, when it was last done
}

func (p *player) produce(ctx context.Context) error {
	c, err := client.New(p.db, client.Config{})
	if err != nil {
		return err
	}
	pr := &producer{player: p, c: c}
	if p.Address != "" {
		pr.api = newAPI(p.Address)
	}
	pr.end.Store("")
	pr.poison.Store(math.Float64bits(p.Poison))
	pr.points.Store(math.Float64bits(p.Points))
	var all sync.WaitGroup
	all.Go(func() { pr.obey(ctx) })
	all.Go(func() { pr.watch(ctx) })
	for i := range p.Concurrency {
		all.Go(func() { pr.loop(ctx, rand.New(rand.NewPCG(p.Seed, uint64(i+1)))) })
	}
	all.Wait()
	return nil
}

// obey takes the coordinator's commands.
func (p *producer) obey(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case cmd := <-p.commands:
			share, _ := strconv.ParseFloat(cmd.arg, 64)
			switch cmd.verb {
			case "poison":
				p.poison.Store(math.Float64bits(share))
			case "points":
				p.points.Store(math.Float64bits(share))
			case "die":
				p.end.Store(cmd.arg)
			}
		}
	}
}

// watch keeps the backlog bounded.
func (p *producer) watch(ctx context.Context) {
	for pause(ctx, 300*time.Millisecond) {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		stats, err := p.c.Stats(call)
		cancel()
		if err != nil {
			continue
		}
		n := 0
		for i := range stats {
			n += stats[i].Ready + stats[i].Scheduled + stats[i].Processing
		}
		p.full.Store(n > p.Backlog)
	}
}

func (p *producer) loop(ctx context.Context, rng *rand.Rand) {
	each := time.Duration(float64(p.Concurrency) / p.Rate * float64(time.Second))
	next := time.Now()
	for ctx.Err() == nil {
		if !pause(ctx, max(0, time.Until(next))) {
			return
		}
		if p.full.Load() {
			next = time.Now().Add(50 * time.Millisecond)
			continue
		}
		n := p.once(ctx, rng)
		next = next.Add(time.Duration(n) * each)
		if now := time.Now(); next.Before(now.Add(-time.Second)) {
			next = now // after an outage there is no rush
		}
	}
}

// once enqueues in one of the ways that there are, and returns how many.
func (p *producer) once(ctx context.Context, rng *rand.Rand) int {
	if p.api != nil {
		return p.callOnce(ctx, rng)
	}
	switch r := rng.Float64(); {
	case r < 0.55:
		p.single(ctx, rng, true)
	case r < 0.70:
		p.single(ctx, rng, false)
	case r < 0.82:
		p.many(ctx, rng)
		return bulk
	case r < 0.96:
		p.inTx(ctx, rng, true)
	default:
		p.inTx(ctx, rng, false)
	}
	return 1
}

// item makes a message; keyed ones can be told again.
func (p *producer) item(rng *rand.Rand, keyed bool) (job, *client.EnqueueOptions) {
	j := job{Op: fmt.Sprintf("%s-%d", p.Name, p.seq.Add(1)), Do: p.choose(rng)}
	j.MS = int(rng.ExpFloat64() * float64(p.Handler.Milliseconds()))
	if rng.Float64() < 0.01 {
		j.MS = 500 + rng.IntN(1500)
	}
	opts := &client.EnqueueOptions{MaxRetries: budget}
	if keyed {
		opts.IdempotencyKey = j.Op
	}
	switch j.Do {
	case doIgnore:
		opts.MaxRetries, opts.Timeout = 1, shortTimeout
	case doExit:
		opts.MaxRetries = 2
	default:
	}
	if rng.Float64() < 0.05 {
		opts.Delay = time.Duration(rng.IntN(2000)) * time.Millisecond
	}
	if rng.Float64() < 0.05 {
		opts.Priority = rng.IntN(19) - 9
	}
	return j, opts
}

func (p *producer) choose(rng *rand.Rand) deed {
	if rng.Float64() < math.Float64frombits(p.points.Load()) {
		return points[rng.IntN(len(points))]
	}
	if rng.Float64() < math.Float64frombits(p.poison.Load()) {
		d := poisons[rng.IntN(len(poisons))]
		// Each of these takes a process or a slot for long.
		if (d == doExit || d == doIgnore) && !p.seldom(d, 2*time.Second) {
			d = doError
		}
		return d
	}
	switch r := rng.Float64(); {
	case r < 0.25:
		return doTx
	case r < 0.29:
		return doFlaky
	case r < 0.31:
		return doSnooze
	}
	return doWork
}

// seldom permits something once in a while.
func (p *producer) seldom(d deed, every time.Duration) bool {
	v, _ := p.rare.LoadOrStore(d, new(atomic.Int64))
	last, now := v.(*atomic.Int64), time.Now().UnixNano() //nolint:forcetypeassert // nothing else is stored
	l := last.Load()
	return now-l >= int64(every) && last.CompareAndSwap(l, now)
}

// call runs an enqueue, and dies around it when it is time to.
func (p *producer) call(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	switch p.end.Load() {
	case dieBefore:
		die()
	case dieDuring:
		time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, die)
	}
	err := f(ctx)
	if p.end.Load() == dieAfter && err == nil {
		die()
	}
	return err
}

func (p *producer) try(ops ...string) { p.h.Add(history.Event{Kind: history.Try, Ops: ops}) }

func (p *producer) ack(ids []int64, ops ...string) {
	p.h.Add(history.Event{Kind: history.Ack, Ops: ops, IDs: ids})
}

// single enqueues one message. With a key it is told until its fate is known.
func (p *producer) single(ctx context.Context, rng *rand.Rand, keyed bool) {
	j, opts := p.item(rng, keyed)
	p.try(j.Op)
	p.insist(ctx, keyed, func(ctx context.Context) error {
		m, err := p.c.Enqueue(ctx, j, opts)
		if err == nil {
			p.ack([]int64{m.ID}, j.Op)
		}
		return err
	}, j.Op)
}

// insist calls until it works, when that is safe, or the key turns out to be
// taken by the call before.
func (p *producer) insist(ctx context.Context, keyed bool, f func(ctx context.Context) error, ops ...string) {
	var until time.Time
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := p.call(ctx, f)
		if err == nil {
			return
		}
		if held, ok := errors.AsType[*message.DuplicateError](err); ok {
			ids := make([]int64, len(ops))
			ids[min(held.Index, len(ids)-1)] = held.ID
			p.ack(ids, ops...)
			return
		}
		if !keyed {
			return // it may be there, nobody knows
		}
		if ctx.Err() != nil && until.IsZero() {
			until = time.Now().Add(patience)
		}
		if !until.IsZero() && time.Now().After(until) {
			return
		}
		time.Sleep(wait)
	}
}

func (p *producer) many(ctx context.Context, rng *rand.Rand) {
	items := make([]client.Item, bulk)
	ops := make([]string, bulk)
	for i := range items {
		j, opts := p.item(rng, true)
		items[i], ops[i] = client.Item{Payload: j, Options: opts}, j.Op
	}
	p.try(ops...)
	p.insist(ctx, true, func(ctx context.Context) error {
		ms, err := p.c.EnqueueMany(ctx, items)
		if err == nil {
			ids := make([]int64, len(ms))
			for i := range ms {
				ids[i] = ms[i].ID
			}
			p.ack(ids, ops...)
		}
		return err
	}, ops...)
}

// inTx enqueues in a transaction that stays open for a while, so that ids
// commit out of order, and commits it or not.
func (p *producer) inTx(ctx context.Context, rng *rand.Rand, commit bool) {
	j, opts := p.item(rng, true)
	open := time.Duration(rng.IntN(60)) * time.Millisecond
	if p.Engine == SQLite {
		open /= 20 // nobody else can write meanwhile
	} else if rng.IntN(8) == 0 {
		open *= 20
	}
	p.try(j.Op)
	if !commit {
		_ = p.call(ctx, func(ctx context.Context) error {
			tx, err := p.db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			_, err = p.c.EnqueueTx(ctx, tx, j, opts)
			time.Sleep(open)
			return errors.Join(err, tx.Rollback())
		})
		p.h.Add(history.Event{Kind: history.Undone, Ops: []string{j.Op}})
		return
	}
	p.insist(ctx, true, func(ctx context.Context) error {
		tx, err := p.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		m, err := p.c.EnqueueTx(ctx, tx, j, opts)
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		time.Sleep(open)
		if err := tx.Commit(); err != nil {
			return err
		}
		p.ack([]int64{m.ID}, j.Op)
		return nil
	}, j.Op)
}
