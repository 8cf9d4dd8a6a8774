package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper/internal/httpapi"
)

const patience = 60 * time.Second

// server is the API over a real connection.
type server struct {
	url     string
	client  *client.Client
	http    *http.Client
	token   string
	handler *httpapi.Handler
	db      testdb.DB
	log     *buffer
}

// serve starts a server over db, in which everybody may do everything unless
// change says otherwise.
func serve(t *testing.T, db testdb.DB, change func(cfg *httpapi.Config)) *server {
	t.Helper()
	var log buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	c, err := client.New(db.DB, client.Config{Schema: db.Schema, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, c.Migrate(t.Context()))
	cfg := httpapi.Config{Client: c, Open: true, TickLimit: -1, Logger: logger}
	if change != nil {
		change(&cfg)
	}
	h, err := httpapi.New(cfg)
	require.NoError(t, err)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &server{url: s.URL + cfg.Prefix, client: c, http: s.Client(), handler: h, db: db, log: &log}
}

// sqlite starts a server over an SQLite file.
func sqlite(t *testing.T, change func(cfg *httpapi.Config)) *server {
	t.Helper()
	return serve(t, testdb.SQLite(t), change)
}

// as is the same server, called with a token.
func (s *server) as(token string) *server {
	other := *s
	other.token = token
	return &other
}

// answer is what a request was answered with.
type answer struct {
	status int
	header http.Header
	text   string
}

// object is the body as JSON, with every digit of numbers.
func (a answer) object(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	dec := json.NewDecoder(strings.NewReader(a.text))
	dec.UseNumber()
	require.NoError(t, dec.Decode(&v), a.text)
	return v
}

// send sends a request as it is and holds the answer against the description.
func (s *server) send(t *testing.T, r *http.Request) answer {
	t.Helper()
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := s.http.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	a := answer{resp.StatusCode, resp.Header, string(text)}
	if s.url == "http://"+r.URL.Host {
		described(t, r, a)
	}
	if a.status >= 400 && r.Method != http.MethodHead {
		require.Equal(t, "application/problem+json", a.header.Get("Content-Type"), a.text)
		p := a.object(t)
		require.EqualValues(t, strconv.Itoa(a.status), p["status"])
		require.NotEmpty(t, p["title"])
	}
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
	return a
}

// request builds a request; a body is JSON text, or a value to encode.
func (s *server) request(t *testing.T, method, path string, body any) *http.Request {
	t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		require.NoError(t, err)
		reader = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, reader)
	require.NoError(t, err)
	if reader != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// call sends a request and wants the status.
func (s *server) call(t *testing.T, status int, method, path string, body any) map[string]any {
	t.Helper()
	a := s.send(t, s.request(t, method, path, body))
	require.Equal(t, status, a.status, "%s %s: %s", method, path, a.text)
	return a.object(t)
}

// refused wants a problem of the sort.
func (s *server) refused(t *testing.T, status int, sort, method, path string, body any) map[string]any {
	t.Helper()
	p := s.call(t, status, method, path, body)
	require.Equal(t, "urn:styx:problem:"+sort, p["type"], p)
	return p
}

type object = map[string]any

// enqueue stores a message and returns it.
func (s *server) enqueue(t *testing.T, queue string, body any) object {
	t.Helper()
	return s.call(t, http.StatusCreated, http.MethodPost, "/queues/"+url.PathEscape(queue)+"/messages", body)
}

// path is that of a message.
func path(m object, verb string) string {
	p := "/queues/" + url.PathEscape(m["queue"].(string)) + "/messages/" + string(m["id"].(json.Number))
	if verb != "" {
		p += "/" + verb
	}
	return p
}

// fields are the names in a problem's errors.
func fields(p object) []string {
	var names []string
	errs, _ := p["errors"].([]any)
	for _, e := range errs {
		names = append(names, e.(object)["field"].(string))
	}
	return names
}

// buffer may be read while it is written to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// makeDue lets the time until a message's next attempt pass.
func (s *server) makeDue(t *testing.T, m object) {
	t.Helper()
	query, id := "UPDATE styx_messages SET due_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER) WHERE id = ?", number(t, m["id"])
	var err error
	if s.db.Schema == "" {
		_, err = s.db.NewRaw(query, id).Exec(t.Context())
	} else {
		_, err = s.db.NewRaw("UPDATE ?.messages SET due_at = clock_timestamp() WHERE id = ?", bun.Ident(s.db.Schema), id).Exec(t.Context())
	}
	require.NoError(t, err)
}
