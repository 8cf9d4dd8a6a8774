package maintain

import (
	"context"
	"errors"
	"fmt"

	"github.com/styxmq/styx/internal/store"
)

// Rescue finds dead workers and takes back what is lost.
type Rescue struct{ Settings }

// Rescued is what a Rescue did.
type Rescued struct {
	// Workers are the newly dead.
	Workers []int64
	// Messages counts those that were moved.
	Messages int
}

// RunOnce rescues until nothing that is lost is left. Trouble with the
// workers' rows does not keep it from rescuing.
func (r Rescue) RunOnce(ctx context.Context) (done Rescued, err error) {
	bury := r.step(ctx, func(ctx context.Context) error {
		dead, err := r.Store.BuryWorkers(ctx)
		done.Workers = append(done.Workers, dead...)
		return err
	})
	if bury != nil {
		bury = fmt.Errorf("look for dead workers: %w", bury)
		if ctx.Err() != nil || errors.Is(bury, store.ErrUnavailable) {
			return done, bury
		}
	}
	done.Messages, err = r.drain(ctx, r.Store.Rescue)
	if err != nil {
		err = fmt.Errorf("take back lost messages: %w", err)
	}
	return done, errors.Join(bury, err)
}
