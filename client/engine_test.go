package client_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/engine"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/testdb"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

type order struct {
	Number int `json:"number"`
}

func (order) Kind() string { return "order" }

// rig is a client on a migrated database, with a worker's hands.
type rig struct {
	*client.Client
	db     testdb.DB
	store  store.Store
	worker int64
	claims int64
}

// quiet is a configuration that logs nothing.
func quiet(db testdb.DB) client.Config {
	return client.Config{Schema: db.Schema, Logger: slog.New(slog.DiscardHandler)}
}

func each(t *testing.T, body func(t *testing.T, b *rig)) {
	t.Helper()
	testdb.Each(t, func(t *testing.T, db testdb.DB) { body(t, newRig(t, db)) })
}

func newRig(t *testing.T, db testdb.DB) *rig {
	t.Helper()
	c, err := client.New(db.DB, quiet(db))
	require.NoError(t, err)
	require.NoError(t, c.Migrate(t.Context()))
	st, err := engine.New(db.DB, db.Schema)
	require.NoError(t, err)
	return &rig{Client: c, db: db, store: st}
}

// claim takes up to limit messages of a queue as a worker would.
func (b *rig) claim(t *testing.T, queue string, limit int) []store.Claimed {
	t.Helper()
	if b.worker == 0 {
		id, err := b.store.Register(t.Context(), store.WorkerInfo{Name: "test", Queues: []string{queue}, Lease: time.Hour})
		require.NoError(t, err)
		b.worker = id
	}
	cursor := b.store.Cursor(store.CursorSpec{WorkerID: b.worker, Queue: queue, Timeout: time.Hour, Lease: time.Hour})
	var messages []store.Claimed
	for again := true; again && len(messages) < limit; {
		b.claims++
		batch, err := cursor.Claim(t.Context(), store.ClaimRequest{Number: b.claims, Limit: limit - len(messages)})
		require.NoError(t, err)
		messages, again = append(messages, batch.Messages...), batch.Again
	}
	return messages
}

// settle ends claimed messages.
func (b *rig) settle(t *testing.T, verb store.Verb, messages ...store.Claimed) {
	t.Helper()
	var batch []store.Settlement
	for _, m := range messages {
		s := store.Settlement{ID: m.ID, Token: m.LeaseToken, Place: m.Place, Keyed: m.IdempotencyKey != "", Verb: verb}
		if verb == store.Bury || verb == store.Retry {
			s.Failure = &store.Failure{
				Kind: message.FailurePermanent, Decision: message.DecisionPoison,
				Class: "test.Error", Message: "refused", Fingerprint: "f",
			}
		}
		batch = append(batch, s)
	}
	results, err := b.store.Settle(t.Context(), b.worker, batch, nil)
	require.NoError(t, err)
	for _, err := range results {
		require.NoError(t, err)
	}
}

// kill enqueues n messages and lets them die; it returns their ids.
func (b *rig) kill(t *testing.T, queue string, n int) []int64 {
	t.Helper()
	items := make([]client.Item, n)
	for i := range items {
		items[i] = client.Item{Payload: order{i}, Options: &client.EnqueueOptions{
			Queue: queue, IdempotencyKey: fmt.Sprint("k", i),
		}}
	}
	messages, err := b.EnqueueMany(t.Context(), items)
	require.NoError(t, err)
	claimed := b.claim(t, queue, n)
	require.Equal(t, n, len(claimed)) //nolint:testifylint // Len would print them all
	b.settle(t, store.Bury, claimed...)
	return ids(messages)
}

func ids(messages []message.Message) []int64 {
	list := make([]int64, 0, len(messages))
	for _, m := range messages {
		list = append(list, m.ID)
	}
	return list
}

// all lists every message of the database.
func (b *rig) all(t *testing.T, opts client.ListOptions) []message.Message {
	t.Helper()
	var all []message.Message
	for {
		page, err := b.List(t.Context(), opts)
		require.NoError(t, err)
		all = append(all, page.Messages...)
		if page.Next == "" {
			return all
		}
		opts.Cursor = page.Next
	}
}

// conns are the kinds of handles that an EnqueueTx takes, each in a
// transaction, with its end.
func conns(t *testing.T, db *bun.DB) map[string]func() (tx bun.IConn, commit, rollback func() error) {
	t.Helper()
	onConn := func(exec func(string) error, closer func() error) (commit, rollback func() error) {
		require.NoError(t, exec("BEGIN"))
		end := func(word string) func() error {
			return func() error {
				err := exec(word)
				require.NoError(t, closer())
				return err
			}
		}
		return end("COMMIT"), end("ROLLBACK")
	}
	return map[string]func() (bun.IConn, func() error, func() error){
		"bun.Tx": func() (bun.IConn, func() error, func() error) {
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			return tx, tx.Commit, tx.Rollback
		},
		"sql.Tx": func() (bun.IConn, func() error, func() error) {
			tx, err := db.DB.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			return tx, tx.Commit, tx.Rollback
		},
		"sql.Conn": func() (bun.IConn, func() error, func() error) {
			c, err := db.DB.Conn(t.Context())
			require.NoError(t, err)
			commit, rollback := onConn(func(q string) error { _, err := c.ExecContext(t.Context(), q); return err }, c.Close)
			return c, commit, rollback
		},
		"bun.Conn": func() (bun.IConn, func() error, func() error) {
			c, err := db.Conn(t.Context())
			require.NoError(t, err)
			commit, rollback := onConn(func(q string) error { _, err := c.ExecContext(t.Context(), q); return err }, c.Close)
			return c, commit, rollback
		},
	}
}
