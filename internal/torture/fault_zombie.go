//go:build unix

package torture

import (
	"context"
	"syscall"
	"time"
)

// zombies stops workers and consumers for longer than their lease and lets them go on: by
// then others have what they held.
type zombies struct{}

func (zombies) Name() string   { return "zombies" }
func (zombies) On(Engine) bool { return true }
func (zombies) Inflict(ctx context.Context, f *Field) error {
	ms := f.crew.targets(roleWorker)
	f.Rand.Shuffle(len(ms), func(i, j int) { ms[i], ms[j] = ms[j], ms[i] })
	ms = append(ms[:(len(ms)+1)/2], f.crew.targets(roleConsumer)...)
	for _, m := range ms {
		m.signal(syscall.SIGSTOP)
	}
	pause(ctx, f.between(f.Lease+2*time.Second, f.Lease*3/2+4*time.Second))
	for _, m := range ms {
		m.signal(syscall.SIGCONT)
	}
	pause(ctx, time.Second)
	return nil
}

// rolling restarts the workers one after the other, in good order.
type rolling struct{}

func (rolling) Name() string   { return "rolling-restart" }
func (rolling) On(Engine) bool { return true }
func (rolling) Inflict(ctx context.Context, f *Field) error {
	ctx, cancel := context.WithTimeout(ctx, f.Length)
	defer cancel()
	for {
		for _, m := range f.crew.targets(roleWorker) {
			f.crew.retire(m)
			select {
			case <-m.gone:
			case <-ctx.Done():
				return nil
			}
		}
		if !pause(ctx, 200*time.Millisecond) {
			return nil
		}
	}
}
