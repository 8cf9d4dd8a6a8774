package storetest

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

var traceProperties = []property{
	{"a replay leads back to the attempt that died", traceReplay},
	{"what the reaper moves has its headers", traceRescued},
	{"a trace context is kept on every way", traceHops},
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
		require.Equal(t, headers, f.get(r.ID).Headers)
	}
	id := f.put(store.NewMessage{Queue: "late", ExpiresIn: time.Hour, Headers: headers})
	f.exec("UPDATE {{s}}messages SET expires_at = "+f.Engine.Ago(time.Hour)+" WHERE id = ?", id)
	expired, err := f.Store.Expire(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, expired, 1)
	require.Equal(t, headers, expired[0].Headers)
	require.Equal(t, headers, f.letter(id).Headers)
	require.Equal(t, message.DecisionExpired, expired[0].Decision)
}

// tracedHeaders are all that may be stored in a way of its own, and what looks
// like it.
func tracedHeaders() []map[string]string {
	const usual = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	all := []map[string]string{
		nil,
		{"traceparent": usual},
		{"traceparent": usual},
		{"traceparent": "00-00000000000000000000000000000000-0000000000000000-00"},
		{"traceparent": "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-ff"},
		{"traceparent": usual, "tracestate": "a=1,b=2", "mine": `a"b\c`},
		{"tracestate": "a=1"},
		{"Traceparent": usual},
	}
	for _, text := range []string{
		"", "-", "nonsense", `a"b\c`, usual + "-", usual + "-more", usual[:54], " " + usual[:54],
		strings.ToUpper(usual), "01" + usual[2:], strings.Replace(usual, "a", "g", 1), strings.Replace(usual, "a", "A", 1),
		strings.ReplaceAll(usual, "-", "_"), usual[:35] + "0" + usual[36:], usual[:52] + "0" + usual[53:], strings.Repeat("-", 55),
		"00-" + strings.Repeat("é", 26), strings.Repeat("0", 25),
	} {
		all = append(all, map[string]string{"traceparent": text}, map[string]string{"traceparent": text, "mine": "x"})
	}
	return all
}

// wantHeaders checks the headers of all messages wherever they can be read.
func (f *fixture) wantHeaders(want map[int64]map[string]string) {
	f.t.Helper()
	dead := 0
	page, err := f.Store.List(f.t.Context(), store.ListQuery{Limit: len(want) + 1})
	require.NoError(f.t, err)
	require.Len(f.t, page.Messages, len(want))
	for i, m := range page.Messages {
		require.Equal(f.t, want[m.ID], m.Headers, "listed %d", m.ID)
		if i%50 == 0 {
			require.Equal(f.t, want[m.ID], f.get(m.ID).Headers)
		}
		if m.Status == message.StatusDead {
			dead++
		}
	}
	letters, err := f.Store.Letters(f.t.Context(), store.LetterQuery{Limit: len(want) + 1})
	require.NoError(f.t, err)
	require.Len(f.t, letters, dead)
	for _, l := range letters {
		require.Equal(f.t, want[l.ID], l.Headers, "letter of %d", l.ID)
	}
	rows, err := f.DB.QueryContext(f.t.Context(), f.text("SELECT id, headers FROM {{s}}all_messages"))
	require.NoError(f.t, err)
	defer func() { require.NoError(f.t, rows.Close()) }()
	seen := 0
	for ; rows.Next(); seen++ {
		var id int64
		var text sql.NullString
		require.NoError(f.t, rows.Scan(&id, &text))
		var got map[string]string
		if text.Valid {
			require.NoError(f.t, json.Unmarshal([]byte(text.String), &got))
		}
		require.Equal(f.t, want[id], got, "in the view: %d", id)
	}
	require.NoError(f.t, rows.Err())
	require.Equal(f.t, len(want), seen)
}

// tracedMessages stores messages with such headers in every way.
func (f *fixture) tracedMessages() map[int64]map[string]string {
	f.t.Helper()
	want := map[int64]map[string]string{}
	cases := tracedHeaders()
	batch := func(n, step int, m store.NewMessage) []store.NewMessage {
		ms := copies(n, m)
		for i := range ms {
			ms[i].Headers = maps.Clone(cases[(1+i*step)%len(cases)])
			if m.IdempotencyKey != "" {
				ms[i].IdempotencyKey = fmt.Sprint(m.IdempotencyKey, " ", i)
			}
		}
		return ms
	}
	keyed := store.NewMessage{IdempotencyKey: "k", Digest: "d", KeyWindow: time.Hour}
	ways := [][]store.NewMessage{
		batch(3, 0, store.NewMessage{}), batch(3, 1, store.NewMessage{}), batch(len(cases), 1, store.NewMessage{ExpiresIn: time.Hour}),
		batch(600, 0, store.NewMessage{}), batch(600, 1, store.NewMessage{}),
	}
	for i, n := range []int{len(cases), 600} {
		keyed.IdempotencyKey = fmt.Sprint("many ", i)
		ways = append(ways, batch(n, 1, keyed))
	}
	put := func(on bun.IConn, ms []store.NewMessage) {
		ins, err := f.Store.InsertMany(f.t.Context(), on, ms)
		require.NoError(f.t, err)
		for i := range ms {
			want[ins[i].ID] = ms[i].Headers
		}
	}
	for _, ms := range ways {
		put(nil, ms)
	}
	tx, err := f.DB.BeginTx(f.t.Context(), nil)
	require.NoError(f.t, err)
	defer func() { _ = tx.Rollback() }()
	put(tx, ways[0])
	put(tx, ways[1])
	for i := range cases {
		for _, m := range []store.NewMessage{{}, {Delay: -1, ExpiresIn: time.Hour}, {IdempotencyKey: fmt.Sprint("in ", i), KeyWindow: time.Hour}} {
			m = filled(m)
			m.Headers = maps.Clone(cases[i])
			in, err := f.Store.Insert(f.t.Context(), tx, &m)
			require.NoError(f.t, err)
			want[in.ID] = m.Headers
		}
	}
	require.NoError(f.t, tx.Commit())
	for i := range cases {
		for _, m := range []store.NewMessage{{}, {IdempotencyKey: fmt.Sprint("one ", i), KeyWindow: time.Hour}} {
			m.Headers = maps.Clone(cases[i])
			want[f.put(m)] = m.Headers
		}
	}
	f.putTogether(cases, want)
	return want
}

// putTogether stores messages one by one at the same time.
func (f *fixture) putTogether(cases []map[string]string, want map[int64]map[string]string) {
	f.t.Helper()
	for _, alike := range []bool{true, false} {
		var wg sync.WaitGroup
		ids, errs := make([]int64, 60), make([]error, 60)
		of := func(i int) map[string]string {
			if alike {
				return cases[i%5]
			}
			return cases[i%len(cases)]
		}
		for i := range ids {
			wg.Go(func() {
				m := filled(store.NewMessage{Headers: maps.Clone(of(i))})
				in, err := f.Store.Insert(f.t.Context(), nil, &m)
				ids[i], errs[i] = in.ID, err
			})
		}
		wg.Wait()
		for i, id := range ids {
			require.NoError(f.t, errs[i])
			want[id] = of(i)
		}
	}
}

func traceHops(t *testing.T, f *fixture) {
	want := f.tracedMessages()
	f.wantHeaders(want)

	lent := f.lend(20)
	require.Len(t, lent, 20)
	for i, m := range lent {
		require.Equal(t, want[m.ID], m.Headers, "lent %d", m.ID)
		if i%2 == 0 {
			f.told(remotely(m, store.Succeed))
		} else {
			f.told(remotely(m, store.Bury))
		}
	}
	w := f.worker()
	got := w.take("q", len(want))
	require.Len(t, got, len(want)-len(lent))
	outcomes := make([]store.Settlement, 0, len(got))
	var dead []int64
	for i, c := range got {
		require.Equal(t, want[c.ID], c.Headers, "claimed %d", c.ID)
		switch {
		case i%20 == 0:
			outcomes, dead = append(outcomes, bury(c)), append(dead, c.ID)
		case i%5 == 1:
			outcomes = append(outcomes, retry(c, 0))
		case i%5 != 2: // which the worker keeps
			outcomes = append(outcomes, succeed(c))
		}
	}
	w.settle(outcomes...)
	f.wantHeaders(want)

	f.silence(w)
	rescued := f.rescue()
	require.Len(t, rescued, len(want)-len(lent)-len(outcomes))
	for _, r := range rescued {
		require.Equal(t, want[r.ID], r.Headers, "rescued %d", r.ID)
	}
	for _, id := range dead {
		require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "ann"}))
	}
	f.wantHeaders(want)
	for _, c := range w.takeAny("q", len(rescued)) {
		require.Equal(t, want[c.ID], c.Headers, "claimed again: %d", c.ID)
	}
	for i := range tracedHeaders() {
		id := f.put(store.NewMessage{Headers: tracedHeaders()[i]})
		require.NoError(t, f.Store.Cancel(t.Context(), id, store.Actor{Name: "ann"}))
		require.Equal(t, tracedHeaders()[i], f.letter(id).Headers)
	}
}
