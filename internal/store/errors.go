package store

import "errors"

var (
	// ErrNoListen: this connection cannot be listened on; poll instead.
	ErrNoListen = errors.New("store: connection cannot be listened on")
	// ErrNoNative: this connection takes statements through database/sql
	// only.
	ErrNoNative = errors.New("store: connection has no native access")
	// ErrUnavailable: the database cannot be reached or refuses writes for
	// now; the call may be repeated.
	ErrUnavailable = errors.New("store: database unavailable")
	// ErrContention: a deadlock or serialisation conflict ended the
	// statement; it may be repeated at once.
	ErrContention = errors.New("store: conflict with another transaction")
)
