package postgres_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

// A statement that the server has lost is prepared anew, under a name that
// none of the others has.
func TestStatementsThatTheServerLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.db.SetMaxOpenConns(1)
	batch := []store.NewMessage{
		{Queue: "q", Kind: "k", Payload: "1", MaxRetries: 5}, {Queue: "q", Kind: "k", Payload: "2", MaxRetries: 5},
	}
	worker, err := f.Register(t.Context(), store.WorkerInfo{Name: "w", Queues: []string{"q"}})
	require.NoError(t, err)
	cursor := f.Cursor(store.CursorSpec{WorkerID: worker, Queue: "q"})
	number := int64(0)
	round := func() {
		t.Helper()
		_, err := f.InsertMany(t.Context(), nil, batch)
		require.NoError(t, err)
		cursor.Wake()
		number++
		claimed, err := cursor.Claim(t.Context(), store.ClaimRequest{Number: number, Limit: 10})
		require.NoError(t, err)
		require.Len(t, claimed.Messages, len(batch))
		var outcomes []store.Settlement
		for _, m := range claimed.Messages {
			outcomes = append(outcomes, store.Settlement{ID: m.ID, Token: m.LeaseToken, Place: m.Place, Verb: store.Succeed})
		}
		results, err := f.Settle(t.Context(), worker, outcomes, nil)
		require.NoError(t, err)
		require.Equal(t, []error{nil, nil}, results)
	}
	round()
	const prepared = 6 // insert, the probe and its plan, the claim and its turn, settle
	for i := range prepared {
		names := strings.Fields(value[string](t, f, `SELECT string_agg(name, ' ' ORDER BY statement) FROM pg_prepared_statements WHERE name LIKE 'styx\_%'`))
		require.Len(t, names, prepared)
		f.exec(t, "DEALLOCATE "+names[i])
		round()
	}
}
