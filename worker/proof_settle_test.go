package worker_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// Settlements in any order, many of them stale, beside reapers that take the
// same rows away: nobody deadlocks, and no message is lost or done twice.
func TestProofStaleSettlesBesideReapers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		const workers, messages = 4, 400
		ids := r.jobs(messages, nil)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		r.exec("UPDATE {{s}}messages SET max_retries = 1000000")
		var (
			mu   sync.Mutex
			done = map[int64]int{}
			wg   sync.WaitGroup
		)
		left := func() int {
			mu.Lock()
			defer mu.Unlock()
			return messages - len(done)
		}
		over := func() bool { // a slow machine needs longer for the first
			n := left()
			return n == 0 || n < messages && time.Since(began) > 6*time.Second || ctx.Err() != nil
		}
		failed := func(err error) bool {
			if err == nil || ctx.Err() != nil {
				return false
			}
			t.Error(err)
			cancel()
			return true
		}
		// One life of a worker: it claims, dies, and settles all the same.
		life := func() error {
			id, err := r.store.Register(ctx, store.WorkerInfo{Name: "w", Queues: []string{"default"}, Lease: time.Hour})
			if err != nil {
				return err
			}
			cursor := r.store.Cursor(store.CursorSpec{WorkerID: id, Queue: "default", Timeout: time.Hour, Lease: time.Hour})
			var batch []store.Settlement
			for number := int64(1); number <= 20; number++ {
				got, err := cursor.Claim(ctx, store.ClaimRequest{Number: number, Limit: 20, Suspect: number <= 10})
				if err != nil {
					return err
				}
				for _, m := range got.Messages {
					batch = append(batch,
						store.Settlement{ID: m.ID, Token: m.LeaseToken, Place: m.Place, Verb: store.Succeed})
				}
			}
			own := map[int64]bool{}
			for _, s := range batch {
				own[s.ID] = true
			}
			for range 40 {
				if stale := ids[rand.IntN(len(ids))]; !own[stale] {
					batch = append(batch, store.Settlement{ID: stale, Token: 0, Verb: store.Verb(1 + rand.IntN(5)), Failure: broken()})
					own[stale] = true
				}
			}
			rand.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
			if rand.IntN(4) > 0 {
				if err := r.store.Unregister(ctx, id); err != nil {
					return err
				}
			}
			results, err := r.store.Settle(ctx, id, batch, nil)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for i, result := range results {
				switch {
				case result == nil && batch[i].Token > 0:
					done[batch[i].ID]++
				case result == nil:
					return errors.New("a stale settlement was accepted")
				case !errors.Is(result, message.ErrLeaseLost):
					return result
				}
			}
			return nil
		}
		for range workers {
			wg.Go(func() {
				for !over() && !failed(life()) {
					continue
				}
			})
		}
		for range 3 {
			wg.Go(func() {
				for !over() {
					_, err := r.store.Rescue(ctx, 50)
					_, _, err2 := r.store.Sweep(ctx, 0, 1000)
					if failed(errors.Join(err, err2)) {
						return
					}
				}
			})
		}
		wg.Wait()
		for id, n := range done {
			require.Equal(t, 1, n, id)
			require.Equal(t, message.StatusSucceeded, r.get(id).Status)
		}
		require.Equal(t, messages, r.count("SELECT count(*) FROM {{s}}all_messages"))
		require.NotEmpty(t, done)
	})
}

func broken() *store.Failure {
	return &store.Failure{Kind: message.FailureUnknown, Decision: message.DecisionExhausted, Class: "test.Error", Message: "no"}
}
