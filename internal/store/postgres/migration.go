package postgres

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

const createMigrations = `CREATE TABLE IF NOT EXISTS {{schema}}.migrations (
    version    integer     NOT NULL PRIMARY KEY,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
`

// ddl puts the schema's name into a migration. {{schema}} is the quoted name,
// {{schema_literal}} the same for use within a string literal.
func (s *Store) ddl(text string) string {
	quoted := quoteIdent(s.schema)
	return strings.NewReplacer(
		"{{schema}}", quoted,
		"{{schema_literal}}", strings.ReplaceAll(quoted, "'", "''"),
	).Replace(text)
}

// MigrationSQL returns the statements that lead from one version to another,
// for a migration tool of the caller's: up when to is larger, down when it is
// smaller. They keep the table of versions as Migrate does, hold no BEGIN or
// COMMIT, and are to be run in one transaction.
//
// The daily partitions of the archive are not among them, since their names
// depend on the day: Prepare makes these, which workers and reapers call when
// they start. A version that is not known is a *message.ValidationError.
func (s *Store) MigrationSQL(from, to int) (string, error) {
	steps := migrations()
	for field, version := range map[string]int{"from": from, "to": to} {
		if version < 0 || version > len(steps) {
			return "", &message.ValidationError{
				Field: field, Code: message.CodeOutOfRange,
				Message: fmt.Sprintf("version must be 0 to %d, not %d.", len(steps), version),
			}
		}
	}
	var b strings.Builder
	if from == 0 && to > 0 {
		b.WriteString("CREATE SCHEMA IF NOT EXISTS {{schema}};\n" + createMigrations)
	}
	for v := from; v < to; v++ {
		step := steps[v]
		fmt.Fprintf(&b, "\n-- %04d %s: up\n%s\n", step.version, step.name, strings.TrimSpace(step.up))
		fmt.Fprintf(&b, "INSERT INTO {{schema}}.migrations (version, name) VALUES (%d, '%s');\n", step.version, step.name)
	}
	for v := from; v > to; v-- {
		step := steps[v-1]
		fmt.Fprintf(&b, "\n-- %04d %s: down\n%s\n", step.version, step.name, strings.TrimSpace(step.down))
		fmt.Fprintf(&b, "DELETE FROM {{schema}}.migrations WHERE version = %d;\n", step.version)
	}
	if to == 0 && from > 0 {
		b.WriteString("DROP TABLE {{schema}}.migrations;\n")
	}
	return s.ddl(b.String()), nil
}
