package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper/internal/httpapi"
)

// bury stores a message and lets it die.
func (s *server) bury(t *testing.T, queue string, body any) object {
	t.Helper()
	m := s.enqueue(t, queue, body)
	require.Equal(t, m["id"], s.claim(t, queue)["id"])
	dead := s.call(t, 200, http.MethodPost, path(m, "fail"), `{"error":"boom 17","failure_kind":"permanent"}`)
	require.Equal(t, "dead", dead["status"])
	return dead
}

func TestAPausedQueueIsNotClaimedFrom(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		s := serve(t, db, nil)
		s.enqueue(t, "q", `{"payload":"x"}`)
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		q := s.call(t, 200, http.MethodPost, "/queues/q/pause", object{"reason": "deploy", "until": until})
		require.Equal(t, true, q["paused"])
		pause := q["pause"].(object)
		require.Equal(t, []any{"anonymous", "deploy", until.Format(time.RFC3339)}, []any{pause["actor"], pause["reason"], pause["until"]})
		require.Eventually(t, func() bool { // the rule is read anew within about a second
			c := s.call(t, 200, http.MethodPost, "/queues/q/claim", nil)
			if m, ok := c["message"].(object); ok {
				s.call(t, 200, http.MethodPost, path(m, "release"), nil)
			}
			return c["claimed"] == false
		}, patience, 10*time.Millisecond)

		require.Equal(t, false, s.call(t, 200, http.MethodPost, "/queues/q/resume", `{"reason":"done"}`)["paused"])
		require.Eventually(t, func() bool {
			return s.call(t, 200, http.MethodPost, "/queues/q/claim", nil)["claimed"] == true
		}, patience, 10*time.Millisecond)
		queues := s.call(t, 200, http.MethodGet, "/queues", nil)["queues"].([]any)
		require.Len(t, queues, 1)
		require.EqualValues(t, "1", queues[0].(object)["processing"])

		for body, field := range map[string]string{
			`{"until":"x"}`: "until", `{"for":-1}`: "for", `{"for":1e9}`: "for", `{"for":1,"until":"2027-01-01T00:00:00Z"}`: "until", `{"actor":"me"}`: "actor",
		} {
			require.Equal(t, []string{field}, fields(s.refused(t, 422, "validation-failed", http.MethodPost, "/queues/q/pause", body)), body)
		}
	})
}

func TestDeadLettersAreDecidedAndAudited(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		s := serve(t, db, nil)
		first, second := s.bury(t, "q", `{"payload":"a"}`), s.bury(t, "q", `{"payload":"b"}`)
		letters := s.call(t, 200, http.MethodGet, "/dead-letters?queue=q&decision=poison&limit=1", nil)
		require.EqualValues(t, "1", letters["count"])
		require.Equal(t, second["id"], letters["dead_letters"].([]any)[0].(object)["id"], "the newest first")
		more := s.call(t, 200, http.MethodGet, "/dead-letters?queue=q&decision=poison&cursor="+letters["next_cursor"].(string), nil)
		require.Equal(t, first["id"], more["dead_letters"].([]any)[0].(object)["id"])
		require.Nil(t, more["next_cursor"])

		letter := s.call(t, 200, http.MethodGet, path(first, "dead-letter"), nil)
		require.Equal(t, "poison", letter["decision"])
		require.Len(t, letter["attempts"], 1)
		s.refused(t, 404, "not-found", http.MethodGet, "/queues/other/messages/1/dead-letter", nil)
		require.Equal(t, "pending", s.call(t, 200, http.MethodPost, path(first, "replay"), `{"reason":"fixed"}`)["status"])

		r := s.request(t, http.MethodPost, path(second, "resolve"), nil)
		r.Header.Set("X-Reason", "by hand")
		require.Equal(t, http.StatusOK, s.send(t, r).status)
		s.refused(t, 409, "conflict-state", http.MethodPost, path(second, "resolve"), nil)
		third := s.enqueue(t, "q", `{"payload":"c"}`)
		s.call(t, 200, http.MethodPost, path(third, "cancel"), nil)
		s.refused(t, 409, "conflict-state", http.MethodPost, path(third, "cancel"), nil)
		require.EqualValues(t, "3", s.call(t, 200, http.MethodGet, "/dead-letters?resolved=true", nil)["count"])
		require.EqualValues(t, "3", s.call(t, 200, http.MethodPost, "/dead-letters/purge", `{"queue":"q","resolved":true,"reason":"old"}`)["purged"])

		var actions []any
		for _, e := range s.call(t, 200, http.MethodGet, "/audit?queue=q", nil)["entries"].([]any) {
			e := e.(object)
			require.Equal(t, "anonymous", e["actor"])
			require.Equal(t, "127.0.0.1", e["origin"])
			actions = append(actions, e["action"], e["reason"])
		}
		require.Equal(t, []any{"purge", "old", "cancel", nil, "resolve", "by hand", "replay", "fixed"}, actions)
		require.EqualValues(t, "1", s.call(t, 200, http.MethodGet, "/audit?message_id=1", nil)["count"])
	})
}

func TestPurgeRefusesWhatIsNotValid(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	for body, field := range map[string]string{
		`{}`: "all", `{"all":1}`: "all", `{"all":true,"queue":"q"}`: "all", `{"queue":""}`: "queue", `{"older_than":0}`: "older_than",
		`{"message_id":1,"all":true}`: "message_id", `{"message_id":0}`: "message_id", `{"resolved":true}`: "all",
	} {
		p := s.refused(t, 422, "validation-failed", http.MethodPost, "/dead-letters/purge", body)
		require.Equal(t, []string{field}, fields(p), body)
	}
	for query, field := range map[string]string{
		"?decision=odd": "decision", "?resolved=1": "resolved", "?cursor=x": "cursor", "?queue=%00": "queue", "?status=dead": "status",
	} {
		p := s.refused(t, 422, "validation-failed", http.MethodGet, "/dead-letters"+query, nil)
		require.Equal(t, []string{field}, fields(p), query)
	}
	for _, query := range []string{"?message_id=x", "?message_id=0"} {
		require.Equal(t, []string{"message_id"}, fields(s.refused(t, 422, "validation-failed", http.MethodGet, "/audit"+query, nil)))
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		s := serve(t, db, func(cfg *httpapi.Config) { cfg.TickLimit = time.Hour })
		s.call(t, 200, http.MethodGet, "/healthz", nil)
		p := s.refused(t, 503, "not-ready", http.MethodGet, "/readyz", nil)
		require.Contains(t, p["detail"], "tick")
		health := s.call(t, 200, http.MethodGet, "/health", nil)
		require.Equal(t, health["schema"], health["known"])
		require.Empty(t, s.call(t, 200, http.MethodGet, "/workers", nil)["workers"])

		ready := serve(t, db, nil)
		require.Equal(t, "ready", ready.call(t, 200, http.MethodGet, "/readyz", nil)["status"])
		_, err := ready.client.Migrations().Down(t.Context(), 0)
		require.NoError(t, err)
		require.Eventually(t, func() bool { // an answer holds for a second
			a := ready.send(t, ready.request(t, http.MethodGet, "/readyz", nil))
			return a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") != ""
		}, patience, 10*time.Millisecond)
		ready.refused(t, 503, "unavailable", http.MethodPost, "/queues/q/messages", `{"payload":"x"}`)
	})
}
