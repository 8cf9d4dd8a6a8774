package sqlite

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	client "github.com/styxmq/styx/client/sqlite"
	"github.com/styxmq/styx/internal/store"
)

// INDEXED BY keeps every statement to its index; what is left to prove is how
// far into it the statement goes.
func TestClaimsReadRangesOfTheirIndexes(t *testing.T) {
	t.Parallel()
	db, err := client.Open(t.Context(), t.TempDir()+"/styx.db")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	s, err := New(db)
	require.NoError(t, err)
	_, err = s.Migrate(t.Context())
	require.NoError(t, err)
	plan := func(text string) string {
		args := make([]any, strings.Count(text, "?"))
		rows, err := db.DB.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, args...)
		require.NoError(t, err, text)
		defer func() { require.NoError(t, rows.Close()) }()
		var lines []string
		for rows.Next() {
			var id, parent, unused int
			var line string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &line))
			lines = append(lines, line)
		}
		require.NoError(t, rows.Err())
		return strings.Join(lines, "\n")
	}
	for _, kinds := range [][]string{nil, {"a"}, {"a", "b", "c"}} {
		texts := claimTextsOf(store.CursorSpec{Queue: "q", Kinds: kinds})
		ready := plan(texts.ready)
		require.Contains(t, ready, "SEARCH m USING INDEX styx_messages_ready (queue=? AND priority=? AND rowid>?)")
		require.NotContains(t, ready, "TEMP B-TREE")
		require.Contains(t, plan(texts.due), "SEARCH m USING INDEX styx_messages_due (queue=? AND due_at>? AND due_at<?)")
		require.Contains(t, plan(texts.suspect), "SEARCH m USING INDEX styx_messages_suspect (queue=? AND due_at<?)")
		look := plan(texts.look)
		require.Contains(t, look, "SEARCH m USING INDEX styx_messages_ready (queue=? AND priority=? AND rowid>?)")
		require.Contains(t, look, "SEARCH m USING INDEX styx_messages_due (queue=? AND due_at>? AND due_at<?)")
		require.NotContains(t, look, "SCAN m")
	}
	require.Contains(t, plan(nextPriorityText), "SEARCH m USING INDEX styx_messages_ready (queue=? AND priority>?)")
	require.Contains(t, plan(lastPriorityText), "SEARCH m USING INDEX styx_messages_ready (queue=?)")
	require.NotContains(t, plan(nextDueText), "SCAN m")
	require.NotContains(t, plan(getText), "SCAN m")
	require.Contains(t, plan("SELECT EXISTS (SELECT 1 FROM "+heldText+")"), "SCAN m USING COVERING INDEX styx_messages_held")
}
