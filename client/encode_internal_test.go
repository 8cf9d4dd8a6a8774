package client

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
)

// The payloads of these tests.
type (
	table  map[string]string
	list   []int
	number int64
	hook   struct {
		Body json.RawMessage `json:"body"`
	}
	anything struct {
		V any `json:"v"`
	}
	node struct {
		Next *node
	}
	loud struct{ value any }
	// twin encodes itself as many programs do: by a type without methods.
	twin struct {
		Name   string
		hidden string
		self   *twin
	}
	bracket struct{ s string }
	mute    struct{}
	nested  struct{ Inner twin }
	ignored struct {
		Text   string
		Secret string `json:"-"`
	}
)

func (table) Kind() string    { return "table" }
func (list) Kind() string     { return "list" }
func (number) Kind() string   { return "number" }
func (hook) Kind() string     { return "hook" }
func (anything) Kind() string { return "anything" }
func (node) Kind() string     { return "node" }
func (loud) Kind() string     { return "loud" }
func (twin) Kind() string     { return "twin" }
func (nested) Kind() string   { return "nested" }
func (ignored) Kind() string  { return "ignored" }
func (m *mute) Kind() string  { panic("no kind") }

func (l loud) MarshalJSON() ([]byte, error) {
	if err, ok := l.value.(error); ok {
		return nil, err
	}
	panic(l.value)
}

func (t twin) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"name": t.Name, "hidden": t.hidden})
}

func (u bracket) MarshalText() ([]byte, error) { return []byte("(" + u.s + ")"), nil }

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

// Reported as kestra-io/kestra#10326 and contribsys/faktory#395.
func TestPayloadText(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	for title, test := range map[string]struct {
		payload Payload
		text    string
	}{
		"value":                {note{"a"}, `{"text":"a"}`},
		"pointer":              {&note{"a"}, `{"text":"a"}`},
		"no HTML escapes":      {note{"<a href='x'>&</a>"}, `{"text":"<a href='x'>&</a>"}`},
		"emoji":                {note{"🚀é"}, `{"text":"🚀é"}`},
		"NUL is escaped":       {note{"a\x00b"}, `{"text":"a\u0000b"}`},
		"six characters":       {note{`\u0000`}, `{"text":"\\u0000"}`},
		"escaped escape":       {note{`\\u0000`}, `{"text":"\\\\u0000"}`},
		"replacement char":     {note{"\ufffd"}, "{\"text\":\"\ufffd\"}"},
		"its six characters":   {note{`\ufffd`}, `{"text":"\\ufffd"}`},
		"nil map":              {table(nil), "null"},
		"empty map":            {table{}, "{}"},
		"nil slice":            {list(nil), "null"},
		"empty slice":          {list{}, "[]"},
		"nil raw JSON":         {hook{}, `{"body":null}`},
		"large integer":        {number(math.MaxInt64), "9223372036854775807"},
		"raw numbers":          {hook{json.RawMessage(`[9007199254740993,1e400,-0,0.1,12345678901234567890.50]`)}, `{"body":[9007199254740993,1e400,-0,0.1,12345678901234567890.50]}`},
		"json.Number":          {anything{json.Number("123456789012345678901234567890")}, `{"v":123456789012345678901234567890}`},
		"raw order of keys":    {hook{json.RawMessage(`{"b":1,"a":2}`)}, `{"body":{"b":1,"a":2}}`},
		"raw lone surrogate":   {hook{json.RawMessage(`"\ud800"`)}, `{"body":"\ud800"}`},
		"raw escape of U+FFFD": {hook{json.RawMessage(`"\ufffd"`)}, `{"body":"\ufffd"}`},
		"deep nesting":         {hook{json.RawMessage(deep)}, `{"body":` + deep + `}`},
		"raw payload":          {Raw{"raw", " <not JSON> \\ufffd"}, " <not JSON> \\ufffd"},
		"raw pointer":          {&Raw{"raw", "x"}, "x"},
		"hidden bad text":      {ignored{Text: `\ufffd`, Secret: "\xff"}, `{"Text":"\\ufffd"}`},
		"bytes are base64":     {anything{[]any{[]byte{0xff}, `\ufffd`}}, `{"v":["/w==","\\ufffd"]}`},
		"text marshaler":       {anything{[]any{bracket{"a"}, `\ufffd`}}, `{"v":["(a)","\\ufffd"]}`},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			c, f := fakeClient(t, Config{})
			m, err := c.Enqueue(t.Context(), test.payload, nil)
			require.NoError(t, err)
			require.Equal(t, test.text, f.inserted[0].Payload)
			require.Equal(t, test.text, m.Payload)
			require.Equal(t, test.payload.Kind(), m.Kind)
		})
	}
}

// Reported as kestra-io/kestra#10326 and uptrace/bun#206.
func TestPayloadIsRefused(t *testing.T) {
	t.Parallel()
	ring := &node{}
	ring.Next = ring
	snake := &twin{Name: "\xff"}
	snake.self = snake
	for title, test := range map[string]struct {
		payload Payload
		code    string
	}{
		"nil":                     {nil, message.CodeRequired},
		"nil pointer":             {(*note)(nil), message.CodeRequired},
		"nil raw":                 {(*Raw)(nil), message.CodeRequired},
		"empty raw":               {Raw{Name: "k"}, message.CodeRequired},
		"bad text":                {note{"\xff\xfe"}, message.CodeEncoding},
		"half a character":        {note{"é"[:1]}, message.CodeEncoding},
		"encoded surrogate":       {note{"\xed\xa0\x80"}, message.CodeEncoding},
		"bad map key":             {table{"\xff": ""}, message.CodeEncoding},
		"bad text far inside":     {anything{[]any{map[string]any{"k": []*note{nil, {"\xff"}}}}}, message.CodeEncoding},
		"bad text in an array":    {anything{[1]string{"\xff"}}, message.CodeEncoding},
		"bad text by MarshalJSON": {twin{hidden: "\xff"}, message.CodeEncoding},
		"the same, nested":        {nested{twin{hidden: "\xff"}}, message.CodeEncoding},
		"the same, in a ring":     {snake, message.CodeEncoding},
		"bad text by MarshalText": {anything{bracket{"\xff"}}, message.CodeEncoding},
		"bad raw JSON":            {hook{json.RawMessage(`{`)}, message.CodeInvalid},
		"empty raw JSON":          {hook{json.RawMessage("")}, message.CodeInvalid},
		"raw JSON of bad UTF-8":   {hook{json.RawMessage("\"\xff\"")}, message.CodeEncoding},
		"endless":                 {ring, message.CodeInvalid},
		"not a number":            {anything{math.NaN()}, message.CodeInvalid},
		"a channel":               {anything{make(chan int)}, message.CodeInvalid},
		"error of MarshalJSON":    {loud{errBroken}, message.CodeInvalid},
		"panic of MarshalJSON":    {loud{"boom"}, message.CodeInvalid},
		"panic of Kind":           {&mute{}, message.CodeInvalid},
		"too large":               {note{strings.Repeat("x", message.DefaultPayloadLimit)}, message.CodeTooLong},
		"raw too large":           {Raw{"k", strings.Repeat("x", message.DefaultPayloadLimit+1)}, message.CodeTooLong},
		"raw NUL":                 {Raw{"k", "a\x00"}, message.CodeEncoding},
		"raw bad UTF-8":           {Raw{"k", "\xc0\x80"}, message.CodeEncoding},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			c, f := fakeClient(t, Config{})
			_, err := c.Enqueue(t.Context(), test.payload, nil)
			requireInvalid(t, err, "payload", test.code)
			_, err = c.EnqueueMany(t.Context(), []Item{{Payload: note{}}, {Payload: test.payload}})
			requireInvalid(t, err, "messages[1].payload", test.code)
			require.ErrorContains(t, err, "messages[1].payload")
			require.Zero(t, f.calls)
		})
	}
}

func TestEncodingErrorKeepsItsCause(t *testing.T) {
	t.Parallel()
	c, _ := fakeClient(t, Config{})
	_, err := c.Enqueue(t.Context(), loud{errBroken}, nil)
	require.ErrorIs(t, err, errBroken)
	_, err = c.Enqueue(t.Context(), hook{json.RawMessage("{")}, nil)
	var syntax *json.MarshalerError
	require.ErrorAs(t, err, &syntax)
}

func TestBatchGoesOnAfterLargePayload(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{})
	big := strings.Repeat("x", 1000)
	_, err := c.EnqueueMany(t.Context(), []Item{{Payload: note{big}}, {Payload: note{"b"}}, {Payload: number(7)}})
	require.NoError(t, err)
	require.Equal(t, `{"text":"`+big+`"}`, f.inserted[0].Payload, "the buffer is shared, the texts are not")
	require.JSONEq(t, `{"text":"b"}`, f.inserted[1].Payload)
	require.Equal(t, "7", f.inserted[2].Payload)
}

type welcome struct {
	To string `json:"to"`
}

func (welcome) Kind() string { return "welcome" }

func (w welcome) EnqueueDefaults() message.EnqueueOptions {
	return message.EnqueueOptions{Queue: "mail", MaxRetries: 7, CorrelationID: w.To, Headers: map[string]string{"a": "type", "b": "type"}}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{Defaults: EnqueueOptions{
		Queue: "ours", MaxRetries: 9, Priority: 3, Tenant: "acme",
		Headers: map[string]string{"b": "client", "c": "client"},
	}})
	_, err := c.Enqueue(t.Context(), welcome{"x"}, &EnqueueOptions{MaxRetries: 2, Headers: map[string]string{"a": "call"}})
	require.NoError(t, err)
	got := f.inserted[0]
	require.Equal(t, "mail", got.Queue)
	require.Equal(t, 2, got.MaxRetries)
	require.Equal(t, 3, got.Priority)
	require.Equal(t, "acme", got.Tenant)
	require.Equal(t, "x", got.CorrelationID, "the method sees the value")
	require.Equal(t, map[string]string{"a": "call", "b": "type", "c": "client"}, got.Headers)

	c, f = fakeClient(t, Config{})
	m, err := c.Enqueue(t.Context(), note{}, nil)
	require.NoError(t, err)
	require.Equal(t, message.DefaultQueue, f.inserted[0].Queue)
	require.Equal(t, message.DefaultMaxRetries, f.inserted[0].MaxRetries)
	require.Equal(t, message.Message{
		ID: 1, Queue: "default", Kind: "note", Payload: `{"text":""}`, Status: message.StatusPending,
		Attempt: 1, MaxRetries: 5, CreatedAt: fakeNow, UpdatedAt: fakeNow,
	}, *m)
}

func TestStoredMessage(t *testing.T) {
	t.Parallel()
	c, _ := fakeClient(t, Config{})
	m, err := c.Enqueue(t.Context(), note{"a"}, &EnqueueOptions{
		Queue: "q", Delay: time.Minute, ExpiresIn: hour, Priority: -1, Timeout: time.Second,
		IdempotencyKey: "k", Tenant: "t", CorrelationID: "c",
	})
	require.NoError(t, err)
	require.Equal(t, fakeNow.Add(time.Minute), m.RetryAfter)
	require.Equal(t, fakeNow.Add(time.Minute+hour), m.ExpiresAt, "counted from when it is due")
	require.Equal(t, "k", m.IdempotencyKey)
	require.Equal(t, -1, m.Priority)
}

// Reported as hibiken/asynq#505.
func TestDigest(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{IdempotencyWindow: hour})
	enqueue := func(kind, payload, key string) (digest string) {
		_, err := c.EnqueueRaw(t.Context(), kind, payload, &EnqueueOptions{IdempotencyKey: key})
		require.NoError(t, err)
		last := f.inserted[len(f.inserted)-1]
		if key != "" {
			require.Equal(t, hour, last.KeyWindow)
		}
		return last.Digest
	}
	// printf 'k\0p' | sha256sum | cut -c1-32
	require.Equal(t, "9470f8ad5825492910ac18c01e98b73f", enqueue("k", "p", "1"))
	require.Equal(t, enqueue("k", "p", "1"), enqueue("k", "p", "2"))
	require.NotEqual(t, enqueue("k", "p", "1"), enqueue("kp", "p", "1"))
	require.Empty(t, enqueue("k", "p", ""))

	// Nor has a trace a part in it, which is another one for every call.
	traced := func(trace string) string {
		_, err := c.EnqueueRaw(t.Context(), "k", "p", &EnqueueOptions{
			IdempotencyKey: "1", CorrelationID: trace, Headers: map[string]string{"traceparent": trace},
		})
		require.NoError(t, err)
		return f.inserted[len(f.inserted)-1].Digest
	}
	require.Equal(t, traced("one"), traced("another"))
}

func TestNegativeWindowIsNone(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{IdempotencyWindow: -1})
	_, err := c.Enqueue(t.Context(), note{}, &EnqueueOptions{IdempotencyKey: "k"})
	require.NoError(t, err)
	require.Zero(t, f.inserted[0].KeyWindow)
}

func TestPayloadErrorText(t *testing.T) {
	t.Parallel()
	err := error(&payloadError{invalidPayload(message.CodeInvalid, "payload must be encodable as JSON."), errBroken})
	require.Equal(t, "message: invalid payload: payload must be encodable as JSON: broken", err.Error())
	require.ErrorIs(t, err, errBroken)
	require.False(t, bytes.ContainsAny([]byte(err.Error()), "\n"))
}
