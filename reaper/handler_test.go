package reaper_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper"
)

// mount serves a handler as a service of a user's own would.
func mount(t *testing.T, db testdb.DB, cfg reaper.HandlerConfig, around func(h http.Handler) http.Handler) string {
	t.Helper()
	c, err := client.New(db.DB, client.Config{Schema: db.Schema, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, c.Migrate(t.Context()))
	cfg.Schema, cfg.Logger = db.Schema, slog.New(slog.DiscardHandler)
	h, err := reaper.Handler(db.DB, cfg)
	require.NoError(t, err)
	s := httptest.NewServer(around(h))
	t.Cleanup(s.Close)
	return s.URL
}

// request answers with status, Location and body.
func request(t *testing.T, method, target, body string) (int, string, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	var v map[string]any
	require.NoError(t, json.Unmarshal(text, &v), "%s %s: %d %s", method, target, resp.StatusCode, text)
	return resp.StatusCode, resp.Header.Get("Location"), v
}

func TestTheHandlerMountsAnywhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prefix string
		around func(h http.Handler) http.Handler
	}{
		"alone": {"", func(h http.Handler) http.Handler { return h }},
		"root": {"", func(h http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/", h)
			return mux
		}},
		"prefix": {"/styx", func(h http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/styx/", h)
			return mux
		}},
		"deep prefix": {"/a/b", func(h http.Handler) http.Handler { return h }},
		"strip prefix": {"/styx", func(h http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/styx/", http.StripPrefix("/styx", h))
			return mux
		}},
		"middleware": {"/styx", func(h http.Handler) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/styx/", http.MaxBytesHandler(h, 1000))
			return http.TimeoutHandler(mux, patience, "late")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := mount(t, testdb.SQLite(t), reaper.HandlerConfig{Unprotected: true, Prefix: c.prefix}, c.around)
			under := base + (&url.URL{Path: c.prefix}).EscapedPath()
			for _, queue := range []string{"emails", "a/b", "é"} {
				status, location, m := request(t, http.MethodPost, under+"/queues/"+url.PathEscape(queue)+"/messages", `{"payload":"x"}`)
				require.Equal(t, http.StatusCreated, status, m)
				status, _, same := request(t, http.MethodGet, base+location, "")
				require.Equal(t, http.StatusOK, status, location)
				require.Equal(t, m, same)
				require.Equal(t, queue, m["queue"])
			}
			status, _, p := request(t, http.MethodGet, under+"/nowhere", "")
			require.Equal(t, http.StatusNotFound, status)
			require.Equal(t, "urn:styx:problem:not-found", p["type"])
			_, _, doc := request(t, http.MethodGet, under+"/openapi.json", "")
			require.Equal(t, "3.1.0", doc["openapi"])
		})
	}
}

func TestTheHandlerWorksOnBothEngines(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		base := mount(t, db, reaper.HandlerConfig{Unprotected: true}, func(h http.Handler) http.Handler { return h })
		status, _, m := request(t, http.MethodPost, base+"/queues/q/messages", `{"payload":"x"}`)
		require.Equal(t, http.StatusCreated, status, m)
		require.Equal(t, reaper.DefaultKind, m["kind"])
		require.EqualValues(t, reaper.DefaultHTTPMaxRetries, m["max_retries"])
	})
}

func TestTheHandlerTakesTokensAndIdentities(t *testing.T) {
	t.Parallel()
	text, token, err := reaper.NewToken("ci", []string{reaper.RoleViewer}, nil)
	require.NoError(t, err)
	tokens, err := reaper.ParseTokens(token.Line())
	require.NoError(t, err)
	require.Equal(t, []reaper.Token{token}, tokens)
	db := testdb.SQLite(t)
	locked := mount(t, db, reaper.HandlerConfig{Tokens: tokens}, func(h http.Handler) http.Handler { return h })
	status, _, _ := request(t, http.MethodGet, locked+"/queues", "")
	require.Equal(t, http.StatusUnauthorized, status)
	known := mount(t, db, reaper.HandlerConfig{Identify: func(*http.Request) (reaper.Identity, bool) {
		return reaper.Identity{Name: "ann", Roles: []string{reaper.RoleOperator}}, true
	}}, func(h http.Handler) http.Handler { return h })
	status, _, _ = request(t, http.MethodGet, known+"/queues", "")
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, token.Line(), text)
}

func TestTheHandlerRefusesBadSettings(t *testing.T) {
	t.Parallel()
	db := testdb.SQLite(t)
	for field, cfg := range map[string]reaper.HandlerConfig{
		"Tokens": {}, "Prefix": {Unprotected: true, Prefix: "/"}, "payload_limit": {Unprotected: true, PayloadLimit: -1}, "schema": {Unprotected: true, Schema: "x"},
	} {
		_, err := reaper.Handler(db.DB, cfg)
		require.ErrorContains(t, err, "invalid "+field+":")
	}
}
