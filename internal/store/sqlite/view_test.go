package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// People read the view: its times are text, and each message is in it once,
// wherever it stands.
func TestViewShowsEveryMessage(t *testing.T) {
	t.Parallel()
	s, db := migrated(t)
	worker := register(t, s)
	ids := map[string]int64{}
	for _, state := range []string{"succeeded", "dead", "processing"} {
		m := newMessage("")
		m.Tenant, m.Headers = state, map[string]string{"a": "b"}
		in, err := s.Insert(t.Context(), nil, &m)
		require.NoError(t, err)
		ids[state] = in.ID
		got := claim(t, s, worker, 1)
		require.Equal(t, in.ID, got[0].ID)
		verb := store.Succeed
		switch state {
		case "processing":
			continue
		case "dead":
			verb = store.Bury
		}
		results, err := s.Settle(t.Context(), worker, []store.Settlement{{
			ID: in.ID, Token: got[0].LeaseToken, Verb: verb,
			Failure: &store.Failure{Kind: message.FailurePermanent, Decision: message.DecisionPoison, Message: "no"},
		}}, nil)
		require.NoError(t, err)
		require.NoError(t, results[0])
	}
	later := newMessage("")
	later.Delay = time.Hour
	in, err := s.Insert(t.Context(), nil, &later)
	require.NoError(t, err)
	ids["pending"] = in.ID

	require.Equal(t, len(ids), count(t, db, "SELECT count(*) FROM styx_all_messages"))
	const iso = "2006-01-02T15:04:05.000Z"
	for state, id := range ids {
		var status, created, updated string
		var due *string
		require.NoError(t, db.DB.DB.QueryRowContext(t.Context(),
			"SELECT status, created_at, updated_at, retry_after FROM styx_all_messages WHERE id = ?", id).
			Scan(&status, &created, &updated, &due))
		require.Equal(t, state, status)
		m, err := s.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, m.CreatedAt.Format(iso), created)
		require.Equal(t, m.UpdatedAt.Format(iso), updated)
		if m.RetryAfter.IsZero() {
			require.Nil(t, due)
		} else {
			require.Equal(t, m.RetryAfter.Format(iso), *due)
		}
	}
}
