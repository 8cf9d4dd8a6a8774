package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	// silentAfter is when a reaper that does not tick is a finding: by
	// default it ticks each second.
	silentAfter = 30 * time.Second
	// longTransaction is when an open transaction is a finding.
	longTransaction = 5 * time.Minute
	// crowded is which part of the server's connections may be in use.
	crowded = 0.9
)

// condition is the state of the database as the API shows it.
type condition struct {
	Schema            int      `json:"schema"`
	Known             int      `json:"known"`
	LastTick          *float64 `json:"last_tick"`
	OldestTransaction float64  `json:"oldest_transaction"`
	OldestPID         int64    `json:"oldest_pid"`
	OldestQuery       *string  `json:"oldest_query"`
	SynchronousCommit bool     `json:"synchronous_commit"`
	Overdue           int      `json:"overdue"`
	Unhandled         []struct {
		Queue string `json:"queue"`
		Kind  string `json:"kind"`
	} `json:"unhandled"`
	Connections    int `json:"connections"`
	MaxConnections int `json:"max_connections"`
}

// workerRow is a worker as the API shows it.
type workerRow struct {
	Name   string   `json:"name"`
	Host   string   `json:"host"`
	Queues []string `json:"queues"`
	Kinds  []string `json:"kinds"`
}

// finding is something that keeps messages from being worked, or will.
type finding struct {
	Problem string `json:"problem"`
	Queue   string `json:"queue,omitempty"`
	Detail  string `json:"detail"`
	// Fix is a command to type, or what else helps.
	Fix string `json:"fix"`
}

func newDoctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Tell why messages are not worked, and what helps",
		Long: `Look for what keeps messages from being worked, or from being safe: an old schema,
a reaper that is silent, paused queues, kinds and queues without a worker, leases
that nobody took back, a transaction that holds vacuum back, a server that is out
of connections, commits that do not wait for the disk. Each finding comes with
the command that helps. The exit code is 6 when there is one.`,
		Example: `  reaper doctor
  reaper doctor --api-url https://styx.internal -o json`,
		Args: cobra.NoArgs,
		RunE: a.does(a.operates(func(ctx context.Context, o *operator, _ []string) error {
			found, err := o.examine(ctx)
			if err != nil {
				return err
			}
			if a.output == outputJSONL {
				for _, f := range found {
					raw, err := json.Marshal(f)
					if err == nil {
						err = a.line(raw)
					}
					if err != nil {
						return err
					}
				}
			} else if err := a.print(map[string]any{"findings": found, "count": len(found)}, func(w io.Writer) {
				if len(found) == 0 {
					_, _ = fmt.Fprintln(w, "all is well")
				}
				for _, f := range found {
					_, _ = fmt.Fprintf(w, "%s: %s\n  %s\n", f.Problem, oneLine(f.Detail), oneLine(f.Fix))
				}
			}); err != nil {
				return err
			}
			if len(found) > 0 {
				return breachError{code: exitBreach}
			}
			return nil
		})),
	}
}

// examine looks at everything, and returns the worst first.
func (o *operator) examine(ctx context.Context) ([]finding, error) {
	var c condition
	if err := o.Get(ctx, "/health", nil, &c); err != nil {
		return nil, err
	}
	if c.Schema != c.Known {
		f := finding{
			Problem: "schema", Detail: fmt.Sprintf("the schema is at version %d, this program knows %d", c.Schema, c.Known),
			Fix: "reaper migrate up",
		}
		if c.Schema > c.Known {
			f.Fix = "use a newer version of reaper"
		}
		return []finding{f}, nil
	}
	var queues struct {
		Queues []queueRow `json:"queues"`
	}
	var workers struct {
		Workers []workerRow `json:"workers"`
	}
	if err := o.Get(ctx, "/queues", nil, &queues); err != nil {
		return nil, err
	}
	if err := o.Get(ctx, "/workers", nil, &workers); err != nil {
		return nil, err
	}
	return slices.Concat(c.findings(), queueFindings(queues.Queues, workers.Workers), c.unhandled(workers.Workers)), nil
}

// findings are those about the database and the reaper.
func (c *condition) findings() []finding {
	found := []finding{}
	switch {
	case c.LastTick == nil:
		found = append(found, finding{Problem: "reaper", Detail: "no reaper has finished a tick yet: what lost workers held is not taken back", Fix: "reaper run"})
	case *c.LastTick > silentAfter.Seconds():
		found = append(found, finding{
			Problem: "reaper", Detail: "the last tick of a reaper was " + span(*c.LastTick) + " ago: what lost workers hold is not taken back",
			Fix: "reaper run",
		})
	}
	if c.Overdue > 0 {
		found = append(found, finding{
			Problem: "overdue", Detail: count(c.Overdue) + " messages are past their deadline and nobody has taken them back",
			Fix: "reaper sweep",
		})
	}
	if !c.SynchronousCommit {
		found = append(found, finding{
			Problem: "durability", Detail: "commits do not wait for the disk: a crash can lose messages that were acknowledged",
			Fix: "ALTER SYSTEM SET synchronous_commit = on; SELECT pg_reload_conf(); on SQLite: open the file with synchronous=FULL",
		})
	}
	if c.OldestTransaction > longTransaction.Seconds() {
		found = append(found, finding{
			Problem: "vacuum", Detail: fmt.Sprintf("a transaction has been open for %s and keeps vacuum from cleaning up: pid %d, %s",
				span(c.OldestTransaction), c.OldestPID, cell(deref(c.OldestQuery))),
			Fix: fmt.Sprintf("end it where it began, or SELECT pg_terminate_backend(%d)", c.OldestPID),
		})
	}
	if c.MaxConnections > 0 && float64(c.Connections) >= crowded*float64(c.MaxConnections) {
		found = append(found, finding{
			Problem: "connections", Detail: fmt.Sprintf("%d of the server's %d connections are in use", c.Connections, c.MaxConnections),
			Fix: "make the pools of the programs smaller, or raise max_connections",
		})
	}
	return found
}

// queueFindings are those about queues.
func queueFindings(queues []queueRow, workers []workerRow) []finding {
	var found []finding
	for i := range queues {
		q := &queues[i]
		if q.Paused {
			found = append(found, finding{
				Problem: "paused", Queue: q.Queue, Detail: fmt.Sprintf("queue %s is paused %s", q.Queue, q.pauseText()),
				Fix: "reaper queue resume " + shell(q.Queue),
			})
		}
		served := slices.ContainsFunc(workers, func(w workerRow) bool { return slices.Contains(w.Queues, q.Queue) })
		if !served && q.Ready > 0 {
			found = append(found, finding{
				Problem: "no worker", Queue: q.Queue,
				Detail: fmt.Sprintf("queue %s has ready messages (%s) and no worker that lives serves it; consumers over HTTP do not count", q.Queue, count(q.Ready)),
				Fix:    "start a worker with this queue in its Config.Queues",
			})
		}
	}
	return found
}

// unhandled are kinds that the workers of a queue do not handle.
func (c *condition) unhandled(workers []workerRow) []finding {
	var found []finding
	for _, u := range c.Unhandled {
		served := slices.ContainsFunc(workers, func(w workerRow) bool { return slices.Contains(w.Queues, u.Queue) })
		if !served {
			continue // told already: it has no worker at all
		}
		found = append(found, finding{
			Problem: "no handler", Queue: u.Queue,
			Detail: fmt.Sprintf("queue %s has ready messages of kind %s, which no worker of it handles", u.Queue, u.Kind),
			Fix:    "deploy a worker that handles the kind, or: reaper message ls --queue " + shell(u.Queue) + " --kind " + shell(u.Kind),
		})
	}
	return found
}

// shell quotes a name for a command to type.
func shell(s string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-:/", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
