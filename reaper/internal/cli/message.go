package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/reaper/internal/remote"
)

// messageRow is a message as the API shows it.
type messageRow struct {
	ID         int64      `json:"id"`
	Queue      string     `json:"queue"`
	Kind       string     `json:"kind"`
	Status     string     `json:"status"`
	RetryCount int        `json:"retry_count"`
	MaxRetries int        `json:"max_retries"`
	RetryAfter *time.Time `json:"retry_after"`
	LastError  *string    `json:"last_error"`
	CreatedAt  time.Time  `json:"created_at"`
}

const messageHead = "ID QUEUE KIND STATUS ATTEMPTS CREATED DUE ERROR"

func messageCells(raw json.RawMessage) ([]string, error) {
	var m messageRow
	err := json.Unmarshal(raw, &m)
	return []string{
		strconv.FormatInt(m.ID, 10), m.Queue, m.Kind, m.Status, fmt.Sprintf("%d/%d", m.RetryCount, m.MaxRetries),
		m.CreatedAt.Format(time.RFC3339), moment(m.RetryAfter), deref(m.LastError),
	}, err
}

func moment(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// path is where the API has the message.
func (m *messageRow) path() string {
	return "/queues/" + remote.Segment(m.Queue) + "/messages/" + strconv.FormatInt(m.ID, 10)
}

func newMessageCommand(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "message",
		Short: "Enqueue, show and cancel messages",
	}, newMessageEnqueue(a), newMessageList(a), newMessageShow(a), newMessageCancel(a))
}

func newMessageList(a *app) *cobra.Command {
	var (
		page  paging
		query = filters{}
	)
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List messages by id",
		Example: `  reaper message ls --queue mail --status pending
  reaper message ls --correlation-id order-42 --limit 0 -o jsonl`,
		Args: cobra.NoArgs,
		RunE: a.does(a.operates(func(ctx context.Context, o *operator, _ []string) error {
			return a.show(ctx, o, listing{path: "/messages", query: query.values(), key: "messages"}, page, messageHead, messageCells)
		})),
	}
	query.flag(cmd.Flags(), "queue", "only messages of this queue")
	query.flag(cmd.Flags(), "kind", "only messages of this kind")
	query.flag(cmd.Flags(), "status", "only pending, processing, succeeded or dead ones")
	query.flag(cmd.Flags(), "tenant", "only messages of this tenant")
	query.flag(cmd.Flags(), "correlation-id", "only messages with this correlation id")
	query.flag(cmd.Flags(), "order", "asc, the oldest first, or desc")
	page.flags(cmd.Flags())
	return cmd
}

func newMessageShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show a message and its attempts",
		Example: `  reaper message show 42`,
		Args:    cobra.ExactArgs(1),
		RunE: a.does(a.operates(func(ctx context.Context, o *operator, args []string) error {
			raw, m, err := o.find(ctx, args[0])
			if err != nil {
				return err
			}
			var attempts struct {
				Attempts json.RawMessage `json:"attempts"`
			}
			if err := o.Get(ctx, m.path()+"/attempts", nil, &attempts); err != nil {
				return err
			}
			return a.detail(raw, "attempts", attempts.Attempts)
		})),
	}
}

// find shows a message by the id that was typed.
func (o *operator) find(ctx context.Context, id string) (json.RawMessage, *messageRow, error) {
	if _, err := strconv.ParseInt(id, 10, 64); err != nil {
		return nil, nil, usageError{text: fmt.Sprintf("%.40q is not the id of a message", id)}
	}
	var raw json.RawMessage
	if err := o.Get(ctx, "/messages/"+url.PathEscape(id), nil, &raw); err != nil {
		return nil, nil, fmt.Errorf("message %s: %w", id, err)
	}
	m := new(messageRow)
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, nil, fmt.Errorf("read the answer: %w", err)
	}
	return raw, m, nil
}

func newMessageCancel(a *app) *cobra.Command {
	var act action
	cmd := &cobra.Command{
		Use:   "cancel ID...",
		Short: "End pending messages before they run",
		Long: `End pending messages before they run. They are kept as dead letters with the
decision cancelled, resolved already.`,
		Example: `  reaper message cancel 42 --reason "ordered twice" --yes`,
		Args:    cobra.MinimumNArgs(1),
		RunE: a.does(a.operates(func(ctx context.Context, o *operator, args []string) error {
			rows, err := o.named(ctx, args)
			if err != nil {
				return err
			}
			act.verb, act.done, act.what, act.args = "cancel", "cancelled", "message", args
			return a.act(ctx, o, &act, rows)
		})),
	}
	act.flags(cmd.Flags())
	return cmd
}

// named finds the messages whose ids were typed.
func (o *operator) named(ctx context.Context, ids []string) ([]messageRow, error) {
	rows := make([]messageRow, 0, len(ids))
	for _, id := range ids {
		_, m, err := o.find(ctx, id)
		if err != nil {
			return nil, err
		}
		rows = append(rows, *m)
	}
	return rows, nil
}

// detail prints an object, a key a line, with a list that belongs to it.
func (a *app) detail(object json.RawMessage, key string, list json.RawMessage) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if list == nil {
		list = fields[key]
	}
	joined := json.RawMessage(strings.TrimSuffix(strings.TrimSpace(string(object)), "}") + `,"` + key + `":` + string(list) + "}")
	if fields[key] != nil {
		joined = object
	}
	var attempts []message.Attempt
	if err := json.Unmarshal(list, &attempts); err != nil {
		return fmt.Errorf("read %s of the answer: %w", key, err)
	}
	return a.print(joined, func(w io.Writer) {
		_ = eachField(object, func(name string, raw json.RawMessage) {
			if name != key {
				writeField(w, name, raw)
			}
		})
		for _, at := range attempts {
			_, _ = fmt.Fprintf(w, "attempt %d: %s %s worker %d %s\n", at.Number, at.FinishedAt.Format(time.RFC3339), at.Outcome, at.WorkerID,
				strings.TrimSpace(oneLine(strings.Trim(at.ErrorClass+": "+at.ErrorMessage, ": "))+" "+oneLine(at.Reason)))
		}
	})
}
