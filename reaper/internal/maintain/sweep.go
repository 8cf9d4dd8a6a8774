package maintain

import (
	"context"
	"fmt"
	"time"

	"github.com/styxmq/styx/internal/store"
)

const (
	// sweepBudget is how long one RunOnce goes on.
	sweepBudget = 5 * time.Second
	// sweepSlices is the least that one RunOnce looks at, in slices, and
	// sweepShare the share of all of them, so that every message is looked
	// at in sweepShare runs at most, as long as the budget permits.
	sweepSlices, sweepShare = 20, 3
)

// Sweep takes back what is lost and has no claim to show it, as after a
// restored backup. It walks over all messages, a part of the way each time,
// and remembers where it was. It is not safe for concurrent use.
type Sweep struct {
	Settings

	after int64
	seen  int // slices since the beginning of this round
	round int // slices of the round before
}

// RunOnce goes a part of the way and returns how many messages it moved.
func (s *Sweep) RunOnce(ctx context.Context) (int, error) {
	began := time.Now()
	total := 0
	for i := 0; i < max(sweepSlices, (max(s.round, s.seen)+sweepShare-1)/sweepShare); i++ {
		n, end, err := s.slice(ctx)
		total += n
		if err != nil || end || time.Since(began) >= sweepBudget {
			return total, err
		}
	}
	return total, nil
}

// Whole goes over all messages once, from the first one on.
func (s *Sweep) Whole(ctx context.Context) (int, error) {
	s.after, s.seen = 0, 0
	for total := 0; ; {
		n, end, err := s.slice(ctx)
		total += n
		if err != nil || end {
			return total, err
		}
	}
}

// slice looks at one batch of messages; end reports that it was the last.
func (s *Sweep) slice(ctx context.Context) (n int, end bool, err error) {
	var (
		batch []store.Rescued
		next  int64
	)
	err = s.step(ctx, func(ctx context.Context) (err error) {
		var part []store.Rescued
		part, next, err = s.Store.Sweep(ctx, s.after, s.Batch)
		batch = append(batch, part...)
		return err
	})
	if len(batch) > 0 {
		s.Moved(ctx, batch)
	}
	if err != nil {
		return len(batch), false, fmt.Errorf("sweep messages after %d: %w", s.after, err)
	}
	s.after = next
	s.seen++
	if next == 0 {
		s.round, s.seen = s.seen, 0
	}
	return len(batch), next == 0, nil
}
