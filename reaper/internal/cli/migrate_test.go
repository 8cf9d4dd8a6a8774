package cli_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb"
)

func TestMigrateUpDownUp(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		flags := append(target(t, db), "-o", "json")
		up := object(t, ok(t, append(flags, "migrate", "up")...))
		require.Equal(t, "current", up["state"])
		require.Equal(t, up["newest"], up["version"])
		require.NotEmpty(t, up["applied"])
		again := object(t, ok(t, append(flags, "migrate", "up")...))
		require.NotContains(t, again, "applied")
		status := object(t, ok(t, append(flags, "migrate", "status")...))
		require.Equal(t, again, status)

		refused := call(t, append(flags, "migrate", "down", "--to", "0")...)
		require.Equal(t, 2, refused.code)
		require.Empty(t, refused.stdout)
		require.Contains(t, refused.stderr, "all messages would be removed")
		require.Contains(t, refused.stderr, "reaper migrate down --to 0")
		require.Contains(t, refused.stderr, "--yes")
		require.Equal(t, status, object(t, ok(t, append(flags, "migrate", "status")...)), "nothing was done")

		down := object(t, ok(t, append(flags, "migrate", "down", "--to", "0", "--yes")...))
		require.Equal(t, "missing", down["state"])
		require.NotEmpty(t, down["removed"])
		require.Equal(t, "missing", object(t, ok(t, append(flags, "migrate", "status")...))["state"])
		require.Zero(t, call(t, append(flags, "migrate", "down", "--to", "0")...).code, "nothing to confirm")
		require.Equal(t, "current", object(t, ok(t, append(flags, "migrate", "up")...))["state"])
	})
}

func TestMigrateTellsPeopleWhatItDid(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		flags := target(t, db)
		up := call(t, append(flags, "migrate", "up")...)
		require.Zero(t, up.code)
		require.Contains(t, up.stdout, "applied version 1\n")
		require.Contains(t, up.stdout, "up to date\n")
		require.Contains(t, up.stderr, "database: ")
		status := call(t, append(flags, "migrate", "status")...)
		require.Contains(t, status.stdout, "up to date\n")
		require.NotContains(t, status.stderr, "database: ", "it changes nothing")
		require.Contains(t, ok(t, append(flags, "migrate", "down", "--to=0", "--yes")...), "took back version 1\n")
		require.Contains(t, ok(t, append(flags, "migrate", "status")...), `"reaper migrate up"`)
	})
}

func TestMigrateSQLNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"postgres", "sqlite"} {
		up := ok(t, "migrate", "sql", "--engine", engine)
		require.Contains(t, up, "CREATE TABLE")
		data := object(t, ok(t, "migrate", "sql", "--engine", engine, "-o", "json"))
		require.EqualValues(t, 0, data["from"])
		require.Positive(t, data["to"])
		require.Equal(t, engine, data["engine"])
		require.Contains(t, ok(t, "migrate", "sql", "--engine", engine, "--from", "1", "--to", "0"), "DROP TABLE")
		require.Equal(t, 2, call(t, "migrate", "sql", "--engine", engine, "--to", "4711").code)
	}
	require.Contains(t, ok(t, "migrate", "sql", "--schema", "mine"), `"mine"`)
	require.Equal(t, 2, call(t, "migrate", "sql", "--engine", "oracle").code)
}

func TestNothingButCreationMakesAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none.db")
	for _, args := range [][]string{
		{"migrate", "status"}, {"migrate", "down", "--to", "0", "--yes"}, {"sweep"}, {"run"},
	} {
		r := call(t, append(args, "--database-url", path)...)
		require.Equal(t, 5, r.code, "%v: %s", args, r.stderr)
		require.Contains(t, r.stderr, "reaper migrate up")
		require.NoFileExists(t, path)
	}
}
