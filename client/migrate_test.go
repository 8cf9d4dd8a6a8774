package client_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/testdb"
)

// Reported as jackc/tern#19.
func TestMigrations(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		c, err := client.New(db.DB, quiet(db))
		require.NoError(t, err)
		current, known, err := c.Migrations().Version(t.Context())
		require.NoError(t, err)
		require.Zero(t, current)
		require.Positive(t, known)

		var wg sync.WaitGroup
		var errs [10]error
		for i := range errs {
			wg.Go(func() { errs[i] = c.Migrate(t.Context()) })
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		applied, err := c.Migrations().Up(t.Context())
		require.NoError(t, err)
		require.Empty(t, applied, "a repeat does nothing")
		current, _, err = c.Migrations().Version(t.Context())
		require.NoError(t, err)
		require.Equal(t, known, current)

		removed, err := c.Migrations().Down(t.Context(), 0)
		require.NoError(t, err)
		require.Len(t, removed, known)
		_, err = c.Enqueue(t.Context(), order{}, nil)
		require.ErrorIs(t, err, message.ErrSchemaMissing)
		applied, err = c.Migrations().Up(t.Context())
		require.NoError(t, err)
		require.Len(t, applied, known)
		_, err = c.Enqueue(t.Context(), order{}, nil)
		require.NoError(t, err)

		up, err := c.Migrations().SQL(0, known)
		require.NoError(t, err)
		require.Contains(t, up, "CREATE TABLE")
		down, err := c.Migrations().SQL(known, 0)
		require.NoError(t, err)
		require.Contains(t, down, "DROP")
		_, err = c.Migrations().SQL(0, known+1)
		require.Error(t, err)
	})
}

func TestNewRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	db := testdb.SQLite(t)
	_, err := client.New(db.DB, client.Config{Schema: "mine"})
	requireField(t, err, "schema")
	_, err = client.New(bun.NewDB(db.DB.DB, stranger{sqlitedialect.New()}), client.Config{})
	requireField(t, err, "db")
	_, err = client.New(nil, client.Config{})
	requireField(t, err, "db")
}

// stranger is a dialect that no store is for.
type stranger struct{ *sqlitedialect.Dialect }

func (stranger) Name() dialect.Name { return dialect.MySQL }
