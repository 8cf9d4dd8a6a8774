package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper/internal/httpapi"
)

func TestClaimTakesManyOfSomeKinds(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		s := serve(t, db, nil)
		for _, kind := range []string{"a", "b", "a", "c", "a"} {
			s.enqueue(t, "q", object{"payload": "x", "kind": kind})
		}
		c := s.call(t, 200, http.MethodPost, "/queues/q/claim", `{"max":2,"kinds":["a"],"lease":30}`)
		require.Equal(t, true, c["claimed"])
		messages := c["messages"].([]any)
		require.Len(t, messages, 2)
		for _, m := range messages {
			m := m.(object)
			require.Equal(t, "a", m["kind"])
			require.Positive(t, number(t, m["lease_token"]))
			require.NotNil(t, m["deadline"])
		}
		require.Len(t, s.call(t, 200, http.MethodPost, "/queues/q/claim", `{"max":100}`)["messages"], 3)
		require.Equal(t, object{"claimed": false, "messages": []any{}}, s.call(t, 200, http.MethodPost, "/queues/q/claim", `{"max":1}`))
	})
}

func TestClaimRefusesWhatIsNotValid(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	for body, field := range map[string]string{
		`{"max":0}`: "max", `{"max":101}`: "max", `{"max":"1"}`: "max", `{"kinds":"a"}`: "kinds", `{"kinds":[1]}`: "kinds[0]", `{"kinds":[null]}`: "kinds[0]",
		`{"kinds":["a",""]}`: "kinds[1]", `{"wait":31}`: "wait", `{"wait":-1}`: "wait", `{"wait":true}`: "wait", `{"lease":0}`: "lease", `{"lease":1e300}`: "lease",
		`{"worker_id":"w"}`: "worker_id",
	} {
		p := s.refused(t, 422, "validation-failed", http.MethodPost, "/queues/q/claim", body)
		require.Equal(t, []string{field}, fields(p), body)
	}
}

func TestALeaseTokenFencesAStaleConsumer(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		s := serve(t, db, nil)
		m := s.enqueue(t, "q", `{"payload":"x"}`)
		first := s.claim(t, "q")
		token := func(m object) object { return object{"lease_token": m["lease_token"]} }
		extended := s.call(t, 200, http.MethodPost, path(m, "extend"), object{"lease_token": first["lease_token"], "lease": 300})
		require.Greater(t, span(t, first["deadline"], extended["deadline"]), time.Minute)
		released := s.call(t, 200, http.MethodPost, path(m, "release"), token(first))
		require.Equal(t, "pending", released["status"])
		require.EqualValues(t, "0", released["retry_count"], "uncharged")

		second := s.claim(t, "q")
		require.NotEqual(t, first["lease_token"], second["lease_token"])
		for _, verb := range []string{"succeed", "fail", "extend"} {
			s.refused(t, 409, "lease-lost", http.MethodPost, path(m, verb), token(first))
		}
		require.Equal(t, "succeeded", s.call(t, 200, http.MethodPost, path(m, "succeed"), token(second))["status"])
		require.Equal(t, "succeeded", s.call(t, 200, http.MethodPost, path(m, "succeed"), token(second))["status"], "the same answer again")
	})
}

func TestALeaseTokenCanBeRequired(t *testing.T) {
	t.Parallel()
	s := sqlite(t, func(cfg *httpapi.Config) { cfg.RequireLeaseToken = true })
	m := s.enqueue(t, "q", `{"payload":"x"}`)
	claimed := s.claim(t, "q")
	for _, verb := range []string{"succeed", "fail", "extend", "release"} {
		p := s.refused(t, 422, "validation-failed", http.MethodPost, path(m, verb), nil)
		require.Equal(t, []string{"lease_token"}, fields(p))
	}
	p := s.refused(t, 422, "validation-failed", http.MethodPost, "/queues/q/settle", `{"settlements":[{"id":1,"verb":"succeed"}]}`)
	require.Equal(t, []string{"settlements[0].lease_token"}, fields(p))
	s.call(t, 200, http.MethodPost, path(m, "succeed"), object{"lease_token": claimed["lease_token"]})
}

func TestFailTakesKindAndDelay(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	m := s.enqueue(t, "q", `{"payload":"x","max_retries":10}`)
	s.claim(t, "q")
	failed := s.call(t, 200, http.MethodPost, path(m, "fail"), `{"error":"boom","error_class":"TypeError","failure_kind":"transient","retry_in":0}`)
	require.Equal(t, "pending", failed["status"])
	require.Nil(t, failed["retry_after"], "at once")
	s.claim(t, "q")
	failed = s.call(t, 200, http.MethodPost, path(m, "fail"), `{"error":"bad","stack":"at x","failure_kind":"permanent"}`)
	require.Equal(t, "dead", failed["status"])
	attempts := s.call(t, 200, http.MethodGet, path(m, "attempts"), nil)
	require.EqualValues(t, "2", attempts["count"])
	require.Equal(t, "TypeError", attempts["attempts"].([]any)[0].(object)["error_class"])
	for body, field := range map[string]string{
		`{"error":5}`: "error", `{"failure_kind":"odd"}`: "failure_kind", `{"retry_in":-1}`: "retry_in", `{"retry_in":1e9}`: "retry_in",
		`{"error_class":"` + strings.Repeat("x", 129) + `"}`: "error_class", `{"lease_token":0}`: "lease_token", `{"lease_token":"1"}`: "lease_token",
		`{"lease_token":1.0}`: "lease_token", `{"reason":"x"}`: "reason",
	} {
		p := s.refused(t, 422, "validation-failed", http.MethodPost, path(m, "fail"), body)
		require.Equal(t, []string{field}, fields(p), body)
	}
}

func TestSettleReportsEachOutcome(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		s := serve(t, db, nil)
		for range 4 {
			s.enqueue(t, "q", `{"payload":"x"}`)
		}
		elsewhere := s.enqueue(t, "other", `{"payload":"x"}`)
		claimed := s.call(t, 200, http.MethodPost, "/queues/q/claim", `{"max":4}`)["messages"].([]any)
		item := func(i int, verb string) object {
			m := claimed[i].(object)
			return object{"id": m["id"], "lease_token": m["lease_token"], "verb": verb}
		}
		stale := item(3, "succeed")
		stale["lease_token"] = 99
		failed := item(1, "fail")
		failed["error"], failed["failure_kind"] = "bad", "permanent"
		out := s.call(t, 200, http.MethodPost, "/queues/q/settle", object{"settlements": []object{
			item(0, "succeed"), failed, item(2, "release"), stale, {"id": elsewhere["id"], "verb": "succeed"}, {"id": 9999, "verb": "succeed"},
		}})
		require.EqualValues(t, "3", out["settled"])
		var sorts []string
		for _, r := range out["results"].([]any) {
			p, _ := r.(object)["problem"].(object)
			sorts = append(sorts, fmt.Sprint(r.(object)["ok"], " ", p["type"]))
		}
		const base = "false urn:styx:problem:"
		require.Equal(t, []string{"true <nil>", "true <nil>", "true <nil>", base + "lease-lost", base + "not-found", base + "not-found"}, sorts)
		require.Equal(t, "dead", s.call(t, 200, http.MethodGet, path(claimed[1].(object), ""), nil)["status"])
	})
}

func TestSettleRefusesWhatIsNotValid(t *testing.T) {
	t.Parallel()
	s := sqlite(t, nil)
	for body, field := range map[string]string{
		`{}`: "settlements", `{"settlements":null}`: "settlements", `{"settlements":{}}`: "settlements", `{"settlements":[1]}`: "settlements[0]",
		`{"settlements":[{}]}`: "settlements[0].id", `{"settlements":[{"id":1}]}`: "settlements[0].verb", `{"settlements":[{"id":1,"verb":"x"}]}`: "settlements[0].verb",
		`{"settlements":[{"id":1,"verb":"fail","error_class":"\n"}]}`: "settlements[0].error_class", `{"settlements":[{"id":1,"verb":"succeed","x":1}]}`: "settlements[0].x",
		`{"settlements":[` + strings.Repeat(`{"id":1,"verb":"succeed"},`, 1000) + `{"id":1,"verb":"succeed"}]}`: "settlements",
	} {
		p := s.refused(t, 422, "validation-failed", http.MethodPost, "/queues/q/settle", body)
		require.Equal(t, []string{field}, fields(p), body[:min(len(body), 80)])
	}
	require.Empty(t, s.call(t, 200, http.MethodPost, "/queues/q/settle", `{"settlements":[]}`)["results"])
}

// later sends a claim that waits, and hands its answer over.
func (s *server) later(ctx context.Context, t *testing.T, queue string) <-chan string {
	t.Helper()
	answers := make(chan string, 1)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/queues/"+queue+"/claim", strings.NewReader(`{"wait":30}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	go func() {
		resp, err := s.http.Do(r)
		if err != nil {
			answers <- err.Error()
			return
		}
		defer func() { _ = resp.Body.Close() }()
		var v struct {
			Claimed bool
			Message struct{ ID json.Number }
		}
		err = json.NewDecoder(resp.Body).Decode(&v)
		answers <- fmt.Sprint(resp.StatusCode, " ", v.Claimed, " ", v.Message.ID, " ", err)
	}()
	return answers
}

func TestAClaimWaitsForAMessage(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		s := serve(t, db, nil)
		answers := s.later(t.Context(), t, "q")
		require.Eventually(t, func() bool { return s.handler.Waiting() == 1 }, patience, time.Millisecond)
		require.Zero(t, s.handler.Working(), "whoever waits takes no place among those at work")
		m := s.enqueue(t, "q", `{"payload":"x"}`)
		require.Equal(t, "200 true "+string(m["id"].(json.Number))+" <nil>", <-answers)
	})
}

func TestWaitsEndWhenTheServerStops(t *testing.T) {
	t.Parallel()
	stopping := make(chan struct{})
	s := sqlite(t, func(cfg *httpapi.Config) { cfg.Stopping = stopping })
	first, second := s.later(t.Context(), t, "a"), s.later(t.Context(), t, "b")
	require.Eventually(t, func() bool { return s.handler.Waiting() == 2 }, patience, time.Millisecond)
	close(stopping)
	require.Equal(t, "200 false  <nil>", <-first)
	require.Equal(t, "200 false  <nil>", <-second)
}

func TestAMessageIsNotLostOnWhoeverIsGone(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		s := serve(t, db, nil)
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			gone := s.later(ctx, t, "q")
			require.Eventually(t, func() bool { return s.handler.Waiting() == 1 }, patience, time.Millisecond)
			cancel()
			<-gone
			m := s.enqueue(t, "q", `{"payload":"x"}`)
			require.Eventually(t, func() bool { return s.handler.Waiting() == 0 }, patience, time.Millisecond)
			var claimed object
			require.Eventually(t, func() bool {
				c := s.call(t, 200, http.MethodPost, "/queues/q/claim", nil)
				claimed, _ = c["message"].(object)
				return claimed != nil
			}, patience, 10*time.Millisecond)
			require.Equal(t, m["id"], claimed["id"])
			s.call(t, 200, http.MethodPost, path(claimed, "succeed"), nil)
		}
	})
}
