package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/pflag"
)

// samples is how many of the messages a confirmation shows.
const samples = 3

// typeCount is from how many messages on their number has to be typed.
const typeCount = 1000

// action is something that is done to messages after a confirmation.
type action struct {
	// verb is the last part of the API's path, done its past, what the
	// thing it is done to.
	verb, done, what string
	// args are the ids that were typed, for the command to type again.
	args   []string
	reason string
	yes    bool
	dryRun bool
	rate   float64
}

func (act *action) flags(flags *pflag.FlagSet) {
	flags.StringVar(&act.reason, "reason", "", "why, for the audit log")
	flags.BoolVar(&act.yes, "yes", false, "do it without asking")
	flags.BoolVar(&act.dryRun, "dry-run", false, "only tell what would be done")
	flags.Float64Var(&act.rate, "rate", 0, "at most so many messages a second; 0 is as fast as it goes")
}

// outcome is what became of one message.
type outcome struct {
	ID     int64  `json:"id"`
	Queue  string `json:"queue"`
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

// act does something to the messages, one after the other, and goes on after
// one that is refused.
func (a *app) act(ctx context.Context, o *operator, act *action, rows []messageRow) error {
	if act.rate < 0 {
		return usageError{text: "--rate must not be negative"}
	}
	if len(rows) == 0 {
		return nothingError{"nothing matches"}
	}
	if act.dryRun {
		return a.report(act, rows, make([]outcome, 0), true)
	}
	if err := a.confirm(o, act.yes, fmt.Sprintf("%s %s", act.verb, plural(len(rows), act.what)), sampleOf(rows), len(rows)); err != nil {
		return err
	}
	var (
		done   = make([]outcome, 0, len(rows))
		failed error
		tick   = newPace(act.rate)
	)
	defer tick.stop()
	for i := range rows {
		m := &rows[i]
		if err := tick.wait(ctx); err != nil {
			return errors.Join(a.report(act, rows, done, false), partialError{err})
		}
		out := outcome{ID: m.ID, Queue: m.Queue, Result: act.done}
		if err := o.Post(ctx, m.path()+"/"+act.verb, map[string]string{"reason": act.reason}, nil); err != nil {
			if code, _ := exitCode(err); code == exitUnavailable || ctx.Err() != nil || code == exitUsage {
				// The next ones would fare no better.
				return errors.Join(a.report(act, rows, done, false), asPart(err, len(done)))
			}
			out.Result, out.Error = "failed", err.Error()
			failed = fmt.Errorf("message %d: %w", m.ID, err)
		}
		done = append(done, out)
	}
	if err := a.report(act, rows, done, false); err != nil {
		return err
	}
	if failed != nil && len(done) > 1 {
		return partialError{failed}
	}
	return failed
}

func asPart(err error, done int) error {
	if done == 0 {
		return err
	}
	return partialError{err}
}

// report prints what became of the messages.
func (a *app) report(act *action, rows []messageRow, done []outcome, dry bool) error {
	good := 0
	for _, out := range done {
		if out.Error == "" {
			good++
		}
	}
	if a.output == outputJSONL {
		for _, out := range done {
			raw, err := json.Marshal(out)
			if err == nil {
				err = a.line(raw)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	data := map[string]any{
		"matched": len(rows), act.done: good, "failed": len(done) - good, "dry_run": dry, "messages": done,
	}
	return a.print(data, func(w io.Writer) {
		if dry {
			_, _ = fmt.Fprintf(w, "would %s %s\n", act.verb, plural(len(rows), act.what))
			for _, line := range sampleOf(rows) {
				_, _ = fmt.Fprintln(w, "  "+line)
			}
			return
		}
		for _, out := range done {
			if out.Error != "" {
				_, _ = fmt.Fprintf(w, "%d: %s\n", out.ID, oneLine(out.Error))
			}
		}
		_, _ = fmt.Fprintf(w, "%s %d of %s\n", act.done, good, plural(len(rows), act.what))
	})
}

// confirm asks before something that cannot be taken back. Without a terminal
// it never asks: what is missing is --yes.
func (a *app) confirm(o *operator, yes bool, what string, sample []string, n int) error {
	o.announce(a)
	if yes {
		return nil
	}
	if a.output.isJSON() || !isTerminal(a.stdin) {
		return usageError{text: fmt.Sprintf("this would %s at %s; to do so, add --yes", what, o.target)}
	}
	_, _ = fmt.Fprintf(a.stderr, "This will %s at %s:\n", what, o.target)
	for _, line := range sample {
		_, _ = fmt.Fprintln(a.stderr, "  "+line)
	}
	want := "yes"
	if n >= typeCount {
		want = strconv.Itoa(n)
	}
	_, _ = fmt.Fprintf(a.stderr, "Type %s to go on: ", want)
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != want {
		return usageError{text: "not confirmed: nothing was done"}
	}
	return nil
}

// isTerminal reports whether somebody can answer.
func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

func sampleOf(rows []messageRow) []string {
	var lines []string
	for i := range rows[:min(samples, len(rows))] {
		m := &rows[i]
		lines = append(lines, cell(fmt.Sprintf("%d %s %s %s", m.ID, m.Queue, m.Kind, deref(m.LastError))))
	}
	if len(rows) > samples {
		lines = append(lines, fmt.Sprintf("and %d more", len(rows)-samples))
	}
	return lines
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// pace lets messages pass at a rate.
type pace struct{ ticker *time.Ticker }

func newPace(rate float64) *pace {
	if rate <= 0 {
		return &pace{}
	}
	return &pace{ticker: time.NewTicker(max(time.Microsecond, time.Duration(float64(time.Second)/rate)))}
}

func (p *pace) wait(ctx context.Context) error {
	if p.ticker == nil {
		return ctx.Err()
	}
	select {
	case <-p.ticker.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pace) stop() {
	if p.ticker != nil {
		p.ticker.Stop()
	}
}
