package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

func newLetterPurge(a *app) *cobra.Command {
	var (
		queue, reason      string
		older              time.Duration
		resolved, all, yes bool
	)
	cmd := &cobra.Command{
		Use:   "purge [ID]",
		Short: "Delete dead letters for good",
		Long: `Delete dead letters for good, with their messages, attempts and idempotency keys.
How many went, who did it and why is kept in the audit log. Name an id, filters,
or --all.`,
		Example: `  reaper dlq purge --queue mail --older-than 720h --reason "past their use"
  reaper dlq purge --resolved --older-than 2160h --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.does(a.operates(func(ctx context.Context, o *operator, args []string) error {
			body := map[string]any{"reason": reason}
			what := "delete dead letters for good"
			if len(args) == 1 {
				id, err := strconv.ParseInt(args[0], 10, 64)
				if err != nil || id < 1 {
					return usageError{text: fmt.Sprintf("%.40q is not the id of a message", args[0])}
				}
				body["message_id"], what = id, "delete the dead letters of message "+args[0]+" for good"
			}
			if queue != "" {
				body["queue"] = queue
				what += " of queue " + oneLine(queue)
			}
			if older != 0 {
				body["older_than"] = older.Seconds()
				what += " older than " + older.String()
			}
			if resolved {
				body["resolved"] = true
				what += " that are resolved"
			}
			if all {
				body["all"] = true
			}
			if len(args) == 0 && queue == "" && older == 0 && !all {
				return usageError{text: "name an id, or a filter such as --queue or --older-than, or --all"}
			}
			sample, err := o.purgeSample(ctx, queue, resolved, len(args) == 1)
			if err != nil {
				return err
			}
			if err := a.confirm(o, yes, what, sample, 1); err != nil {
				return err
			}
			var gone struct {
				Purged int `json:"purged"`
			}
			if err := o.Post(ctx, "/dead-letters/purge", body, &gone); err != nil {
				return err
			}
			return a.print(gone, func(w io.Writer) { _, _ = fmt.Fprintf(w, "purged %s\n", plural(gone.Purged, "dead letter")) })
		})),
	}
	cmd.Flags().StringVar(&queue, "queue", "", "only letters of this queue")
	cmd.Flags().DurationVar(&older, "older-than", 0, "only letters that died, or were resolved, longer ago than this, such as 720h")
	cmd.Flags().BoolVar(&resolved, "resolved", false, "resolved letters, instead of those that wait")
	cmd.Flags().BoolVar(&all, "all", false, "no filter is meant: every letter")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it without asking")
	return cmd
}

// purgeSample shows some of what is in danger.
func (o *operator) purgeSample(ctx context.Context, queue string, resolved, one bool) ([]string, error) {
	if one {
		return nil, nil
	}
	var rows []messageRow
	_, err := o.walk(ctx, letters(filters{"queue": &queue}, resolved), paging{limit: samples}, func(raw json.RawMessage) error {
		var l letterRow
		if err := json.Unmarshal(raw, &l); err != nil {
			return fmt.Errorf("read a letter of the answer: %w", err)
		}
		l.LastError = l.ErrorMessage
		rows = append(rows, l.messageRow)
		return nil
	})
	return sampleOf(rows), err
}
