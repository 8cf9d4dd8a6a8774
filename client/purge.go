package client

import (
	"context"
	"fmt"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// purgeBatch is how many letters one statement deletes.
const purgeBatch = 1000

// PurgeOptions select dead letters to delete and say who does it and why. At
// least one of MessageID, Queue, OlderThan and All must be set.
type PurgeOptions struct {
	// MessageID selects the letters of one message, resolved or not; no
	// other filter may be set then.
	MessageID int64
	// Queue selects the letters of one queue.
	Queue string
	// OlderThan selects letters by the time since the death, or since the
	// resolution of resolved ones.
	OlderThan time.Duration
	// Resolved selects resolved letters, instead of those that wait for
	// somebody.
	Resolved bool
	// All confirms that no filter is meant to be set.
	All bool
	// Actor is a person or program, up to 128 bytes.
	Actor string
	// Origin is where the request came from, such as an address, up to 128
	// bytes.
	Origin string
	// Reason is up to 1,024 bytes.
	Reason string
}

// Purge deletes dead letters for good, with their messages, attempts and
// idempotency keys, and records in the audit log how many went, who did it
// and why. It returns their number; when nothing matches that is 0, without
// an error.
//
// Letters go in batches, each committed by itself: on an error, also that of
// ctx, the number says how many are gone, and calling again goes on.
func (d *DeadLetters) Purge(ctx context.Context, opts PurgeOptions) (int, error) {
	if err := opts.check(); err != nil {
		return 0, err
	}
	q := store.PurgeQuery{
		ID: opts.MessageID, Queue: opts.Queue, Resolved: opts.Resolved,
		OlderThan: opts.OlderThan, Limit: purgeBatch,
	}
	by := store.Actor{Name: opts.Actor, Origin: opts.Origin, Reason: opts.Reason}
	total := 0
	for {
		var n int
		err := retry(ctx, nil, func() (err error) {
			n, err = d.c.store.Purge(ctx, q, by)
			return err
		})
		if err != nil {
			return total, fmt.Errorf("purge dead letters: %w", err)
		}
		total += n
		if n < purgeBatch {
			return total, nil
		}
	}
}

func (o PurgeOptions) check() error {
	var p problems
	_ = p.by(o.Actor, o.Origin, o.Reason)
	p.filter("queue", o.Queue)
	if o.MessageID < 0 {
		p.add("message_id", message.CodeOutOfRange, "message_id must not be negative.")
	}
	if o.OlderThan < 0 {
		p.add("older_than", message.CodeOutOfRange, "older_than must not be negative, as %s is.", o.OlderThan)
	}
	filtered := o.Queue != "" || o.OlderThan != 0
	switch {
	case o.MessageID != 0 && (filtered || o.Resolved || o.All):
		p.add("message_id", message.CodeInvalid, "message_id must be the only filter.")
	case filtered && o.All:
		p.add("all", message.CodeInvalid, "all must not be set beside a filter.")
	case o.MessageID == 0 && !filtered && !o.All:
		p.add("all", message.CodeRequired, "all must be set to purge without a filter.")
	}
	return p.err()
}
