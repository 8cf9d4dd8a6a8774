package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/styxmq/styx/client"
)

func newMigrateCommand(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "migrate",
		Short: "Create, change and show the schema",
	}, newMigrateUp(a), newMigrateDown(a), newMigrateStatus(a), newMigrateSQL(a))
}

// migrations opens the database for f.
func (a *app) migrations(ctx context.Context, create bool, f func(*database, *client.Migrations) error) (err error) {
	db, err := a.openDatabase(ctx, create)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := a.client(db)
	if err != nil {
		return err
	}
	return f(db, c.Migrations())
}

// schemaState is the schema as JSON. Steps are the versions that were
// applied or removed.
type schemaState struct {
	Target  string `json:"target"`
	Version int    `json:"version"`
	Newest  int    `json:"newest"`
	State   string `json:"state"`
	Applied []int  `json:"applied,omitempty"`
	Removed []int  `json:"removed,omitempty"`
}

func stateOf(ctx context.Context, db *database, m *client.Migrations) (schemaState, error) {
	current, known, err := m.Version(ctx)
	if err != nil {
		return schemaState{}, err
	}
	s := schemaState{Target: db.Target, Version: current, Newest: known, State: "current"}
	switch {
	case current == 0:
		s.State = "missing"
	case current < known:
		s.State = "behind"
	case current > known:
		s.State = "newer"
	}
	return s, nil
}

func (s schemaState) write(w io.Writer) {
	for _, v := range s.Applied {
		_, _ = fmt.Fprintf(w, "applied version %d\n", v)
	}
	for _, v := range s.Removed {
		_, _ = fmt.Fprintf(w, "took back version %d\n", v)
	}
	text := map[string]string{
		"current": "up to date",
		"missing": `there is no schema; "reaper migrate up" makes it`,
		"behind":  `old; "reaper migrate up" brings it up to date`,
		"newer":   "made by a newer version of Styx than this one",
	}[s.State]
	_, _ = fmt.Fprintf(w, "schema: version %d of %d, %s\n", s.Version, s.Newest, text)
}

func newMigrateUp(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Bring the schema to this version",
		Long: `Bring the schema to the newest version that this program knows, from nothing if
need be. Any number of processes may do so at once; a repeat does nothing.`,
		Args: cobra.NoArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			return a.migrations(ctx, true, func(db *database, m *client.Migrations) error {
				a.announce(ctx, db)
				applied, err := m.Up(ctx)
				if err != nil {
					return err
				}
				state, err := stateOf(ctx, db, m)
				if err != nil {
					return err
				}
				state.Applied = applied
				return a.print(state, state.write)
			})
		}),
	}
}

func newMigrateDown(a *app) *cobra.Command {
	var (
		to  int
		yes bool
	)
	cmd := &cobra.Command{
		Use:   "down --to VERSION",
		Short: "Take versions of the schema back",
		Long: `Take the newest versions of the schema back until VERSION is the newest; 0
removes everything, with all messages. Stop all workers, reapers and clients
first. Without --yes it tells what it would do, and does nothing.`,
		Example: `  reaper migrate down --to 0 --yes`,
		Args:    cobra.NoArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			if to < 0 {
				return usageError{text: "--to must not be negative"}
			}
			return a.migrations(ctx, false, func(db *database, m *client.Migrations) error {
				return a.migrateDown(ctx, db, m, to, yes)
			})
		}),
	}
	cmd.Flags().IntVar(&to, "to", 0, "the version to go back to")
	cmd.Flags().BoolVar(&yes, "yes", false, "really do it")
	_ = cmd.MarkFlagRequired("to")
	return cmd
}

func (a *app) migrateDown(ctx context.Context, db *database, m *client.Migrations, to int, yes bool) error {
	a.announce(ctx, db)
	state, err := stateOf(ctx, db, m)
	if err != nil {
		return err
	}
	if to < state.Version && !yes {
		what := fmt.Sprintf("versions %d to %d of the schema would be taken back", to+1, state.Version)
		if to == 0 {
			what = "the schema and all messages would be removed"
		}
		return usageError{text: fmt.Sprintf(`%s; to do so, type "reaper migrate down --to %d%s --yes", for the same database`,
			what, to, a.schemaFlag())}
	}
	removed, err := m.Down(ctx, to)
	if err != nil {
		return err
	}
	if state, err = stateOf(ctx, db, m); err != nil {
		return err
	}
	state.Removed = removed
	return a.print(state, state.write)
}

func newMigrateStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the version of the schema",
		Args:  cobra.NoArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			return a.migrations(ctx, false, func(db *database, m *client.Migrations) error {
				state, err := stateOf(ctx, db, m)
				if err != nil {
					return err
				}
				return a.print(state, state.write)
			})
		}),
	}
}

func newMigrateSQL(a *app) *cobra.Command {
	var (
		from, to int
		engine   string
	)
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print the statements of a migration, without a database",
		Long: `Print the SQL statements that lead from one version of the schema to another, up
or down, for other migration tools. Version 0 is the empty database. No database
is needed.`,
		Example: `  reaper migrate sql --engine postgres
  reaper migrate sql --engine sqlite --from 1 --to 0`,
		Args: cobra.NoArgs,
		RunE: a.does(func(_ context.Context, _ []string) error {
			return a.offline(engine, func(m *client.Migrations) error { return a.migrateSQL(m, engine, from, to) })
		}),
	}
	cmd.Flags().IntVar(&from, "from", 0, "the version to start from")
	cmd.Flags().IntVar(&to, "to", -1, "the version to end with; -1 is the newest")
	cmd.Flags().StringVar(&engine, "engine", enginePostgres, "postgres or sqlite")
	return cmd
}

func (a *app) migrateSQL(m *client.Migrations, engine string, from, to int) (err error) {
	if to == -1 {
		if to, err = newest(m); err != nil {
			return err
		}
	}
	text, err := m.SQL(from, to)
	if err != nil {
		return err
	}
	data := struct {
		Engine string `json:"engine"`
		From   int    `json:"from"`
		To     int    `json:"to"`
		SQL    string `json:"sql"`
	}{engine, from, to, text}
	return a.print(data, func(w io.Writer) {
		_, _ = io.WriteString(w, strings.TrimRight(text, "\n")+"\n")
	})
}
