package reaper

import (
	"context"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// Hooks are told what a reaper does with messages, for example to count or to
// audit it. Nil ones cost nothing. They run after the change is committed, in
// the goroutine that made it, which waits for them: a slow hook delays the
// rest. Of several reapers the one that moved a message tells. A hook must not
// keep the message, whose payload and times are not set. A panic is logged and changes nothing.
type Hooks struct {
	// Reaped is called for a message that was taken back because of why,
	// worker_lost or timed_out, and is pending now.
	Reaped func(ctx context.Context, m *message.Message, why message.Decision)
	// Dead is called for a message that is dead now because of why:
	// worker_lost, timed_out or expired.
	Dead func(ctx context.Context, m *message.Message, why message.Decision)
}

// tell calls the hook of a message that was moved.
func (t *tally) tell(ctx context.Context, m *store.Rescued) {
	hook := t.hooks.Reaped
	if m.Dead {
		hook = t.hooks.Dead
	}
	if hook == nil {
		return
	}
	if err := guard(func() error { hook(ctx, &m.Message, m.Decision); return nil }); err != nil {
		t.log.hook(ctx, m, err)
	}
}
