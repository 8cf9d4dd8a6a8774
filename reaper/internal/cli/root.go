package cli

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
)

// commands make the subcommands, in the order of the help.
var commands = []func(a *app) *cobra.Command{
	newRunCommand,
	newSweepCommand,
	newMigrateCommand,
	newQueueCommand,
	newMessageCommand,
	newLetterCommand,
	newDoctorCommand,
	newCheckCommand,
	newTokenCommand,
	newBenchCommand,
	newVersionCommand,
}

// app is one call of the program.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	logger         *slog.Logger

	// The flags that every command has.
	databaseURL string
	schema      string
	apiURL      string
	tokenFile   string
	output      output

	flags *rootFlags
	began bool // a command runs: what fails now is not the usage
}

// rootFlags tells whether a flag was given at all.
type rootFlags struct{ changed func(name string) bool }

// Run runs the program with its arguments (without its name) until it has
// done what they ask, or ctx ends. It returns the exit code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, getenv: os.Getenv, output: outputTable}
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	a.logger = slog.New(slog.NewTextHandler(a.stderr, nil))
	root := a.rootCommand()
	root.SetArgs(args)
	if args == nil {
		root.SetArgs([]string{}) // cobra takes nil for os.Args
	}
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if !a.began {
		err = usage(err)
		if wantsJSON(args) {
			a.output = outputJSON
		}
	}
	return a.fail(err)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "reaper",
		Short: "Keep and operate the queues of Styx",
		Long: `reaper takes back what lost workers held, ends what has expired, and deletes
what has been kept long enough, for all queues of a database.

The database is the one of --database-url, else of STYX_DATABASE_URL, else of
DATABASE_URL, else the SQLite file styx.db in the working folder. It is named
by a URL: postgres://user@host/database, sqlite:PATH, file:PATH, or a path that
ends in .db. Commands for operators (queue, message, dlq, doctor, check) work with
the HTTP API of a running reaper as well, named by --api-url or STYX_API_URL.

Data goes to stdout, everything else to stderr. See "reaper help exit-codes".`,
		Example: `  reaper run
  reaper run --database-url postgres://app@db.internal/app --archive-retention 720h
  reaper migrate status -o json`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			if a.output.isJSON() {
				a.logger = slog.New(slog.NewJSONHandler(a.stderr, nil))
			}
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	flags := root.PersistentFlags()
	flags.StringVar(&a.databaseURL, "database-url", "", "the database; see the help for what may stand here")
	flags.StringVar(&a.schema, "schema", "", `the PostgreSQL schema of the tables (default "styx")`)
	flags.StringVar(&a.apiURL, "api-url", "", "the HTTP API to work with instead of a database: queue, message, dlq, doctor, check")
	flags.StringVar(&a.tokenFile, "api-token-file", "", "the file with the token for it; or set STYX_API_TOKEN")
	flags.VarP(&a.output, "output", "o", "how to print data: table, json or jsonl")
	a.flags = &rootFlags{changed: flags.Changed}
	for _, command := range commands {
		root.AddCommand(command(a))
	}
	root.AddCommand(exitCodesTopic())
	return root
}

// does makes a command's RunE of a function: what fails before it is a
// mistake in the usage, what fails in it is not.
func (a *app) does(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.began = true
		return f(cmd.Context(), args)
	}
}

// group makes a command that only holds others.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return usageError{text: "name a subcommand of " + cmd.CommandPath() + `; "` + cmd.CommandPath() + ` --help" lists them`}
	}
	cmd.AddCommand(commands...)
	return cmd
}
