package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper/internal/httpapi"
)

func TestMoreRequestsThanPlacesAreTurnedAway(t *testing.T) {
	t.Parallel()
	s := sqlite(t, func(cfg *httpapi.Config) { cfg.MaxRequests, cfg.MaxWaits = 2, 1 })
	free := s.handler.Occupy()
	a := s.send(t, s.request(t, http.MethodGet, "/queues", nil))
	require.Equal(t, http.StatusTooManyRequests, a.status)
	require.Equal(t, "1", a.header.Get("Retry-After"))
	s.call(t, 200, http.MethodGet, "/healthz", nil)
	s.call(t, 200, http.MethodGet, "/readyz", nil)
	free()
	s.call(t, 200, http.MethodGet, "/queues", nil)

	ctx, cancel := context.WithCancel(t.Context())
	waiting := s.later(ctx, t, "q")
	require.Eventually(t, func() bool { return s.handler.Waiting() == 1 }, patience, time.Millisecond)
	s.refused(t, 429, "too-many-requests", http.MethodPost, "/queues/q/claim", `{"wait":1}`)
	s.call(t, 200, http.MethodPost, "/queues/q/claim", nil)
	cancel()
	<-waiting
	require.Eventually(t, func() bool { return s.handler.Waiting() == 0 }, patience, time.Millisecond)
}

// Ten times as many callers as there are places: each is served or turned
// away, nothing else, memory stays where it was, and afterwards all is well.
func TestOverload(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		const places = 8
		s := serve(t, db, func(cfg *httpapi.Config) { cfg.MaxRequests = places })
		body := `{"payload":"` + strings.Repeat("x", 100_000) + `"}`
		pool := &http.Transport{MaxIdleConnsPerHost: places * 10}
		defer pool.CloseIdleConnections()
		caller := &http.Client{Transport: pool}
		var served, turned, other atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), loadTime(2*time.Second))
		defer cancel()
		var callers sync.WaitGroup
		for range places * 10 {
			callers.Go(func() {
				for ctx.Err() == nil {
					switch post(context.WithoutCancel(ctx), caller, s.url+"/queues/q/messages", body) {
					case http.StatusCreated:
						served.Add(1)
					case http.StatusTooManyRequests, http.StatusServiceUnavailable:
						turned.Add(1)
					default:
						other.Add(1)
					}
				}
			})
		}
		callers.Wait()
		t.Logf("served %d, turned away %d", served.Load(), turned.Load())
		require.Zero(t, other.Load(), s.log.String())
		require.Positive(t, served.Load())
		require.Positive(t, turned.Load())
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		require.Less(t, memory.HeapAlloc, uint64(256<<20))
		s.enqueue(t, "after", `{"payload":"x"}`)
		stored := int64(0)
		for path := "?limit=100"; path != ""; {
			page := s.call(t, 200, http.MethodGet, "/queues/q/messages"+path, nil)
			stored += number(t, page["count"])
			next, _ := page["next_cursor"].(string)
			if path = ""; next != "" && stored < 300 {
				path = "?limit=100&cursor=" + next
			}
		}
		require.GreaterOrEqual(t, stored, min(served.Load(), 300), "what was acknowledged is there")
	})
}

// post returns the status, 0 when there was no answer.
func post(ctx context.Context, caller *http.Client, target, body string) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(body))
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := caller.Do(r)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}
