package maintain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/styxmq/styx/internal/store"
)

// retainBudget is how long one RunOnce goes on.
const retainBudget = 20 * time.Second

// Retain deletes what is older than the retention. It is not safe for
// concurrent use.
type Retain struct {
	Settings
	Retention store.Retention

	batch int // 0 is the whole Batch; smaller after a step has failed
}

// RunOnce deletes for a while, in steps; more reports that work is left.
func (r *Retain) RunOnce(ctx context.Context) (total store.Retained, more bool, err error) {
	began := time.Now()
	for more = true; more && time.Since(began) < retainBudget; {
		var done store.Retained
		done, more, err = r.next(ctx)
		add(&total, done)
		if err != nil {
			return total, true, err
		}
	}
	return total, more, nil
}

// Whole deletes all that is too old.
func (r *Retain) Whole(ctx context.Context) (total store.Retained, err error) {
	for more := true; more; {
		var done store.Retained
		done, more, err = r.next(ctx)
		add(&total, done)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// next is one step. One that fails is tried again with fewer rows, down to a
// single one, and so are those that follow it, so that a limit on the time of
// a statement cannot keep retention from getting anywhere; success lets them
// grow again.
func (r *Retain) next(ctx context.Context) (done store.Retained, more bool, err error) {
	if r.batch == 0 {
		r.batch = r.Batch
	}
	for {
		retention := r.Retention
		retention.Batch = r.batch
		err = r.step(ctx, func(ctx context.Context) (err error) {
			var part store.Retained
			part, more, err = r.Store.Retain(ctx, retention)
			add(&done, part)
			return err
		})
		if err == nil {
			r.batch = min(2*r.batch, r.Batch)
			return done, more, nil
		}
		if r.batch == 1 || ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) {
			return done, true, fmt.Errorf("delete what is old: %w", err)
		}
		r.batch = max(r.batch/4, 1)
	}
}

func add(total *store.Retained, part store.Retained) {
	total.Archived += part.Archived
	total.Partitions += part.Partitions
	total.Letters += part.Letters
	total.Keys += part.Keys
	total.Attempts += part.Attempts
}
