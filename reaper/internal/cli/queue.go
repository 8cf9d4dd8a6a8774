package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/styxmq/styx/reaper/internal/remote"
)

// queueRow is a queue as the API shows it.
type queueRow struct {
	Queue       string  `json:"queue"`
	Ready       int     `json:"ready"`
	Scheduled   int     `json:"scheduled"`
	Processing  int     `json:"processing"`
	Dead        int     `json:"dead"`
	OldestReady float64 `json:"oldest_ready"`
	Paused      bool    `json:"paused"`
	Pause       *struct {
		Since  time.Time  `json:"since"`
		Until  *time.Time `json:"until"`
		Actor  *string    `json:"actor"`
		Reason *string    `json:"reason"`
	} `json:"pause"`
}

func (q *queueRow) cells() []string {
	oldest := ""
	if q.Ready > 0 {
		oldest = span(q.OldestReady)
	}
	return []string{
		q.Queue, count(q.Ready), count(q.Scheduled), count(q.Processing), count(q.Dead), oldest, q.pauseText(),
	}
}

func (q *queueRow) pauseText() string {
	if q.Pause == nil {
		return ""
	}
	text := "since " + q.Pause.Since.Format(time.RFC3339)
	if q.Pause.Until != nil {
		text += " until " + q.Pause.Until.Format(time.RFC3339)
	}
	if q.Pause.Actor != nil {
		text += " by " + *q.Pause.Actor
	}
	if q.Pause.Reason != nil {
		text += ": " + *q.Pause.Reason
	}
	return text
}

const queueHead = "QUEUE READY SCHEDULED PROCESSING DEAD OLDEST PAUSED"

func newQueueCommand(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "queue",
		Short: "Show, pause and resume queues",
	}, newQueueList(a), newQueuePause(a), newQueueResume(a))
}

func newQueueList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the queues that hold messages or are paused",
		Long: `List the queues that hold messages which are not done, or are paused. Counts end
at 10,000, so that the list costs little however full the queues are. OLDEST is
how long the oldest ready message has been due.`,
		Example: `  reaper queue ls
  reaper queue ls --api-url https://styx.internal -o jsonl`,
		Args: cobra.NoArgs,
		RunE: a.does(a.operates(func(ctx context.Context, o *operator, _ []string) error {
			return a.show(ctx, o, listing{path: "/queues", key: "queues", whole: true}, paging{}, queueHead,
				func(raw json.RawMessage) ([]string, error) {
					var q queueRow
					err := json.Unmarshal(raw, &q)
					return q.cells(), err
				})
		})),
	}
}

func newQueuePause(a *app) *cobra.Command {
	var (
		reason, until string
		lasting       time.Duration
	)
	cmd := &cobra.Command{
		Use:   "pause QUEUE",
		Short: "Stop the work on a queue",
		Long: `Stop the work on a queue: within about a second nothing is claimed from it any
more. What is being worked goes on to its end, and enqueueing goes on.`,
		Example: `  reaper queue pause mail --reason "the relay is down" --for 2h
  reaper queue pause mail --until 2027-01-01T06:00:00Z`,
		Args: cobra.ExactArgs(1),
		RunE: a.does(a.operates(func(ctx context.Context, o *operator, args []string) error {
			body := map[string]any{"reason": reason}
			if lasting != 0 {
				body["for"] = lasting.Seconds()
			}
			if until != "" {
				body["until"] = until
			}
			return a.changeQueue(ctx, o, args[0], "pause", body)
		})),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit log and whoever looks next")
	cmd.Flags().DurationVar(&lasting, "for", 0, "how long, such as 2h; the default is until it is resumed")
	cmd.Flags().StringVar(&until, "until", "", "when the pause ends by itself, such as 2027-01-01T06:00:00Z")
	cmd.MarkFlagsMutuallyExclusive("for", "until")
	return cmd
}

func newQueueResume(a *app) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "resume QUEUE",
		Short:   "End the pause of a queue",
		Long:    "End the pause of a queue. When it was not paused, nothing happens.",
		Example: `  reaper queue resume mail --reason "the relay is back"`,
		Args:    cobra.ExactArgs(1),
		RunE: a.does(a.operates(func(ctx context.Context, o *operator, args []string) error {
			return a.changeQueue(ctx, o, args[0], "resume", map[string]any{"reason": reason})
		})),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return cmd
}

// changeQueue does something with a queue and shows it.
func (a *app) changeQueue(ctx context.Context, o *operator, queue, verb string, body any) error {
	if queue == "" {
		return usageError{text: "name a queue"}
	}
	o.announce(a)
	var raw json.RawMessage
	if err := o.Post(ctx, "/queues/"+remote.Segment(queue)+"/"+verb, body, &raw); err != nil {
		return err
	}
	var q queueRow
	if err := json.Unmarshal(raw, &q); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return a.print(raw, func(w io.Writer) {
		if q.Paused {
			_, _ = fmt.Fprintf(w, "%s: paused %s\n", oneLine(q.Queue), oneLine(q.pauseText()))
			return
		}
		_, _ = fmt.Fprintf(w, "%s: not paused\n", oneLine(q.Queue))
	})
}

// countCap is where the API's counts end.
const countCap = 10_000

func count(n int) string {
	if n >= countCap {
		return strconv.Itoa(countCap) + "+"
	}
	return strconv.Itoa(n)
}

// span shows seconds as people say them.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return d.Round(time.Minute).String()
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}
