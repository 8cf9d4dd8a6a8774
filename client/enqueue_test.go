package client_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/testdb"
)

// requireSame compares what an enqueue returned with what is stored. The
// database computes an expiry at another microsecond than the client.
func requireSame(t *testing.T, returned, stored message.Message) {
	t.Helper()
	require.WithinDuration(t, stored.ExpiresAt, returned.ExpiresAt, time.Second)
	require.WithinDuration(t, stored.RetryAfter, returned.RetryAfter, 0)
	require.WithinDuration(t, stored.CreatedAt, returned.CreatedAt, 0)
	returned.ExpiresAt, returned.RetryAfter = stored.ExpiresAt, stored.RetryAfter
	returned.CreatedAt, returned.UpdatedAt = stored.CreatedAt, stored.UpdatedAt
	require.Equal(t, stored, returned)
}

func TestEnqueuedMessageIsTheStoredOne(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		full := client.EnqueueOptions{
			Queue: "a/b?c#d é", Priority: -9, MaxRetries: 1000, Timeout: 1500 * time.Microsecond,
			IdempotencyKey: "order 42 ✓", Tenant: "Acme", CorrelationID: "c",
			Headers: map[string]string{"empty": "", "quote": `"\`, "lines": "a\r\nb"}, ExpiresIn: time.Hour,
		}
		delayed, timed := full, full
		delayed.IdempotencyKey, delayed.Delay = "2", time.Minute
		timed.IdempotencyKey, timed.RunAt = "3", time.Now().Add(time.Hour).Truncate(time.Millisecond)
		for _, opts := range []*client.EnqueueOptions{nil, &full, &delayed, &timed, {Timeout: -1}} {
			m, err := b.Enqueue(t.Context(), order{7}, opts)
			require.NoError(t, err)
			stored, err := b.Get(t.Context(), m.ID)
			require.NoError(t, err)
			requireSame(t, *m, *stored)
			if opts != nil && opts.IdempotencyKey != "" {
				opts.IdempotencyKey += " of a batch"
			}
			many, err := b.EnqueueMany(t.Context(), []client.Item{{Payload: order{8}, Options: opts}, {Payload: order{9}}})
			require.NoError(t, err)
			require.Greater(t, many[0].ID, m.ID)
			require.Greater(t, many[1].ID, many[0].ID)
			for _, m := range many {
				stored, err := b.Get(t.Context(), m.ID)
				require.NoError(t, err)
				requireSame(t, m, *stored)
			}
		}
	})
}

// Reported as contribsys/faktory#395 and RichardKnop/machinery#251.
func TestPayloadsComeBackByteForByte(t *testing.T) {
	t.Parallel()
	payloads := []string{
		" ", "null", `"\u0000"`, `"\\u0000"`, `\u0000`, `"\ud800"`, `"\ufffd"`, "\ufffd", "🚀\u2028\ufeff", `{"b":1, "a":2, "b":3}`,
		"9223372036854775807", "9007199254740993", "1e400", "-0", "0.10", "{not JSON", "'; drop table x; --", "a\r\n\tb\x01\x7f",
		strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000),
		strings.Repeat("x", 7900), strings.Repeat("x", 8100), strings.Repeat("é", message.DefaultPayloadLimit/2),
		`{1,2}`, `{"a","b"}`, `NULL`, `\`, `"`, `,`, // what an array literal would misread
	}
	each(t, func(t *testing.T, b *rig) {
		var items []client.Item
		for _, payload := range payloads {
			m, err := b.EnqueueRaw(t.Context(), "raw", payload, nil)
			require.NoError(t, err)
			stored, err := b.Get(t.Context(), m.ID)
			require.NoError(t, err)
			require.Equal(t, payload, stored.Payload)
			items = append(items, client.Item{Payload: client.Raw{Name: "raw", Text: payload}})
		}
		many, err := b.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
		for i, m := range many {
			stored, err := b.Get(t.Context(), m.ID)
			require.NoError(t, err)
			require.Equal(t, payloads[i], stored.Payload)
		}
		claimed := b.claim(t, message.DefaultQueue, len(payloads))
		require.Equal(t, len(payloads), len(claimed)) //nolint:testifylint // Len would print them all
		for i, m := range claimed {
			require.Equal(t, payloads[i], m.Payload)
		}
	})
}

// Reported as pgmq/pgmq#114, pgmq/pgmq#33 and timgit/pg-boss#721.
func TestQueueNamesNeverMeet(t *testing.T) {
	t.Parallel()
	names := []string{
		" ", "A", "a", "a ", "a-b", "a.b", "a/b", "a?b#c", "..", "%2e", "q'; drop", `q"`, "🚀", "é", "e\u0301", "all", "dlq",
		strings.Repeat("n", 63), strings.Repeat("n", 64), strings.Repeat("n", 128), strings.Repeat("n", 127) + "m", "{a}", "a,b", `\`,
	}
	each(t, func(t *testing.T, b *rig) {
		want := make(map[string]int64)
		for _, name := range names {
			m, err := b.EnqueueRaw(t.Context(), name, name, &client.EnqueueOptions{Queue: name, Tenant: name, IdempotencyKey: name})
			require.NoError(t, err)
			want[name] = m.ID
		}
		stats, err := b.Stats(t.Context())
		require.NoError(t, err)
		require.Len(t, stats, len(names))
		for _, s := range stats {
			require.Equal(t, 1, s.Ready, s.Queue)
			require.Contains(t, want, s.Queue)
		}
		for _, name := range names {
			for _, filter := range []client.ListOptions{{Queue: name}, {Kind: name}, {Tenant: name}} {
				require.Equal(t, []int64{want[name]}, ids(b.all(t, filter)), "%q", name)
			}
			claimed := b.claim(t, name, 10)
			require.Len(t, claimed, 1)
			require.Equal(t, want[name], claimed[0].ID)
		}
	})
}

// Reported as fluxcd/flux#430 and sidekiq/sidekiq#3738.
func TestTimesWithinReasonAreKept(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		zone := time.FixedZone("east", 13*3600+45*60)
		for _, opts := range []client.EnqueueOptions{
			{RunAt: time.Unix(0, 0)},
			{RunAt: time.Unix(1, 0)},
			{RunAt: time.Now().Add(-time.Hour).In(zone)},
			{RunAt: time.Unix(math.MinInt64, 0)},
			{Delay: math.MinInt64},
			{RunAt: time.Date(1, 1, 1, 0, 0, 0, 1, zone)},
		} {
			m, err := b.Enqueue(t.Context(), order{}, &opts)
			require.NoError(t, err)
			claimed := b.claim(t, message.DefaultQueue, 10)
			require.Len(t, claimed, 1, "%+v", opts)
			require.Equal(t, m.ID, claimed[0].ID)
		}
		at := time.Now().Add(time.Hour).Truncate(time.Millisecond).In(zone)
		for _, opts := range []client.EnqueueOptions{
			{RunAt: at}, {Delay: time.Hour}, {Delay: message.MaxDelay, ExpiresIn: message.MaxDelay}, {RunAt: time.Now().Add(message.MaxDelay)},
		} {
			m, err := b.Enqueue(t.Context(), order{}, &opts)
			require.NoError(t, err)
			require.True(t, m.RetryAfter.After(m.CreatedAt))
			if opts.RunAt.Equal(at) {
				require.True(t, m.RetryAfter.Equal(at))
			}
		}
		require.Empty(t, b.claim(t, message.DefaultQueue, 10))
	})
}

// Reported as hibiken/asynq#1055.
func TestDuplicateNamesItsHolder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		opts := &client.EnqueueOptions{Queue: "q", IdempotencyKey: "k"}
		first, err := b.Enqueue(t.Context(), order{1}, opts)
		require.NoError(t, err)
		for _, test := range []struct {
			payload  client.Payload
			mismatch bool
		}{{order{1}, false}, {order{2}, true}, {client.Raw{Name: "other", Text: `{"number":1}`}, true}} {
			m, err := b.Enqueue(t.Context(), test.payload, opts)
			require.Nil(t, m)
			var duplicate *message.DuplicateError
			require.ErrorAs(t, err, &duplicate)
			require.Equal(t, message.DuplicateError{Queue: "q", Key: "k", ID: first.ID, Mismatch: test.mismatch}, *duplicate)

			_, err = b.EnqueueMany(t.Context(), []client.Item{{Payload: order{}}, {Payload: test.payload, Options: opts}})
			require.ErrorAs(t, err, &duplicate)
			require.Equal(t, 1, duplicate.Index)
			require.Equal(t, first.ID, duplicate.ID)
		}
		require.Len(t, b.all(t, client.ListOptions{}), 1)

		// Done, it holds the key for the window; other queues never cared.
		b.settle(t, store.Succeed, b.claim(t, "q", 1)...)
		_, err = b.Enqueue(t.Context(), order{1}, opts)
		var duplicate *message.DuplicateError
		require.ErrorAs(t, err, &duplicate)
		require.Equal(t, first.ID, duplicate.ID)
		_, err = b.Enqueue(t.Context(), order{1}, &client.EnqueueOptions{Queue: "other", IdempotencyKey: "k"})
		require.NoError(t, err)
	})
}

// Reported as hibiken/asynq#338.
func TestWindowEnds(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{-1, time.Millisecond} {
		t.Run(window.String(), func(t *testing.T) {
			t.Parallel()
			testdb.Each(t, func(t *testing.T, db testdb.DB) {
				b := newRig(t, db)
				cfg := quiet(db)
				cfg.IdempotencyWindow = window
				c, err := client.New(db.DB, cfg)
				require.NoError(t, err)
				opts := &client.EnqueueOptions{Queue: "q", IdempotencyKey: "k"}
				first, err := c.Enqueue(t.Context(), order{1}, opts)
				require.NoError(t, err)
				_, err = c.Enqueue(t.Context(), order{1}, opts)
				require.Error(t, err, "held while it is pending")
				b.settle(t, store.Succeed, b.claim(t, "q", 1)...)
				require.Eventually(t, func() bool {
					second, err := c.Enqueue(t.Context(), order{1}, opts)
					return err == nil && second.ID > first.ID
				}, patience, time.Millisecond)
			})
		})
	}
}

func TestOneOfManyGetsTheKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		const callers = 16
		var (
			wg     sync.WaitGroup
			stored [callers]*message.Message
			errs   [callers]error
		)
		for i := range callers {
			wg.Go(func() {
				stored[i], errs[i] = b.Enqueue(t.Context(), order{1}, &client.EnqueueOptions{IdempotencyKey: "k"})
			})
		}
		wg.Wait()
		var winners []int64
		for i, m := range stored {
			if errs[i] == nil {
				winners = append(winners, m.ID)
			}
		}
		require.Len(t, winners, 1)
		for _, err := range errs {
			if err != nil {
				var duplicate *message.DuplicateError
				require.ErrorAs(t, err, &duplicate)
				require.Equal(t, winners[0], duplicate.ID)
			}
		}
	})
}

// Reported as dereuromark/cakephp-queue#508.
func TestHundredThousandInOneCall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		const n = 100_000
		items := make([]client.Item, n)
		for i := range items {
			items[i] = client.Item{Payload: order{i}}
		}
		// All or nothing: the last one's key is taken.
		opts := &client.EnqueueOptions{IdempotencyKey: "k"}
		_, err := b.Enqueue(t.Context(), order{}, opts)
		require.NoError(t, err)
		items[n-1].Options = opts
		_, err = b.EnqueueMany(t.Context(), items)
		var duplicate *message.DuplicateError
		require.ErrorAs(t, err, &duplicate)
		require.Equal(t, n-1, duplicate.Index)
		require.Len(t, b.all(t, client.ListOptions{}), 1)

		items[n-1].Options = nil
		messages, err := b.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
		require.Equal(t, n, len(messages)) //nolint:testifylint // Len would print them all
		for i, m := range messages {
			require.Equal(t, fmt.Sprintf(`{"number":%d}`, i), m.Payload)
			require.True(t, i == 0 || m.ID > messages[i-1].ID)
		}
		for _, i := range []int{0, 1, 4999, 5000, n / 2, n - 1} {
			m, err := b.Get(t.Context(), messages[i].ID)
			require.NoError(t, err)
			require.Equal(t, messages[i].Payload, m.Payload)
		}
		page, err := b.List(t.Context(), client.ListOptions{Descending: true, Limit: 1})
		require.NoError(t, err)
		require.Equal(t, messages[n-1].ID, page.Messages[0].ID)
	})
}

// Reported as acaloiaro/neoq#103.
func TestEnqueueHonoursItsContextWhenThePoolIsEmpty(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *rig) {
		b.db.SetMaxOpenConns(1)
		held, err := b.db.Conn(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = b.Enqueue(ctx, order{}, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = b.EnqueueMany(ctx, []client.Item{{Payload: order{}}})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, held.Close())
		_, err = b.Enqueue(t.Context(), order{}, nil)
		require.NoError(t, err)
	})
}

func TestWithoutMigration(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		c, err := client.New(db.DB, quiet(db))
		require.NoError(t, err, "New does not touch the database")
		_, err = c.Enqueue(t.Context(), order{}, nil)
		require.ErrorIs(t, err, message.ErrSchemaMissing)
		_, err = c.EnqueueMany(t.Context(), []client.Item{{Payload: order{}}})
		require.ErrorIs(t, err, message.ErrSchemaMissing)
		_, err = c.Get(t.Context(), 1)
		require.ErrorIs(t, err, message.ErrSchemaMissing)
		_, err = c.List(t.Context(), client.ListOptions{})
		require.ErrorIs(t, err, message.ErrSchemaMissing)
		_, err = c.Stats(t.Context())
		require.ErrorIs(t, err, message.ErrSchemaMissing)
		_, err = c.DeadLetters().List(t.Context(), client.DeadLetterOptions{})
		require.ErrorIs(t, err, message.ErrSchemaMissing)
		require.ErrorIs(t, c.Cancel(t.Context(), 1, nil), message.ErrSchemaMissing)
	})
}
