package client_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// full runs tests in the size of the reports behind them:
// STYX_TEST_FULL=1 go test ./client
var full = os.Getenv("STYX_TEST_FULL") == "1"

// A larger limit is kept on every way; beyond it nothing reaches the database.
// Here with 2 MiB, in full with 50.
// Reported as saurabhnanda/odd-jobs#42.
func TestLargePayloadsWithinTheLimit(t *testing.T) {
	t.Parallel()
	size := 2 << 20
	if full {
		size = 50 << 20
	}
	text := strings.Repeat("0123456789abcdef", size/16)
	each(t, func(t *testing.T, b *rig) {
		cfg := quiet(b.db)
		cfg.PayloadLimit = size
		c, err := client.New(b.db.DB, cfg)
		require.NoError(t, err)
		first, err := c.EnqueueRaw(t.Context(), "raw", text, nil)
		require.NoError(t, err)
		many, err := c.EnqueueMany(t.Context(), []client.Item{{Payload: client.Raw{Name: "raw", Text: text}}})
		require.NoError(t, err)
		want := []int64{first.ID, many[0].ID}
		for _, id := range want {
			claimed := b.claim(t, message.DefaultQueue, 1)
			require.Len(t, claimed, 1)
			require.Equal(t, id, claimed[0].ID)
			require.True(t, claimed[0].Payload == text) //nolint:testifylint // Equal would print it
			b.settle(t, store.Bury, claimed...)
			letter, err := c.DeadLetters().Get(t.Context(), id)
			require.NoError(t, err)
			require.True(t, letter.Payload == text) //nolint:testifylint // as above
		}
		_, err = c.EnqueueRaw(t.Context(), "raw", text+"x", nil)
		requireField(t, err, "payload")
		_, err = b.EnqueueRaw(t.Context(), "raw", text, nil)
		requireField(t, err, "payload")
		require.Len(t, b.all(t, client.ListOptions{}), len(want))
	})
}

// A batch of the caller's transaction may be larger than a statement can bind
// parameters. Here with 1,000 messages (the conformance suite
// has 10,000), in full with 100,000.
// Reported as dereuromark/cakephp-queue#508 and saurabhnanda/odd-jobs#42.
func TestManyInATransaction(t *testing.T) {
	t.Parallel()
	n := 1000
	if full {
		n = 100_000
	}
	each(t, func(t *testing.T, b *rig) {
		items := make([]client.Item, n)
		for i := range items {
			items[i] = client.Item{Payload: order{i}}
		}
		for _, commit := range []bool{false, true} {
			tx, err := b.db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			none, err := b.EnqueueManyTx(t.Context(), tx, nil)
			require.NoError(t, err)
			require.Empty(t, none)
			messages, err := b.EnqueueManyTx(t.Context(), tx, items)
			require.NoError(t, err)
			require.Equal(t, n, len(messages)) //nolint:testifylint // Len would print them all
			if !commit {
				require.NoError(t, tx.Rollback())
				require.Empty(t, b.all(t, client.ListOptions{Limit: 1000}))
				continue
			}
			require.NoError(t, tx.Commit())
			found := ids(b.all(t, client.ListOptions{Limit: 1000}))
			require.True(t, len(found) == n && found[0] == messages[0].ID && found[n-1] == messages[n-1].ID)
		}
	})
}
