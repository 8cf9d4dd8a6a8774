package examples_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper"
	"github.com/styxmq/styx/worker"
)

// roles are those of the README, made for one schema.
type roles struct {
	db   testdb.DB
	mark string // after the names, since roles belong to the whole server
}

func newRoles(t *testing.T) *roles {
	t.Helper()
	r := &roles{db: testdb.Postgres(t), mark: "_" + strings.ToLower(rand.Text()[:10])}
	c, err := client.New(r.db.DB, client.Config{Schema: r.db.Schema})
	require.NoError(t, err)
	require.NoError(t, c.Migrate(t.Context()))
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	text := ""
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		if strings.Contains(block[1], "CREATE ROLE") {
			text = block[1]
		}
	}
	require.NotEmpty(t, text)
	statements := regexp.MustCompile(`styx_(producer|worker|operator)\b`).ReplaceAllString(text, "${0}"+r.mark)
	statements = strings.NewReplacer("styx.", r.db.Schema+".", "SCHEMA styx ", "SCHEMA "+r.db.Schema+" ").Replace(statements)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		for _, name := range []string{"styx_worker", "styx_producer", "styx_operator"} {
			for _, verb := range []string{"DROP OWNED BY ", "DROP ROLE "} {
				_, err := r.db.ExecContext(ctx, verb+name+r.mark)
				require.NoError(t, err)
			}
		}
	})
	_, err = r.db.ExecContext(t.Context(), statements)
	require.NoError(t, err)
	return r
}

// as opens the database for a role.
func (r *roles) as(t *testing.T, name string) (*bun.DB, *client.Client) {
	t.Helper()
	u, err := url.Parse(r.db.URL)
	require.NoError(t, err)
	query := u.Query()
	query.Set("role", name+r.mark)
	u.RawQuery = query.Encode()
	db, err := postgres.Open(t.Context(), u.String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	c, err := client.New(db, client.Config{Schema: r.db.Schema})
	require.NoError(t, err)
	return db, c
}

func denied(t *testing.T, err error) {
	t.Helper()
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, "42501", pg.Code, pg.Message)
}

func TestRolesOfTheReadme(t *testing.T) {
	t.Parallel()
	r := newRoles(t)
	ctx := t.Context()
	reap, err := reaper.New(r.db.DB, reaper.Config{Schema: r.db.Schema})
	require.NoError(t, err)
	_, err = reap.RunOnce(ctx)
	require.NoError(t, err)

	db, producer := r.as(t, "styx_producer")
	good, err := producer.EnqueueRaw(ctx, "good", "1", &client.EnqueueOptions{IdempotencyKey: "one", Delay: time.Nanosecond})
	require.NoError(t, err)
	_, err = producer.EnqueueRaw(ctx, "good", "1", &client.EnqueueOptions{IdempotencyKey: "one"})
	require.ErrorAs(t, err, new(*message.DuplicateError))
	many, err := producer.EnqueueMany(ctx, []client.Item{
		{Payload: client.Raw{Name: "bad", Text: "2"}},
		{Payload: client.Raw{Name: "tx", Text: "3"}},
		{Payload: client.Raw{Name: "good", Text: "4"}, Options: &client.EnqueueOptions{Queue: "later", Delay: time.Hour}},
	})
	require.NoError(t, err)
	require.NoError(t, db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		_, err := producer.EnqueueRawTx(ctx, tx, "good", "5", nil)
		return err
	}))
	_, err = producer.Get(ctx, good.ID)
	denied(t, err)
	_, err = producer.Leases().Claim(ctx, "default", nil)
	denied(t, err)
	denied(t, producer.Cancel(ctx, good.ID, nil))

	db, own := r.as(t, "styx_worker")
	w, err := worker.New(db, worker.Config{Schema: r.db.Schema, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	done := make(chan string, 10)
	worker.HandleQueue(w, message.DefaultQueue, func(ctx context.Context, m *worker.Message[string]) error {
		defer func() { done <- m.Kind }()
		switch m.Kind {
		case "bad":
			return worker.Permanent(errors.New("bad"))
		case "tx":
			return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return m.CompleteTx(ctx, tx) })
		}
		return nil
	}, nil)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	for range 4 {
		select {
		case <-done:
		case <-time.After(patience):
			require.Fail(t, "the worker does not work")
		}
	}
	stop()
	require.NoError(t, <-ended)
	denied(t, own.DeadLetters().Resolve(ctx, many[0].ID, nil))
	_, err = own.Audit(ctx, client.AuditOptions{})
	denied(t, err)

	db, operator := r.as(t, "styx_operator")
	page, err := operator.List(ctx, client.ListOptions{Status: message.StatusSucceeded})
	require.NoError(t, err)
	require.Len(t, page.Messages, 3)
	letters, err := operator.DeadLetters().List(ctx, client.DeadLetterOptions{})
	require.NoError(t, err)
	require.Len(t, letters.DeadLetters, 1)
	require.NoError(t, operator.DeadLetters().Replay(ctx, many[0].ID, nil))
	require.NoError(t, operator.Cancel(ctx, many[0].ID, nil))
	require.NoError(t, operator.Cancel(ctx, many[2].ID, nil))
	n, err := operator.DeadLetters().Purge(ctx, client.PurgeOptions{Resolved: true, All: true})
	require.NoError(t, err)
	require.Positive(t, n)
	require.NoError(t, operator.Queues().Pause(ctx, "default", nil))
	_, err = operator.Queues().Resume(ctx, "default", nil)
	require.NoError(t, err)
	_, err = operator.Queues().List(ctx)
	require.NoError(t, err)
	_, err = operator.Health(ctx)
	require.NoError(t, err)
	audit, err := operator.Audit(ctx, client.AuditOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, audit.Entries)
	_, err = operator.DeadLetters().Get(ctx, many[0].ID)
	require.ErrorIs(t, err, message.ErrNotFound)
	_, err = db.ExecContext(ctx, "DELETE FROM "+r.db.Schema+".archive")
	denied(t, err)
}
