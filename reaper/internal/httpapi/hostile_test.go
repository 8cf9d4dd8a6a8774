package httpapi_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper/internal/httpapi"
)

// posts are all routes that take a body.
var posts = []string{
	"/queues/q/messages", "/queues/q/claim", "/queues/q/messages/1/succeed", "/queues/q/messages/1/fail", "/queues/q/messages/1/release",
	"/queues/q/messages/1/extend", "/queues/q/settle", "/queues/q/messages/1/replay", "/queues/q/messages/1/resolve", "/queues/q/messages/1/cancel",
	"/queues/q/pause", "/queues/q/resume", "/dead-letters/purge",
}

func TestHostileBodies(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	s.enqueue(t, "q", `{"payload":"x"}`)
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"blank":         {" \n\t", 0},
		"truncated":     {`{"payload":"x`, 400},
		"no value":      {`{"payload":`, 400},
		"trailing":      {`{"payload":"x"} {}`, 400},
		"comma":         {`{"payload":"x",}`, 400},
		"comment":       {`{"payload":"x"} // no`, 400},
		"array":         {`[]`, 400},
		"string":        {`"x"`, 400},
		"null":          {`null`, 400},
		"number":        {`1e999`, 400},
		"NaN":           {`{"payload":NaN}`, 400},
		"single quotes": {`{'payload':'x'}`, 400},
		"BOM":           {"\ufeff{}", 400},
		"not UTF-8":     {"{\"payload\":\"\xff\"}", 400},
		"UTF-16":        {"\xff\xfe{\x00}\x00", 400},
		"deep arrays":   {strings.Repeat("[", 100_000), 400},
		"deep objects":  {strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000), 400},
		"deep value":    {`{"payload":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`, 400},
		"many unknown":  {`{"a0":1` + strings.Repeat(`,"a":1`, 100_000) + `}`, 422},
		"many twice":    {`{"payload":"x"` + strings.Repeat(`,"payload":"x"`, 100_000) + `}`, 422},
		"long key":      {`{"` + strings.Repeat("k", 1_000_000) + `":1}`, 422},
		"long number":   {`{"max_retries":` + strings.Repeat("9", 1_000_000) + `}`, 422},
		"proto":         {`{"__proto__":{},"constructor":1}`, 422},
		"10 MB":         {`{"payload":"` + strings.Repeat("x", 10_000_000) + `"}`, 413},
	} {
		for _, path := range posts {
			a := s.send(t, s.request(t, http.MethodPost, path, c.body))
			if c.status != 0 {
				require.Equal(t, c.status, a.status, "%s to %s: %.200s", name, path, a.text)
			}
			require.Less(t, a.status, 500, "%s to %s: %.200s", name, path, a.text)
			require.Less(t, len(a.text), 10_000, name)
		}
	}
	require.EqualValues(t, "1", s.call(t, 200, http.MethodGet, "/messages", nil)["count"], "nothing was stored")
	require.Empty(t, s.log.String())
}

func TestABodyMustBeJSON(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	s.enqueue(t, "q", `{"payload":"x"}`)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(`{"payload":"x"}`))
	require.NoError(t, z.Close())
	for _, path := range posts {
		for _, media := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", "application/jsonx", ";;", "multipart/form-data"} {
			r := s.request(t, http.MethodPost, path, `{}`)
			r.Header.Set("Content-Type", media)
			require.Equal(t, http.StatusUnsupportedMediaType, s.send(t, r).status, media)
		}
		r := s.request(t, http.MethodPost, path, packed.String())
		r.Header.Set("Content-Encoding", "gzip")
		require.Equal(t, http.StatusUnsupportedMediaType, s.send(t, r).status)
	}
	r := s.request(t, http.MethodPost, "/queues/q/messages", `{"payload":"x"}`)
	r.Header.Set("Content-Type", "application/json; charset=UTF-8")
	require.Equal(t, http.StatusCreated, s.send(t, r).status)
	s.refused(t, 400, "invalid-json", http.MethodPost, "/queues/q/messages", "")
	s.refused(t, 400, "invalid-json", http.MethodPost, "/queues/q/settle", nil)
}

// A body of an unknown length is cut off where it gets too large.
func TestAChunkedBodyHasItsLimitToo(t *testing.T) {
	t.Parallel()
	s := sqlite(t, func(cfg *httpapi.Config) { cfg.BodyLimit = 1000 })
	r := s.request(t, http.MethodPost, "/queues/q/messages", `{"payload":"`+strings.Repeat("x", 2000)+`"}`)
	r.ContentLength = -1
	require.Equal(t, http.StatusRequestEntityTooLarge, s.send(t, r).status)
}

// A large payload is not held back by its size alone.
func TestALargeBodyPasses(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		s := serve(t, db, nil)
		payload := strings.Repeat("é\"\\", 200_000)
		require.Equal(t, payload, s.enqueue(t, "q", object{"payload": payload})["payload"])
		require.Equal(t, payload, s.claim(t, "q")["payload"])
		p := s.refused(t, 422, "validation-failed", http.MethodPost, "/queues/q/messages", object{"payload": strings.Repeat("x", 1<<20+1)})
		require.Equal(t, []string{"payload"}, fields(p))
	})
}

func TestABodyThatDoesNotArrive(t *testing.T) {
	t.Parallel()
	s := sqlite(t, func(cfg *httpapi.Config) { cfg.BodyTime = 50 * time.Millisecond })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = conn.Write([]byte("POST /queues/q/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"))
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestTimeout, readResponse(t, conn, s.request(t, http.MethodPost, "/queues/q/messages", nil)).status)
}

// readResponse reads one answer off a connection.
func readResponse(t *testing.T, conn net.Conn, r *http.Request) answer {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), r)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp.StatusCode, resp.Header, string(text)}
}

func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"payload":"x"}`, `{"payload":"\ud83d\ude00","headers":{"a":"b"},"max_retries":3}`, `{"messages":[{"payload":"a"},{}]}`, `{"settlements":[{"id":1}]}`,
		`{"max":2,"kinds":["a"],"lease":1.5}`, `{"error":"x","retry_in":1e2}`, `[[[`, `{"a":{"b":[1,{}]}} `, "{\"\xff\":1}", `{"payload":"\ud800"}`, ``, ` {} `, `{"a"`,
	} {
		f.Add(seed)
	}
	h := offline(f)
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range posts {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			requireAnswer(t, h, r)
		}
	})
}

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"", "limit=1&offset=2", "cursor=AQAAAAAAAAAHAAAAAAAAAAA", "status=dead&order=desc", "%zz", "a;b", "limit=1&limit=1", "queue=%00&kind=%ff"} {
		f.Add(seed)
	}
	h := offline(f)
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{"/queues/q/messages", "/messages", "/dead-letters", "/audit", "/queues"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.URL.RawQuery = query
			requireAnswer(t, h, r)
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, seed := range []string{"/queues/q/messages/1", "/queues/%2F/messages", "/queues/%00", "//", "/queues/q/messages/1/replay/x", "/%"} {
		f.Add(seed)
	}
	h := offline(f)
	f.Fuzz(func(t *testing.T, path string) {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r := httptest.NewRequestWithContext(t.Context(), method, "/", nil)
			u, err := r.URL.Parse(path)
			if err != nil {
				return
			}
			r.URL = u
			requireAnswer(t, h, r)
		}
	})
}

// offline is a handler of a database without the schema: what passes all
// checks is answered with 503.
func offline(tb testing.TB) http.Handler {
	tb.Helper()
	logger := slog.New(slog.DiscardHandler)
	c, err := client.New(testdb.SQLite(tb).DB, client.Config{Logger: logger})
	require.NoError(tb, err)
	h, err := httpapi.New(httpapi.Config{Client: c, Open: true, Logger: logger})
	require.NoError(tb, err)
	return h
}

func requireAnswer(t *testing.T, h http.Handler, r *http.Request) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	a := answer{w.Code, w.Header(), w.Body.String()}
	if w.Code >= 400 {
		require.NotEqual(t, http.StatusInternalServerError, w.Code, a.text)
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	}
	a.object(t)
	described(t, r, a)
}
