package postgres

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"sync/atomic"

	"github.com/styxmq/styx/internal/store"
)

// Param is an argument in the server's binary form, with the id of its type;
// without a Value it is NULL.
type Param struct {
	OID   uint32
	Value []byte
}

// CopyFunc runs a COPY FROM STDIN on one driver connection, with the bytes of
// rows, and returns how many rows were stored. Like a NativeFunc it returns
// store.ErrNoNative before anything was sent where it cannot.
type CopyFunc func(ctx context.Context, driverConn any, text string, rows io.Reader) (int, error)

// Statement is a text with its arguments.
type Statement struct {
	Text   string
	Params []Param
}

// NativeFunc runs statements on one driver connection, in one exchange and one
// transaction, and hands each row of the last one to the callback as the server
// sent it, in binary form; the values are valid until the callback returns. It
// returns how many rows the last one returned or changed, and store.ErrNoNative
// before anything was sent when the connection is not of its driver or is set
// to another protocol.
type NativeFunc func(ctx context.Context, driverConn any, statements []Statement, row func(values [][]byte) error) (int, error)

// driverAccess is what RegisterNative was given.
type driverAccess struct {
	run  NativeFunc
	copy CopyFunc
}

var native atomic.Pointer[driverAccess]

// RegisterNative hands in what only a driver can do: statements that carry a
// thousand messages cost a fraction without the conversions of database/sql.
// The last call wins. Without it, and on connections of other drivers, all
// goes through database/sql.
func RegisterNative(run NativeFunc, copyFrom CopyFunc) {
	native.Store(&driverAccess{run: run, copy: copyFrom})
}

// hasNative reports whether a call of native may succeed.
func (s *Store) hasNative() bool { return native.Load() != nil && !s.noNative.Load() }

// ownTx is a transaction of the store's own, with its connection.
type ownTx struct {
	*sql.Tx
	conn *sql.Conn
}

// native runs a statement past database/sql, on the pool or in a transaction
// of the store's own; on anything else there is no native access.
func (s *Store) native(ctx context.Context, on conn, text string, params []Param, row func(values [][]byte) error) (int, error) {
	return s.natives(ctx, on, []Statement{{text, params}}, row)
}

// natives runs several statements in one transaction, and returns what the last
// one does.
func (s *Store) natives(ctx context.Context, on conn, statements []Statement, row func(values [][]byte) error) (int, error) {
	return s.raw(ctx, on, func(d *driverAccess, driverConn any) (int, error) {
		return d.run(ctx, driverConn, statements, row)
	})
}

// nativeCopy runs a COPY in the same places.
func (s *Store) nativeCopy(ctx context.Context, on conn, text string, rows io.Reader) (int, error) {
	return s.raw(ctx, on, func(d *driverAccess, driverConn any) (int, error) {
		return d.copy(ctx, driverConn, text, rows)
	})
}

func (s *Store) raw(ctx context.Context, on conn, f func(d *driverAccess, driverConn any) (int, error)) (n int, err error) {
	d := native.Load()
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
		n, err = f(d, driverConn)
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
