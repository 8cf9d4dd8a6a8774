package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper/internal/httpapi"
)

// permitted is who may call what, written down a second time: P producer,
// W worker, V viewer, O operator, A admin, * anybody.
var permitted = []struct{ method, path, body, who string }{
	{"POST", "/queues/Q/messages", `{"payload":"x"}`, "P A"},
	{"GET", "/queues/Q/messages", "", "V O A"},
	{"GET", "/queues/Q/messages/1", "", "P W V O A"},
	{"POST", "/queues/Q/claim", "", "W A"},
	{"POST", "/queues/Q/messages/1/succeed", "", "W A"},
	{"POST", "/queues/Q/messages/1/fail", "", "W A"},
	{"POST", "/queues/Q/messages/1/release", "", "W A"},
	{"POST", "/queues/Q/messages/1/extend", "", "W A"},
	{"POST", "/queues/Q/settle", `{"settlements":[]}`, "W A"},
	{"POST", "/queues/Q/messages/1/replay", "", "O A"},
	{"POST", "/queues/Q/messages/1/resolve", "", "O A"},
	{"POST", "/queues/Q/messages/1/cancel", "", "O A"},
	{"GET", "/queues/Q/messages/1/attempts", "", "V O A"},
	{"GET", "/queues/Q/messages/1/dead-letter", "", "V O A"},
	{"GET", "/messages?queue=Q", "", "V O A"},
	{"GET", "/messages/1", "", "V O A"},
	{"GET", "/dead-letters?queue=Q", "", "V O A"},
	{"POST", "/dead-letters/purge", `{"queue":"Q"}`, "A"},
	{"GET", "/queues", "", "V O A"},
	{"GET", "/queues/Q", "", "V O A"},
	{"POST", "/queues/Q/pause", "", "O A"},
	{"POST", "/queues/Q/resume", "", "O A"},
	{"GET", "/workers", "", "V O A"},
	{"GET", "/health", "", "O A"},
	{"GET", "/audit?queue=Q", "", "O A"},
	{"GET", "/metrics", "", "V O A"},
	{"GET", "/healthz", "", "*"},
	{"GET", "/readyz", "", "*"},
	{"GET", "/openapi.json", "", "*"},
}

// locked is a server with a token of each role, for all queues and for q1
// only, by "P" and "P1".
func locked(t *testing.T, db testdb.DB) (*server, map[string]string) {
	t.Helper()
	texts := map[string]string{}
	s := serve(t, db, func(cfg *httpapi.Config) {
		cfg.Open = false
		for _, role := range httpapi.Roles() {
			letter := strings.ToUpper(role[:1])
			for name, queues := range map[string][]string{letter: nil, letter + "1": {"q1"}} {
				text, token, err := httpapi.NewToken(name, []string{role}, queues)
				require.NoError(t, err)
				texts[name] = text
				cfg.Tokens = append(cfg.Tokens, token)
			}
		}
	})
	return s, texts
}

// Reported as hibiken/asynqmon#78.
func TestEveryRouteForEveryRole(t *testing.T) {
	t.Parallel()
	s, tokens := locked(t, testdb.SQLite(t))
	// Message 1 stands in q1, and every call in q2 finds none.
	s.as(tokens["P"]).enqueue(t, "q1", `{"payload":"x"}`)
	for _, route := range permitted {
		for _, letter := range []string{"P", "W", "V", "O", "A"} {
			for _, queue := range []string{"q1", "q2"} {
				target := strings.ReplaceAll(route.path, "Q", queue)
				body := any(strings.ReplaceAll(route.body, "Q", queue))
				if route.body == "" {
					body = nil
				}
				may := route.who == "*" || strings.Contains(route.who, letter)
				named := strings.Contains(route.path+route.body, "Q")
				all := s.as(tokens[letter]).send(t, s.request(t, route.method, target, body))
				requireMay(t, may, all, route.method+" "+target+" as "+letter)
				one := s.as(tokens[letter+"1"]).send(t, s.request(t, route.method, target, body))
				requireMay(t, may && (queue == "q1" || !named), one, route.method+" "+target+" as "+letter+"1")
			}
		}
		target := strings.ReplaceAll(route.path, "Q", "q1")
		for _, token := range []string{"", "x", strings.ToUpper(tokens["A"]), tokens["A"] + "x", tokens["A"][:40]} {
			a := s.as(token).send(t, s.request(t, route.method, target, route.body))
			if route.who != "*" {
				require.Equal(t, http.StatusUnauthorized, a.status, a.text)
				require.Equal(t, `Bearer realm="styx"`, a.header.Get("WWW-Authenticate"))
			}
		}
	}
	require.Len(t, permitted, httpapi.CountRoutes())
}

func requireMay(t *testing.T, may bool, a answer, what string) {
	t.Helper()
	require.NotEqual(t, http.StatusUnauthorized, a.status, what)
	require.Equal(t, may, a.status != http.StatusForbidden, "%s: %d %s", what, a.status, a.text)
}

func TestTokensForOneQueueSeeNoOther(t *testing.T) {
	t.Parallel()
	s, tokens := locked(t, testdb.SQLite(t))
	admin, viewer := s.as(tokens["A"]), s.as(tokens["V1"])
	admin.enqueue(t, "q1", `{"payload":"x"}`)
	m := admin.enqueue(t, "q2", `{"payload":"secret"}`)
	queues := viewer.call(t, http.StatusOK, http.MethodGet, "/queues", nil)["queues"].([]any)
	require.Len(t, queues, 1)
	require.Equal(t, "q1", queues[0].(object)["queue"])
	for _, path := range []string{"/messages", "/dead-letters", "/messages?queue=q2"} {
		viewer.refused(t, http.StatusForbidden, "forbidden", http.MethodGet, path, nil)
	}
	viewer.refused(t, http.StatusNotFound, "not-found", http.MethodGet, strings.Replace(path(m, ""), "/queues/q2", "", 1), nil)
	s.as(tokens["A1"]).refused(t, http.StatusForbidden, "forbidden", http.MethodPost, "/dead-letters/purge", `{"all":true}`)
	s.as(tokens["A1"]).refused(t, http.StatusForbidden, "forbidden", http.MethodPost, "/dead-letters/purge", `{"message_id":2}`)
}

func TestProducersSeeNeitherPayloadNorError(t *testing.T) {
	t.Parallel()
	s, tokens := locked(t, testdb.SQLite(t))
	producer := s.as(tokens["P"])
	m := producer.enqueue(t, "q", `{"payload":"own","idempotency_key":"k"}`)
	require.Equal(t, "own", m["payload"], "he knows it")
	again := producer.call(t, http.StatusOK, http.MethodPost, "/queues/q/messages", `{"payload":"own","idempotency_key":"k"}`)
	require.Equal(t, "own", again["payload"])
	shown := producer.call(t, http.StatusOK, http.MethodGet, path(m, ""), nil)
	require.Nil(t, shown["payload"])
	require.Contains(t, shown, "payload")
	require.Equal(t, m["id"], shown["id"])
	require.Equal(t, "own", s.as(tokens["V"]).call(t, http.StatusOK, http.MethodGet, path(m, ""), nil)["payload"])
}

// Reported as sidekiq/sidekiq#2467.
func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		r := s.request(t, http.MethodPost, "/queues/q/messages", `{"payload":"x"}`)
		r.Header.Set(name, value)
		a := s.send(t, r)
		require.Equal(t, http.StatusForbidden, a.status)
		require.Equal(t, "urn:styx:problem:cross-origin", a.object(t)["type"])
	}
	r := s.request(t, http.MethodPost, "/queues/q/messages", `{"payload":"x"}`)
	r.Header.Set("Origin", s.url)
	require.Equal(t, http.StatusCreated, s.send(t, r).status)
}

// Reported as hibiken/asynqmon#78.
func TestUnknownHostsAreRefused(t *testing.T) {
	t.Parallel()
	s := sqlite(t, func(cfg *httpapi.Config) { cfg.Hosts = httpapi.LoopbackHosts() })
	for _, host := range []string{"localhost", "localhost:8080", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:8080"} {
		r := s.request(t, http.MethodGet, "/healthz", nil)
		r.Host = host
		require.Equal(t, http.StatusOK, s.send(t, r).status, host)
	}
	for _, host := range []string{"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "169.254.1.1"} {
		for _, path := range []string{"/healthz", "/queues", "/nowhere"} {
			r := s.request(t, http.MethodGet, path, nil)
			r.Host = host
			a := s.send(t, r)
			require.Equal(t, http.StatusMisdirectedRequest, a.status, host)
		}
	}
}

func TestTokenFile(t *testing.T) {
	t.Parallel()
	text, token, err := httpapi.NewToken("ci", []string{"producer", "viewer"}, []string{"a,b", "c d/é", "e"})
	require.NoError(t, err)
	require.NotContains(t, token.Line(), text)
	parsed, err := httpapi.ParseTokens("# comment\n\n" + token.Line() + "\r\n  \nx admin " + strings.Fields(token.Line())[2] + "\n")
	require.NoError(t, err)
	require.Len(t, parsed, 2)
	require.Equal(t, token, parsed[0])

	sum := strings.Fields(token.Line())[2]
	for _, bad := range []string{
		"x", "x producer", "x producer " + sum[:20], "x producer " + sum + "00", "x root " + sum, "x , " + sum,
		"x producer md5:abc", "x producer " + sum + " a b", "x producer " + sum + " %zz", "x producer " + sum + " a,,b",
		"x producer sha256:" + strings.Repeat("0", 64), "x producer " + text,
	} {
		_, err := httpapi.ParseTokens("\n" + bad)
		require.ErrorContains(t, err, "line 2", bad)
		require.NotContains(t, err.Error(), text)
		require.NotContains(t, err.Error(), sum[7:])
	}
	_, _, err = httpapi.NewToken("a b", []string{"producer"}, nil)
	require.Error(t, err)
}

func TestConfigIsRefusedByName(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]httpapi.Config{
		"Tokens":      {},
		"Prefix":      {Open: true, Prefix: "styx/"},
		"BodyLimit":   {Open: true, BodyLimit: -1},
		"Timeout":     {Open: true, Timeout: -1},
		"MaxRequests": {Open: true, MaxRequests: -1},
		"MaxWaits":    {Open: true, MaxWaits: -1},
		"Tokens[0]":   {Tokens: make([]httpapi.Token, 1)},
	} {
		_, err := httpapi.New(cfg)
		require.ErrorContains(t, err, "invalid "+field+":")
	}
	_, err := httpapi.New(httpapi.Config{Open: true, Tokens: make([]httpapi.Token, 1)})
	require.ErrorContains(t, err, "only one")
}

func TestIdentifyTellsWhoCalls(t *testing.T) {
	t.Parallel()
	s := sqlite(t, func(cfg *httpapi.Config) {
		cfg.Open = false
		cfg.Identify = func(r *http.Request) (httpapi.Identity, bool) {
			name, role, ok := r.BasicAuth()
			return httpapi.Identity{Name: name, Roles: []string{role}}, ok
		}
	})
	s.refused(t, http.StatusUnauthorized, "unauthorized", http.MethodGet, "/queues", nil)
	as := func(role string) int {
		r := s.request(t, http.MethodGet, "/queues", nil)
		r.SetBasicAuth("ann", role)
		return s.send(t, r).status
	}
	require.Equal(t, http.StatusOK, as("viewer"))
	require.Equal(t, http.StatusForbidden, as("worker"))
	require.Equal(t, http.StatusInternalServerError, as("king"), "the service's own mistake")
}
