package client

import (
	"context"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// wakeFew is how many waiting claims one sign of a message wakes. Each that
// finds something wakes as many more, so that many messages are taken soon and
// one message costs few claims.
const wakeFew = 2

// claim claims, and waits for a first message if it may. While it waits it
// stands in the crowd of those who want the same, and claims when it is woken.
func (l *Leases) claim(ctx context.Context, r store.RemoteClaim, wait time.Duration) ([]message.Message, error) {
	end := time.NewTimer(wait)
	defer end.Stop()
	claimed, err := l.claimNow(ctx, r)
	if err != nil || len(claimed) > 0 || wait <= 0 {
		return claimed, err
	}
	ws := &l.c.waits
	w := ws.join(ctx, l.c.store, r)
	defer ws.leave(w)
	for {
		// The first time it is for what came before it stood there.
		claimed, err := l.claimNow(ctx, r)
		if err != nil {
			return nil, err
		}
		if len(claimed) > 0 {
			ws.more(w)
			return claimed, nil
		}
		select {
		case <-w.woken:
		case <-end.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// claimNow claims what is there.
func (l *Leases) claimNow(ctx context.Context, r store.RemoteClaim) (claimed []message.Message, err error) {
	err = retry(ctx, nil, func() (err error) {
		claimed, err = l.c.store.ClaimRemote(ctx, r)
		return err
	})
	return claimed, err
}
