package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/styxmq/styx/internal/store"
	queue "github.com/styxmq/styx/internal/store/postgres"
)

// A subscription is looked at this often, so that a connection that was lost
// without a word is noticed.
const (
	listenCheck   = 30 * time.Second
	listenTimeout = 10 * time.Second
)

// Whoever links this package links pgx, and with it what the store needs to
// be woken; that holds for an application's own *bun.DB on pgx as well.
func init() { queue.RegisterListener(listen) }

func listen(ctx context.Context, driverConn any, channel string, ready func(), wake func(payload string)) error {
	std, ok := driverConn.(*stdlib.Conn)
	if !ok {
		return store.ErrNoListen
	}
	conn := std.Conn()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	ready()
	for {
		waitCtx, cancel := context.WithTimeout(ctx, listenCheck)
		n, err := conn.WaitForNotification(waitCtx)
		quiet := waitCtx.Err() != nil
		cancel()
		switch {
		case err == nil:
			wake(n.Payload)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case quiet && errors.Is(err, context.DeadlineExceeded):
			checkCtx, cancel := context.WithTimeout(ctx, listenTimeout)
			err := conn.Ping(checkCtx)
			cancel()
			if err != nil {
				return err
			}
		default:
			return err
		}
	}
}
