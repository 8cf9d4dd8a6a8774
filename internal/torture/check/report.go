package check

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/styxmq/styx/internal/torture/history"
)

// Report is what a run came to.
type Report struct {
	// Attempted enqueues, those Acknowledged, and those Recovered: never
	// acknowledged, yet stored.
	Attempted, Acknowledged, Recovered int
	// Started attempts; those Lost to their worker's end or timeout and
	// therefore executed again; outcomes Settled and, coming too late,
	// Rejected.
	Started, Reexecuted, Settled, Rejected int
	Succeeded, Dead, Replayed              int
	// Effects committed with CompleteTx; Repeated are effects outside the
	// database beyond the first of their message.
	Effects, Repeated int
	// Broken counts violations by promise; Violations has the first of each.
	Broken     map[Promise]int
	Violations []Violation
	// Recovery is how long after the end of its process each message that
	// lost its first worker began again, ascending. Again is that of those
	// which had lost one before, or lose another one before they begin:
	// they wait longer each time.
	Recovery, Again []time.Duration
	// FirstStart is how long after the database was back the first attempt
	// began, ascending.
	FirstStart []time.Duration
	Phases     []Phase
	// Drain is how long the queues took to be empty in the end.
	Drain time.Duration

	ids map[int64]bool
}

// Phase is a fault or a calm stretch with its rates of success per second.
type Phase struct {
	Name                  string
	Length                time.Duration
	Before, During, After float64
}

// OK reports whether every promise was kept.
func (r *Report) OK() bool { return len(r.Violations) == 0 }

// Quantile returns the q-th part of ascending durations, 0 of none.
func Quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	return ds[min(len(ds)-1, int(q*float64(len(ds))))]
}

// Line are the figures in one line.
func (r *Report) Line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "acknowledged %d, lost %d, stuck %d, unexpected %d, stored twice %d, recovered %d, attempted %d, "+
		"started %d, re-executed %d, succeeded %d, dead %d, replayed %d, duplicate effects %d of %d, "+
		"stale settles accepted %d, rejected %d, two owners %d",
		r.Acknowledged, r.Broken[Lost], r.Broken[Stuck], r.Broken[Unexpected], r.Broken[StoredTwice], r.Recovered, r.Attempted,
		r.Started, r.Reexecuted, r.Succeeded, r.Dead, r.Replayed, r.Broken[DuplicateEffect], r.Effects,
		r.Broken[StaleSettle], r.Rejected, r.Broken[TwoOwners]+r.Broken[TokenReused])
	if other := r.Broken[TwoPlaces] + r.Broken[EarlyLoss] + r.Broken[TornEffect] + r.Broken[OverBudget] + r.Broken[BrokenProcess] + r.Broken[FalseRejection]; other > 0 {
		fmt.Fprintf(&b, ", otherwise broken %d", other)
	}
	fmt.Fprintf(&b, ", recovery after a first kill %s, after further ones %s, first claim after the database is back max %.2f s, drained in %.0f s",
		quantiles(r.Recovery), quantiles(r.Again), Quantile(r.FirstStart, 1).Seconds(), r.Drain.Seconds())
	return b.String()
}

// quantiles are the usual ones, and the number.
func quantiles(ds []time.Duration) string {
	return fmt.Sprintf("p50 %.1f s, p95 %.1f s, max %.1f s (%d)",
		Quantile(ds, 0.5).Seconds(), Quantile(ds, 0.95).Seconds(), Quantile(ds, 1).Seconds(), len(ds))
}

// Write writes everything, the line of figures last.
func (r *Report) Write(w io.Writer) {
	if len(r.Phases) > 0 {
		fmt.Fprintf(w, "%-24s %8s %10s %10s %10s\n", "phase", "seconds", "before/s", "during/s", "after/s")
		for _, p := range r.Phases {
			fmt.Fprintf(w, "%-24s %8.1f %10.0f %10.0f %10.0f\n", p.Name, p.Length.Seconds(), p.Before, p.During, p.After)
		}
	}
	for _, v := range r.Violations {
		fmt.Fprintln(w, "BROKEN", v)
	}
	fmt.Fprintln(w, r.Line())
}

// count fills in what is no promise.
func (c *checker) count() {
	r := c.report
	for id, tokens := range c.x.tokens {
		effects := 0
		for _, t := range tokens {
			a := c.x.attempts[Lease{id, t}]
			r.Started += a.starts
			effects += a.effects
			if a.rejected != 0 {
				r.Rejected++
			}
			if a.ended != nil && a.ended.byReaper() {
				r.Reexecuted++
			}
		}
		r.Repeated += max(0, effects-1)
	}
	for i := range c.final.Messages {
		switch c.final.Messages[i].Place {
		case Succeeded:
			r.Succeeded++
		case Dead:
			r.Dead++
		case Pending, Processing:
		}
	}
	r.Settled, r.Effects = r.Succeeded+len(c.final.Attempts), len(c.final.Effects)
}

// measure works out the speeds.
func (r *Report) measure(x *index, events []history.Event, final *Final) {
	var starts, ends []int64
	for i := range events {
		switch events[i].Kind {
		case history.Start:
			starts = append(starts, events[i].At)
		case history.Replayed:
			r.Replayed++
		default:
		}
	}
	for i := range final.Messages {
		if final.Messages[i].Place == Succeeded {
			ends = append(ends, final.Messages[i].At)
		}
	}
	slices.Sort(starts)
	slices.Sort(ends)
	r.recovery(x, final)
	for i := range events {
		if events[i].Kind != history.Back {
			continue
		}
		if n, _ := slices.BinarySearch(starts, events[i].At); n < len(starts) {
			r.FirstStart = append(r.FirstStart, time.Duration(starts[n]-events[i].At)*time.Microsecond)
		}
	}
	slices.Sort(r.FirstStart)
	r.phases(events, ends)
}

func (r *Report) recovery(x *index, final *Final) {
	losses := map[int64][]int64{} // the tokens under which a message lost a worker
	for i := range final.Attempts {
		if e := &final.Attempts[i]; e.Reason == reasonLost {
			losses[e.ID] = append(losses[e.ID], e.Token)
		}
	}
	for i := range final.Attempts {
		e := &final.Attempts[i]
		a := x.attempt(e.Lease)
		gone, next := x.gone[a.process], x.began(e.Lease)
		if e.Reason != reasonLost || gone <= a.start || next <= gone {
			continue
		}
		took := time.Duration(next-gone) * time.Microsecond
		lost := 0 // by the time that it began again
		for _, t := range losses[e.ID] {
			if !slices.ContainsFunc(x.tokens[e.ID], func(n int64) bool { return e.Token < n && n <= t }) {
				lost++
			}
		}
		if lost == 1 {
			r.Recovery = append(r.Recovery, took)
		} else {
			r.Again = append(r.Again, took)
		}
	}
	slices.Sort(r.Recovery)
	slices.Sort(r.Again)
}

// around is how long before and after a phase its rates are taken.
const around = 5 * int64(time.Second/time.Microsecond)

func (r *Report) phases(events []history.Event, ends []int64) {
	rate := func(from, to int64) float64 {
		if to <= from {
			return 0
		}
		a, _ := slices.BinarySearch(ends, from)
		b, _ := slices.BinarySearch(ends, to)
		return float64(b-a) / (float64(to-from) / 1e6)
	}
	began := map[string]int64{}
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case history.Began:
			began[e.Name] = e.At
		case history.Ended:
			from := began[e.Name]
			r.Phases = append(r.Phases, Phase{
				Name: e.Name, Length: time.Duration(e.At-from) * time.Microsecond,
				Before: rate(from-around, from), During: rate(from, e.At), After: rate(e.At, e.At+around),
			})
		default:
		}
	}
}
