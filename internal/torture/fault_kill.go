//go:build unix

package torture

import (
	"context"
	"syscall"
	"time"
)

// killWorkers kills a worker every second or two.
type killWorkers struct{}

func (killWorkers) Name() string   { return "kill-workers" }
func (killWorkers) On(Engine) bool { return true }
func (killWorkers) Inflict(ctx context.Context, f *Field) error {
	f.during(ctx, time.Second, 2*time.Second, func() {
		if m := f.crew.pick(f.Rand, roleWorker); m != nil {
			m.signal(syscall.SIGKILL)
		}
	})
	return nil
}

// killReapers kills reapers, all of them at times.
type killReapers struct{}

func (killReapers) Name() string   { return "kill-reapers" }
func (killReapers) On(Engine) bool { return true }
func (killReapers) Inflict(ctx context.Context, f *Field) error {
	f.during(ctx, 100*time.Millisecond, 2*time.Second, func() {
		for _, m := range f.crew.targets(roleReaper) {
			if f.Rand.IntN(2) == 0 {
				m.signal(syscall.SIGKILL)
			}
		}
	})
	return nil
}

// killProducers kills producers, at random and around an enqueue.
type killProducers struct{}

func (killProducers) Name() string   { return "kill-producers" }
func (killProducers) On(Engine) bool { return true }
func (killProducers) Inflict(ctx context.Context, f *Field) error {
	where := []string{dieBefore, dieDuring, dieDuring, dieAfter, ""}
	f.during(ctx, 300*time.Millisecond, time.Second, func() {
		m := f.crew.pick(f.Rand, roleProducer)
		if m == nil {
			return
		}
		if at := where[f.Rand.IntN(len(where))]; at != "" {
			m.tell("die", at)
			return
		}
		m.signal(syscall.SIGKILL)
	})
	return nil
}

// killOperators kills the operator between a dead letter and its replay, and
// after it; some poison makes dead letters meanwhile.
type killOperators struct{}

func (killOperators) Name() string   { return "kill-operators" }
func (killOperators) On(Engine) bool { return true }
func (killOperators) Inflict(ctx context.Context, f *Field) error {
	f.crew.harm(0.05, 0)
	defer f.crew.harm(0, 0)
	where := []string{dieListed, dieReplayed, ""}
	f.during(ctx, 300*time.Millisecond, time.Second, func() {
		m := f.crew.pick(f.Rand, roleOperator)
		if m == nil {
			return
		}
		if at := where[f.Rand.IntN(len(where))]; at != "" {
			m.tell("die", at)
			return
		}
		m.signal(syscall.SIGKILL)
	})
	return nil
}

// codePoints has messages that kill their worker at each point of an attempt.
type codePoints struct{}

func (codePoints) Name() string   { return "code-points" }
func (codePoints) On(Engine) bool { return true }
func (codePoints) Inflict(ctx context.Context, f *Field) error {
	f.crew.harm(0, 0.005)
	defer f.crew.harm(0, 0)
	f.during(ctx, time.Second, time.Second, func() {})
	return nil
}
