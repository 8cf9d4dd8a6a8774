//go:build unix

package torture

import (
	"context"
	"syscall"
	"time"
)

// overHTTP marks the faults of what talks HTTP.
type overHTTP interface{ overHTTP() }

// killDaemons kills the daemons at random, while requests are at work; one
// time in four they end in good order.
type killDaemons struct{}

func (killDaemons) Name() string   { return "kill-daemons" }
func (killDaemons) On(Engine) bool { return true }
func (killDaemons) overHTTP()      {}
func (killDaemons) Inflict(ctx context.Context, f *Field) error {
	f.during(ctx, 200*time.Millisecond, 1500*time.Millisecond, func() {
		m := f.crew.pick(f.Rand, roleDaemon)
		switch {
		case m == nil:
		case f.Rand.IntN(4) == 0:
			f.crew.retire(m)
		default:
			m.signal(syscall.SIGKILL)
		}
	})
	return nil
}

// killConsumers kills those that claim over HTTP.
type killConsumers struct{}

func (killConsumers) Name() string   { return "kill-consumers" }
func (killConsumers) On(Engine) bool { return true }
func (killConsumers) overHTTP()      {}
func (killConsumers) Inflict(ctx context.Context, f *Field) error {
	f.during(ctx, 500*time.Millisecond, 1500*time.Millisecond, func() {
		if m := f.crew.pick(f.Rand, roleConsumer); m != nil {
			m.signal(syscall.SIGKILL)
		}
	})
	return nil
}
