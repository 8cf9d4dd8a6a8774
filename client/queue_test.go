package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
)

func TestQueues(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		ctx, q := t.Context(), b.Queues()
		all, err := q.List(ctx)
		require.NoError(t, err)
		require.Empty(t, all)
		b.raw(t, client.EnqueueOptions{Queue: "b"})
		b.raw(t, client.EnqueueOptions{Queue: "d"})
		for _, queue := range []string{"e", "b", "a", "c"} {
			require.NoError(t, q.Pause(ctx, queue, &client.PauseOptions{For: time.Hour, Actor: "ann", Origin: "here", Reason: "why not"}))
		}
		all, err = q.List(ctx)
		require.NoError(t, err)
		var names []string
		for _, one := range all {
			names = append(names, one.Queue)
			require.Equal(t, one.Queue != "d", one.Pause != nil, one.Queue)
		}
		require.Equal(t, []string{"a", "b", "c", "d", "e"}, names)
		one, err := q.Get(ctx, "b")
		require.NoError(t, err)
		require.Equal(t, 1, one.Ready)
		require.Equal(t, "why not", one.Pause.Reason)
		require.WithinDuration(t, one.Pause.Since.Add(time.Hour), one.Pause.Until, time.Minute)
		one, err = q.Get(ctx, "never was")
		require.NoError(t, err)
		require.Equal(t, &client.Queue{QueueStats: client.QueueStats{Queue: "never was"}}, one)

		got, err := b.Leases().Claim(ctx, "b", &client.ClaimOptions{Wait: 50 * time.Millisecond})
		require.NoError(t, err)
		require.Empty(t, got, "paused")
		was, err := q.Resume(ctx, "b", nil)
		require.NoError(t, err)
		require.True(t, was)
		was, err = q.Resume(ctx, "b", nil)
		require.NoError(t, err)
		require.False(t, was)
		require.Len(t, []message.Message{b.lend(t, "b")}, 1)
	})
}

// A claim that waits at a paused queue goes on when that is resumed.
func TestResumeWakes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		require.NoError(t, b.Queues().Pause(t.Context(), "q", nil))
		m := b.raw(t, client.EnqueueOptions{Queue: "q"})
		got := make(chan []message.Message, 1)
		go func() {
			claimed, err := b.Leases().Claim(t.Context(), "q", &client.ClaimOptions{Wait: client.MaxWait})
			if err != nil {
				t.Errorf("claim: %v", err)
			}
			got <- claimed
		}()
		_, err := b.Queues().Resume(t.Context(), "q", nil)
		require.NoError(t, err)
		require.Equal(t, []int64{m.ID}, ids(<-got))
	})
}

func TestQueuesRefuse(t *testing.T) {
	t.Parallel()
	q, ctx := newRigs(t).Queues(), t.Context()
	long := strings.Repeat("x", 2000)
	for field, opts := range map[string]client.PauseOptions{
		"for":    {For: message.MaxDelay + 1},
		"until":  {For: time.Hour, Until: time.Now()},
		"actor":  {Actor: long},
		"origin": {Origin: long},
		"reason": {Reason: long},
	} {
		requireInvalid(t, q.Pause(ctx, "q", &opts), field)
	}
	requireInvalid(t, q.Pause(ctx, "q", &client.PauseOptions{Until: time.Now().Add(2 * message.MaxDelay)}), "until")
	requireInvalid(t, q.Pause(ctx, "", nil), "queue")
	_, err := q.Resume(ctx, "", nil)
	requireInvalid(t, err, "queue")
	_, err = q.Resume(ctx, "q", &client.ResumeOptions{Origin: long})
	requireInvalid(t, err, "origin")
	_, err = q.Get(ctx, "")
	requireInvalid(t, err, "queue")
}
