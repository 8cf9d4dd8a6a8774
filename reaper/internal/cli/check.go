package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// The exit codes of check, which monitoring systems expect.
const (
	checkOK = iota
	checkWarning
	checkCritical
	checkUnknown
)

var checkWords = [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}

// limits are from where on something is a warning or critical; 0 is nowhere.
type limits struct {
	age, ageWarning     time.Duration
	depth, depthWarning int
	dead, deadWarning   int
	silence             time.Duration
	queues              []string
}

// verdict is the result of a check.
type verdict struct {
	Status   string   `json:"status"`
	ExitCode int      `json:"exit_code"`
	Problems []string `json:"problems"`
	Ready    int      `json:"ready"`
	Dead     int      `json:"dead"`
	Oldest   float64  `json:"oldest_ready"`
	LastTick *float64 `json:"last_tick"`
}

func newCheckCommand(a *app) *cobra.Command {
	var l limits
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check depth, age, dead letters and the reaper, for a monitoring system",
		Long: `Check queues against limits, with one line of text and the exit codes that
monitoring systems such as Nagios and Icinga expect:

  0  OK        1  WARNING        2  CRITICAL        3  UNKNOWN: it could not look

A limit of 0 is none. Counts end at 10,000. --max-silence is about the reaper.`,
		Example: `  reaper check --max-age 5m --max-dead 1
  reaper check --queue mail --max-age 10m --warn-age 2m --api-url https://styx.internal`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := a.does(a.operates(func(ctx context.Context, o *operator, _ []string) error {
			v, err := o.check(ctx, &l)
			if err != nil {
				return err
			}
			if err := a.print(v, v.write); err != nil {
				return err
			}
			if v.ExitCode != checkOK {
				return breachError{code: v.ExitCode}
			}
			return nil
		}))(cmd, args)
		if err != nil && !errors.As(err, new(breachError)) {
			_, _ = fmt.Fprintf(a.stdout, "STYX UNKNOWN - %s\n", oneLine(credentials.ReplaceAllString(err.Error(), "://…@")))
			return breachError{code: checkUnknown, err: err}
		}
		return err
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&l.queues, "queue", nil, "a queue to check; may be repeated; the default is all, each by itself")
	flags.DurationVar(&l.age, "max-age", 0, "critical when a ready message has waited so long")
	flags.DurationVar(&l.ageWarning, "warn-age", 0, "a warning when a ready message has waited so long")
	flags.IntVar(&l.depth, "max-depth", 0, "critical when so many messages are ready, up to 10,000")
	flags.IntVar(&l.depthWarning, "warn-depth", 0, "a warning when so many messages are ready")
	flags.IntVar(&l.dead, "max-dead", 0, "critical when so many dead letters wait, up to 10,000")
	flags.IntVar(&l.deadWarning, "warn-dead", 0, "a warning when so many dead letters wait")
	flags.DurationVar(&l.silence, "max-silence", time.Minute, "critical when no reaper has finished a tick for so long")
	return cmd
}

func (o *operator) check(ctx context.Context, l *limits) (*verdict, error) {
	for name, n := range map[string]int{"max-depth": l.depth, "warn-depth": l.depthWarning, "max-dead": l.dead, "warn-dead": l.deadWarning} {
		if n < 0 || n > countCap {
			return nil, usageError{text: fmt.Sprintf("--%s must be 0 to %d", name, countCap)}
		}
	}
	var c condition
	if err := o.Get(ctx, "/health", nil, &c); err != nil {
		return nil, err
	}
	if c.Schema != c.Known {
		return nil, fmt.Errorf("the schema is at version %d, this program knows %d", c.Schema, c.Known)
	}
	var list struct {
		Queues []queueRow `json:"queues"`
	}
	if err := o.Get(ctx, "/queues", nil, &list); err != nil {
		return nil, err
	}
	v := &verdict{Problems: []string{}, LastTick: c.LastTick}
	if l.silence > 0 && (c.LastTick == nil || *c.LastTick > l.silence.Seconds()) {
		text := "no reaper has ticked yet"
		if c.LastTick != nil {
			text = "the last tick of a reaper was " + span(*c.LastTick) + " ago"
		}
		v.found(checkCritical, text)
	}
	for i := range list.Queues {
		if len(l.queues) == 0 || slices.Contains(l.queues, list.Queues[i].Queue) {
			v.queue(&list.Queues[i], l)
		}
	}
	v.Status = checkWords[v.ExitCode]
	return v, nil
}

func (v *verdict) queue(q *queueRow, l *limits) {
	v.Ready += q.Ready
	v.Dead += q.Dead
	v.Oldest = max(v.Oldest, q.OldestReady)
	age := time.Duration(q.OldestReady * float64(time.Second))
	v.measure(q.Queue+": oldest waits "+span(q.OldestReady), age > 0 && l.age > 0 && age >= l.age, age > 0 && l.ageWarning > 0 && age >= l.ageWarning)
	v.measure(q.Queue+": "+count(q.Ready)+" ready", l.depth > 0 && q.Ready >= l.depth, l.depthWarning > 0 && q.Ready >= l.depthWarning)
	v.measure(q.Queue+": "+count(q.Dead)+" dead", l.dead > 0 && q.Dead >= l.dead, l.deadWarning > 0 && q.Dead >= l.deadWarning)
}

func (v *verdict) measure(text string, critical, warning bool) {
	switch {
	case critical:
		v.found(checkCritical, text)
	case warning:
		v.found(checkWarning, text)
	}
}

func (v *verdict) found(code int, text string) {
	v.Problems = append(v.Problems, text)
	v.ExitCode = max(v.ExitCode, code)
}

// write prints the line that monitoring systems read, with its figures.
func (v *verdict) write(w io.Writer) {
	text := "all within limits"
	if len(v.Problems) > 0 {
		text = strings.Join(v.Problems, ", ")
	}
	text = strings.ReplaceAll(oneLine(text), "|", "¦") // what follows a bar are figures
	_, _ = fmt.Fprintf(w, "STYX %s - %s | ready=%d dead=%d oldest_ready=%.1fs\n", v.Status, text, v.Ready, v.Dead, v.Oldest)
}
