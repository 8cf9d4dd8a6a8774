// Package maintain has the services of the reaper, one in each file. Each
// does its work once when it is asked to, in small committed steps, and tells
// what it did. None of them logs.
package maintain

import (
	"context"
	"errors"
	"time"

	"github.com/styxmq/styx/internal/store"
)

// Settings are common to all services.
type Settings struct {
	Store store.Maintainer
	// Batch is the largest number of rows of a step.
	Batch int
	// Timeout limits a step.
	Timeout time.Duration
	// Moved is told of the messages of each step once it is committed.
	Moved func(ctx context.Context, batch []store.Rescued)
}

const (
	// linger is how long a step may go on when its context ends, so that
	// what is about to commit is known to have been done.
	linger = 2 * time.Second
	// contentions is how often a step is tried that collides with others.
	contentions = 5
)

// step runs f within the timeout, again when it collides with another
// transaction. It does not begin when ctx has ended.
func (s Settings) step(ctx context.Context, f func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		hurry := time.AfterFunc(linger, cancel)
		context.AfterFunc(bounded, func() { hurry.Stop() })
	})
	defer stop()
	for i := 1; ; i++ {
		err := f(bounded)
		if err == nil || i == contentions || ctx.Err() != nil || !errors.Is(err, store.ErrContention) {
			return err
		}
	}
}

// drain repeats a step that moves messages until it finds fewer than a batch,
// and returns how many it moved.
func (s Settings) drain(ctx context.Context, f func(ctx context.Context, limit int) ([]store.Rescued, error)) (total int, err error) {
	for {
		var batch []store.Rescued
		err := s.step(ctx, func(ctx context.Context) error {
			part, err := f(ctx, s.Batch)
			batch = append(batch, part...)
			return err
		})
		if len(batch) > 0 {
			total += len(batch)
			s.Moved(ctx, batch)
		}
		if err != nil || len(batch) < s.Batch {
			return total, err
		}
	}
}
