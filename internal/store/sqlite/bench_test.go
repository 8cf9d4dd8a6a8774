package sqlite_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

func perSecond(b *testing.B, n int) {
	b.Helper()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "messages/s")
}

func bulk(n int) []store.NewMessage {
	ms := make([]store.NewMessage, n)
	for i := range ms {
		ms[i] = newMessage("")
		ms[i].Payload = strings.Repeat("x", 100)
	}
	return ms
}

func BenchmarkEnqueueMany(b *testing.B) {
	const size = 10_000
	s, _ := migrated(b)
	ms := bulk(size)
	n := 0
	for b.Loop() {
		_, err := s.InsertMany(b.Context(), nil, ms)
		require.NoError(b, err)
		n += size
	}
	perSecond(b, n)
}

func BenchmarkEnqueueAlone(b *testing.B) {
	s, _ := migrated(b)
	m := bulk(1)[0]
	n := 0
	for b.Loop() {
		_, err := s.Insert(b.Context(), nil, &m)
		require.NoError(b, err)
		n++
	}
	perSecond(b, n)
}

func BenchmarkEnqueueTogether(b *testing.B) {
	const callers, each = 16, 100
	s, _ := migrated(b)
	m := bulk(1)[0]
	n := 0
	for b.Loop() {
		var failed atomic.Int64
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range each {
					if _, err := s.Insert(b.Context(), nil, &m); err != nil {
						failed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		require.Zero(b, failed.Load())
		n += callers * each
	}
	perSecond(b, n)
}

func BenchmarkEnqueueTx(b *testing.B) {
	s, db := migrated(b)
	m := bulk(1)[0]
	n := 0
	for b.Loop() {
		tx, err := db.BeginTx(b.Context(), nil)
		require.NoError(b, err)
		for range 100 {
			_, err = s.Insert(b.Context(), tx, &m)
			require.NoError(b, err)
			n++
		}
		require.NoError(b, tx.Commit())
	}
	perSecond(b, n)
}

// Claims of 1,000 and their settlement as successes, kept in the archive with
// their payload.
func BenchmarkDrain(b *testing.B) {
	const backlog, batch = 100_000, 1_000
	s, _ := migrated(b)
	worker := register(b, s)
	c := s.Cursor(store.CursorSpec{WorkerID: worker, Queue: "q", Timeout: time.Minute, Lease: time.Minute})
	ms := bulk(10_000)
	left, n := 0, 0
	number := int64(0)
	for b.Loop() {
		if left == 0 {
			b.StopTimer()
			for ; left < backlog; left += len(ms) {
				_, err := s.InsertMany(b.Context(), nil, ms)
				require.NoError(b, err)
			}
			b.StartTimer()
		}
		number++
		got, err := c.Claim(b.Context(), store.ClaimRequest{Number: number, Limit: batch})
		require.NoError(b, err)
		require.Len(b, got.Messages, batch)
		settlements := make([]store.Settlement, batch)
		for i, m := range got.Messages {
			settlements[i] = store.Settlement{ID: m.ID, Token: m.LeaseToken, Verb: store.Succeed, Elapsed: time.Millisecond}
		}
		results, err := s.Settle(b.Context(), worker, settlements, nil)
		require.NoError(b, err)
		for _, err := range results {
			require.NoError(b, err)
		}
		left -= batch
		n += batch
	}
	perSecond(b, n)
}
