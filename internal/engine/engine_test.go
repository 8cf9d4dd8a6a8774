package engine_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/engine"
	"github.com/styxmq/styx/internal/store/postgres"
	"github.com/styxmq/styx/internal/store/sqlite"
)

// stranger is a dialect that no store is for.
type stranger struct{ *sqlitedialect.Dialect }

func (stranger) Name() dialect.Name { return dialect.MySQL }

func TestNew(t *testing.T) {
	t.Parallel()
	pool := new(sql.DB)
	pg := bun.NewDB(pool, pgdialect.New())
	lite := bun.NewDB(pool, sqlitedialect.New())

	st, err := engine.New(pg, "mine")
	require.NoError(t, err)
	require.IsType(t, (*postgres.Store)(nil), st)
	st, err = engine.New(lite, "")
	require.NoError(t, err)
	require.IsType(t, (*sqlite.Store)(nil), st)

	for _, test := range []struct {
		db            *bun.DB
		schema, field string
	}{
		{nil, "", "db"},
		{bun.NewDB(pool, stranger{sqlitedialect.New()}), "", "db"},
		{lite, "mine", "schema"},
		{pg, "pg_mine", "schema"},
	} {
		st, err := engine.New(test.db, test.schema)
		require.Nil(t, st)
		var invalid *message.ValidationError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, test.field, invalid.Field)
	}
}
