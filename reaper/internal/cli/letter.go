package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// letterRow is a dead letter as the API shows it.
type letterRow struct {
	messageRow
	Decision     string    `json:"decision"`
	ErrorClass   *string   `json:"error_class"`
	ErrorMessage *string   `json:"error_message"`
	Fingerprint  *string   `json:"fingerprint"`
	DeadAt       time.Time `json:"dead_at"`
}

const letterHead = "ID QUEUE KIND DECISION ATTEMPTS DIED FINGERPRINT CLASS ERROR"

func letterCells(raw json.RawMessage) ([]string, error) {
	var l letterRow
	err := json.Unmarshal(raw, &l)
	return []string{
		strconv.FormatInt(l.ID, 10), l.Queue, l.Kind, l.Decision, fmt.Sprintf("%d/%d", l.RetryCount, l.MaxRetries),
		l.DeadAt.Format(time.RFC3339), deref(l.Fingerprint), deref(l.ErrorClass), deref(l.ErrorMessage),
	}, err
}

// letterFilters are the flags that select dead letters, with the names that
// the API has for them.
func letterFilters(flags *pflag.FlagSet) filters {
	query := filters{}
	query.flag(flags, "queue", "only letters of this queue")
	query.flag(flags, "kind", "only letters of this kind")
	query.flag(flags, "tenant", "only letters of this tenant")
	query.flag(flags, "error-class", "only letters with this class of error")
	query.flag(flags, "fingerprint", "only letters with this fingerprint: failures of one cause")
	query.flag(flags, "decision", "only letters with this decision: poison, exhausted, timed_out, worker_lost, expired …")
	return query
}

func newLetterCommand(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "dlq",
		Aliases: []string{"dead-letters"},
		Short:   "Show, export, replay, resolve and purge dead letters",
	}, newLetterList(a), newLetterShow(a), newLetterExport(a),
		newLetterChange(a, action{verb: "replay", done: "replayed"}, "Put dead messages back into their queues",
			`Put dead messages back into their queues, with a fresh budget of attempts and
under their own ids. What cannot go back stays dead, and its reason is told. The
letters are those that match when the command begins: what dies meanwhile is not
swept in.`,
			`  reaper dlq replay 42
  reaper dlq replay --queue mail --fingerprint 3f2a9c… --dry-run
  reaper dlq replay --queue mail --rate 50 --reason "the relay is back" --yes`),
		newLetterChange(a, action{verb: "resolve", done: "resolved"}, "Close dead letters without running anything",
			`Close dead letters that somebody has dealt with. Nothing runs again; the letters
are kept as resolved.`,
			`  reaper dlq resolve 42 --reason "refunded by hand"`),
		newLetterPurge(a))
}

func newLetterList(a *app) *cobra.Command {
	var (
		page     paging
		resolved bool
	)
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List dead letters, the newest death first",
		Example: `  reaper dlq ls --queue mail
  reaper dlq ls --error-class smtp.Refused --limit 0 -o jsonl`,
		Args: cobra.NoArgs,
	}
	query := letterFilters(cmd.Flags())
	cmd.RunE = a.does(a.operates(func(ctx context.Context, o *operator, _ []string) error {
		return a.show(ctx, o, letters(query, resolved), page, letterHead, letterCells)
	}))
	cmd.Flags().BoolVar(&resolved, "resolved", false, "those that were replayed, resolved or cancelled, instead of those that wait")
	page.flags(cmd.Flags())
	return cmd
}

func letters(query filters, resolved bool) listing {
	values := query.values()
	if resolved {
		values.Set("resolved", "true")
	}
	return listing{path: "/dead-letters", query: values, key: "dead_letters"}
}

func newLetterShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show the newest dead letter of a message, with its attempts",
		Example: `  reaper dlq show 42`,
		Args:    cobra.ExactArgs(1),
		RunE: a.does(a.operates(func(ctx context.Context, o *operator, args []string) error {
			_, m, err := o.find(ctx, args[0])
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := o.Get(ctx, m.path()+"/dead-letter", nil, &raw); err != nil {
				return fmt.Errorf("dead letter of message %s: %w", args[0], err)
			}
			return a.detail(raw, "attempts", nil)
		})),
	}
}

func newLetterExport(a *app) *cobra.Command {
	var (
		out      string
		resolved bool
	)
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write dead letters as JSON, one a line",
		Long: `Write dead letters as JSON, one a line, with payloads and stacks. A file is
written beside its place first and then moved there, readable by its owner only;
one that exists is replaced.`,
		Example: `  reaper dlq export --queue mail --out mail.jsonl
  reaper dlq export --decision poison | jq -r .error_class | sort | uniq -c`,
		Args: cobra.NoArgs,
	}
	query := letterFilters(cmd.Flags())
	cmd.RunE = a.does(a.operates(func(ctx context.Context, o *operator, _ []string) error {
		l := letters(query, resolved)
		l.query.Set("whole", "true")
		l.page = wholeRows
		if out == "" || out == "-" {
			_, err := o.walk(ctx, l, paging{}, a.line)
			return err
		}
		n := 0
		err := writeFile(out, func(w io.Writer) error {
			_, err := o.walk(ctx, l, paging{}, func(row json.RawMessage) error {
				n++
				_, err := fmt.Fprintf(w, "%s\n", row)
				return err
			})
			return err
		})
		if err != nil {
			return err
		}
		return a.print(map[string]any{"exported": n, "file": out}, func(w io.Writer) {
			_, _ = fmt.Fprintf(w, "exported %s to %s\n", plural(n, "dead letter"), out)
		})
	}))
	cmd.Flags().StringVar(&out, "out", "", "the file to write; the default is stdout")
	cmd.Flags().BoolVar(&resolved, "resolved", false, "those that were replayed, resolved or cancelled, instead of those that wait")
	return cmd
}

// writeFile puts a file into its place when it is complete.
func writeFile(path string, write func(w io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// newLetterChange makes dlq replay and dlq resolve.
func newLetterChange(a *app, act action, short, long, example string) *cobra.Command {
	var (
		all  bool
		most int
	)
	cmd := &cobra.Command{
		Use:     act.verb + " [ID...]",
		Short:   short,
		Long:    long + "\n\nName ids, or filters, or --all.",
		Example: example,
	}
	query := letterFilters(cmd.Flags())
	cmd.RunE = a.does(a.operates(func(ctx context.Context, o *operator, args []string) error {
		act := act
		act.what, act.args = "dead letter", args
		filtered := len(query.values()) > 0
		switch {
		case len(args) > 0 && (filtered || all):
			return usageError{text: "name either ids or filters"}
		case len(args) == 0 && !filtered && !all:
			return usageError{text: "name ids, or a filter such as --queue, or --all"}
		case most < 0:
			return usageError{text: "--max must not be negative"}
		}
		rows, err := o.chosen(ctx, args, query, most)
		if err != nil {
			return err
		}
		return a.act(ctx, o, &act, rows)
	}))
	act.flags(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "no filter is meant: every dead letter")
	cmd.Flags().IntVar(&most, "max", 0, "at most so many, the newest; 0 is no limit")
	return cmd
}

// chosen are the letters that ids or filters name, the oldest death first.
func (o *operator) chosen(ctx context.Context, args []string, query filters, most int) ([]messageRow, error) {
	if len(args) > 0 {
		return o.named(ctx, args)
	}
	var rows []messageRow
	_, err := o.walk(ctx, letters(query, false), paging{limit: most}, func(raw json.RawMessage) error {
		var l letterRow
		if err := json.Unmarshal(raw, &l); err != nil {
			return fmt.Errorf("read a letter of the answer: %w", err)
		}
		l.LastError = l.ErrorMessage
		rows = append(rows, l.messageRow)
		return nil
	})
	for i, j := 0, len(rows)-1; i < j; i, j = i+1, j-1 {
		rows[i], rows[j] = rows[j], rows[i]
	}
	return rows, err
}
