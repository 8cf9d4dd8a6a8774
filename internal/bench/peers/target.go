package main

import "fmt"

// target is what Styx is measured against, as a ratio within one run.
type target struct {
	what string
	need float64
	most bool // need is the most rather than the least
	unit unit
	// value returns the ratio, and false when it was not measured.
	value func(h *harness) (float64, bool)
}

// tenth and third are how much of a rival's figure is permitted.
const (
	tenth = 0.1
	third = 1. / 3
)

func targets() []target {
	rivers := []string{"river", "river-default"}
	return []target{
		{what: "drain / the better River", need: 4, value: ratio("drain", drainRate, "styx", rivers...)},
		{what: "drain / asynq", need: 9, value: ratio("drain", drainRate, "styx", "asynq")},
		{what: "drain / bare SQL", need: 0.75, value: ratio("drain", drainRate, "styx", "floor")},
		{what: "bulk enqueue / the better River", need: 2.5, value: ratio("drain", bulkRate, "styx", rivers...)},
		{what: "enqueue one by one, 16 goroutines / the better River", need: 2.5, value: ratio("single", singleMany, "styx", rivers...)},
		{what: "steady state / the better River", need: 4, value: ratio("steady", steadyRate, "styx", rivers...)},
		{what: "p50 at 100/s, defaults / River tuned", need: 1, most: true, value: ratio("latency", latencyP50, "styx-default", "river")},
		{what: "p99 at 100/s, defaults / River's defaults", need: tenth, most: true, value: ratio("latency", latencyP99, "styx-default", "river-default")},
		{what: "under a held snapshot, last / first slice", need: 85, unit: percent, value: share("snapshot", "styx", snapshotShare)},
		{what: "most processes / the best number of them", need: 0.7, value: processShare},
		{what: "connections of an idle worker process", need: 3, most: true, value: processConnections},
		{what: "most queues in one worker / one queue", need: 0.6, value: queueShare},
		{what: "WAL a message / River", need: third, most: true, value: ratio("drain", walMessage, "styx", "river")},
		{what: "drain on SQLite / the better River on PostgreSQL", need: 2, value: ratio("drain", drainRate, "styx-sqlite", rivers...)},
	}
}

// verdict is pass, miss or – when there is nothing to tell.
func (t target) verdict(h *harness) (value, verdict string) {
	v, ok := t.value(h)
	if !ok {
		return "–", "–"
	}
	verdict = "miss"
	if t.most && v <= t.need || !t.most && v >= t.need {
		verdict = "pass"
	}
	return t.unit.format(v), verdict
}

func (t target) bound() string {
	sign := "≥"
	if t.most {
		sign = "≤"
	}
	return fmt.Sprintf("%s %s", sign, t.unit.format(t.need))
}

// ratio compares medians of one figure: one system's with the largest of the
// others'.
func ratio(scenario, name, one string, others ...string) func(*harness) (float64, bool) {
	return func(h *harness) (float64, bool) {
		v, ok := h.median(scenario, one, name)
		best := 0.
		for _, other := range others {
			if o, found := h.median(scenario, other, name); found {
				best = max(best, o)
			}
		}
		if !ok || best == 0 {
			return 0, false
		}
		return v / best, true
	}
}

func share(scenario, system, name string) func(*harness) (float64, bool) {
	return func(h *harness) (float64, bool) { return h.median(scenario, system, name) }
}

func processShare(h *harness) (float64, bool) {
	return lastOfBest(h, "processes", h.processes, processRate)
}

func processConnections(h *harness) (float64, bool) {
	return h.median("processes", "styx", processIdle(h.processes[len(h.processes)-1]))
}

func queueShare(h *harness) (float64, bool) {
	one, ok := h.median("queues", "styx", queueRate(h.queues[0]))
	many, found := h.median("queues", "styx", queueRate(h.queues[len(h.queues)-1]))
	if !ok || !found || one == 0 {
		return 0, false
	}
	return many / one, true
}

// lastOfBest divides the figure of the last step by the largest of all steps.
func lastOfBest(h *harness, scenario string, steps []int, name func(int) string) (float64, bool) {
	best, last, ok := 0., 0., false
	for _, step := range steps {
		last, ok = h.median(scenario, "styx", name(step))
		best = max(best, last)
	}
	if !ok || best == 0 {
		return 0, false
	}
	return last / best, true
}
