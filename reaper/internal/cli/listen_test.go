package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper/internal/cli"
)

// daemon is `reaper run` in this process.
type daemon struct {
	url    string
	stderr *buffer
	// stop ends it and wants a clean end.
	stop func()
}

var servedAt = regexp.MustCompile(`"msg":"the HTTP API is served","url":"([^"]+)"`)

// run starts `reaper run` with a free port.
func run(t *testing.T, db testdb.DB, args ...string) *daemon {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	d := &daemon{stderr: new(buffer)}
	done := make(chan int, 1)
	args = append(append(target(t, db), "run", "--migrate", "-o", "json", "--listen", "127.0.0.1:0"), args...)
	go func() { done <- cli.Run(ctx, args, strings.NewReader(""), io.Discard, d.stderr) }()
	d.stop = func() {
		t.Helper()
		cancel()
		require.Zero(t, <-done, d.stderr.String())
	}
	t.Cleanup(cancel)
	require.Eventually(t, func() bool {
		if found := servedAt.FindStringSubmatch(d.stderr.String()); found != nil {
			d.url = found[1]
		}
		return d.url != ""
	}, patience, 10*time.Millisecond, "%s", d.stderr)
	return d
}

// ask sends a request on a connection of its own.
func (d *daemon) ask(t *testing.T, method, path, token, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, d.url+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Close = true
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// wait sends a claim that waits, and returns once the server is at it.
func (d *daemon) wait(t *testing.T) <-chan string {
	t.Helper()
	at := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(at) }})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/queues/none/claim", strings.NewReader(`{"wait":30}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Expect", "100-continue")
	pool := &http.Transport{ExpectContinueTimeout: patience}
	text := make(chan string, 1)
	go func() {
		defer pool.CloseIdleConnections()
		resp, err := pool.RoundTrip(r)
		if err != nil {
			text <- err.Error()
			return
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		text <- fmt.Sprint(string(body), err)
	}()
	<-at
	return text
}

func TestRunServesTheHTTPAPI(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		d := run(t, db)
		status, text := d.ask(t, http.MethodPost, "/queues/q/messages", "", `{"payload":"x"}`)
		require.Equal(t, http.StatusCreated, status, text)
		status, text = d.ask(t, http.MethodPost, "/queues/q/claim", "", "")
		require.Equal(t, http.StatusOK, status, text)
		require.Contains(t, text, `"claimed":true`)
		require.Eventually(t, func() bool {
			status, text = d.ask(t, http.MethodGet, "/readyz", "", "")
			return status == http.StatusOK
		}, patience, 50*time.Millisecond, "the reaper's tick is seen")
		status, text = d.ask(t, http.MethodGet, "/metrics", "", "")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, text, "go_goroutines")

		waiting := d.wait(t)
		d.stop()
		require.Contains(t, <-waiting, `"claimed":false`, "it does not hold up the end")
		require.Contains(t, d.stderr.String(), "reaper stopped")
	})
}

func TestRunWithTokens(t *testing.T) {
	t.Parallel()
	made := map[string]string{}
	require.NoError(t, json.Unmarshal([]byte(ok(t, "token", "--name", "ci", "--role", "producer", "--queue", "a,b", "-o", "json")), &made))
	require.Regexp(t, `^ci producer sha256:[0-9a-f]{64} a%2Cb$`, made["line"])
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("# who may\n"+made["line"]+"\n"), 0o600))
	d := run(t, testdb.SQLite(t), "--tokens-file", file)
	status, _ := d.ask(t, http.MethodPost, "/queues/a%2Cb/messages", "", `{"payload":"x"}`)
	require.Equal(t, http.StatusUnauthorized, status)
	status, _ = d.ask(t, http.MethodPost, "/queues/a%2Cb/messages", made["token"], `{"payload":"x"}`)
	require.Equal(t, http.StatusCreated, status)
	status, _ = d.ask(t, http.MethodPost, "/queues/c/messages", made["token"], `{"payload":"x"}`)
	require.Equal(t, http.StatusForbidden, status)
	d.stop()
	require.NotContains(t, d.stderr.String(), made["token"])
}

func TestRunRefusesToServeStrangers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	empty, bad := filepath.Join(folder, "empty"), filepath.Join(folder, "bad")
	require.NoError(t, os.WriteFile(empty, []byte("# nobody\n"), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte("ci producer secret\n"), 0o600))
	where := []string{"--database-url", "sqlite:" + filepath.Join(folder, "never.db"), "run", "--migrate"}
	for _, flags := range [][]string{
		{"--listen", ":8080"},
		{"--listen", "0.0.0.0:8080"},
		{"--listen", "[::]:8080"},
		{"--listen", "192.0.2.1:8080"},
		{"--listen", "example.com:80"},
		{"--listen", "8080"},
		{"--listen", "127.0.0.1:0", "--tokens-file", empty},
		{"--listen", "127.0.0.1:0", "--tokens-file", bad},
		{"--listen", "127.0.0.1:0", "--tokens-file", filepath.Join(folder, "none")},
	} {
		r := call(t, append(where, flags...)...)
		require.Equal(t, 2, r.code, "%v: %s", flags, r.stderr)
		require.NotContains(t, r.stderr, "secret")
	}
	require.NoFileExists(t, filepath.Join(folder, "never.db"), "nothing was begun")
}

func TestRunGoesOnWhereTheUsualAddressIsTaken(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	if taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:8080"); err == nil {
		defer func() { require.NoError(t, taken.Close()) }()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stderr buffer
	done := make(chan int, 1)
	args := append(target(t, testdb.SQLite(t)), "run", "--migrate")
	go func() { done <- cli.Run(ctx, args, strings.NewReader(""), io.Discard, &stderr) }()
	require.Eventually(t, func() bool {
		return strings.Contains(stderr.String(), "reaper starts") && strings.Contains(stderr.String(), "name another with --listen")
	}, patience, 10*time.Millisecond, "%s", &stderr)
	cancel()
	require.Zero(t, <-done)

	busy, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, busy.Close()) }()
	r := call(t, append(target(t, testdb.SQLite(t)), "run", "--migrate", "--listen", busy.Addr().String())...)
	require.Equal(t, 1, r.code, "one that was named must be served: %s", r.stderr)
}

func TestTokenNeedsANameAndARole(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `^token: styx_[-_A-Za-z0-9]{43}\nline:  ci worker,viewer sha256:[0-9a-f]{64}\n$`,
		ok(t, "token", "--name", "ci", "--role", "worker", "--role", "viewer"))
	for _, args := range [][]string{{}, {"--name", "x"}, {"--role", "worker"}, {"--name", "x", "--role", "king"}, {"--name", "a b", "--role", "worker"}} {
		require.Equal(t, 2, call(t, append([]string{"token"}, args...)...).code, args)
	}
}
