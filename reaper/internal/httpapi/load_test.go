package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb"
)

// loadVariable makes the load tests measure at length.
const loadVariable = "STYX_TEST_LOAD"

// loadTime is how long a load lasts: shortly, unless it is measured.
func loadTime(short time.Duration) time.Duration {
	if os.Getenv(loadVariable) != "" {
		return 30 * time.Second
	}
	return short
}

// TestLoad prints how many requests a second 16 keep-alive connections make:
//
//	STYX_TEST_LOAD=1 go test -run TestLoad -v ./reaper/internal/httpapi
func TestLoad(t *testing.T) {
	if os.Getenv(loadVariable) == "" {
		t.Skip("set " + loadVariable + "=1 to measure")
	}
	for name, open := range map[string]func(testing.TB) testdb.DB{"postgres": testdb.Postgres, "sqlite": testdb.SQLite} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, open(t), nil)
			const connections, seconds = 16, 10
			l := &load{t: t, s: s, pool: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}}
			defer l.pool.CloseIdleConnections()
			rate := l.run(connections, seconds, l.enqueue)
			fmt.Printf("%s: enqueue %.0f requests/s\n", name, rate)
			rate = l.run(connections, seconds, l.pair)
			fmt.Printf("%s: claim and succeed %.0f pairs/s\n", name, rate)
		})
	}
}

type load struct {
	t    *testing.T
	s    *server
	pool *http.Transport
}

// run repeats step on each connection and returns how often a second it did.
func (l *load) run(connections, seconds int, step func(ctx context.Context, c *http.Client) bool) float64 {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Duration(seconds)*time.Second)
	defer cancel()
	var done atomic.Int64
	var callers sync.WaitGroup
	start := time.Now()
	for range connections {
		callers.Go(func() {
			c := &http.Client{Transport: l.pool}
			for ctx.Err() == nil && step(context.WithoutCancel(ctx), c) {
				done.Add(1)
			}
		})
	}
	callers.Wait()
	require.Positive(l.t, done.Load())
	return float64(done.Load()) / time.Since(start).Seconds()
}

// call returns false when the answer is not the one that is wanted.
func (l *load) call(ctx context.Context, c *http.Client, path, body string, status int, into any) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.s.url+path, strings.NewReader(body))
	if err != nil {
		return false
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(r)
	if err != nil {
		l.t.Error(err)
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		l.t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		return false
	}
	return into == nil || json.Unmarshal(text, into) == nil
}

func (l *load) enqueue(ctx context.Context, c *http.Client) bool {
	return l.call(ctx, c, "/queues/load/messages", `{"payload":"{\"to\":\"alice@example.com\",\"subject\":\"Welcome\"}"}`, http.StatusCreated, nil)
}

func (l *load) pair(ctx context.Context, c *http.Client) bool {
	var claimed struct {
		Message *struct {
			ID    int64 `json:"id"`
			Token int64 `json:"lease_token"`
		} `json:"message"`
	}
	if !l.call(ctx, c, "/queues/load/claim", "", http.StatusOK, &claimed) || claimed.Message == nil {
		return false // the queue is empty: the figure is that of a shorter time
	}
	m := claimed.Message
	return l.call(ctx, c, fmt.Sprintf("/queues/load/messages/%d/succeed", m.ID), fmt.Sprintf(`{"lease_token":%d}`, m.Token), http.StatusOK, nil)
}
