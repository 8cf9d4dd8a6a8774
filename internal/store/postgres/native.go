package postgres

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"

	"github.com/styxmq/styx/internal/store"
)

// Param is an argument in the server's binary form, with the id of its type;
// without a Value it is NULL.
type Param struct {
	OID   uint32
	Value []byte
}

// NativeFunc runs a statement on one driver connection and hands each row to the callback as the server sent it, in
// binary form; the values are valid until the callback returns. It returns
// how many rows the statement returned or changed, and store.ErrNoNative
// before anything was sent when the connection is not of its driver or is set
// to another protocol.
type NativeFunc func(ctx context.Context, driverConn any, text string, params []Param, row func(values [][]byte) error) (int, error)

var native atomic.Pointer[NativeFunc]

// RegisterNative hands in what only a driver can do: statements that carry a
// thousand messages cost a fraction without the conversions of database/sql.
// The last call wins. Without it, and on connections of other drivers, all
// goes through database/sql.
func RegisterNative(f NativeFunc) { native.Store(&f) }

// hasNative reports whether a call of native may succeed.
func (s *Store) hasNative() bool { return native.Load() != nil && !s.noNative.Load() }

// ownTx is a transaction of the store's own, with its connection.
type ownTx struct {
	*sql.Tx
	conn *sql.Conn
}

// native runs a statement past database/sql, on the pool or in a transaction
// of the store's own; on anything else there is no native access.
func (s *Store) native(ctx context.Context, on conn, text string, params []Param, row func(values [][]byte) error) (n int, err error) {
	f := native.Load()
	if !s.hasNative() {
		return 0, store.ErrNoNative
	}
	var c *sql.Conn
	switch on := on.(type) {
	case *sql.DB:
		if c, err = on.Conn(ctx); err != nil {
			return 0, err
		}
		defer func() { _ = c.Close() }()
	case ownTx:
		c = on.conn
	default:
		return 0, store.ErrNoNative
	}
	failed := c.Raw(func(driverConn any) error {
		n, err = (*f)(ctx, driverConn, text, params, row)
		return nil // the pool asks the connection itself whether it is broken
	})
	if errors.Is(err, store.ErrNoNative) {
		s.noNative.Store(true) // neither are the others of the pool
	}
	if err == nil {
		err = failed
	}
	return n, err
}
