package reaper

import (
	"context"
	"errors"
	"sync"
)

// ErrAlreadyRun is returned by a second call of Run; a reaper runs once.
var ErrAlreadyRun = errors.New("reaper: has been run already")

// Run works until ctx ends, then returns nil; a statement under way has 2
// seconds more. Each job runs at once and then by its schedule.
//
// Before that, it returns message.ErrSchemaMissing or ErrSchemaNewer when the
// schema does not fit, and an error of the database when it cannot be reached.
// Later trouble is logged, shown by Status, and survived. A second call returns
// ErrAlreadyRun.
func (r *Reaper) Run(ctx context.Context) error {
	if !r.begun.CompareAndSwap(false, true) {
		return ErrAlreadyRun
	}
	if err := r.checkSchema(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	end, err := r.showGauges(ctx)
	if err != nil {
		return err
	}
	defer end()
	var jobs sync.WaitGroup
	for _, j := range r.jobs {
		jobs.Go(func() { j.loop(ctx) })
	}
	jobs.Wait()
	return nil
}
