package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/internal/store"
)

var (
	// ErrUnavailable: the database cannot be reached, or refuses writes for
	// now. Calling again later may help.
	ErrUnavailable = store.ErrUnavailable
	// ErrContention: a deadlock or a serialisation conflict ended the
	// statement. Outside a caller's transaction the client has tried again
	// already; a caller's transaction must be run again as a whole.
	ErrContention = store.ErrContention
)

// retry repeats op a few times while it ends in contention, which has undone
// it. In a caller's transaction, where conn is not nil, it does not: that is
// over, or must be repeated as a whole.
func retry(ctx context.Context, conn bun.IConn, op func() error) error {
	const attempts = 6
	pause := time.Millisecond
	for n := 1; ; n++ {
		err := op()
		if conn != nil || n == attempts || !errors.Is(err, store.ErrContention) {
			return err
		}
		// Half of it is random: what collided once shall not do so again.
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(context.Cause(ctx), err)
		}
		pause *= 2
	}
}
