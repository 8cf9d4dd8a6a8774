package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

// A message that was announced is looked for at once where its queue has used
// one priority; nothing is passed over, and nobody goes first who should not.
func TestAnnouncedMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.cursor(t)
	number := int64(0)
	claim := func(limit int) (ids []int64, again bool) {
		t.Helper()
		c.Wake()
		number++
		batch, err := c.Claim(t.Context(), store.ClaimRequest{Number: number, Limit: limit, Announced: true})
		require.NoError(t, err)
		for len(batch.Messages) == 0 && batch.Again { // a place where there was one before
			number++
			batch, err = c.Claim(t.Context(), store.ClaimRequest{Number: number, Limit: limit})
			require.NoError(t, err)
		}
		for _, m := range batch.Messages {
			ids = append(ids, m.ID)
		}
		return ids, batch.Again
	}
	first := f.message(t, "", "")
	got, _ := claim(10)
	require.Equal(t, []int64{first}, got)

	// Of a priority that nobody has seen there.
	urgent, plain := f.message(t, "priority", "-5"), f.message(t, "", "")
	got, _ = claim(1)
	require.Equal(t, []int64{urgent}, got, "where only one can be begun it is the most urgent")
	got, again := claim(10)
	require.Equal(t, []int64{plain}, got)
	if again {
		got, _ = claim(10)
		require.Empty(t, got)
	}

	// Now that there are two, the order is that of the priorities.
	plain, urgent = f.message(t, "", ""), f.message(t, "priority", "-5")
	got, _ = claim(10)
	require.Equal(t, []int64{urgent}, got)
	got, _ = claim(10)
	require.Equal(t, []int64{plain}, got)

	// An announced message that is due, and one that is gone.
	due := f.message(t, "due_at", "clock_timestamp()")
	got, _ = claim(10)
	require.Equal(t, []int64{due}, got)
	got, again = claim(10)
	require.Empty(t, got)
	require.False(t, again)
}

// Where one priority is used, a message of another is found by the next claim.
func TestAnnouncedMessageBesideAnUnknownPriority(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.cursor(t)
	require.Equal(t, []int64{f.message(t, "", "")}, look(t, c, 1, 10))
	plain, urgent := f.message(t, "", ""), f.message(t, "priority", "-5")
	c.Wake()
	batch, err := c.Claim(t.Context(), store.ClaimRequest{Number: 2, Limit: 10, Announced: true})
	require.NoError(t, err)
	require.Len(t, batch.Messages, 1)
	require.Equal(t, plain, batch.Messages[0].ID)
	require.True(t, batch.Again)
	batch, err = c.Claim(t.Context(), store.ClaimRequest{Number: 3, Limit: 10})
	require.NoError(t, err)
	require.Len(t, batch.Messages, 1)
	require.Equal(t, urgent, batch.Messages[0].ID)
}
