package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/styxmq/styx/reaper"
)

func newTokenCommand(a *app) *cobra.Command {
	var (
		name          string
		roles, queues []string
	)
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make a token for the HTTP API",
		Long: `Make a token for the HTTP API, and the line about it for --tokens-file. The
line holds its hash only: the token itself is shown this once.

The roles are producer (enqueue), worker (claim and settle), viewer (see
everything but the audit log), operator (see, pause, replay, resolve, cancel)
and admin (everything, purge too).`,
		Example: `  reaper token --name billing --role producer
  reaper token --name billing-worker --role worker --queue invoices -o json`,
		Args: cobra.NoArgs,
		RunE: a.does(func(context.Context, []string) error {
			text, token, err := reaper.NewToken(name, roles, queues)
			if err != nil {
				return err
			}
			made := struct {
				Token string `json:"token"`
				Line  string `json:"line"`
			}{text, token.Line()}
			return a.print(made, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "token: %s\nline:  %s\n", made.Token, made.Line)
			})
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "the name of who will hold it, for the audit log")
	cmd.Flags().StringSliceVar(&roles, "role", nil, "a role; may be repeated")
	cmd.Flags().StringArrayVar(&queues, "queue", nil, "a queue that it is for, instead of all; may be repeated")
	_ = cmd.MarkFlagRequired("name")
	_ = cmd.MarkFlagRequired("role")
	return cmd
}
