package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var traceProperties = []property{
	{"a replay leads back to the attempt that died", traceReplay},
	{"what the reaper moves has its headers", traceRescued},
}

func traceReplay(t *testing.T, f *fixture) {
	own := map[string]string{"mine": `a"b`}
	queues := []string{"bare", "own"}
	f.put(store.NewMessage{Queue: "bare", MaxRetries: 1})
	f.put(store.NewMessage{Queue: "own", MaxRetries: 1, Headers: own})
	w := f.worker()
	for _, parent := range []string{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-00",
		"2af7651916cd43dd8448eb211c80319c", // not known so well: the way back goes
		"",
	} {
		for i, queue := range queues {
			c := w.only(queue)
			id, s := c.ID, bury(c)
			s.Failure.TraceID = parent
			w.settle(s)
			traceID := parent
			if strings.HasPrefix(parent, "00-") {
				traceID = parent[3:35]
			}
			require.Equal(t, traceID, f.letter(id).TraceID)
			attempts := f.attempts(id)
			require.Equal(t, traceID, attempts[len(attempts)-1].TraceID)
			require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "ann"}))
			want := map[string]string{}
			if i == 1 {
				want["mine"] = own["mine"]
			}
			if strings.HasPrefix(parent, "00-") {
				want["styx-died-in"] = parent
			}
			got := f.get(id).Headers
			require.Len(t, got, len(want))
			for k, v := range want {
				require.Equal(t, v, got[k])
			}
		}
	}
}

func traceRescued(t *testing.T, f *fixture) {
	headers := map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	f.put(store.NewMessage{Headers: headers})
	f.put(store.NewMessage{MaxRetries: 1, Headers: headers})
	w := f.worker()
	w.take("q", 2)
	f.exec("UPDATE {{s}}workers SET beat_at = " + f.Engine.Ago(1000*time.Hour))
	_, err := f.Store.BuryWorkers(t.Context())
	require.NoError(t, err)
	rescued := f.rescue()
	require.Len(t, rescued, 2)
	for _, r := range rescued {
		require.Equal(t, headers, r.Headers)
	}
	id := f.put(store.NewMessage{Queue: "late", ExpiresIn: time.Hour, Headers: headers})
	f.exec("UPDATE {{s}}messages SET expires_at = "+f.Engine.Ago(time.Hour)+" WHERE id = ?", id)
	expired, err := f.Store.Expire(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, expired, 1)
	require.Equal(t, headers, expired[0].Headers)
	require.Equal(t, message.DecisionExpired, expired[0].Decision)
}
