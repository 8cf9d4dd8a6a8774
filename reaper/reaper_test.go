package reaper_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper"
)

func TestRunOnceTellsWhatItDid(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		lost := f.enqueue(3, client.EnqueueOptions{Queue: "lost"})
		last := f.enqueue(1, client.EnqueueOptions{
			Queue: "lost", MaxRetries: 1, Tenant: "acme", CorrelationID: "c-1", IdempotencyKey: "k-1",
		})
		worker, _ := f.claim("lost", 4)
		f.silence(worker)
		late := f.enqueue(2, client.EnqueueOptions{Queue: "late"})
		slow, _ := f.claim("late", 2)
		f.overdue(slow)
		expired := f.enqueue(2, client.EnqueueOptions{Queue: "expired", ExpiresIn: time.Hour})
		f.exec("UPDATE {{s}}messages SET expires_at = {{long ago}} WHERE queue = 'expired'")
		f.enqueue(5, client.EnqueueOptions{Queue: "pending"})
		f.enqueue(5, client.EnqueueOptions{Queue: "held"})
		_, held := f.claim("held", 5)

		report, log := f.once(reaper.Config{})
		require.Equal(t, reaper.Counts{DeadWorkers: 1, WorkerLost: 4, TimedOut: 2, Expired: 2, Dead: 3}, report.Counts)
		require.Equal(t, 8, report.Messages())
		require.True(t, report.Any())
		moved := map[int64]reaper.Moved{}
		for _, m := range report.Moved {
			moved[m.ID] = m
		}
		require.Len(t, moved, 8)
		for _, id := range lost {
			require.Equal(t, message.DecisionWorkerLost, moved[id].Decision)
			require.Equal(t, message.StatusPending, moved[id].Status)
			require.Equal(t, worker, moved[id].WorkerID)
			require.Equal(t, 1, moved[id].Attempt)
			require.Equal(t, 1, f.get(id).RetryCount, "the loss is charged")
		}
		for _, id := range late {
			require.Equal(t, message.DecisionTimedOut, moved[id].Decision)
			require.False(t, moved[id].RetryAfter.IsZero())
		}
		for _, id := range append(expired, last...) {
			require.Equal(t, message.StatusDead, moved[id].Status)
			require.Equal(t, message.StatusDead, f.get(id).Status)
		}
		for _, c := range held {
			require.Equal(t, message.StatusProcessing, f.get(c.ID).Status)
		}

		dead := log.lines(t, "message is dead")
		require.Len(t, dead, 3, "a line for each")
		i := slices.IndexFunc(dead, func(l map[string]any) bool { return l["queue"] == "lost" })
		for key, want := range map[string]any{
			"level": "ERROR", "kind": "work", "id": float64(last[0]), "attempt": 1.0, "max_retries": 1.0, "tenant": "acme",
			"correlation_id": "c-1", "idempotency_key": "k-1", "decision": "worker_lost", "error_class": "styx.WorkerLost",
		} {
			require.Equal(t, want, dead[i][key], key)
		}
		letter, err := f.client.DeadLetters().Get(t.Context(), last[0])
		require.NoError(t, err)
		require.Equal(t, letter.ErrorClass, dead[i]["error_class"])
		summary := log.lines(t, "reaped")
		require.Len(t, summary, 1)
		require.EqualValues(t, 4, summary[0]["worker_lost"])
		require.NotContains(t, summary[0], "keys_deleted")

		text, err := json.Marshal(report)
		require.NoError(t, err)
		require.Contains(t, string(text), `"worker_lost":4`)

		report, log = f.once(reaper.Config{})
		require.False(t, report.Any(), "%+v", report)
		require.Empty(t, log.lines(t, ""), "nothing happened, nothing is said")
	})
}

// Public report: riverqueue/river#1302.
func TestMessageWithoutTraceOfAClaimIsRescued(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(30, client.EnqueueOptions{Queue: "a"})
		f.claim("a", 30)
		live := f.enqueue(5, client.EnqueueOptions{Queue: "b"})
		f.claim("b", 5)
		// As after a restored backup, or an edit by hand.
		if f.hasClaims() {
			f.exec("DELETE FROM {{s}}claims")
		}
		f.exec("UPDATE {{s}}messages SET worker_id = 4711 WHERE id <= ?", ids[9])
		f.exec("UPDATE {{s}}messages SET worker_id = 0 WHERE id > ? AND id <= ?", ids[9], ids[19])
		f.exec("UPDATE {{s}}messages SET deadline = {{long ago}} WHERE id > ? AND id <= ?", ids[19], ids[29])

		report, _ := f.once(reaper.Config{Batch: 7})
		require.Equal(t, 30, report.Messages())
		for _, id := range ids {
			require.Equal(t, message.StatusPending, f.get(id).Status)
		}
		for _, id := range live {
			require.Equal(t, message.StatusProcessing, f.get(id).Status)
		}
	})
}

// Public report: riverqueue/river#1302.
func TestReapersAtOnceMoveEachMessageOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		const reapers, lost, live, finished = 8, 1000, 200, 200
		ids := f.enqueue(lost, client.EnqueueOptions{Queue: "lost"})
		slow, _ := f.claim("lost", lost/2)
		gone, _ := f.claim("lost", lost/2)
		f.enqueue(live+finished, client.EnqueueOptions{Queue: "live"})
		worker, held := f.claim("live", live+finished)
		f.overdue(slow)
		f.silence(gone)

		var (
			wg      sync.WaitGroup
			begin   = make(chan struct{})
			reports [reapers]reaper.Report
			errs    [reapers]error
		)
		for i := range reapers {
			r, _ := f.reaper(f.open(), reaper.Config{Batch: 200})
			wg.Go(func() {
				<-begin
				reports[i], errs[i] = r.RunOnce(t.Context())
			})
		}
		wg.Go(func() {
			<-begin
			for c := range slices.Chunk(held[live:], 10) {
				batch := make([]store.Settlement, len(c))
				for i, m := range c {
					batch[i] = store.Settlement{ID: m.ID, Token: m.LeaseToken, Place: m.Place, Verb: store.Succeed}
				}
				var results []error
				err := store.ErrContention
				for errors.Is(err, store.ErrContention) { // it may be repeated
					results, err = f.store.Settle(t.Context(), worker, batch, nil)
				}
				if err != nil || slices.ContainsFunc(results, func(err error) bool { return err != nil }) {
					t.Errorf("settle: %v %v", err, results)
				}
			}
		})
		close(begin)
		wg.Wait()

		var moved []int64
		for i := range reapers {
			require.NoError(t, errs[i])
			for _, m := range reports[i].Moved {
				moved = append(moved, m.ID)
			}
		}
		slices.Sort(moved)
		require.Equal(t, ids, moved, "each moved exactly once, no other touched")
		require.Equal(t, lost, f.count("SELECT count(*) FROM {{s}}messages WHERE status = 0 AND retry_count = 1 AND queue = 'lost'"))
		require.Equal(t, lost, f.count("SELECT count(*) FROM {{s}}attempts"))
		require.Equal(t, live, f.count("SELECT count(*) FROM {{s}}messages WHERE status = 1 AND retry_count = 0 AND worker_id = ?", worker))
		require.Equal(t, finished, f.count("SELECT count(*) FROM {{s}}archive"))
		require.Equal(t, 1, deadWorkers(reports[:]), "one of them found the worker dead")
	})
}

func deadWorkers(reports []reaper.Report) (n int) {
	for _, r := range reports {
		n += r.DeadWorkers
	}
	return n
}

func TestExpiredMessagesAreBuriedOnceByReapersAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		const reapers, expired = 8, 1000
		ids := f.enqueue(expired, client.EnqueueOptions{ExpiresIn: time.Hour})
		f.enqueue(100, client.EnqueueOptions{})
		f.exec("UPDATE {{s}}messages SET expires_at = {{long ago}} WHERE expires_at IS NOT NULL")
		var (
			wg    sync.WaitGroup
			mu    sync.Mutex
			moved []int64
		)
		for range reapers {
			r, _ := f.reaper(f.open(), reaper.Config{Batch: 200})
			wg.Go(func() {
				report, err := r.RunOnce(t.Context())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, m := range report.Moved {
					moved = append(moved, m.ID)
				}
			})
		}
		wg.Wait()
		slices.Sort(moved)
		require.Equal(t, ids, moved)
		require.Equal(t, expired, f.count("SELECT count(*) FROM {{s}}dead_letters"))
		require.Equal(t, 100, f.count("SELECT count(*) FROM {{s}}messages"))
	})
}

func TestReportListsABoundedNumber(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.enqueue(reaper.MaxMoved+50, client.EnqueueOptions{ExpiresIn: time.Hour})
		f.exec("UPDATE {{s}}messages SET expires_at = {{long ago}}")
		report, _ := f.once(reaper.Config{})
		require.Len(t, report.Moved, reaper.MaxMoved)
		require.Equal(t, reaper.MaxMoved+50, report.Expired)
	})
}

// Public report: riverqueue/river#575.
func TestRetentionDeletesResolvedLettersAndKeepsWhatWaits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.enqueue(20, client.EnqueueOptions{})
		worker, claimed := f.claim(message.DefaultQueue, 15)
		f.settle(worker, store.Bury, claimed[:10]...)
		for _, c := range claimed[:5] {
			require.NoError(t, f.client.DeadLetters().Resolve(t.Context(), c.ID, &client.ResolveOptions{Actor: "me"}))
		}
		f.exec("UPDATE {{s}}dead_letters SET dead_at = {{long ago}}")
		f.exec("UPDATE {{s}}dead_letters SET resolved_at = {{long ago}} WHERE resolved_at IS NOT NULL")
		f.exec("UPDATE {{s}}messages SET updated_at = {{long ago}}")

		report, _ := f.once(reaper.Config{ArchiveRetention: -1, ResolvedRetention: -1, DeadRetention: -1})
		require.False(t, report.Any(), "%+v", report)

		report, log := f.once(reaper.Config{Batch: 2})
		require.Equal(t, 5, report.Letters)
		require.Zero(t, report.Messages())
		require.Len(t, log.lines(t, "reaped"), 1)
		require.Equal(t, 5, f.count("SELECT count(*) FROM {{s}}dead_letters"), "those that wait are kept for ever")
		require.Equal(t, 10, f.count("SELECT count(*) FROM {{s}}messages"), "whatever their age")

		report, _ = f.once(reaper.Config{DeadRetention: time.Hour})
		require.Equal(t, 5, report.Letters)
		require.Positive(t, f.count("SELECT count(*) FROM {{s}}audit_log WHERE action = 'purge'"), "someone can find out")
		require.Equal(t, 10, f.count("SELECT count(*) FROM {{s}}messages"))
	})
}

func TestRunRescuesUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(1, client.EnqueueOptions{Queue: "a"})
		worker, _ := f.claim("a", 1)
		r, _ := f.reaper(f.db.DB, reaper.Config{Rescue: "@every 100ms"})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		require.Eventually(t, func() bool {
			s := r.Status()
			return s.Rescue.Ticks > 1 && s.Sweep.Ticks == 1 && s.Maintain.Ticks == 1
		}, patience, 10*time.Millisecond)
		require.Equal(t, message.StatusProcessing, f.get(ids[0]).Status, "its worker lives")
		f.silence(worker)
		require.Eventually(t, func() bool { return f.get(ids[0]).Status == message.StatusPending }, patience, 10*time.Millisecond)
		require.Eventually(t, func() bool { return r.Status().Rescue.Counts.WorkerLost == 1 }, patience, 10*time.Millisecond)
		cancel()
		require.NoError(t, <-done)
		s := r.Status()
		require.Equal(t, "@every 100ms", s.Rescue.Spec)
		require.False(t, s.Rescue.LastSuccess.IsZero())
		require.False(t, s.Maintain.Next.IsZero())
		require.Empty(t, s.Rescue.LastError+s.Sweep.LastError+s.Maintain.LastError)
	})
}

func TestOldSchemaIsRefused(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		r, err := reaper.New(db.DB, reaper.Config{Schema: db.Schema})
		require.NoError(t, err)
		_, err = r.RunOnce(t.Context())
		require.ErrorIs(t, err, message.ErrSchemaMissing)
		require.ErrorIs(t, r.Run(t.Context()), message.ErrSchemaMissing)
	})
}

func TestNewRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	db := testdb.SQLite(t)
	for name, test := range map[string]struct {
		cfg   reaper.Config
		field string
	}{
		"schema":   {reaper.Config{Schema: "mine"}, "schema"},
		"rescue":   {reaper.Config{Rescue: "TZ="}, "Rescue"},
		"sweep":    {reaper.Config{Sweep: "@every 0s"}, "Sweep"},
		"maintain": {reaper.Config{Maintain: "0 0 30 2 *"}, "Maintain"},
		"unit":     {reaper.Config{ArchiveRetention: 7}, "ArchiveRetention"},
	} {
		_, err := reaper.New(db.DB, test.cfg)
		var invalid *message.ValidationError
		require.ErrorAs(t, err, &invalid, name)
		require.Equal(t, test.field, invalid.Field)
	}
	_, err := reaper.New(nil, reaper.Config{})
	var invalid *message.ValidationError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "db", invalid.Field)
}

func ExampleNew() {
	_, err := reaper.New(nil, reaper.Config{Rescue: "every now and then"})
	fmt.Println(err)
	// Output:
	// message: invalid db: db must not be nil.
	// message: invalid Rescue: Rescue is not a cron spec of five fields, a descriptor or @every: "every now and then": expected exactly 5 fields, found 4: [every now and then].
}
