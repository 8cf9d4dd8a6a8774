package cli_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
)

// Of ten letters one cannot go back, since its key belongs to another message
// by now: the others go back, and it is told which one did not, and why.
// Reported as riverqueue/riverui#622.
func TestReplayGoesOnAfterAConflict(t *testing.T) {
	t.Parallel()
	desks(t, func(t *testing.T, d *desk) {
		queue := t.Name()
		for round, output := range []string{"table", "json", "jsonl"} {
			ids := d.bury(t, queue, "refused", 4)
			stuck := d.twin(t, queue, fmt.Sprintf("key %d", round))
			ids = append(ids, d.bury(t, queue, "refused", 5)...)
			r := d.call(t, "dlq", "replay", "--queue", queue, "--yes", "-o", output)
			require.Equal(t, 4, r.code, "a part: %s%s", r.stdout, r.stderr)
			for _, id := range ids {
				require.Equal(t, message.StatusPending, d.status(t, id))
			}
			require.Equal(t, message.StatusDead, d.status(t, stuck))
			switch output {
			case "table":
				require.Contains(t, r.stdout, "replayed 9 of 10 dead letters")
				require.Regexp(t, fmt.Sprintf(`(?m)^%d: .*idempotency key`, stuck), r.stdout)
				require.Equal(t, 2, strings.Count(r.stdout, "\n"), r.stdout)
			case "json":
				out := object(t, r.stdout)
				require.EqualValues(t, 10, out["matched"])
				require.EqualValues(t, 9, out["replayed"])
				require.EqualValues(t, 1, out["failed"])
				require.Len(t, out["messages"], 10)
				for _, m := range out["messages"].([]any) {
					requireOutcome(t, m.(map[string]any), stuck)
				}
				require.Equal(t, "partial", lastLine(t, r)["code"])
			case "jsonl":
				require.Equal(t, 10, strings.Count(r.stdout, "\n"))
				for line := range strings.Lines(r.stdout) {
					requireOutcome(t, object(t, line), stuck)
				}
			}
			// The one alone: an error, with the reason.
			r = d.call(t, "dlq", "replay", fmt.Sprint(stuck), "--yes", "-o", "json")
			require.Equal(t, 1, r.code)
			require.Contains(t, lastLine(t, r)["error"], "idempotency key")
			require.Equal(t, message.StatusDead, d.status(t, stuck))
			d.ok(t, "dlq", "resolve", fmt.Sprint(stuck), "--yes")
			d.finish(t, queue)
		}
	})
}

func requireOutcome(t *testing.T, m map[string]any, stuck int64) {
	t.Helper()
	if m["id"] != float64(stuck) {
		require.Equal(t, "replayed", m["result"])
		return
	}
	require.Equal(t, "failed", m["result"])
	require.Contains(t, m["error"], "idempotency key")
}

// What was put back has its whole budget again, and its history.
// Reported as floci-io/floci#900.
func TestReplayGivesAFreshBudget(t *testing.T) {
	t.Parallel()
	desks(t, func(t *testing.T, d *desk) {
		for _, budget := range []int{1, 3} {
			queue := fmt.Sprintf("%s %d", t.Name(), budget)
			m, err := d.EnqueueRaw(t.Context(), "mail", "{}", &client.EnqueueOptions{Queue: queue, MaxRetries: budget})
			require.NoError(t, err)
			for round := range 2 {
				if round > 0 {
					require.Contains(t, d.ok(t, "dlq", "replay", fmt.Sprint(m.ID), "--yes"), "replayed 1 of 1")
				}
				for attempt := 1; attempt <= budget; attempt++ {
					require.Equal(t, message.StatusPending, d.status(t, m.ID))
					claimed, err := d.Leases().Claim(t.Context(), queue, &client.ClaimOptions{Wait: client.MaxWait})
					require.NoError(t, err)
					require.Len(t, claimed, 1)
					require.Equal(t, attempt, claimed[0].Attempt)
					require.NoError(t, d.Leases().Fail(t.Context(), queue, m.ID, claimed[0].LeaseToken, &client.FailOptions{
						Error: "refused", RetryIn: new(time.Duration),
					}))
				}
				require.Equal(t, message.StatusDead, d.status(t, m.ID))
			}
			attempts, err := d.Attempts(t.Context(), m.ID)
			require.NoError(t, err)
			require.Len(t, attempts, 2*budget)
			again, err := d.Get(t.Context(), m.ID)
			require.NoError(t, err)
			require.Equal(t, 1, again.ReplayCount)
		}
	})
}

// twin makes a dead letter whose key another message holds.
func (d *desk) twin(t *testing.T, queue, key string) int64 {
	t.Helper()
	opts := &client.EnqueueOptions{Queue: queue, IdempotencyKey: key}
	m, err := d.EnqueueRaw(t.Context(), "mail", "{}", opts)
	require.NoError(t, err)
	claimed, err := d.Leases().Claim(t.Context(), queue, nil)
	require.NoError(t, err)
	require.Len(t, claimed, 1)
	require.NoError(t, d.Leases().Fail(t.Context(), queue, m.ID, claimed[0].LeaseToken, &client.FailOptions{
		Error: "refused", Kind: message.FailurePermanent,
	}))
	keys := "styx_keys"
	if d.db.Schema != "" {
		keys = `"` + d.db.Schema + `".keys`
	}
	_, err = d.db.NewRaw("DELETE FROM "+keys+" WHERE message_id = ?", m.ID).Exec(t.Context()) // as when its time is over
	require.NoError(t, err)
	opts.Delay = time.Hour
	_, err = d.EnqueueRaw(t.Context(), "mail", "{}", opts)
	require.NoError(t, err)
	return m.ID
}

// finish ends all messages of a queue.
func (d *desk) finish(t *testing.T, queue string) {
	t.Helper()
	for {
		claimed, err := d.Leases().Claim(t.Context(), queue, &client.ClaimOptions{Max: 100})
		require.NoError(t, err)
		if len(claimed) == 0 {
			return
		}
		for _, m := range claimed {
			require.NoError(t, d.Leases().Succeed(t.Context(), queue, m.ID, m.LeaseToken))
		}
	}
}

// A list shows the beginning of payloads, an export all of them.
func TestExportHasPayloadsInWhole(t *testing.T) {
	t.Parallel()
	desks(t, func(t *testing.T, d *desk) {
		const letters = 25
		queue, text := t.Name(), strings.Repeat("0123456789", 1000)
		for range letters {
			m, err := d.EnqueueRaw(t.Context(), "mail", text, &client.EnqueueOptions{Queue: queue})
			require.NoError(t, err)
			claimed, err := d.Leases().Claim(t.Context(), queue, nil)
			require.NoError(t, err)
			require.NoError(t, d.Leases().Fail(t.Context(), queue, m.ID, claimed[0].LeaseToken, &client.FailOptions{Kind: message.FailurePermanent}))
		}
		for _, list := range []struct {
			args  []string
			whole bool
		}{{[]string{"ls", "--limit", "0", "-o", "jsonl"}, false}, {[]string{"export"}, true}} {
			lines := d.ok(t, append([]string{"dlq"}, append(list.args, "--queue", queue)...)...)
			require.Equal(t, letters, strings.Count(lines, "\n"))
			for line := range strings.Lines(lines) {
				row := object(t, line)
				require.EqualValues(t, len(text), row["payload_bytes"])
				require.Equal(t, !list.whole, row["payload_truncated"])
				require.Equal(t, list.whole, row["payload"] == text)
			}
		}
	})
}
