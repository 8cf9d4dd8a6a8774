package client_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/internal/store"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		h, err := b.Health(t.Context())
		require.NoError(t, err)
		require.Equal(t, h.Known, h.Schema)
		require.Negative(t, h.LastTick)
		require.NotNil(t, h.Unhandled)
		require.True(t, h.SynchronousCommit)
		require.NoError(t, b.store.Ticked(t.Context()))
		b.raw(t, client.EnqueueOptions{Queue: "q"})
		h, err = b.Health(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, h.LastTick, time.Duration(0))
		require.Equal(t, []client.Unhandled{{Queue: "q", Kind: "k"}}, h.Unhandled)

		id, err := b.store.Register(t.Context(), store.WorkerInfo{Name: "w", Queues: []string{"q"}, Kinds: []string{}, Lease: time.Hour})
		require.NoError(t, err)
		ws, err := b.Workers(t.Context())
		require.NoError(t, err)
		require.Len(t, ws, 1)
		require.Equal(t, id, ws[0].ID)
		require.Equal(t, []string{"q"}, ws[0].Queues)
		require.NotNil(t, ws[0].Kinds)
		h, err = b.Health(t.Context())
		require.NoError(t, err)
		require.Empty(t, h.Unhandled)
	})
}

// Without a schema there is nothing to look at.
func TestHealthWithoutSchema(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		_, err := b.store.MigrateDown(t.Context(), 0)
		require.NoError(t, err)
		h, err := b.Health(t.Context())
		require.NoError(t, err)
		require.Zero(t, h.Schema)
		require.Positive(t, h.Known)
	})
}

func TestAudit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		ctx := t.Context()
		dead := b.kill(t, "q", 3)
		letters := b.DeadLetters()
		require.NoError(t, letters.Replay(ctx, dead[0], &client.ReplayOptions{Actor: "ann", Origin: "o1", Reason: "r1"}))
		require.NoError(t, letters.Resolve(ctx, dead[1], &client.ResolveOptions{Actor: "ann", Origin: "o2", Reason: "r2"}))
		_, err := letters.Purge(ctx, client.PurgeOptions{MessageID: dead[2], Actor: "ann", Origin: "o3", Reason: "r3"})
		require.NoError(t, err)
		require.NoError(t, b.Cancel(ctx, dead[0], &client.CancelOptions{Actor: "ann", Origin: "o4", Reason: "r4"}))
		require.NoError(t, b.Queues().Pause(ctx, "p", &client.PauseOptions{Actor: "ann", Origin: "o5", Reason: "r5"}))

		var all []client.AuditEntry
		opts := client.AuditOptions{Limit: 2}
		for {
			page, err := b.Audit(ctx, opts)
			require.NoError(t, err)
			all = append(all, page.Entries...)
			if page.Next == "" {
				break
			}
			opts.Cursor = page.Next
		}
		require.Len(t, all, 5)
		for i, want := range []string{"pause", "cancel", "purge", "resolve", "replay"} {
			require.Equal(t, want, all[i].Action)
			n := strconv.Itoa(5 - i)
			require.Equal(t, "ann o"+n+" r"+n, all[i].Actor+" "+all[i].Origin+" "+all[i].Reason)
		}
		page, err := b.Audit(ctx, client.AuditOptions{MessageID: dead[0]})
		require.NoError(t, err)
		require.Len(t, page.Entries, 2)
		_, err = b.Audit(ctx, client.AuditOptions{Queue: "q", Cursor: opts.Cursor})
		requireInvalid(t, err, "cursor")
	})
}
