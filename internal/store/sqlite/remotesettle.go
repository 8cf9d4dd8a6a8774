package sqlite

import (
	"context"
	"fmt"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// SettleRemote records the outcomes one after the other in one transaction,
// each as its holder would.
func (s *Store) SettleRemote(ctx context.Context, queue string, batch []store.RemoteSettlement) ([]error, error) {
	results := make([]error, len(batch))
	if len(batch) == 0 {
		return results, nil
	}
	err := s.write(ctx, func(w *work) error {
		now, err := w.clock()
		if err != nil {
			return err
		}
		for i := range batch {
			if results[i], err = settleRemote(w, queue, &batch[i], now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("settle messages of queue %q: %w", queue, err)
	}
	s.remotes.Look(queue)
	return results, nil
}

func settleRemote(w *work, queue string, r *store.RemoteSettlement, now int64) (refused, err error) {
	one := store.Settlement{
		ID: r.ID, Token: r.Token, Verb: r.Verb, Keyed: true, Delay: r.Delay, Elapsed: -1,
		Note: r.Note, Reason: r.Reason, Failure: r.Failure,
	}
	var holder int64
	err = w.scan([]any{&holder, &one.Token}, `SELECT worker_id, lease_token FROM styx_messages
	WHERE id = ? AND queue = ? AND status = 1 AND ? IN (0, lease_token)`, r.ID, queue, r.Token)
	switch {
	case none(err):
		return refusal(w, queue, &one)
	case err != nil:
		return nil, err
	case one.Verb != store.Succeed:
		return fail(w, holder, &one, now)
	}
	result := make([]error, 1)
	err = succeed(w, holder, []store.Settlement{one}, []int{0}, result, now)
	return result[0], err
}

// refusal says why a settlement found no message, or nil when the same was
// recorded before.
func refusal(w *work, queue string, b *store.Settlement) (refused, err error) {
	var r row
	err = w.scan(r.dest(), getText, b.ID, b.ID, b.ID)
	switch {
	case none(err) || err == nil && r.m.Queue != queue:
		return message.ErrNotFound, nil
	case err != nil:
		return nil, err
	case b.Token == 0:
		return &message.StateError{ID: b.ID, Operation: operationOf(b.Verb), Current: message.Status(r.status)}, nil
	case b.Verb == 0:
		return message.ErrLeaseLost, nil
	}
	return already(w, 0, b)
}

// operationOf names a verb, the zero one an extension.
func operationOf(v store.Verb) string {
	switch v {
	case store.Succeed:
		return "succeed"
	case store.Retry, store.Bury:
		return "fail"
	case store.Release, store.Snooze:
		return "release"
	}
	return "extend"
}
