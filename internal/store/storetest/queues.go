package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// Claims of one worker from many queues may share a statement, which must
// change nothing for any of them.
var queuesProperties = []property{
	{"claims from many queues at once take each message once, as it is", queuesClaimed},
	{"what a dead worker held from many queues is rescued", queuesRescued},
	{"claims given up among others lose nothing", queuesGivenUp},
	{"a new priority beside others is seen at once", queuesPriorities},
}

const queuesAtOnce = 40

func queueName(i int) string { return fmt.Sprintf("queue %d", i) }

// crowd stores messages of every sort in many queues, and returns them.
func (f *fixture) crowd() map[int64]store.NewMessage {
	f.t.Helper()
	all := map[int64]store.NewMessage{}
	var postponed []int64
	for i := range queuesAtOnce {
		var ms []store.NewMessage
		for n := range 30 {
			m := filled(store.NewMessage{Queue: queueName(i), Kind: "k", Payload: fmt.Sprintf(`{"queue":%d,"n":%d}`, i, n)})
			switch n % 6 {
			case 1:
				m.Priority = n%5 - 2
			case 2:
				m.Headers = map[string]string{"traceparent": fmt.Sprint("t", i, n)}
			case 3:
				m.Headers, m.Tenant, m.Timeout = map[string]string{"a": "b", "c": "d"}, "acme", time.Minute
			case 4:
				m.Delay = time.Hour
			}
			ms = append(ms, m)
		}
		ins, err := f.Store.InsertMany(f.t.Context(), nil, ms)
		require.NoError(f.t, err)
		for n, id := range idsOf(ins) {
			all[id] = ms[n]
			if ms[n].Delay > 0 {
				postponed = append(postponed, id)
			}
		}
	}
	f.due(postponed...)
	return all
}

// claimAll claims from many queues at once, each with a cursor of its own,
// until nothing is left.
func (f *fixture) claimAll(w *worker, numbers *atomic.Int64) [][]store.Claimed {
	got, errs := make([][]store.Claimed, queuesAtOnce), make([]error, queuesAtOnce)
	at(queuesAtOnce, func(i int) {
		limit := 1 + i%12
		c := f.Store.Cursor(w.spec(queueName(i), "k"))
		for again := true; again && errs[i] == nil; {
			var b store.Batch
			b, errs[i] = c.Claim(f.t.Context(), store.ClaimRequest{Number: numbers.Add(1), Limit: limit, Suspect: true})
			if len(b.Messages) > limit {
				errs[i] = fmt.Errorf("%d messages for a limit of %d", len(b.Messages), limit)
			}
			got[i], again = append(got[i], b.Messages...), b.Again
		}
	})
	for _, err := range errs {
		require.NoError(f.t, err)
	}
	return got
}

func queuesClaimed(t *testing.T, f *fixture) {
	all := f.crowd()
	w, numbers := f.worker(), &atomic.Int64{}
	var ids []int64
	var batch []store.Settlement
	for i, got := range f.claimAll(w, numbers) {
		for _, m := range got {
			ids = append(ids, m.ID)
			batch = append(batch, succeed(m))
			want := all[m.ID]
			require.Equal(t, queueName(i), m.Queue)
			require.Equal(t, want.Queue, m.Queue)
			require.Equal(t, want.Payload, m.Payload)
			require.Equal(t, want.Kind, m.Kind)
			require.Equal(t, want.Priority, m.Priority)
			require.Equal(t, want.Headers, m.Headers)
			require.Equal(t, want.Tenant, m.Tenant)
			require.Equal(t, want.Timeout, m.Timeout)
			require.Equal(t, want.MaxRetries, m.MaxRetries)
			require.Equal(t, message.StatusProcessing, m.Status)
			require.Equal(t, w.id, m.WorkerID)
			require.EqualValues(t, 1, m.LeaseToken)
			require.Equal(t, 1, m.Attempt)
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(all)), sorted(ids))
	require.Zero(t, w.beat(store.Beat{Known: until(numbers), UpTo: numbers.Load()}).Orphans, "each knows its number")
	w.settle(batch...)
}

func until(numbers *atomic.Int64) []int64 {
	var all []int64
	for n := int64(1); n <= numbers.Load(); n++ {
		all = append(all, n)
	}
	return all
}

func queuesRescued(t *testing.T, f *fixture) {
	all := f.crowd()
	w := f.worker()
	f.claimAll(w, &atomic.Int64{})
	f.silence(w)
	require.Equal(t, slices.Sorted(maps.Keys(all)), rescuedIDs(f.rescue()))
}

func queuesGivenUp(t *testing.T, f *fixture) {
	all := f.crowd()
	w, numbers := f.worker(), &atomic.Int64{}
	known := make([][]int64, queuesAtOnce)
	got := make([][]int64, queuesAtOnce)
	at(queuesAtOnce, func(i int) {
		c := f.Store.Cursor(w.spec(queueName(i), "k"))
		for n := range 12 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*n%7)*time.Millisecond)
			number := numbers.Add(1)
			b, err := c.Claim(ctx, store.ClaimRequest{Number: number, Limit: 5})
			cancel()
			if err == nil {
				known[i] = append(known[i], number)
				got[i] = append(got[i], claimedIDs(b.Messages)...)
			}
		}
	})
	w.beat(store.Beat{Known: slices.Concat(known...), UpTo: numbers.Load()})
	ids := slices.Concat(got...)
	for _, rest := range f.claimAll(w, numbers) {
		ids = append(ids, claimedIDs(rest)...)
	}
	require.Equal(t, slices.Sorted(maps.Keys(all)), sorted(ids), "each was claimed, and known to be, once")
}

func queuesPriorities(t *testing.T, f *fixture) {
	w := f.worker()
	c := w.cursor("q")
	require.Empty(t, w.drain(c, 100, false))
	for _, priorities := range [][]int{{3, 5}, {-9, 9}, {-1, 0, 4, 6}, {-8, -7, -6, 7, 8}} {
		var want []int64
		for _, p := range priorities {
			want = append(want, f.put(store.NewMessage{Priority: p}))
		}
		c.Wake()
		require.ElementsMatch(t, want, claimedIDs(w.drain(c, 100, false)))
	}
}
