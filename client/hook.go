package client

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/failure"
)

// Hooks are told what a client has done, for example to count or to audit it.
// Nil ones cost nothing. A hook runs in the goroutine of the call, which waits
// for it, with the context of the call; it must not keep or change the
// message. A panic in it is logged and changes nothing.
type Hooks struct {
	// Enqueued is called once for each message that was stored, before the
	// call returns. The message is committed then; one of a call with Tx is
	// not, and is gone when the caller's transaction is rolled back.
	Enqueued func(ctx context.Context, m *message.Message)
	// Replayed is called after a dead message was put back, which is
	// committed. The message is read again for it; when that fails, or it
	// is gone by then, its ID alone is set.
	Replayed func(ctx context.Context, m *message.Message)
}

// enqueued calls the hook.
func (c *Client) enqueued(ctx context.Context, m *message.Message) {
	if hook := c.cfg.Hooks.Enqueued; hook != nil {
		c.call(ctx, "enqueued", func() { hook(ctx, m) })
	}
}

// replayed reads the message and calls the hook.
func (c *Client) replayed(ctx context.Context, id int64) {
	hook := c.cfg.Hooks.Replayed
	if hook == nil {
		return
	}
	m, err := c.Get(ctx, id)
	if err != nil {
		m = &message.Message{ID: id}
	}
	c.call(ctx, "replayed", func() { hook(ctx, m) })
}

func (c *Client) call(ctx context.Context, name string, hook func()) {
	const limit = 1 << 10
	defer func() {
		if v := recover(); v != nil {
			c.logger.ErrorContext(ctx, "hook panicked", slog.String("hook", name),
				slog.String("panic", failure.Clean(fmt.Sprint(v), limit)))
		}
	}()
	hook()
}
