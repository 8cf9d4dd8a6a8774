package client

import (
	"context"
	"fmt"

	"github.com/styxmq/styx/internal/store"
)

// CancelOptions say who cancels, from where and why; the texts are kept.
type CancelOptions struct {
	// Actor is a person or program, up to 128 bytes.
	Actor string
	// Origin is where the request came from, such as an address, up to 128
	// bytes.
	Origin string
	// Reason is up to 1,024 bytes.
	Reason string
}

// Cancel ends a pending message: it becomes dead, its letter resolved with
// the decision cancelled, and its idempotency key is free. It can be replayed.
// opts may be nil.
//
// A message in another status is left alone and gives a
// [*message.StateError], also one that was cancelled before; an unknown one
// gives [message.ErrNotFound].
func (c *Client) Cancel(ctx context.Context, id int64, opts *CancelOptions) error {
	if opts == nil {
		opts = new(CancelOptions)
	}
	by, err := actor(opts.Actor, opts.Origin, opts.Reason)
	if err != nil {
		return err
	}
	err = retry(ctx, nil, func() error { return c.store.Cancel(ctx, id, by) })
	if err != nil {
		return fmt.Errorf("cancel message %d: %w", id, err)
	}
	return nil
}

func actor(who, origin, reason string) (store.Actor, error) {
	var p problems
	by := p.by(who, origin, reason)
	return by, p.err()
}
