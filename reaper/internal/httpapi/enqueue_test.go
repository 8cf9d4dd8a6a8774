package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnqueueAnswersWithTheMessage(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	payload := `{"to":"alice@example.com","n":12345678901234567890.10, "é":"\u2028<&>"}`
	a := s.send(t, s.request(t, http.MethodPost, "/queues/emails/messages", object{"payload": payload, "max_retries": 5}))
	require.Equal(t, http.StatusCreated, a.status, a.text)
	m := a.object(t)
	require.Equal(t, "/queues/emails/messages/"+string(m["id"].(json.Number)), a.header.Get("Location"))
	require.Equal(t, payload, m["payload"])
	require.Regexp(t, `^\{"id":\d+,"queue":"emails","payload":".*","status":"pending","retry_count":0,"max_retries":5,`+
		`"retry_after":null,"last_error":null,"created_at":"[-0-9T:.]+Z","updated_at":"[-0-9T:.]+Z","kind":"message",`, a.text)
	require.Equal(t, m, s.call(t, http.StatusOK, http.MethodGet, a.header.Get("Location"), nil))
}

func TestEnqueueRefusesWhatIsNotValid(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		body  string
		field string
		code  string
	}{
		{`{}`, "payload", "required"},
		{`{"payload":null}`, "payload", "required"},
		{`{"payload":""}`, "payload", "required"},
		{`{"payload":{}}`, "payload", "invalid"},
		{`{"payload":5}`, "payload", "invalid"},
		{`{"payload":"\u0000"}`, "payload", "encoding"},
		{`{"payload":"\ud800"}`, "payload", "encoding"},
		{`{"payload":"\ud800\u0041"}`, "payload", "encoding"},
		{`{"payload":"a","payload":"b"}`, "payload", "duplicate"},
		{`{"payload":"a","p\u0061yload":"b"}`, "payload", "duplicate"},
		{`{"payload":"a","Payload":"b"}`, "Payload", "unknown"},
		{`{"payload":"a","status":"dead"}`, "status", "unknown"},
		{`{"payload":"a","max_retries":0}`, "max_retries", "invalid"},
		{`{"payload":"a","max_retries":11}`, "max_retries", "invalid"},
		{`{"payload":"a","max_retries":-1}`, "max_retries", "invalid"},
		{`{"payload":"a","max_retries":"3"}`, "max_retries", "invalid"},
		{`{"payload":"a","max_retries":3.0}`, "max_retries", "invalid"},
		{`{"payload":"a","max_retries":3e0}`, "max_retries", "invalid"},
		{`{"payload":"a","max_retries":true}`, "max_retries", "invalid"},
		{`{"payload":"a","max_retries":99999999999999999999}`, "max_retries", "invalid"},
		{`{"payload":"a","kind":""}`, "kind", "required"},
		{`{"payload":"a","kind":"\n"}`, "kind", "encoding"},
		{`{"payload":"a","kind":"` + long + `"}`, "kind", "too_long"},
		{`{"payload":"a","priority":10}`, "priority", "invalid"},
		{`{"payload":"a","delay":-1}`, "delay", "invalid"},
		{`{"payload":"a","delay":1e999}`, "delay", "invalid"},
		{`{"payload":"a","delay":1e9}`, "delay", "out_of_range"},
		{`{"payload":"a","delay":1,"run_at":"2030-01-01T00:00:00Z"}`, "run_at", "invalid"},
		{`{"payload":"a","run_at":"tomorrow"}`, "run_at", "invalid"},
		{`{"payload":"a","run_at":"9999-01-01T00:00:00Z"}`, "run_at", "out_of_range"},
		{`{"payload":"a","processing_timeout":0}`, "processing_timeout", "out_of_range"},
		{`{"payload":"a","processing_timeout":1e7}`, "processing_timeout", "out_of_range"},
		{`{"payload":"a","expires_in":"1h"}`, "expires_in", "invalid"},
		{`{"payload":"a","idempotency_key":"` + long + `"}`, "idempotency_key", "too_long"},
		{`{"payload":"a","tenant":"` + long + `"}`, "tenant", "too_long"},
		{`{"payload":"a","headers":[]}`, "headers", "invalid"},
		{`{"payload":"a","headers":{"a":1}}`, "headers.a", "invalid"},
		{`{"payload":"a","headers":{"a":"1","a":"2"}}`, "headers.a", "duplicate"},
		{`{"payload":"a","headers":{"":"1"}}`, "headers", "invalid"},
		{`{"messages":[]}`, "messages", "required"},
		{`{"messages":null}`, "messages", "required"},
		{`{"messages":{}}`, "messages", "invalid"},
		{`{"messages":[1]}`, "messages[0]", "invalid"},
		{`{"messages":[{"payload":"a"}],"payload":"a"}`, "messages", "invalid"},
		{`{"messages":[{"payload":"a"},{}]}`, "messages[1].payload", "required"},
		{`{"messages":[{"payload":"a"},{"payload":"b","x":1}]}`, "messages[1].x", "unknown"},
		{`{"messages":[{"payload":"a"},{"payload":"b","kind":"\n"}]}`, "messages[1].kind", "encoding"},
	} {
		p := s.refused(t, http.StatusUnprocessableEntity, "validation-failed", http.MethodPost, "/queues/q/messages", c.body)
		errs := p["errors"].([]any)
		first := errs[0].(object)
		require.Equal(t, c.field, first["field"], "%s: %v", c.body, p)
		require.Equal(t, c.code, first["code"], "%s: %v", c.body, p)
	}
	require.Empty(t, s.call(t, http.StatusOK, http.MethodGet, "/messages", nil)["messages"], "nothing was stored")
}

// The words of the document.
func TestEnqueueRefusesMaxRetriesInTheWordsOfOld(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	p := s.refused(t, 422, "validation-failed", http.MethodPost, "/queues/q/messages", `{"payload":"a","max_retries":11}`)
	require.Equal(t, "Validation Failed", p["title"])
	require.Equal(t, []any{object{
		"field": "max_retries", "code": "invalid", "message": "max_retries must be between 1 and 10.",
	}}, p["errors"])
	require.EqualValues(t, "3", s.enqueue(t, "q", `{"payload":"a"}`)["max_retries"])
	require.EqualValues(t, "3", s.enqueue(t, "q", `{"payload":"a","max_retries":null}`)["max_retries"])
	require.EqualValues(t, "10", s.enqueue(t, "q", `{"payload":"a","max_retries":10}`)["max_retries"])
}

func TestEnqueueTakesAllThatThereIs(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	m := s.enqueue(t, "q", `{"payload":"a","kind":"mail","priority":-3,"delay":3600.5,"processing_timeout":1.5,
		"idempotency_key":"k","tenant":"t","correlation_id":"c","headers":{"a":"1"},"expires_in":60}`)
	require.Equal(t, "mail", m["kind"])
	require.EqualValues(t, "-3", m["priority"])
	require.NotNil(t, m["retry_after"])
	require.NotNil(t, m["expires_at"])
	require.EqualValues(t, "1.5", m["processing_timeout"])
	require.Equal(t, object{"a": "1"}, m["headers"])
	require.Equal(t, []any{"k", "t", "c"}, []any{m["idempotency_key"], m["tenant"], m["correlation_id"]})
}

func TestEnqueueManyStoresAllOrNone(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	body := `{"messages":[{"payload":"a"},{"payload":"b","idempotency_key":"k"},{"payload":"c"}]}`
	first := s.call(t, http.StatusCreated, http.MethodPost, "/queues/q/messages", body)
	require.EqualValues(t, "3", first["count"])
	second := first["messages"].([]any)[1].(object)

	p := s.refused(t, http.StatusConflict, "idempotency-key-held", http.MethodPost, "/queues/q/messages", body)
	require.EqualValues(t, "1", p["index"])
	require.Equal(t, second["id"], p["message_id"])
	other := strings.Replace(body, `"b"`, `"other"`, 1)
	p = s.refused(t, http.StatusUnprocessableEntity, "idempotency-key-reused", http.MethodPost, "/queues/q/messages", other)
	require.EqualValues(t, "1", p["index"])
	require.EqualValues(t, "3", s.call(t, http.StatusOK, http.MethodGet, "/queues/q/messages", nil)["count"], "all or none")
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	post := func(key, body string) answer {
		r := s.request(t, http.MethodPost, "/queues/q/messages", body)
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		return s.send(t, r)
	}
	first := post(`"a\"b"`, `{"payload":"x"}`)
	require.Equal(t, http.StatusCreated, first.status, first.text)
	require.Equal(t, `a"b`, first.object(t)["idempotency_key"])
	require.Empty(t, first.header.Get("Idempotency-Replayed"))

	for name, again := range map[string]answer{
		"quoted": post(`"a\"b"`, `{"payload":"x"}`),
		"bare":   post(`a"b`, `{"payload":"x"}`),
		"body":   post("", `{"payload":"x","idempotency_key":"a\"b"}`),
		"both":   post(`a"b`, `{"payload":"x","idempotency_key":"a\"b"}`),
		"more":   post(`a"b`, `{"payload":"x","priority":3}`),
	} {
		require.Equal(t, http.StatusOK, again.status, "%s: %s", name, again.text)
		require.Equal(t, "true", again.header.Get("Idempotency-Replayed"), name)
		require.Equal(t, first.header.Get("Location"), again.header.Get("Location"), name)
		require.Equal(t, first.object(t), again.object(t), name)
	}
	for body, sort := range map[string]string{
		`{"payload":"y"}`:                        "idempotency-key-reused",
		`{"payload":"x","kind":"other"}`:         "idempotency-key-reused",
		`{"payload":"x","idempotency_key":"no"}`: "validation-failed",
		`{"messages":[{"payload":"x"}]}`:         "validation-failed",
	} {
		a := post(`a"b`, body)
		require.Equal(t, http.StatusUnprocessableEntity, a.status, a.text)
		require.Equal(t, "urn:styx:problem:"+sort, a.object(t)["type"])
	}
	for _, key := range []string{`"`, `"a`, `"a"b"`, `"a\x"`, `""`, strings.Repeat("k", 256)} {
		a := post(key, `{"payload":"z"}`)
		require.Equal(t, http.StatusUnprocessableEntity, a.status, "%s: %s", key, a.text)
	}
}

func TestTraceContextTravelsIntoTheMessage(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	post := func(parent, body string) any {
		r := s.request(t, http.MethodPost, "/queues/q/messages", body)
		r.Header.Set("Traceparent", parent)
		r.Header.Add("Tracestate", "a=1")
		r.Header.Add("Tracestate", "b=2")
		return s.send(t, r).object(t)["headers"]
	}
	require.Equal(t, object{"traceparent": parent, "tracestate": "a=1,b=2"}, post(parent, `{"payload":"x"}`))
	require.Equal(t, object{"traceparent": parent, "tracestate": "a=1,b=2", "x": "y"}, post(parent, `{"payload":"x","headers":{"x":"y"}}`))
	own := strings.Replace(parent, "b7", "c8", 1)
	require.Equal(t, object{"traceparent": own}, post(parent, `{"payload":"x","headers":{"traceparent":"`+own+`"}}`))
	for _, bad := range []string{"", "x", strings.ToUpper(parent), parent + "-", "ff" + parent[2:], strings.Repeat("0", 55)} {
		require.Equal(t, object{}, post(bad, `{"payload":"x"}`), bad)
	}
}
