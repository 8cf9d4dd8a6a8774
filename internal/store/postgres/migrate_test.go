package postgres_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	open "github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/internal/store/postgres"
	"github.com/styxmq/styx/internal/testdb"
)

// objects describes everything in the schema, with its name taken out.
func objects(t *testing.T, f fixture) []string {
	t.Helper()
	rows, err := f.db.DB.DB.QueryContext(t.Context(), `
		SELECT concat_ws(' ', 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attcompression)
		  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		 WHERE c.relnamespace = $1::text::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
		UNION ALL
		SELECT 'index ' || pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
		 WHERE c.relnamespace = $1::text::regnamespace
		UNION ALL
		SELECT concat_ws(' ', 'relation', c.relname, c.relkind, c.reloptions) FROM pg_class c
		 WHERE c.relnamespace = $1::text::regnamespace
		UNION ALL
		SELECT 'constraint ' || k.conname || ' ' || pg_get_constraintdef(k.oid) FROM pg_constraint k
		 WHERE k.connamespace = $1::text::regnamespace
		ORDER BY 1`, `"`+f.db.Schema+`"`)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	var all []string
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		all = append(all, strings.ReplaceAll(line, f.db.Schema, "SCHEMA"))
	}
	require.NoError(t, rows.Err())
	return all
}

// Reported as jackc/tern#19.
func TestMigrateManyAtOnce(t *testing.T) {
	t.Parallel()
	db := testdb.Postgres(t)
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		applied []int
	)
	for range 10 {
		wg.Go(func() {
			own, err := open.Open(t.Context(), db.URL)
			if err == nil {
				defer func() { _ = own.Close() }()
				var s *postgres.Store
				if s, err = postgres.New(own, db.Schema); err == nil {
					var did []int
					did, err = s.Migrate(t.Context())
					mu.Lock()
					applied = append(applied, did...)
					mu.Unlock()
				}
			}
			if err != nil {
				t.Errorf("migrate: %v", err)
			}
		})
	}
	wg.Wait()

	s, err := postgres.New(db.DB, db.Schema)
	require.NoError(t, err)
	current, known, err := s.SchemaVersion(t.Context())
	require.NoError(t, err)
	require.Equal(t, known, current)
	require.Len(t, applied, known, "each migration was applied once")
}

func TestMigrateUpDownUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	current, known, err := f.SchemaVersion(t.Context())
	require.NoError(t, err)
	require.Equal(t, known, current)
	before := objects(t, f)
	require.NotEmpty(t, before)

	again, err := f.Migrate(t.Context())
	require.NoError(t, err)
	require.Empty(t, again)

	// What retention leaves between two steps must not be in the way.
	partition := value[string](t, f, `SELECT min(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = '{{s}}archive'::regclass`)
	f.exec(t, `ALTER TABLE {{s}}archive DETACH PARTITION `+partition)

	for target := known - 1; target >= 0; target-- {
		removed, err := f.MigrateDown(t.Context(), target)
		require.NoError(t, err)
		require.Equal(t, []int{target + 1}, removed)
		_, err = f.Migrate(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, objects(t, f))
		_, err = f.MigrateDown(t.Context(), target)
		require.NoError(t, err)
	}
	require.False(t, value[bool](t, f, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, f.db.Schema))
	current, _, err = f.SchemaVersion(t.Context())
	require.NoError(t, err)
	require.Zero(t, current)
	removed, err := f.MigrateDown(t.Context(), 0)
	require.NoError(t, err)
	require.Empty(t, removed)

	applied, err := f.Migrate(t.Context())
	require.NoError(t, err)
	require.Len(t, applied, known)
	require.Equal(t, before, objects(t, f))
}

func TestMigrateDownKeepsForeignObjects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(t, `CREATE TABLE {{s}}theirs (id bigint)`)
	_, err := f.MigrateDown(t.Context(), 0)
	require.NoError(t, err)
	f.exec(t, `INSERT INTO {{s}}theirs VALUES (1)`)
	_, err = f.Migrate(t.Context())
	require.NoError(t, err)
}

// Reported as salsita/node-pg-migrate#821.
func TestMigrateRefusesNewer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, known, err := f.SchemaVersion(t.Context())
	require.NoError(t, err)
	f.exec(t, `INSERT INTO {{s}}migrations (version, name) VALUES ($1, 'later')`, known+1)
	before := objects(t, f)

	_, err = f.Migrate(t.Context())
	require.ErrorIs(t, err, message.ErrSchemaNewer)
	_, err = f.MigrateDown(t.Context(), 0)
	require.ErrorIs(t, err, message.ErrSchemaNewer)
	require.Equal(t, before, objects(t, f))
	current, _, err := f.SchemaVersion(t.Context())
	require.NoError(t, err)
	require.Equal(t, known+1, current)
}

// role makes a role of this test and returns a URL for it.
func role(t *testing.T, db testdb.DB) (name, address string) {
	t.Helper()
	name = "styx_role_" + strings.ToLower(rand.Text()[:12])
	password := rand.Text()
	_, err := db.ExecContext(t.Context(), fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD '%s'`, name, password))
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := db.ExecContext(context.WithoutCancel(t.Context()), fmt.Sprintf(`DROP OWNED BY %s CASCADE; DROP ROLE %s`, name, name))
		require.NoError(t, err)
	})
	u, err := url.Parse(db.URL)
	require.NoError(t, err)
	u.User = url.UserPassword(name, password)
	return name, u.String()
}

// Reported as riverqueue/river#891.
func TestMigrateWithoutRights(t *testing.T) {
	t.Parallel()
	db := testdb.Postgres(t)
	name, address := role(t, db)
	own, err := open.Open(t.Context(), address)
	require.NoError(t, err)
	defer func() { require.NoError(t, own.Close()) }()
	s, err := postgres.New(own, db.Schema)
	require.NoError(t, err)

	_, err = s.Migrate(t.Context())
	require.ErrorContains(t, err, "ask an owner to run the migration")
	var state interface{ SQLState() string }
	require.ErrorAs(t, err, &state)
	require.Equal(t, "42501", state.SQLState())

	// An owner of the schema needs no right to make another, and gets it back
	// empty.
	_, err = db.ExecContext(t.Context(), fmt.Sprintf(`CREATE SCHEMA %s AUTHORIZATION %s`, db.Schema, name))
	require.NoError(t, err)
	for range 2 {
		_, err = s.Migrate(t.Context())
		require.NoError(t, err)
		_, err = s.MigrateDown(t.Context(), 0)
		require.NoError(t, err)
	}
	_, err = s.Migrate(t.Context())
	require.NoError(t, err)

	// One that may only use the tables finds nothing to do.
	user, address := role(t, db)
	_, err = own.ExecContext(t.Context(), fmt.Sprintf(`GRANT USAGE ON SCHEMA %[1]s TO %[2]s;
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[1]s TO %[2]s`, db.Schema, user))
	require.NoError(t, err)
	guest, err := open.Open(t.Context(), address)
	require.NoError(t, err)
	defer func() { require.NoError(t, guest.Close()) }()
	g, err := postgres.New(guest, db.Schema)
	require.NoError(t, err)
	applied, err := g.Migrate(t.Context())
	require.NoError(t, err)
	require.Empty(t, applied)
	require.NoError(t, g.Prepare(t.Context()))
}

// Reported as riverqueue/river#503.
func TestMigrateTwoSchemas(t *testing.T) {
	t.Parallel()
	a, b := newFixture(t), newFixture(t)
	require.Equal(t, objects(t, a), objects(t, b))
	id := a.message(t, "", "")
	_, err := b.Get(t.Context(), id)
	require.ErrorIs(t, err, message.ErrNotFound)
	_, err = b.MigrateDown(t.Context(), 0)
	require.NoError(t, err)
	_, err = a.Get(t.Context(), id)
	require.NoError(t, err)
}

func TestMigrateUpperCaseSchema(t *testing.T) {
	t.Parallel()
	db := testdb.Postgres(t)
	name := "Styx_" + strings.ToUpper(db.Schema[10:])
	s, err := postgres.New(db.DB, name)
	require.NoError(t, err)
	_, err = s.Migrate(t.Context())
	require.NoError(t, err)
	db.Schema = name
	f := fixture{Store: s, db: db}
	id := f.message(t, "", "")
	_, err = s.Get(t.Context(), id)
	require.NoError(t, err)
	_, err = s.MigrateDown(t.Context(), 0)
	require.NoError(t, err)
}

func TestMigrationSQL(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, known, err := f.SchemaVersion(t.Context())
	require.NoError(t, err)
	want := objects(t, f)

	down, err := f.MigrationSQL(known, 0)
	require.NoError(t, err)
	f.exec(t, down)
	up, err := f.MigrationSQL(0, known)
	require.NoError(t, err)
	f.exec(t, up)
	applied, err := f.Migrate(t.Context())
	require.NoError(t, err)
	require.Empty(t, applied, "the text records its versions")
	require.Equal(t, want, objects(t, f))

	nothing, err := f.MigrationSQL(known, known)
	require.NoError(t, err)
	require.Empty(t, nothing)
	for _, bad := range [][2]int{{-1, known}, {0, known + 1}} {
		_, err = f.MigrationSQL(bad[0], bad[1])
		var invalid *message.ValidationError
		require.ErrorAs(t, err, &invalid)
	}
}

func TestMigrateNeedsPostgreSQL15(t *testing.T) {
	t.Parallel()
	require.NoError(t, postgres.CheckServer(150000))
	require.NoError(t, postgres.CheckServer(180001))
	require.EqualError(t, postgres.CheckServer(140012), "need PostgreSQL 15 or newer, the server is version 14.12")
}
