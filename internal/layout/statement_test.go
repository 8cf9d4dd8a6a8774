package layout_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// quotes are functions that make any text harmless.
var quotes = []string{"quoteIdent", "Sanitize"}

// engines are the folders of those who run statements, with what of their statements is not
// a constant for the compiler and is harmless all the same.
var engines = map[string][]string{
	"../store/postgres": {
		// The migrations are embedded files.
		"migrate.go stepUp: up is not of this package",
		"migrate.go stepDown: down is not of this package",
		"migration.go MigrationSQL: down is not of this package",
		"migration.go MigrationSQL: name is not of this package",
		"migration.go MigrationSQL: up is not of this package",
		"migration.go MigrationSQL: version is not of this package",
		// Dates.
		"partition.go from: the result of Format",
		"partition.go table: the result of Format",
	},
	"../store/sqlite": {
		"migrate.go Migrate: the result of record",
		"migrate.go Migrate: up is not of this package",
		"migrate.go MigrateDown: down is not of this package",
		"migrate.go MigrateDown: the result of erase",
	},
	"../../client/postgres":     {},
	"../../client/sqlite":       {},
	"../../reaper/internal/cli": {},
}

// No statement holds text from outside: each is put together from
// constants, numbers and quoted names.
func TestStatementsAreTheProgramsOwn(t *testing.T) {
	t.Parallel()
	for dir, permitted := range engines {
		findings, sinks, err := follow(dir, "", quotes...)
		require.NoError(t, err)
		require.Positive(t, sinks, "%s runs statements", dir)
		for _, f := range findings {
			if !slices.Contains(permitted, f) {
				t.Errorf("%s: in a statement: %s", dir, f)
			}
		}
		for _, p := range permitted {
			require.Contains(t, findings, p, "%s: no longer there", dir)
		}
	}
}

// The test before finds what must not be.
func TestStatementsFromOutsideAreFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ code, finding string }{
		"concatenation": {
			`func (s *Store) Bad(ctx context.Context, queue string) {
				s.sql.ExecContext(ctx, s.text("DELETE FROM {{s}}messages WHERE queue = '"+queue+"'"))
			}`, "parameter queue of Bad",
		},
		"format": {
			`func (s *Store) Bad(ctx context.Context, q store.ListQuery) {
				s.sql.QueryContext(ctx, fmt.Sprintf("SELECT '%s'", q.Queue))
			}`, "Queue is not of this package",
		},
		"helper": {
			`func (s *Store) Bad(ctx context.Context, queue string) { badly(ctx, s, "x = '"+queue+"'") }
			func badly(ctx context.Context, s *Store, where string) {
				s.sql.QueryRowContext(ctx, "SELECT 1 WHERE "+where)
			}`, "parameter queue of Bad",
		},
		"field": {
			`type bad struct{ where string }
			func (s *Store) Bad(ctx context.Context, queue string) {
				b := &bad{where: queue}
				s.sql.QueryContext(ctx, "SELECT 1 WHERE "+b.where)
			}`, "parameter queue of Bad",
		},
		"builder": {
			`func (s *Store) Bad(ctx context.Context, queue string) {
				var b strings.Builder
				b.WriteString("SELECT '")
				b.WriteString(queue)
				s.sql.QueryContext(ctx, b.String())
			}`, "parameter queue of Bad",
		},
		"printed": {
			`func (s *Store) Bad(ctx context.Context, queue string) {
				var b strings.Builder
				fmt.Fprintf(&b, "SELECT '%s'", queue)
				s.sql.QueryContext(ctx, b.String())
			}`, "parameter queue of Bad",
		},
		"replaced": {
			`func (s *Store) Bad(ctx context.Context, queue string) {
				s.sql.PrepareContext(ctx, strings.NewReplacer("{{queue}}", queue).Replace("SELECT '{{queue}}'"))
			}`, "parameter queue of Bad",
		},
		"read": {
			`func (s *Store) Bad(ctx context.Context) {
				var name string
				s.sql.QueryRowContext(ctx, "SELECT 'x'").Scan(&name)
				s.sql.ExecContext(ctx, "DROP TABLE "+name)
			}`, "name is written by another function",
		},
		"closure": {
			`func (s *Store) Bad(ctx context.Context, queue string) {
				text := func(where string) (string, int) { return "SELECT 1 WHERE " + where, 1 }
				statement, _ := text(queue)
				s.sql.ExecContext(ctx, statement)
			}`, "parameter queue of Bad",
		},
		"list": {
			`func (s *Store) Bad(ctx context.Context, queues []string) {
				var parts []string
				for _, q := range queues {
					parts = append(parts, "'"+q+"'")
				}
				s.sql.ExecContext(ctx, "SELECT "+strings.Join(parts, ", "))
			}`, "parameter queues of Bad",
		},
		"function": {
			`func (s *Store) Bad(ctx context.Context, text func() string) { s.sql.ExecContext(ctx, text()) }`,
			"the result of text, which others give",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const dir = "../store/postgres"
			findings, _, err := follow(dir, `package postgres
import (
	"context"
	"fmt"
	"strings"

	"github.com/styxmq/styx/internal/store"
)
`+test.code, quotes...)
			require.NoError(t, err)
			findings = slices.DeleteFunc(findings, func(f string) bool { return slices.Contains(engines[dir], f) })
			require.Len(t, findings, 1)
			require.Contains(t, findings[0], "more.go Bad")
			require.Contains(t, findings[0], test.finding)
		})
	}
}
