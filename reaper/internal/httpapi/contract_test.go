package httpapi_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper/internal/httpapi"
)

// secrets are what no answer may show: they stand in the path of the
// database, in its errors, in its statements and in its texts.
var secrets = []string{"styx.db", "sql:", "SQL", "SELECT", "INSERT", "styx_messages", ".go:", "goroutine", "styx_test_", "127.0.0.1:", "postgres"}

// trial is one request of each route, in the order of the table of roles.
type trial struct {
	method, path, body string
}

func trials() []trial {
	var list []trial
	for _, p := range permitted {
		list = append(list, trial{p.method, strings.ReplaceAll(p.path, "Q", "q"), strings.ReplaceAll(p.body, "Q", "q")})
	}
	return list
}

// requireDiscreet sends a request of each route and wants a status that keeps
// secrets to itself.
func (s *server) requireDiscreet(t *testing.T, status int, list []trial, change func(r *http.Request)) {
	t.Helper()
	for _, c := range list {
		r := s.request(t, c.method, c.path, c.body)
		if change != nil {
			change(r)
		}
		a := s.send(t, r)
		require.Equal(t, status, a.status, "%s %s: %s", c.method, c.path, a.text)
		for _, secret := range append(secrets, s.token) {
			require.False(t, secret != "" && strings.Contains(a.text, secret), "%s shows %s", a.text, secret)
		}
	}
}

// TestEveryRouteWithEveryStatus makes each route answer in each way that the
// description tells of; each answer is held against it on the way.
func TestEveryRouteWithEveryStatus(t *testing.T) {
	t.Parallel()
	guarded := slices.DeleteFunc(trials(), func(c trial) bool {
		return c.path == "/healthz" || c.path == "/readyz" || c.path == "/openapi.json"
	})
	bodies := slices.DeleteFunc(slices.Clone(guarded), func(c trial) bool { return c.method != http.MethodPost })
	queues := slices.DeleteFunc(slices.Clone(guarded), func(c trial) bool { return !strings.HasPrefix(c.path, "/queues/q") })
	metrics := func(cfg *httpapi.Config) {
		cfg.Hosts = httpapi.LoopbackHosts()
		cfg.BodyTime = 20 * time.Millisecond
		cfg.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/plain") })
	}
	s := sqlite(t, metrics)
	s.requireDiscreet(t, 421, trials(), func(r *http.Request) { r.Host = "evil.example" })
	s.requireDiscreet(t, 403, bodies, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") })
	free := s.handler.Occupy()
	s.requireDiscreet(t, 429, guarded, nil)
	free()
	s.requireDiscreet(t, 413, bodies, func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(&endless{}), 10<<20 })
	s.requireDiscreet(t, 415, bodies, func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{}")), 2
		r.Header.Set("Content-Type", "text/plain")
	})
	s.requireDiscreet(t, 400, bodies, func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{")), 1 })
	s.requireDiscreet(t, 422, bodies, func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader(`{"?":1}`)), 7 })
	s.requireDiscreet(t, 422, queues, func(r *http.Request) {
		r.URL.RawPath = strings.Replace(r.URL.EscapedPath(), "/queues/q", "/queues/%00", 1)
		r.URL.Path = strings.Replace(r.URL.Path, "/queues/q", "/queues/\x00", 1)
	})
	for _, path := range []string{"/queues", "/queues/q/messages", "/messages", "/dead-letters", "/audit"} {
		s.refused(t, 422, "validation-failed", http.MethodGet, path+"?x=1", nil)
	}
	for _, c := range bodies {
		s.stall(t, c)
	}
	locked, tokens := locked(t, testdb.SQLite(t))
	locked.requireDiscreet(t, 401, guarded, nil)
	for _, c := range guarded {
		for _, letter := range []string{"P", "W", "V", "O", "A1"} {
			a := locked.as(tokens[letter]).send(t, locked.request(t, c.method, c.path, c.body))
			require.NotContains(t, a.text, tokens[letter])
		}
	}

	bare, err := client.New(testdb.SQLite(t).DB, client.Config{})
	require.NoError(t, err)
	none := sqlite(t, func(cfg *httpapi.Config) { cfg.Client = bare })
	unready := slices.DeleteFunc(trials(), func(c trial) bool {
		return c.path == "/healthz" || c.path == "/metrics" || c.path == "/openapi.json" || c.path == "/health" || c.path == "/queues/q/settle"
	})
	none.requireDiscreet(t, 503, unready, nil)
	none.refused(t, 503, "unavailable", http.MethodPost, "/queues/q/settle", `{"settlements":[{"id":1,"verb":"succeed"}]}`)
	none.refused(t, 404, "not-found", http.MethodGet, "/metrics", nil)

	db := testdb.SQLite(t)
	broken := serve(t, db, nil)
	require.NoError(t, db.Close())
	broken.requireDiscreet(t, 500, slices.DeleteFunc(trials(), func(c trial) bool {
		return c.path == "/healthz" || c.path == "/metrics" || c.path == "/openapi.json" || c.path == "/queues/q/settle"
	}), nil)
	require.Contains(t, broken.log.String(), "sql: database is closed", "the log has the cause")
	broken.refused(t, 500, "internal", http.MethodPost, "/queues/q/settle", `{"settlements":[{"id":1,"verb":"succeed"}]}`)

	fine := sqlite(t, metrics)
	fine.succeed(t)
	for _, missing := range missing(t) {
		t.Errorf("no test made this answer: %s", missing)
	}
}

// missing are the answers of the description that nothing has had yet.
func missing(t *testing.T) []string {
	t.Helper()
	doc, err := contract()
	require.NoError(t, err)
	seenLock.Lock()
	defer seenLock.Unlock()
	var list []string
	for _, path := range doc.Paths.InMatchingOrder() {
		for _, op := range doc.Paths.Value(path).Operations() {
			for status := range op.Responses.Map() {
				if !seen[op.OperationID+" "+status] && !rare[op.OperationID+" "+status] {
					list = append(list, op.OperationID+" "+status)
				}
			}
		}
	}
	return list
}

// rare are answers that hold for all routes, and that nothing can make this
// one give: there is no database behind it, or no token before it.
var rare = map[string]bool{
	"getMetrics 500": true, "getMetrics 503": true, "healthz 500": true, "openapi 500": true, "getHealth 503": true,
}

// stall begins a body and does not go on.
func (s *server) stall(t *testing.T, c trial) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", c.path)
	require.NoError(t, err)
	r := s.request(t, c.method, c.path, nil)
	resp := readResponse(t, conn, r)
	require.Equal(t, http.StatusRequestTimeout, resp.status, resp.text)
	described(t, r, resp)
}

// succeed makes each route succeed, and refuse for what it finds.
func (s *server) succeed(t *testing.T) {
	t.Helper()
	s.enqueue(t, "q", `{"payload":"x","idempotency_key":"k"}`)
	s.call(t, 200, http.MethodPost, "/queues/q/messages", `{"payload":"x","idempotency_key":"k"}`)
	s.refused(t, 422, "idempotency-key-reused", http.MethodPost, "/queues/q/messages", `{"payload":"y","idempotency_key":"k"}`)
	s.refused(t, 409, "idempotency-key-held", http.MethodPost, "/queues/q/messages", `{"messages":[{"payload":"x","idempotency_key":"k"}]}`)
	for _, path := range []string{
		"/queues/q/messages", "/queues/q/messages/1", "/messages", "/messages/1", "/queues", "/queues/q", "/dead-letters", "/workers", "/health", "/audit",
		"/metrics", "/healthz", "/readyz", "/openapi.json", "/queues/q/messages/1/attempts",
	} {
		require.Equal(t, 200, s.send(t, s.request(t, http.MethodGet, path, nil)).status, path)
	}
	for _, verb := range []string{"succeed", "fail", "release", "extend", "replay", "resolve"} {
		s.refused(t, 409, "conflict-state", http.MethodPost, "/queues/q/messages/1/"+verb, nil)
	}
	m := s.claim(t, "q")
	s.refused(t, 409, "conflict-state", http.MethodPost, path(m, "cancel"), nil)
	s.call(t, 200, http.MethodPost, path(m, "extend"), nil)
	s.call(t, 200, http.MethodPost, path(m, "release"), nil)
	s.claim(t, "q")
	s.call(t, 200, http.MethodPost, path(m, "fail"), `{"failure_kind":"permanent"}`)
	s.call(t, 200, http.MethodGet, path(m, "dead-letter"), nil)
	s.call(t, 200, http.MethodGet, "/dead-letters", nil)
	s.call(t, 200, http.MethodPost, path(m, "replay"), nil)
	s.call(t, 200, http.MethodPost, path(m, "cancel"), nil)
	s.call(t, 200, http.MethodPost, path(m, "replay"), nil)
	s.claim(t, "q")
	s.call(t, 200, http.MethodPost, path(m, "succeed"), nil)
	s.call(t, 200, http.MethodPost, "/queues/q/settle", `{"settlements":[{"id":1,"verb":"succeed"}]}`)
	s.call(t, 200, http.MethodPost, path(s.bury(t, "q", `{"payload":"x"}`), "resolve"), nil)
	s.call(t, 200, http.MethodPost, "/queues/q/pause", nil)
	s.call(t, 200, http.MethodPost, "/queues/q/resume", nil)
	s.call(t, 200, http.MethodPost, "/dead-letters/purge", `{"queue":"q","resolved":true}`)
	s.call(t, 200, http.MethodPost, "/queues/q/claim", nil)
	for _, verb := range []string{"succeed", "fail", "release", "extend", "replay", "resolve", "cancel"} {
		s.refused(t, 404, "not-found", http.MethodPost, "/queues/q/messages/99/"+verb, nil)
	}
	for _, path := range []string{"/messages/99", "/queues/q/messages/99", "/queues/q/messages/99/attempts", "/queues/q/messages/99/dead-letter"} {
		s.refused(t, 404, "not-found", http.MethodGet, path, nil)
	}
}

// endless is a body that is never done.
type endless struct{}

func (*endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
