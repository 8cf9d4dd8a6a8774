package worker

import (
	"context"
	"errors"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// beat shows that the incarnation lives, every third of the lease, until ctx
// ends, and ends the incarnation when that has failed for a whole lease or
// the database says that it is dead.
func (r *run) beat(ctx context.Context, inc *incarnation, pulse store.Pulse) {
	every := r.cfg.Lease / 3
	alive := time.Now() // when the last beat that arrived had been sent
	wait := every
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-inc.ended:
			timer.Stop()
			return
		case <-r.beatNow:
			timer.Stop()
		case <-timer.C:
		}
		if time.Since(alive) >= r.cfg.Lease {
			// This process was stopped, or the database is away: by now
			// others may run what this worker holds.
			r.log.dead(ctx, inc, time.Since(alive))
			inc.end()
			return
		}
		sent := time.Now()
		err := r.beatOnce(ctx, inc, pulse, min(every, r.cfg.Lease-time.Since(alive)))
		switch {
		case err == nil:
			alive, wait = sent, every
			r.askAfter(ctx, inc, every)
		case errors.Is(err, message.ErrLeaseLost):
			r.log.dead(ctx, inc, time.Since(alive))
			inc.end()
			return
		case ctx.Err() != nil:
			return
		default:
			r.log.beat(ctx, err)
			wait = min(every/4, time.Second)
		}
	}
}

func (r *run) beatOnce(ctx context.Context, inc *incarnation, pulse store.Pulse, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, max(limit, 50*time.Millisecond))
	defer cancel()
	b := store.Beat{WorkerID: inc.id, Done: inc.ledger.done(0)}
	b.Known, b.UpTo = inc.ledger.known()
	reply, err := pulse.Beat(ctx, b)
	if err != nil {
		inc.ledger.undone(b.Done)
		return err
	}
	inc.ledger.deleted(b.Done)
	if reply.Orphans > 0 {
		r.log.orphans(ctx, reply.Orphans)
		r.wakeAll()
	}
	return nil
}

// askAfter finds attempts that run for long and are not held any more, such
// as those whose deadline has passed, and ends their contexts.
func (r *run) askAfter(ctx context.Context, inc *incarnation, age time.Duration) {
	old := inc.old(age)
	if len(old) == 0 {
		return
	}
	held := make([]store.Lease, 0, len(old))
	for l := range old {
		held = append(held, l)
	}
	ctx, cancel := context.WithTimeout(ctx, age)
	defer cancel()
	lost, err := r.store.Lost(ctx, inc.id, held)
	if err != nil {
		r.log.beat(ctx, err)
		return
	}
	for _, l := range lost {
		if t := old[l]; !t.txUsed.Load() {
			t.loseLease()
		}
	}
}

// beatSoon asks for a beat at once, to find orphans after a failed claim.
func (r *run) beatSoon() {
	select {
	case r.beatNow <- struct{}{}:
	default:
	}
}
