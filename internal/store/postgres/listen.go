package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync/atomic"

	"github.com/styxmq/styx/internal/store"
)

// ListenFunc waits for notifications on a channel of one driver connection
// and calls wake with the payload of each, until ctx ends or the connection
// is lost; ready is called once the subscription stands. It returns
// store.ErrNoListen when the connection is not of its driver.
type ListenFunc func(ctx context.Context, driverConn any, channel string, ready func(), wake func(payload string)) error

var listen atomic.Pointer[ListenFunc]

// RegisterListener hands in what only a driver can do. The last call wins.
func RegisterListener(f ListenFunc) { listen.Store(&f) }

// Listen waits on a connection of its own, which is closed afterwards.
func (s *Store) Listen(ctx context.Context, wake func(queue string)) error {
	f := listen.Load()
	if f == nil {
		return store.ErrNoListen
	}
	conn, err := s.sql.Conn(ctx)
	if err != nil {
		return mapError(err)
	}
	defer func() { _ = conn.Close() }()
	var result error
	err = conn.Raw(func(driverConn any) error {
		result = (*f)(ctx, driverConn, s.channel(), func() { wake("") }, wake)
		if errors.Is(result, store.ErrNoListen) {
			return nil
		}
		return driver.ErrBadConn // never back into the pool: it is subscribed
	})
	if result == nil {
		result = err
	}
	return mapError(result)
}

// channel is the name of the schema's notification channel.
func (s *Store) channel() string { return "styx_wake_" + s.schema }
