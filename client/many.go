package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/origin"
	"github.com/styxmq/styx/internal/store"
)

// Item is one message of a batch.
type Item struct {
	// Payload is required; a [Raw] is stored as it stands.
	Payload Payload
	// Options may be nil.
	Options *EnqueueOptions
}

// EnqueueMany stores all items or none of them, in one transaction, in the
// order given: ids ascend. It is many times faster than a loop over
// [Client.Enqueue], and takes 100,000 items and more in one call; all of them
// are held in memory. No items are no error, and nothing happens.
//
// Every item is checked before the database is touched; the
// [*message.ValidationError] of the first bad one names it, as in
// messages[3].payload. A held idempotency key, also one that an earlier item
// of the batch has, is a [*message.DuplicateError] with the item's index. For
// the rest see [Client.Enqueue].
func (c *Client) EnqueueMany(ctx context.Context, items []Item) ([]message.Message, error) {
	return c.enqueueMany(ctx, nil, items)
}

func (c *Client) enqueueMany(ctx context.Context, conn bun.IConn, items []Item) ([]message.Message, error) {
	if len(items) == 0 {
		return nil, nil
	}
	batch, err := c.buildAll(items, origin.Of(ctx))
	if err != nil {
		return nil, err
	}
	var inserted []store.Inserted
	began := time.Now()
	sendCtx, span := c.sendMany(ctx, batch)
	messages := make([]message.Message, len(batch))
	show := func() {
		for i := range batch {
			shownMessage(&messages[i], &batch[i])
		}
	}
	var shown sync.WaitGroup
	if len(batch) >= showBeside {
		shown.Go(show)
	} else {
		show()
	}
	err = retry(sendCtx, conn, func() (err error) {
		inserted, err = c.store.InsertMany(sendCtx, conn, batch)
		return err
	})
	shown.Wait()
	sent(span, 0, err)
	c.metrics.SentMany(sendCtx, batch, began, err)
	if err != nil {
		return nil, fmt.Errorf("enqueue %d messages: %w", len(batch), err)
	}
	for i := range messages {
		stored(&messages[i], batch[i].ExpiresIn, inserted[i])
	}
	c.batches.put(batch) // not after an error: somebody may still be at it
	if c.cfg.Hooks.Enqueued != nil {
		for i := range messages {
			c.enqueued(ctx, &messages[i])
		}
	}
	return messages, nil
}

func (c *Client) buildAll(items []Item, from *message.Message) ([]store.NewMessage, error) {
	batch := c.batches.get(len(items))
	e := newEncoder()
	for i, item := range items {
		var p problems
		c.build(&p, e, &batch[i], item.Payload, item.Options, from)
		if len(p.errs) > 0 {
			return nil, p.at(i)
		}
	}
	if err := checkKeys(batch); err != nil {
		return nil, fmt.Errorf("enqueue %d messages: %w", len(batch), err)
	}
	return batch, nil
}

// showBeside is the number of messages from which what EnqueueMany returns is
// made while the database stores them.
const showBeside = 500

// keptBatch is the largest batch that is kept for another call.
const keptBatch = 10_000

// batches keeps the memory of batches, which is large and short-lived.
type batches struct{ pool sync.Pool }

func (b *batches) get(n int) []store.NewMessage {
	if kept, _ := b.pool.Get().(*[]store.NewMessage); kept != nil && cap(*kept) >= n {
		return (*kept)[:n]
	}
	return make([]store.NewMessage, n)
}

func (b *batches) put(batch []store.NewMessage) {
	if len(batch) >= showBeside && len(batch) <= keptBatch {
		clear(batch)
		b.pool.Put(&batch)
	}
}

// checkKeys finds items that would be duplicates of each other.
func checkKeys(batch []store.NewMessage) error {
	type key struct{ queue, key string }
	var first map[key]int
	for i := range batch {
		m := &batch[i]
		if m.IdempotencyKey == "" {
			continue
		}
		if first == nil {
			first = make(map[key]int)
		}
		k := key{m.Queue, m.IdempotencyKey}
		if j, taken := first[k]; taken {
			return &message.DuplicateError{
				Queue: m.Queue, Key: m.IdempotencyKey, Index: i,
				Mismatch: m.Digest != batch[j].Digest,
			}
		}
		first[k] = i
	}
	return nil
}
