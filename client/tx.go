package client

import (
	"context"
	"database/sql"
	"reflect"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
)

// EnqueueTx is [Client.Enqueue] as part of the caller's transaction: the
// message exists if and only if tx commits (and the savepoint in which it was
// enqueued, if there is one), and workers see it from then on. tx is a
// bun.Tx, an *sql.Tx, or a bun.Conn or *sql.Conn on which a transaction has
// been begun, of the same database as the client's.
//
// Neither a refused value nor a held idempotency key harms the transaction:
// the caller may go on and commit. While another transaction, not yet
// committed, holds the key, the call waits for its end. In a transaction that
// has failed or ended the error is [message.ErrTxDone]. A pool is refused,
// since nothing there would hold the statements together.
//
// The client does not repeat anything within a transaction: after
// [ErrContention] the caller runs the whole of it again.
func (c *Client) EnqueueTx(ctx context.Context, tx bun.IConn, payload Payload, opts *EnqueueOptions) (*message.Message, error) {
	if err := checkTx(tx); err != nil {
		return nil, err
	}
	return c.enqueue(ctx, tx, payload, opts)
}

// EnqueueRawTx is [Client.EnqueueRaw] as part of the caller's transaction;
// see [Client.EnqueueTx].
func (c *Client) EnqueueRawTx(ctx context.Context, tx bun.IConn, kind, payload string, opts *EnqueueOptions) (*message.Message, error) {
	if err := checkTx(tx); err != nil {
		return nil, err
	}
	return c.enqueue(ctx, tx, Raw{kind, payload}, opts)
}

// EnqueueManyTx is [Client.EnqueueMany] as part of the caller's transaction;
// see [Client.EnqueueTx]. On an error nothing of the batch is stored.
func (c *Client) EnqueueManyTx(ctx context.Context, tx bun.IConn, items []Item) ([]message.Message, error) {
	if err := checkTx(tx); err != nil {
		return nil, err
	}
	return c.enqueueMany(ctx, tx, items)
}

// checkTx refuses what cannot be a transaction.
func checkTx(tx bun.IConn) error {
	empty := tx == nil
	switch t := tx.(type) {
	case *sql.DB, *bun.DB:
		return &message.ValidationError{
			Field: "tx", Code: message.CodeInvalid,
			Message: "tx must be a transaction, not a pool of connections; without one call Enqueue.",
		}
	case bun.Tx:
		empty = t.Tx == nil
	case bun.Conn:
		empty = t.Conn == nil
	default:
		v := reflect.ValueOf(tx)
		empty = empty || v.Kind() == reflect.Pointer && v.IsNil()
	}
	if empty {
		return &message.ValidationError{Field: "tx", Code: message.CodeRequired, Message: "tx must not be nil."}
	}
	return nil
}
