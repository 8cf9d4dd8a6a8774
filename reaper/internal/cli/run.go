package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/reaper"
)

func newRunCommand(a *app) *cobra.Command {
	var (
		cfg     reaper.Config
		migrate bool
		apply   func() error
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the reaper until it is told to stop",
		Long: `Run the reaper until SIGINT or SIGTERM. Any number of them may run at once, on
any number of hosts.

The schema must be of this version. --migrate brings it there first; so does
the default SQLite file, without being asked.`,
		Example: `  reaper run
  reaper run --database-url sqlite:/var/lib/app/styx.db --migrate
  reaper run --maintain "30 2 * * *" --location Europe/Berlin`,
		Args: cobra.NoArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			if err := apply(); err != nil {
				return err
			}
			err := a.runReaper(ctx, cfg, migrate)
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return nil // told to stop before it had begun
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&migrate, "migrate", false, "bring the schema to this version first")
	apply = schedules(cmd.Flags(), &cfg)
	retention(cmd.Flags(), &cfg)
	return cmd
}

func (a *app) runReaper(ctx context.Context, cfg reaper.Config, migrate bool) (err error) {
	loc, err := a.locate()
	if err != nil {
		return err
	}
	db, err := a.openDatabase(ctx, migrate || loc.Default)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	cfg.Schema, cfg.Logger = db.Schema, a.logger
	r, err := reaper.New(db.DB, cfg)
	if err != nil {
		return err
	}
	a.announce(ctx, db)
	if migrate || db.Default {
		c, err := a.client(db)
		if err != nil {
			return err
		}
		if err := c.Migrate(ctx); err != nil {
			return err
		}
	}
	a.logger.InfoContext(ctx, "reaper starts", "version", version().Version)
	if err := r.Run(ctx); err != nil {
		return a.adviseMigration(err)
	}
	a.logger.InfoContext(ctx, "reaper stopped")
	return nil
}

// adviseMigration adds the command that helps against an old schema.
func (a *app) adviseMigration(err error) error {
	if !errors.Is(err, message.ErrSchemaMissing) {
		return err
	}
	return fmt.Errorf(`%w; type "reaper migrate up%s", for the same database`, err, a.schemaFlag())
}

// schemaFlag is the flag --schema as it was given, for a command to type.
func (a *app) schemaFlag() string {
	if a.schema == "" {
		return ""
	}
	return " --schema " + a.schema
}
