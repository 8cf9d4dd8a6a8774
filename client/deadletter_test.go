package client_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

func requireState(t *testing.T, err error, operation string, current message.Status) {
	t.Helper()
	var state *message.StateError
	require.ErrorAs(t, err, &state)
	require.Equal(t, operation, state.Operation)
	require.Equal(t, current, state.Current)
}

// Reported as floci-io/floci#900.
func TestReplayGivesAnotherChance(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		dead := b.DeadLetters()
		id := b.kill(t, "q", 1)[0]
		letter, err := dead.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, message.StatusDead, letter.Status)
		require.Equal(t, message.DecisionPoison, letter.Decision)
		require.Equal(t, "refused", letter.ErrorMessage)
		require.Equal(t, `{"number":0}`, letter.Payload)
		require.Zero(t, letter.ResolvedAt)

		require.NoError(t, dead.Replay(t.Context(), id, &client.ReplayOptions{Actor: "ann", Reason: "fixed\nin 1.2"}))
		m, err := b.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, message.StatusPending, m.Status)
		require.Equal(t, 1, m.Attempt)
		require.Equal(t, 1, m.ReplayCount)
		require.Equal(t, "k0", m.IdempotencyKey)
		letter, err = dead.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, message.ResolutionReplayed, letter.Resolution)
		require.Equal(t, "ann", letter.ResolvedBy)
		require.Equal(t, "fixed\nin 1.2", letter.ResolveReason)

		requireState(t, dead.Replay(t.Context(), id, nil), "replay", message.StatusPending)
		requireState(t, dead.Resolve(t.Context(), id, nil), "resolve", message.StatusPending)
		claimed := b.claim(t, "q", 1)
		require.Len(t, claimed, 1)
		requireState(t, b.Cancel(t.Context(), id, nil), "cancel", message.StatusProcessing)
		b.settle(t, store.Succeed, claimed...)
		requireState(t, dead.Replay(t.Context(), id, nil), "replay", message.StatusSucceeded)
		attempts, err := b.Attempts(t.Context(), id)
		require.NoError(t, err)
		require.Len(t, attempts, 1, "the history survives")
		require.Equal(t, message.OutcomeDead, attempts[0].Outcome)
	})
}

// Reported as riverqueue/riverui#622.
func TestReplayIsRefusedWhenTheKeyIsTaken(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		opts := &client.EnqueueOptions{Queue: "q", IdempotencyKey: "k"}
		first, err := b.Enqueue(t.Context(), order{1}, opts)
		require.NoError(t, err)
		require.NoError(t, b.Cancel(t.Context(), first.ID, &client.CancelOptions{Actor: "ann"}))
		requireState(t, b.Cancel(t.Context(), first.ID, nil), "cancel", message.StatusDead)
		letter, err := b.DeadLetters().Get(t.Context(), first.ID)
		require.NoError(t, err)
		require.Equal(t, message.DecisionCancelled, letter.Decision)
		require.Equal(t, "ann", letter.ResolvedBy)

		second, err := b.Enqueue(t.Context(), order{2}, opts)
		require.NoError(t, err, "a cancel frees the key")
		err = b.DeadLetters().Replay(t.Context(), first.ID, nil)
		var duplicate *message.DuplicateError
		require.ErrorAs(t, err, &duplicate)
		require.Equal(t, second.ID, duplicate.ID)
		m, err := b.Get(t.Context(), first.ID)
		require.NoError(t, err)
		require.Equal(t, message.StatusDead, m.Status, "it stays where it was")
	})
}

func TestResolveClosesALetter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		dead := b.DeadLetters()
		id := b.kill(t, "q", 1)[0]
		require.NoError(t, dead.Resolve(t.Context(), id, &client.ResolveOptions{Actor: "ann", Reason: "by hand"}))
		letter, err := dead.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, message.ResolutionResolved, letter.Resolution)
		require.NotZero(t, letter.ResolvedAt)
		requireState(t, dead.Resolve(t.Context(), id, nil), "resolve", message.StatusDead)
		_, err = b.Enqueue(t.Context(), order{}, &client.EnqueueOptions{Queue: "q", IdempotencyKey: "k0"})
		require.NoError(t, err, "its key is free")
	})
}

func TestDeadLettersAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		dead := b.DeadLetters()
		want := b.kill(t, "q", 45)
		other := b.kill(t, "other", 3)
		require.NoError(t, dead.Resolve(t.Context(), other[0], nil))
		walk := func(opts client.DeadLetterOptions) (found []int64) {
			for {
				page, err := dead.List(t.Context(), opts)
				require.NoError(t, err)
				letters := page.DeadLetters
				for i, letter := range letters {
					require.True(t, i == 0 || letter.LetterID < letters[i-1].LetterID)
					found = append(found, letter.ID)
				}
				if page.Next == "" {
					return found
				}
				opts.Cursor = page.Next
			}
		}
		for _, limit := range []int{0, 1, 15, 45, 100} {
			require.ElementsMatch(t, want, walk(client.DeadLetterOptions{Queue: "q", Limit: limit}))
		}
		require.Len(t, walk(client.DeadLetterOptions{}), 47)
		require.Equal(t, other[:1], walk(client.DeadLetterOptions{Resolved: true}))
		require.Len(t, walk(client.DeadLetterOptions{
			Kind: "order", ErrorClass: "test.Error", Fingerprint: "f", Decision: message.DecisionPoison,
		}), 47)
		require.Empty(t, walk(client.DeadLetterOptions{Decision: message.DecisionExpired}))
		require.Empty(t, walk(client.DeadLetterOptions{Tenant: "nobody"}))
	})
}

func TestPurge(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		dead := b.DeadLetters()
		purge := func(opts client.PurgeOptions) int {
			opts.Actor = "ann"
			n, err := dead.Purge(t.Context(), opts)
			require.NoError(t, err)
			return n
		}
		first, second := b.kill(t, "first", 1500), b.kill(t, "second", 4)
		require.NoError(t, dead.Resolve(t.Context(), second[0], nil))
		require.Zero(t, purge(client.PurgeOptions{OlderThan: time.Hour}))
		require.Zero(t, purge(client.PurgeOptions{Queue: "none"}))
		require.Equal(t, 1, purge(client.PurgeOptions{MessageID: second[1]}))
		require.Equal(t, 1, purge(client.PurgeOptions{All: true, Resolved: true}))
		require.Equal(t, 1500, purge(client.PurgeOptions{Queue: "first"}), "more than a batch")
		require.Equal(t, 2, purge(client.PurgeOptions{All: true}))
		for _, id := range slices.Concat(first[:3], second) {
			_, err := b.Get(t.Context(), id)
			require.ErrorIs(t, err, message.ErrNotFound)
		}
		_, err := b.Enqueue(t.Context(), order{}, &client.EnqueueOptions{Queue: "first", IdempotencyKey: "k0"})
		require.NoError(t, err, "keys go with their messages")
	})
}
