package sqlite

import (
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"github.com/styxmq/styx/client/message"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one numbered step of the schema.
type migration struct {
	version  int
	name     string
	up, down string
}

// migrations returns every step, version n at index n-1.
var migrations = sync.OnceValue(func() []migration {
	steps, err := readMigrations(migrationFiles)
	if err != nil {
		panic(fmt.Sprintf("read embedded migrations: %v", err))
	}
	return steps
})

// readMigrations pairs NNNN_name.up.sql and NNNN_name.down.sql. The numbers
// must be 1, 2, 3 and so on.
func readMigrations(files fs.FS) ([]migration, error) {
	ups, err := fs.Glob(files, "migrations/*.up.sql")
	if err != nil {
		return nil, err
	}
	steps := make([]migration, 0, len(ups))
	for i, path := range ups {
		stem := strings.TrimSuffix(path, ".up.sql")
		number, name, _ := strings.Cut(strings.TrimPrefix(stem, "migrations/"), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %s is not number %04d", path, i+1)
		}
		up, err := fs.ReadFile(files, path)
		if err != nil {
			return nil, err
		}
		down, err := fs.ReadFile(files, stem+".down.sql")
		if err != nil {
			return nil, err
		}
		steps = append(steps, migration{version: version, name: name, up: string(up), down: string(down)})
	}
	return steps, nil
}

const createMigrations = `CREATE TABLE IF NOT EXISTS styx_migrations (
    version    INTEGER NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    applied_at INTEGER NOT NULL DEFAULT (` + clock + `)
) STRICT;
`

const dropMigrations = "DROP TABLE styx_migrations;\n"

func (m migration) record() string {
	return fmt.Sprintf("INSERT INTO styx_migrations (version, name) VALUES (%d, '%s');\n", m.version, m.name)
}

func (m migration) erase() string {
	return fmt.Sprintf("DELETE FROM styx_migrations WHERE version = %d;\n", m.version)
}

// MigrationSQL returns the statements that lead from one version to another,
// for a migration tool of the caller's: up when to is larger, down when it is
// smaller. They keep the table of versions as Migrate does, hold no BEGIN or
// COMMIT, and are to be run in one transaction. A version that is not known is
// a *message.ValidationError.
func (s *Store) MigrationSQL(from, to int) (string, error) {
	steps := migrations()
	for _, given := range []struct {
		field   string
		version int
	}{{"from", from}, {"to", to}} {
		if given.version < 0 || given.version > len(steps) {
			return "", &message.ValidationError{
				Field: given.field, Code: message.CodeOutOfRange,
				Message: fmt.Sprintf("version must be 0 to %d, not %d.", len(steps), given.version),
			}
		}
	}
	var b strings.Builder
	if from == 0 && to > 0 {
		b.WriteString(createMigrations)
	}
	for v := from; v < to; v++ {
		step := steps[v]
		fmt.Fprintf(&b, "\n-- %04d %s: up\n%s\n%s", step.version, step.name, strings.TrimSpace(step.up), step.record())
	}
	for v := from; v > to; v-- {
		step := steps[v-1]
		fmt.Fprintf(&b, "\n-- %04d %s: down\n%s\n%s", step.version, step.name, strings.TrimSpace(step.down), step.erase())
	}
	if to == 0 && from > 0 {
		b.WriteString(dropMigrations)
	}
	return b.String(), nil
}
