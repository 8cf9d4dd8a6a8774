package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb"
)

// TestDeadLetterQueueHowTo walks the how-to that the seven routes come from,
// from its first line to its last.
func TestDeadLetterQueueHowTo(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		s := serve(t, db, nil)
		t.Run("enqueuing a message", func(t *testing.T) { howToEnqueue(t, s) })
		t.Run("claiming the next pending message", func(t *testing.T) { howToClaim(t, s) })
		t.Run("failure handling and backoff schedule", func(t *testing.T) { howToFail(t, s) })
		t.Run("replaying dead messages", func(t *testing.T) { howToReplay(t, s) })
		t.Run("multiple named queues", func(t *testing.T) { howToQueues(t, s) })
		t.Run("schema", func(t *testing.T) { howToSchema(t, s) })
		t.Run("worker pattern", func(t *testing.T) { howToWorker(t, s) })
	})
}

func howToEnqueue(t *testing.T, s *server) {
	t.Helper()
	const payload = `{"to":"alice@example.com","subject":"Welcome"}`
	m := s.enqueue(t, "emails", object{"payload": payload, "max_retries": 5})
	require.Equal(t, []any{"emails", payload, "pending", json.Number("5")}, []any{m["queue"], m["payload"], m["status"], m["max_retries"]})
	require.EqualValues(t, "3", s.enqueue(t, "emails", object{"payload": payload})["max_retries"], "optional, default 3")
	for _, n := range []any{0, 11, -1, "5", 2.5} {
		p := s.refused(t, 422, "validation-failed", http.MethodPost, "/queues/emails/messages", object{"payload": payload, "max_retries": n})
		require.Equal(t, "Validation Failed", p["title"])
		require.Equal(t, []any{object{
			"field": "max_retries", "code": "invalid", "message": "max_retries must be between 1 and 10.",
		}}, p["errors"])
	}
	s.refused(t, 422, "validation-failed", http.MethodPost, "/queues/emails/messages", object{"max_retries": 5})

	list := s.call(t, 200, http.MethodGet, "/queues/emails/messages", nil)
	require.EqualValues(t, "2", list["count"])
	require.Equal(t, m, list["messages"].([]any)[0])
	require.Equal(t, m, s.call(t, 200, http.MethodGet, path(m, ""), nil))
	s.refused(t, 404, "not-found", http.MethodGet, strings.Replace(path(m, ""), "emails", "webhooks", 1), nil)
}

// claim wants a message.
func (s *server) claim(t *testing.T, queue string) object {
	t.Helper()
	c := s.call(t, 200, http.MethodPost, "/queues/"+queue+"/claim", nil)
	require.Equal(t, true, c["claimed"], c)
	return c["message"].(object)
}

func howToClaim(t *testing.T, s *server) {
	t.Helper()
	first, second := s.claim(t, "emails"), s.claim(t, "emails")
	require.Equal(t, "processing", first["status"])
	require.Less(t, number(t, first["id"]), number(t, second["id"]), "first in, first out")
	none := object{"claimed": false, "message": nil}
	require.Equal(t, none, s.call(t, 200, http.MethodPost, "/queues/emails/claim", nil))
	require.Equal(t, none, s.call(t, 200, http.MethodPost, "/queues/never-seen/claim", nil))

	done := s.call(t, 200, http.MethodPost, path(first, "succeed"), nil)
	require.Equal(t, "succeeded", done["status"])
	for _, verb := range []string{"succeed", "fail", "replay"} {
		p := s.refused(t, 409, "conflict-state", http.MethodPost, path(first, verb), nil)
		require.Equal(t, "succeeded", p["current_status"])
	}
}

func howToFail(t *testing.T, s *server) {
	t.Helper()
	m := s.enqueue(t, "backoff", object{"payload": "x", "max_retries": 5})
	p := s.refused(t, 409, "conflict-state", http.MethodPost, path(m, "fail"), object{"error": "too soon"})
	require.Equal(t, "pending", p["current_status"])
	for failure, want := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second} {
		s.claim(t, "backoff")
		failed := s.call(t, 200, http.MethodPost, path(m, "fail"), object{"error": "try " + strconv.Itoa(failure)})
		require.Equal(t, "pending", failed["status"])
		require.EqualValues(t, strconv.Itoa(failure+1), failed["retry_count"])
		require.Equal(t, "try "+strconv.Itoa(failure), failed["last_error"])
		require.InDelta(t, want.Seconds(), span(t, failed["updated_at"], failed["retry_after"]).Seconds(), 0.01)
		require.Equal(t, false, s.call(t, 200, http.MethodPost, "/queues/backoff/claim", nil)["claimed"], "it waits until retry_after")
		s.makeDue(t, m)
	}
	s.claim(t, "backoff")
	dead := s.call(t, 200, http.MethodPost, path(m, "fail"), nil)
	require.Equal(t, "dead", dead["status"])
	require.EqualValues(t, "5", dead["retry_count"])
	require.Equal(t, "unspecified error", dead["last_error"])
	require.EqualValues(t, "1", s.call(t, 200, http.MethodGet, "/queues/backoff/messages?status=dead", nil)["count"])
}

func howToReplay(t *testing.T, s *server) {
	t.Helper()
	dead := s.call(t, 200, http.MethodGet, "/queues/backoff/messages?status=dead", nil)["messages"].([]any)[0].(object)
	again := s.call(t, 200, http.MethodPost, path(dead, "replay"), nil)
	require.Equal(t, "pending", again["status"])
	require.EqualValues(t, "0", again["retry_count"])
	require.Nil(t, again["last_error"])
	require.Nil(t, again["retry_after"])
	require.EqualValues(t, "5", again["max_retries"])
	require.Equal(t, dead["payload"], again["payload"])
	p := s.refused(t, 409, "conflict-state", http.MethodPost, path(dead, "replay"), nil)
	require.Equal(t, "pending", p["current_status"])
	s.refused(t, 404, "not-found", http.MethodPost, "/queues/backoff/messages/999999/replay", nil)
	require.Equal(t, dead["id"], s.claim(t, "backoff")["id"])
	require.Equal(t, "succeeded", s.call(t, 200, http.MethodPost, path(dead, "succeed"), nil)["status"])
}

func howToQueues(t *testing.T, s *server) {
	t.Helper()
	for _, queue := range []string{"notifications", "webhooks"} {
		s.enqueue(t, queue, object{"payload": queue})
	}
	require.Equal(t, "webhooks", s.claim(t, "webhooks")["payload"], "each queue is isolated")
	require.Equal(t, "notifications", s.claim(t, "notifications")["payload"])
}

func howToSchema(t *testing.T, s *server) {
	t.Helper()
	m := s.enqueue(t, "schema", object{"payload": "not JSON at all"})
	require.Equal(t, "not JSON at all", m["payload"], "opaque")
	require.Nil(t, m["retry_after"])
	require.Nil(t, m["last_error"])
	text := s.send(t, s.request(t, http.MethodGet, path(m, ""), nil)).text
	var at []int
	for _, key := range []string{
		"id", "queue", "payload", "status", "retry_count", "max_retries", "retry_after", "last_error", "created_at", "updated_at",
	} {
		at = append(at, strings.Index(text, `"`+key+`":`))
	}
	require.True(t, slices.IsSorted(at) && at[0] == 1, "the ten keys first, in their order: %s", text)
	for _, key := range []string{"created_at", "updated_at"} {
		_, err := time.Parse(time.RFC3339, m[key].(string))
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(m[key].(string), "Z"))
	}
}

func howToWorker(t *testing.T, s *server) {
	t.Helper()
	for range 3 {
		s.enqueue(t, "work", object{"payload": `{"to":"x"}`, "max_retries": 1})
	}
	outcomes := map[string]int{}
	for {
		c := s.call(t, 200, http.MethodPost, "/queues/work/claim", nil)
		if c["claimed"] == false {
			break
		}
		m := c["message"].(object)
		verb, body := "succeed", any(nil)
		if len(outcomes) == 0 {
			verb, body = "fail", object{"error": "boom"}
		}
		outcomes[s.call(t, 200, http.MethodPost, path(m, verb), body)["status"].(string)]++
	}
	require.Equal(t, map[string]int{"dead": 1, "succeeded": 2}, outcomes)
}

// span is the time between two of an answer's times.
func span(t *testing.T, from, to any) time.Duration {
	t.Helper()
	a, err := time.Parse(time.RFC3339, from.(string))
	require.NoError(t, err)
	b, err := time.Parse(time.RFC3339, to.(string))
	require.NoError(t, err)
	return b.Sub(a)
}
