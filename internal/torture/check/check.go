package check

import (
	"fmt"
	"slices"

	"github.com/styxmq/styx/internal/torture/history"
)

// Settings say what the checker may rely on.
type Settings struct {
	// Tolerance is how far, in microseconds, the clocks of the database and
	// of the processes may be apart. Negative means that they say nothing
	// of each other; then only the order of tokens is looked at.
	Tolerance int64
	// MinTimeout is the shortest timeout of a message, in microseconds.
	MinTimeout int64
}

// Run judges a run.
func Run(events []history.Event, final *Final, s Settings) *Report {
	c := &checker{Settings: s, x: newIndex(events, final), final: final, report: &Report{Broken: map[Promise]int{}}}
	c.enqueues()
	c.messages()
	c.owners()
	c.settles()
	c.rejections()
	c.losses()
	c.effects()
	for i := range events {
		if events[i].Kind == history.Broken {
			c.broken(BrokenProcess, 0, "%s: %s", events[i].Name, events[i].Note)
		}
	}
	c.count()
	c.report.measure(c.x, events, final)
	return c.report
}

type checker struct {
	Settings
	x      *index
	final  *Final
	report *Report
}

// shown is how many violations of a promise are kept with their details.
const shown = 20

func (c *checker) broken(p Promise, id int64, format string, args ...any) {
	if c.report.Broken[p]++; c.report.Broken[p] <= shown {
		c.report.Violations = append(c.report.Violations, Violation{Promise: p, ID: id, Detail: fmt.Sprintf(format, args...)})
	}
}

// after reports whether a is later than b by more than the clocks may differ.
// A time from before the run is by a clock that had stepped back, and tells
// nothing.
func (c *checker) after(a, b int64) bool {
	return c.Tolerance >= 0 && a > b+c.Tolerance && (len(c.x.steps) == 0 || min(a, b) >= c.x.first-c.Tolerance)
}

// stepped reports whether the database's clock did so at any time since then,
// until it showed at.
func (c *checker) stepped(since, at int64) bool {
	if len(c.x.steps) > 0 && at < c.x.first {
		return true
	}
	return slices.ContainsFunc(c.x.steps, func(t int64) bool {
		return since <= t+c.Tolerance && t <= at+c.Tolerance
	})
}

// enqueues: what was acknowledged is there, once, and nothing else is.
func (c *checker) enqueues() {
	for op, e := range c.x.enqueues {
		switch {
		case e.undone && len(e.rows) > 0:
			c.broken(Unexpected, e.rows[0], "enqueue %s was rolled back", op)
		case !e.tried && len(e.rows) > 0:
			c.broken(Unexpected, e.rows[0], "enqueue %q was never attempted", op)
		case e.acked && len(e.rows) == 0:
			c.broken(Lost, e.id, "enqueue %s was acknowledged", op)
		case e.acked && e.id != 0 && len(e.rows) == 1 && e.rows[0] != e.id:
			c.broken(StoredTwice, e.id, "enqueue %s is message %d", op, e.rows[0])
		}
		for _, id := range e.rows {
			if id != e.rows[0] {
				c.broken(StoredTwice, id, "enqueue %s is message %d too", op, e.rows[0])
				break
			}
		}
		if len(e.rows) > 0 && !e.acked {
			c.report.Recovered++
		}
		if e.acked {
			c.report.Acknowledged++
		}
		if e.tried {
			c.report.Attempted++
		}
	}
}

// messages: each is in one place, finished, and within its budget.
func (c *checker) messages() {
	for id, rows := range c.x.rows {
		if len(rows) > 1 {
			c.broken(TwoPlaces, id, "%s and %s", rows[0].Place, rows[1].Place)
		}
		for _, m := range rows {
			if m.Place == Pending || m.Place == Processing {
				c.broken(Stuck, id, "%s after the drain, token %d, worker %d, %d of %d attempts", m.Place, m.Token, m.Worker, m.Retries, m.Budget)
			}
			if m.Retries > m.Budget {
				c.broken(OverBudget, id, "%d of %d attempts", m.Retries, m.Budget)
			}
		}
	}
	for id, tokens := range c.x.tokens {
		if len(c.x.rows[id]) == 0 && !c.acknowledged(id) {
			c.broken(Lost, id, "it ran under token %d and is nowhere", tokens[0])
		}
	}
}

// acknowledged reports whether an acknowledged enqueue named the message, so
// that its loss is told already.
func (c *checker) acknowledged(id int64) bool {
	if c.report.ids == nil {
		c.report.ids = map[int64]bool{}
		for _, e := range c.x.enqueues {
			if e.acked && e.id != 0 {
				c.report.ids[e.id] = true
			}
		}
	}
	return c.report.ids[id]
}
