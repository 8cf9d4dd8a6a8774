package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb"
)

// Reported as pgmq/pgmq#33.
func TestAnyNameIsAQueue(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		s := serve(t, db, nil)
		for _, queue := range []string{
			"emails", "a/b", "/", "//", ".", "..", "a/../b", "%2e", "%2F", "a%b", "a b", " ", "😀", "é", "?", "#", "a;b", "a+b", "a&b=c", "{queue}",
			strings.Repeat("x", 128), strings.Repeat("😀", 32), "messages", "null", "\"", "\\", "'; DROP TABLE messages; --",
		} {
			escaped := url.PathEscape(queue)
			if strings.Trim(queue, ".") == "" {
				escaped = strings.ReplaceAll(queue, ".", "%2E")
			}
			a := s.send(t, s.request(t, http.MethodPost, "/queues/"+escaped+"/messages", `{"payload":"x"}`))
			require.Equal(t, http.StatusCreated, a.status, "%q: %s", queue, a.text)
			m := a.object(t)
			require.Equal(t, queue, m["queue"])
			location := a.header.Get("Location")
			require.Equal(t, m["id"], s.call(t, http.StatusOK, http.MethodGet, location, nil)["id"], queue)
			list := s.call(t, http.StatusOK, http.MethodGet, "/queues/"+escaped+"/messages", nil)
			require.EqualValues(t, "1", list["count"], queue)
			require.Equal(t, queue, s.call(t, http.StatusOK, http.MethodGet, "/queues/"+escaped, nil)["queue"])
		}
	})
}

func TestBadNamesAreRefused(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	for _, escaped := range []string{
		"%00", "a%00b", "%0A", "%7F", "%C2%85", "%FF", "a%80", "%ED%A0%80", strings.Repeat("x", 129), strings.Repeat("%F0%9F%98%80", 33),
		strings.Repeat("x", 10_000),
	} {
		for _, c := range []struct{ method, rest, body string }{
			{http.MethodPost, "/messages", `{"payload":"x"}`},
			{http.MethodGet, "/messages", ""},
			{http.MethodGet, "/messages/1", ""},
			{http.MethodPost, "/claim", ""},
			{http.MethodPost, "/messages/1/succeed", ""},
			{http.MethodPost, "/messages/1/fail", ""},
			{http.MethodPost, "/messages/1/replay", ""},
			{http.MethodGet, "", ""},
		} {
			p := s.refused(t, http.StatusUnprocessableEntity, "validation-failed", c.method, "/queues/"+escaped+c.rest, c.body)
			require.Equal(t, []string{"queue"}, fields(p))
		}
	}
}

// Reported as sidekiq/sidekiq#7014 and e621ng/e621ng#1538.
func TestBadIDsAreNotFound(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	m := s.enqueue(t, "q", `{"payload":"x"}`)
	require.EqualValues(t, "1", m["id"])
	s.enqueue(t, "other", `{"payload":"x"}`)
	for _, id := range []string{
		"0", "-1", "+1", "01", "1.0", "1e3", "9223372036854775807", "9223372036854775808", "18446744073709551617", "99", "2", "abc", "%20", "%201",
		"1%20", "%00", "0x1", "%D9%A1", strings.Repeat("1", 10_000), "1_0", "NaN",
	} {
		s.refused(t, http.StatusNotFound, "not-found", http.MethodGet, "/queues/q/messages/"+id, nil)
		for _, verb := range []string{"succeed", "fail", "replay", "extend", "release", "cancel", "resolve"} {
			s.refused(t, http.StatusNotFound, "not-found", http.MethodPost, "/queues/q/messages/"+id+"/"+verb, nil)
		}
		s.refused(t, http.StatusNotFound, "not-found", http.MethodGet, "/queues/q/messages/"+id+"/attempts", nil)
		s.refused(t, http.StatusNotFound, "not-found", http.MethodGet, "/queues/q/messages/"+id+"/dead-letter", nil)
	}
}

func TestPathsThatAreNoneAreProblemsToo(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	for _, path := range []string{
		"/", "/nowhere", "/queues/", "/queues//messages", "/queues/q/messages/", "/queues/q/messages//", "/queues/q/messages/1/", "/queues/q/x",
		"/queues/q/messages/1/x", "/queues/../queues", "/healthz/", "//healthz", "/QUEUES",
	} {
		s.refused(t, http.StatusNotFound, "not-found", http.MethodGet, path, nil)
		s.refused(t, http.StatusNotFound, "not-found", http.MethodPost, path, `{}`)
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	for path, allow := range map[string]string{
		"/queues/q/messages":           "GET, HEAD, OPTIONS, POST",
		"/queues/q/messages/1":         "GET, HEAD, OPTIONS",
		"/queues/q/claim":              "OPTIONS, POST",
		"/queues/q/messages/1/succeed": "OPTIONS, POST",
		"/healthz":                     "GET, HEAD, OPTIONS",
	} {
		for _, method := range []string{"PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get"} {
			a := s.send(t, s.request(t, method, path, nil))
			require.Equal(t, http.StatusMethodNotAllowed, a.status, method)
			require.Equal(t, allow, a.header.Get("Allow"))
		}
		a := s.send(t, s.request(t, http.MethodOptions, path, nil))
		require.Equal(t, http.StatusNoContent, a.status)
		require.Equal(t, allow, a.header.Get("Allow"))
	}
	s.enqueue(t, "q", `{"payload":"x"}`)
	get := s.send(t, s.request(t, http.MethodGet, "/queues/q/messages/1", nil))
	head := s.send(t, s.request(t, http.MethodHead, "/queues/q/messages/1", nil))
	require.Equal(t, http.StatusOK, head.status)
	require.Empty(t, head.text)
	require.Equal(t, get.header.Get("Content-Length"), head.header.Get("Content-Length"))
	require.Equal(t, http.StatusNotFound, s.send(t, s.request(t, http.MethodHead, "/queues/q/messages/99", nil)).status)
}

// Reported as sidekiq/sidekiq#7014.
func TestListPages(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		s := serve(t, db, nil)
		var many []object
		for range 25 {
			many = append(many, object{"payload": "x"})
		}
		s.call(t, http.StatusCreated, http.MethodPost, "/queues/q/messages", object{"messages": many})
		get := func(query string) object {
			return s.call(t, http.StatusOK, http.MethodGet, "/queues/q/messages"+query, nil)
		}
		ids := func(page object) (list []json.Number) {
			for _, m := range page["messages"].([]any) {
				list = append(list, m.(object)["id"].(json.Number))
			}
			require.EqualValues(t, len(list), number(t, page["count"]))
			return list
		}
		first := get("")
		require.Len(t, ids(first), 20)
		second := get("?cursor=" + first["next_cursor"].(string))
		require.Len(t, ids(second), 5)
		require.Nil(t, second["next_cursor"])
		all := append(ids(first), ids(second)...)
		require.Equal(t, all, ids(get("?limit=100")))
		require.Equal(t, all[20:], ids(get("?offset=20")))
		require.Equal(t, all[3:8], ids(get("?offset=3&limit=5")))
		require.Empty(t, ids(get("?offset=1000000")))
		require.Equal(t, all[24:], ids(get("?order=desc&limit=1")))
		require.Len(t, ids(get("?status=pending")), 20)
		require.Empty(t, ids(get("?status=dead")))
		require.Empty(t, ids(s.call(t, http.StatusOK, http.MethodGet, "/queues/never/messages", nil)))

		for query, field := range map[string]string{
			"?limit=0": "limit", "?limit=101": "limit", "?limit=-1": "limit", "?limit=abc": "limit", "?limit=1e9": "limit", "?limit=%2B5": "limit",
			"?limit=": "limit", "?limit=1&limit=2": "limit", "?limit=99999999999999999999": "limit", "?offset=-1": "offset", "?offset=1000001": "offset",
			"?status=done": "status", "?status=": "status", "?cursor=x": "cursor", "?x=1": "x", "?order=up": "order", "?%zz": "query", "?a;b": "query",
			"?kind=%00": "kind", "?tenant=%FF": "tenant", "?cursor=" + first["next_cursor"].(string) + "&offset=1": "offset",
			"?status=dead&cursor=" + first["next_cursor"].(string): "cursor",
		} {
			p := s.refused(t, http.StatusUnprocessableEntity, "validation-failed", http.MethodGet, "/queues/q/messages"+query, nil)
			require.Equal(t, []string{field}, fields(p), query)
		}
	})
}

func number(t *testing.T, v any) int64 {
	t.Helper()
	n, err := v.(json.Number).Int64()
	require.NoError(t, err)
	return n
}
