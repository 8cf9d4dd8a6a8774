package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
)

// lend claims one message.
func (b *rig) lend(t *testing.T, queue string) message.Message {
	t.Helper()
	got, err := b.Leases().Claim(t.Context(), queue, nil)
	require.NoError(t, err)
	require.Len(t, got, 1)
	return got[0]
}

func (b *rig) raw(t *testing.T, opts client.EnqueueOptions) *message.Message {
	t.Helper()
	m, err := b.EnqueueRaw(t.Context(), "k", "payload", &opts)
	require.NoError(t, err)
	return m
}

func (b *rig) get(t *testing.T, id int64) message.Message {
	t.Helper()
	m, err := b.Get(t.Context(), id)
	require.NoError(t, err)
	return *m
}

func TestLeases(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		ctx, l := t.Context(), b.Leases()
		got, err := l.Claim(ctx, "q", nil)
		require.NoError(t, err)
		require.Empty(t, got, "a queue that never was")

		first := b.raw(t, client.EnqueueOptions{Queue: "q", MaxRetries: 2})
		m := b.lend(t, "q")
		require.Equal(t, first.ID, m.ID)
		require.Equal(t, b.get(t, m.ID), m)
		require.WithinDuration(t, m.UpdatedAt.Add(client.DefaultLease), m.Deadline, 2*time.Second)

		until, err := l.Extend(ctx, "q", m.ID, m.LeaseToken, time.Hour)
		require.NoError(t, err)
		require.Equal(t, until, b.get(t, m.ID).Deadline)
		_, err = l.Extend(ctx, "q", m.ID, m.LeaseToken+1, time.Hour)
		require.ErrorIs(t, err, message.ErrLeaseLost)
		_, err = l.Extend(ctx, "other", m.ID, 0, time.Hour)
		require.ErrorIs(t, err, message.ErrNotFound)

		require.NoError(t, l.Release(ctx, "q", m.ID, m.LeaseToken, 0))
		require.Zero(t, b.get(t, m.ID).RetryCount)
		require.ErrorIs(t, l.Succeed(ctx, "q", m.ID, m.LeaseToken), message.ErrLeaseLost)

		m = b.lend(t, "q")
		require.NoError(t, l.Fail(ctx, "q", m.ID, m.LeaseToken, nil))
		after := b.get(t, m.ID)
		require.Equal(t, message.StatusPending, after.Status)
		require.Equal(t, 1, after.RetryCount)
		require.Equal(t, "unspecified error", after.LastError)
		require.WithinDuration(t, after.UpdatedAt.Add(2*time.Second), after.RetryAfter, 200*time.Millisecond, "exactly")

		var state *message.StateError
		require.ErrorAs(t, l.Succeed(ctx, "q", m.ID, 0), &state)
		require.Equal(t, message.StatusPending, state.Current)
		require.Equal(t, "succeed", state.Operation)
		require.ErrorIs(t, l.Succeed(ctx, "other", m.ID, 0), message.ErrNotFound)
		require.ErrorIs(t, l.Succeed(ctx, "q", m.ID+1000, 0), message.ErrNotFound)

		second := b.raw(t, client.EnqueueOptions{Queue: "q"})
		m = b.lend(t, "q")
		require.Equal(t, second.ID, m.ID)
		require.NoError(t, l.Fail(ctx, "q", m.ID, 0, &client.FailOptions{
			Error: "no such user", Class: "LookupError", Kind: message.FailurePermanent, Stack: "at line 1",
		}))
		letter, err := b.DeadLetters().Get(ctx, m.ID)
		require.NoError(t, err)
		require.Equal(t, "LookupError", letter.ErrorClass)
		require.Equal(t, message.DecisionPoison, letter.Decision)
		require.NotEmpty(t, letter.Fingerprint)

		third := b.raw(t, client.EnqueueOptions{Queue: "q"})
		m = b.lend(t, "q")
		require.Equal(t, third.ID, m.ID)
		at := 30 * time.Minute
		require.NoError(t, l.Fail(ctx, "q", m.ID, 0, &client.FailOptions{RetryIn: &at}))
		after = b.get(t, m.ID)
		require.WithinDuration(t, after.UpdatedAt.Add(at), after.RetryAfter, time.Second)
	})
}

func TestLeasesSettleMany(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		for range 3 {
			b.raw(t, client.EnqueueOptions{Queue: "q", IdempotencyKey: "", MaxRetries: 1})
		}
		got, err := b.Leases().Claim(t.Context(), "q", &client.ClaimOptions{Max: 10, Kinds: []string{"k"}})
		require.NoError(t, err)
		require.Len(t, got, 3)
		batch := []client.Settlement{
			{ID: got[0].ID, Token: got[0].LeaseToken, Verb: client.VerbSucceed},
			{ID: got[1].ID, Token: got[1].LeaseToken, Verb: client.VerbFail, Fail: &client.FailOptions{Error: "x"}},
			{ID: got[2].ID, Token: got[2].LeaseToken + 1, Verb: client.VerbRelease},
			{ID: got[2].ID + 99, Verb: client.VerbRelease},
		}
		for range 2 { // again is the same
			results, err := b.Leases().Settle(t.Context(), "q", batch)
			require.NoError(t, err)
			require.NoError(t, results[0])
			require.NoError(t, results[1])
			require.ErrorIs(t, results[2], message.ErrLeaseLost)
			require.ErrorIs(t, results[3], message.ErrNotFound)
		}
		require.Equal(t, message.StatusDead, b.get(t, got[1].ID).Status)
		results, err := b.Leases().Settle(t.Context(), "q", nil)
		require.NoError(t, err)
		require.Empty(t, results)
	})
}

func TestLeasesRefuse(t *testing.T) {
	t.Parallel()
	b := newRigs(t)
	l, ctx := b.Leases(), t.Context()
	long := strings.Repeat("x", message.MaxNameLength+1)
	for field, opts := range map[string]client.ClaimOptions{
		"max":      {Max: client.MaxClaim + 1},
		"lease":    {Lease: time.Millisecond},
		"wait":     {Wait: client.MaxWait + 1},
		"kinds[1]": {Kinds: []string{"a", long}},
	} {
		_, err := l.Claim(ctx, "q", &opts)
		requireInvalid(t, err, field)
	}
	_, err := l.Claim(ctx, "", nil)
	requireInvalid(t, err, "queue")
	for field, s := range map[string]client.Settlement{
		"verb":         {Verb: "explode"},
		"lease_token":  {Verb: client.VerbSucceed, Token: -1},
		"delay":        {Verb: client.VerbRelease, Delay: -1},
		"failure_kind": {Verb: client.VerbFail, Fail: &client.FailOptions{Kind: "odd"}},
		"class":        {Verb: client.VerbFail, Fail: &client.FailOptions{Class: long}},
	} {
		_, err := l.Settle(ctx, "q", []client.Settlement{{ID: 1, Verb: client.VerbSucceed}, s})
		requireInvalid(t, err, "settlements[1]."+field)
	}
	_, err = l.Extend(ctx, "q", 1, 0, 0)
	requireInvalid(t, err, "lease")
	_, err = l.Settle(ctx, "q", make([]client.Settlement, client.MaxSettle+1))
	requireInvalid(t, err, "settlements")
}
