package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// Every text comes back byte for byte, on every way: contribsys/faktory#395
// lost digits, kestra-io/kestra#10326 lost or refused escapes.
var textProperties = []property{
	{"payloads are kept byte for byte on every hop", textPayloads},
	{"a payload of 1 MiB", textLarge},
	{"headers are kept on every hop", textHeaders},
	{"names are told apart exactly", textNames},
	{"errors keep their text", textErrors},
}

var oddTexts = []string{
	`{"n":9223372036854775807,"m":9007199254740993,"big":123456789012345678901234567890}`,
	`{"b":1e400,"a":-0,"a":0.10,"c":1.0e+02}`,
	` { "spaces" : [ ] , "dup":1,"dup":2 } `,
	"line\r\nbreak\ttab \x01\x7f",
	"literal \\u0000 and \\\\u0000 and \\x00 and \\N and \\.",
	"lone surrogate escape \\ud800",
	"emoji 🦑🏳️‍🌈 ünï \u2028\u2029 \ufeff \ufffd",
	`quotes ' " ` + "`" + ` $1 $$ ? ?? ?0 ?TableName :a @b %s %% {{s}} {1,2} (NULL) NULL ;--/*`,
	`</script><script>alert(1)</script>`,
	`null`, `{}`, `{a,"b"}`, `"`, `\`, `'`, ` `, `0`, `NULL`,
}

func textPayloads(t *testing.T, f *fixture) {
	var ids []int64
	var many []store.NewMessage
	for _, text := range oddTexts {
		ids = append(ids, f.put(store.NewMessage{Payload: text}))
		many = append(many, filled(store.NewMessage{Payload: text}))
	}
	ins, err := f.Store.InsertMany(t.Context(), nil, many)
	require.NoError(t, err)
	ids = append(ids, idsOf(ins)...)
	want := func(hop string, id int64, got string) {
		t.Helper()
		for i := range ids {
			if ids[i] == id {
				require.Equal(t, oddTexts[i%len(oddTexts)], got, hop)
				return
			}
		}
		require.Fail(t, "unknown id", "%d at %s", id, hop)
	}
	for _, id := range ids {
		want("pending", id, f.get(id).Payload)
	}
	w := f.worker()
	got := w.take("q", len(ids))
	require.Len(t, got, len(ids))
	for i, c := range got {
		want("claimed", c.ID, c.Payload)
		if i%2 == 0 {
			w.settle(succeed(c))
			want("succeeded", c.ID, f.get(c.ID).Payload)
			continue
		}
		w.settle(bury(c))
		want("dead", c.ID, f.get(c.ID).Payload)
		want("letter", c.ID, f.letter(c.ID).Payload)
		require.NoError(t, f.Store.Replay(t.Context(), c.ID, store.Actor{Name: "a"}))
		want("replayed", c.ID, f.get(c.ID).Payload)
	}
	page, err := f.Store.List(t.Context(), store.ListQuery{Limit: 2 * len(ids)})
	require.NoError(t, err)
	require.Len(t, page.Messages, len(ids))
}

func textLarge(t *testing.T, f *fixture) {
	text := strings.Repeat(`{"ключ":"\u0000 🦑"},`, message.DefaultPayloadLimit/27)
	require.Greater(t, len(text), message.DefaultPayloadLimit*9/10)
	id := f.put(store.NewMessage{Payload: text})
	require.True(t, f.get(id).Payload == text)
	w := f.worker()
	c := w.only("q")
	require.True(t, c.Payload == text)
	w.settle(bury(c))
	require.True(t, f.letter(id).Payload == text)
	require.NoError(t, f.Store.Replay(t.Context(), id, store.Actor{Name: "a"}))
	w.settle(succeed(w.only("q")))
	require.True(t, f.get(id).Payload == text)
}

func textHeaders(t *testing.T, f *fixture) {
	headers := map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "": "empty name"}
	for i, text := range oddTexts {
		headers[fmt.Sprintf("h%d %s", i, text)] = text
	}
	one := f.put(store.NewMessage{Headers: headers})
	two := f.puts(1, store.NewMessage{Headers: headers})[0]
	w := f.worker()
	got := w.take("q", 2)
	require.Equal(t, []int64{one, two}, claimedIDs(got))
	require.Equal(t, headers, got[0].Headers)
	require.Equal(t, headers, got[1].Headers)
	w.settle(succeed(got[0]), bury(got[1]))
	require.Equal(t, headers, f.get(one).Headers)
	require.Equal(t, headers, f.letter(two).Headers)
	require.NoError(t, f.Store.Replay(t.Context(), two, store.Actor{Name: "a"}))
	require.Equal(t, headers, f.get(two).Headers)
	require.Equal(t, headers, w.only("q").Headers)
}

// pgmq/pgmq#114: names of some lengths or letters were cut, merged or refused.
func textNames(t *testing.T, f *fixture) {
	names := []string{
		" ", "A", "a", "a-b", "a.b", "a/b", "a?b#c", "..", "%2e", "q'; drop", "🦑", "é", "e\u0301", "all", "a ", "\\", `"`,
		"{}", "NULL", "_", "%", strings.Repeat("x", 63), strings.Repeat("x", 64), strings.Repeat("x", message.MaxNameLength),
	}
	want := make(map[string]int64)
	for _, name := range names {
		want[name] = f.put(store.NewMessage{
			Queue: name, Kind: name, Tenant: name, CorrelationID: name,
			IdempotencyKey: "same", Digest: "d", MaxRetries: 1,
		})
	}
	w := f.worker()
	for _, name := range names {
		page, err := f.Store.List(t.Context(), store.ListQuery{Queue: name, Kind: name, Tenant: name, CorrelationID: name, Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Messages, 1, "%q", name)
		got := w.drain(w.store.Cursor(w.spec(name, name)), 10, false)
		require.Equal(t, []int64{want[name]}, claimedIDs(got), "%q", name)
		w.settle(bury(got[0]))
		letters, err := f.Store.Letters(t.Context(), store.LetterQuery{Queue: name, Kind: name, Tenant: name, Limit: 10})
		require.NoError(t, err)
		require.Len(t, letters, 1, "%q", name)
		require.NoError(t, f.Store.Replay(t.Context(), want[name], store.Actor{Name: name, Reason: name}))
		require.Equal(t, name, f.letter(want[name]).ResolvedBy)
	}
}

func textErrors(t *testing.T, f *fixture) {
	w := f.worker()
	for _, text := range append(oddTexts, strings.Repeat("x", 64<<10)) {
		id := f.put(store.NewMessage{})
		s := retry(w.only("q"), 0)
		s.Failure.Message, s.Failure.Class, s.Failure.Stack = text, text, text
		w.settle(s)
		require.Equal(t, text, f.get(id).LastError)
		as := f.attempts(id)
		require.Len(t, as, 1)
		require.Equal(t, text, as[0].ErrorMessage)
		require.Equal(t, text, as[0].ErrorClass)
		require.Equal(t, text, as[0].Stack)

		s = bury(w.only("q"))
		s.Failure.Message, s.Failure.Class, s.Failure.Stack = text, text, text
		w.settle(s)
		l := f.letter(id)
		require.Equal(t, text, l.ErrorMessage)
		require.Equal(t, text, l.ErrorClass)
		require.Equal(t, text, l.Stack)
	}
}
