// Package client enqueues messages and shows and changes them:
//
//	type Welcome struct {
//		To string `json:"to"`
//	}
//
//	func (Welcome) Kind() string { return "welcome" }
//
//	db, err := sqlite.Open(ctx, "styx.db") // or postgres.Open, or a *bun.DB of your own
//	c, err := client.New(db, client.Config{})
//	err = c.Migrate(ctx)
//	m, err := c.Enqueue(ctx, Welcome{To: "ann@example.com"}, nil)
//
// The package worker runs the handlers of these messages, the package reaper
// takes back those whose worker vanished. All three share nothing but the
// database, in one process or in many.
//
// # What is promised
//
// A message is worked at least once. When Enqueue has returned, the message is
// committed; it is done only when its handler has said so. A worker that dies,
// or whose success could not be recorded, means that the message runs again,
// so handlers must stand being called twice. Once its attempts are used up a
// message is a dead letter, which is kept until somebody replays, resolves or
// purges it.
//
// Messages of one queue and priority are started in the order of their ids,
// which is that of the enqueues. That is no promise about the order in which
// they end: workers run side by side, a failed message comes back later, and
// a transaction that commits late shows its messages late.
//
// # In a transaction
//
// [Client.EnqueueTx] makes a message part of the caller's own transaction:
// both happen or neither does.
//
//	err := db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
//		if _, err := tx.NewInsert().Model(&order).Exec(ctx); err != nil {
//			return err
//		}
//		_, err := c.EnqueueTx(ctx, tx, Ship{Order: order.ID}, nil)
//		return err
//	})
//
// # Idempotency
//
// An idempotency key belongs to one message of its queue while that is
// pending, processing or dead, and for Config.IdempotencyWindow after it has
// succeeded. Another enqueue with the key stores nothing and returns a
// [*message.DuplicateError] with the id of the holder, which also tells
// whether kind and payload are the same. Cancelling, resolving or purging the
// holder frees its key.
//
// # Clocks
//
// The database's clock decides everything: when a delayed message is due, when
// a lease is over, what CreatedAt says. The clocks of the programs may be
// wrong by minutes. Times are returned in UTC.
//
// # Payloads
//
// A payload is text to Styx: what encoding/json makes of a typed one, or what
// was given to [Client.EnqueueRaw]. It comes back byte for byte, with every
// digit of a number. NUL and invalid UTF-8 are refused, not replaced, and so
// is what exceeds Config.PayloadLimit. encoding/json itself would replace
// invalid UTF-8 inside strings silently; such a payload is refused too.
//
// # Errors
//
// Values are checked before the database is touched, with a
// [*message.ValidationError] for each bad field. Find it and the other errors
// with errors.Is and errors.As: [message.ErrNotFound], [*message.StateError],
// [*message.DuplicateError], [message.ErrSchemaMissing],
// [message.ErrSchemaNewer], [message.ErrTxDone], [ErrUnavailable] and
// [ErrContention].
//
// # Operating
//
// [Client.Get], [Client.List], [Client.Attempts] and [Client.Stats] show what
// there is, at a bounded cost. [Client.Cancel] ends a pending message, and
// [Client.DeadLetters] holds what can be done with the dead.
// [Client.Migrations] serves migration tools.
package client
