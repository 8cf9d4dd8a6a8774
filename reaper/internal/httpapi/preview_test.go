package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper/internal/httpapi"
)

// A list shows the beginning of what is large, so that whoever looks for a
// message that is too large can find it, and the rest on demand.
// Reported as felixmosh/bull-board#1059, felixmosh/bull-board#767 and
// oban-bg/oban#496.
func TestListsShowTheBeginningOfPayloads(t *testing.T) {
	t.Parallel()
	const n, most = 50, 200_000
	size := message.DefaultPayloadLimit
	text := strings.Repeat("0123456789abcde\n", size/16)
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		s := serve(t, db, nil)
		ctx := t.Context()
		enqueue := func(n int, queue, text string) {
			items := make([]client.Item, n)
			for i := range items {
				items[i] = client.Item{Payload: client.Raw{Name: "raw", Text: text}, Options: &client.EnqueueOptions{Queue: queue}}
			}
			_, err := s.client.EnqueueMany(ctx, items)
			require.NoError(t, err)
		}
		for range n / 10 {
			enqueue(10, "q", text)
		}
		enqueue(httpapi.MaxWhole+1, "small", "x")
		list := func(path, key string, count int) []object {
			t.Helper()
			a := s.send(t, s.request(t, http.MethodGet, path, nil))
			require.Equal(t, http.StatusOK, a.status, a.text)
			require.Less(t, len(a.text), most)
			rows := a.object(t)[key].([]any)
			require.Len(t, rows, count)
			var all []object
			for _, row := range rows {
				m := row.(object)
				require.Equal(t, text[:httpapi.Preview], m["payload"])
				require.Equal(t, true, m["payload_truncated"])
				require.Equal(t, json.Number("1048576"), m["payload_bytes"])
				all = append(all, m)
			}
			return all
		}
		first := list("/messages?queue=q&limit=100", "messages", n)[0]
		list("/queues/q/messages?limit=50&order=desc", "messages", n)
		detail := s.call(t, http.StatusOK, http.MethodGet, path(first, ""), nil)
		require.True(t, detail["payload"] == text, "in whole") //nolint:testifylint // Equal would print it
		require.Equal(t, false, detail["payload_truncated"])
		require.Equal(t, json.Number("1048576"), detail["payload_bytes"])

		long := strings.Repeat("e", 4000)
		claimed, err := s.client.Leases().Claim(ctx, "q", &client.ClaimOptions{Max: 3})
		require.NoError(t, err)
		require.Len(t, claimed, 3)
		for _, m := range claimed {
			require.True(t, m.Payload == text) //nolint:testifylint // as above
			require.NoError(t, s.client.Leases().Fail(ctx, "q", m.ID, m.LeaseToken, &client.FailOptions{
				Error: long, Stack: strings.Repeat("frame\n", 1300), Kind: message.FailurePermanent,
			}))
		}
		letter := list("/dead-letters?queue=q", "dead_letters", 3)[0]
		list("/messages?status=dead", "messages", 3)
		for _, field := range []string{"last_error", "error_message", "stack"} {
			shown := letter[field].(string)
			require.Len(t, shown, httpapi.Preview, field)
			require.True(t, strings.HasSuffix(shown, "…"), field)
		}
		detail = s.call(t, http.StatusOK, http.MethodGet, path(letter, "dead-letter"), nil)
		require.Equal(t, long, detail["error_message"])
		require.Greater(t, len(detail["stack"].(string)), 7000)
		require.True(t, detail["payload"] == text) //nolint:testifylint // as above

		whole := s.call(t, http.StatusOK, http.MethodGet, "/dead-letters?whole=true&limit=1", nil)
		require.EqualValues(t, "1", whole["count"])
		for _, row := range whole["dead_letters"].([]any) {
			require.True(t, row.(object)["payload"] == text) //nolint:testifylint // as above
			require.Equal(t, long, row.(object)["error_message"])
		}
		page := s.call(t, http.StatusOK, http.MethodGet, "/messages?queue=small&whole=true", nil)
		require.Len(t, page["messages"], httpapi.MaxWhole)
		for _, path := range []string{"/messages", "/dead-letters", "/queues/q/messages"} {
			require.Equal(t, []string{"limit"}, fields(s.refused(t, 422, "validation-failed", http.MethodGet, path+"?whole=true&limit=11", nil)))
			require.Equal(t, []string{"whole"}, fields(s.refused(t, 422, "validation-failed", http.MethodGet, path+"?whole=1", nil)))
		}
	})
}

// Two operators replay the same message: one does it, the other is told that it
// is dead no more.
// Reported as sidekiq/sidekiq#3436.
func TestOfTwoReplaysOneWins(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		s := serve(t, db, nil)
		for range 5 {
			m := s.bury(t, "q", `{"payload":"x"}`)
			answers := make(chan answer, 2)
			requests := []*http.Request{s.request(t, http.MethodPost, path(m, "replay"), nil), s.request(t, http.MethodPost, path(m, "replay"), nil)}
			for _, r := range requests {
				go func() {
					resp, err := s.http.Do(r)
					if err != nil {
						answers <- answer{text: err.Error()}
						return
					}
					var p struct {
						CurrentStatus string `json:"current_status"`
					}
					err = json.NewDecoder(resp.Body).Decode(&p)
					_ = resp.Body.Close()
					if err != nil {
						p.CurrentStatus = err.Error()
					}
					answers <- answer{status: resp.StatusCode, text: p.CurrentStatus}
				}()
			}
			got := []answer{<-answers, <-answers}
			require.ElementsMatch(t, []answer{{status: 200}, {status: 409, text: "pending"}}, got)
			again := s.claim(t, "q")
			require.EqualValues(t, "1", again["replay_count"])
			s.call(t, 200, http.MethodPost, path(again, "succeed"), nil)
		}
	})
}
