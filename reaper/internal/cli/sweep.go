package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/styxmq/styx/reaper"
)

func newSweepCommand(a *app) *cobra.Command {
	var cfg reaper.Config
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Do all that the reaper does, once, and tell what it was",
		Long: `Take back every lost message, end what has expired, make room for the coming
week, delete what is older than its retention, then print what was done. Other
reapers may run meanwhile. Mind the retentions: they are not taken from them.`,
		Example: `  reaper sweep
  reaper sweep --archive-retention -1s -o json`,
		Args: cobra.NoArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error { return a.sweep(ctx, cfg) }),
	}
	retention(cmd.Flags(), &cfg)
	return cmd
}

func (a *app) sweep(ctx context.Context, cfg reaper.Config) (err error) {
	db, err := a.openDatabase(ctx, false)
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
	report, err := r.RunOnce(ctx)
	if err != nil && !report.Any() {
		return a.adviseMigration(err)
	}
	if err != nil {
		err = partialError{err}
	}
	return errors.Join(a.print(report, func(w io.Writer) { writeReport(w, report) }), err)
}

func writeReport(w io.Writer, report reaper.Report) {
	if !report.Any() {
		_, _ = fmt.Fprintln(w, "nothing to do")
		return
	}
	for _, line := range []struct {
		n    int
		text string
	}{
		{report.DeadWorkers, "workers found dead"},
		{report.WorkerLost, "messages taken back from lost workers"},
		{report.TimedOut, "messages taken back past their deadline"},
		{report.Expired, "messages expired"},
		{report.Dead, "of these messages are dead now"},
		{report.Archived, "succeeded messages deleted"},
		{report.Partitions, "partitions of the archive dropped"},
		{report.Letters, "dead letters deleted"},
		{report.Keys, "idempotency keys freed"},
		{report.Attempts, "records of attempts deleted"},
	} {
		if line.n > 0 {
			_, _ = fmt.Fprintf(w, "%6d %s\n", line.n, line.text)
		}
	}
	if len(report.Moved) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ID\tQUEUE\tKIND\tATTEMPT\tWHY\tNOW")
	for _, m := range report.Moved {
		_, _ = fmt.Fprintf(table, "%d\t%s\t%s\t%d/%d\t%s\t%s\n",
			m.ID, oneLine(m.Queue), oneLine(m.Kind), m.Attempt, m.MaxRetries, m.Decision, m.Status)
	}
	_ = table.Flush()
	if more := report.Messages() - len(report.Moved); more > 0 {
		_, _ = fmt.Fprintf(w, "and %d more\n", more)
	}
}
