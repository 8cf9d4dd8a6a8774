package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb"
)

// Texts of strangers stay texts wherever they are shown: every answer is JSON
// that no browser takes for a page.
// Reported as sidekiq/sidekiq#1297, sidekiq/sidekiq#2309 and
// statianzo/que-web#9.
func TestMarkupStaysText(t *testing.T) {
	t.Parallel()
	const markup = "</script><script>alert('1')</script><img src=x onerror=alert(1)>&lt; \u2028\u2029"
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		s := serve(t, db, nil)
		m := s.enqueue(t, "q", object{
			"payload": markup, "kind": "<b>", "idempotency_key": "<i>", "tenant": "<u>", "correlation_id": "<a href=javascript:x>",
			"headers": object{"traceparent": markup},
		})
		require.Equal(t, m["id"], s.claim(t, "q")["id"])
		s.call(t, 200, http.MethodPost, path(m, "fail"), object{"error": markup, "failure_kind": "permanent"})
		for _, target := range []string{
			path(m, ""), path(m, "attempts"), path(m, "dead-letter"), "/messages", "/queues/q/messages", "/dead-letters", "/messages/1",
			"/queues/%3Cscript%3E", "/nowhere/%3Cscript%3E", "/messages?x=%3Cscript%3E", "/messages?status=%3Cscript%3E",
		} {
			a := s.send(t, s.request(t, http.MethodGet, target, nil))
			require.Regexp(t, "^application/(problem\\+)?json(;|$)", a.header.Get("Content-Type"), target)
			require.Contains(t, a.header.Get("Content-Security-Policy"), "default-src 'none'", target)
			require.False(t, strings.ContainsAny(a.text, "\u2028\u2029"), "%s: %s", target, a.text)
			a.object(t)
		}
		shown := s.call(t, 200, http.MethodGet, path(m, "dead-letter"), nil)
		require.Equal(t, markup, shown["payload"])
		require.Equal(t, markup, shown["headers"].(object)["traceparent"])
		require.Contains(t, shown["error_message"], "</script>")
	})
}

// No page of another origin gets leave to call, read or preflight anything.
// Reported as hibiken/asynqmon#78 and sidekiq/sidekiq#2467.
func TestNoOriginGetsLeave(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	m := s.enqueue(t, "q", `{"payload":"x"}`)
	for _, target := range []string{"/queues", path(m, ""), path(m, "replay"), "/dead-letters/purge", "/nowhere"} {
		for _, method := range []string{http.MethodOptions, http.MethodGet, http.MethodPost} {
			r := s.request(t, method, target, nil)
			r.Header.Set("Origin", "https://evil.example")
			r.Header.Set("Access-Control-Request-Method", http.MethodPost)
			a := s.send(t, r)
			for name := range a.header {
				require.False(t, strings.HasPrefix(name, "Access-Control-"), "%s %s: %s", method, target, name)
			}
		}
	}
	require.Equal(t, "pending", s.call(t, 200, http.MethodGet, path(m, ""), nil)["status"])
}
