package main

import "context"

// scenario is something to measure.
type scenario struct {
	name    string
	title   string
	about   string
	systems []string // that can take part
	bad     bool     // whether it is one of the bad days
	// stepwise: each figure is added once it is known to be right, and stands
	// although a later step fails.
	stepwise bool
	run      func(ctx context.Context, r *run) error
}

func scenarios() []scenario {
	fast := []string{"styx", "river", "river-default", "asynq", "floor", "styx-sqlite"}
	framework := []string{"styx", "river", "river-default", "asynq", "styx-sqlite"}
	prompt := []string{"styx-default", "styx", "river", "river-default", "asynq", "asynq-default", "styx-sqlite"}
	return []scenario{
		{
			name: "drain", title: "Enqueue and drain", systems: fast, run: throughput{bytes: small}.run,
			about: "Payloads of 100 B. Bulk enqueue by one goroutine in batches of 5,000; then one worker process drains, with handlers that do nothing, timed from its start until the last outcome is recorded.",
		},
		{
			name: "drain-8k", title: "Enqueue and drain, payloads of 8 kB", systems: fast, run: throughput{bytes: large}.run,
			about: "The same with a quarter of the messages.",
		},
		{
			name: "drain-failing", title: "Enqueue and drain, 1 % fail", systems: framework, run: throughput{bytes: small, failing: true}.run,
			about: "A hundredth of the messages fails at the first attempt and is retried 100 ms later, by the retry policy that each system lets its users set.",
		},
		{
			name: "single", title: "Enqueue one by one", systems: fast, run: single,
			about: "Each message is a call and a commit of its own; no worker runs.",
		},
		{
			name: "steady", title: "Steady state", systems: fast, run: steady,
			about: "One process enqueues, in batches of 1,000, and works at the same time; at most 20,000 messages wait.",
		},
		{
			name: "latency", title: "Latency at 100 messages a second", systems: prompt, run: latency,
			about: "Enqueued one by one into an idle queue; from the call of the enqueue to the start of the handler.",
		},
		{
			name: "latency-half", title: "Latency at half of the peak", systems: framework, run: latencyHalf,
			about: "The same at half of the rate that the system has reached in the steady state, enqueued every 5 ms in batches.",
		},
		{
			name: "snapshot", title: "Bad day: a snapshot is held", systems: []string{"styx", "river", "floor"}, bad: true, run: snapshot,
			about: "Six times the messages are drained while a REPEATABLE READ transaction keeps the dead rows from being removed.",
		},
		{
			name: "analytics", title: "Bad day: analytical reads", systems: []string{"styx", "river"}, bad: true, run: analytics,
			about: "The steady state while 4 overlapping REPEATABLE READ transactions of 30 s scan all messages again and again.",
		},
		{
			name: "processes", title: "Bad day: many worker processes", systems: []string{"styx", "river", "asynq"}, bad: true, stepwise: true, run: processes,
			about: "The handlers are spread over worker processes with 4 connections each. All have messages in their hands before the first one is worked, and the time begins after as many messages as are timed, or 7.5 % of that in each process if it is more, so that connections, plans and memory, which so many processes take seconds to get, do not count. They share the processors as containers would: GOMAXPROCS is at least 1, and no more than their share.",
		},
		{
			name: "queues", title: "Bad day: many queues in one worker", systems: []string{"styx", "river", "asynq"}, bad: true, stepwise: true, run: queues,
			about: "The messages are spread over the queues.",
		},
		{
			name: "backlog", title: "Bad day: a backlog and a calendar", systems: []string{"styx", "river", "asynq"}, bad: true, run: backlog,
			about: "Five times the messages wait, after as many that are not due for an hour; the drain of the first of them is timed.",
		},
		{
			name: "wakeup", title: "Bad day: 64 goroutines enqueue one by one", systems: []string{"styx", "river", "asynq"}, bad: true, run: wakeup,
			about: "Without a worker, with a worker that sleeps, and with a worker that has a backlog to do.",
		},
	}
}

func scenarioNames() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}

// scenarioGroups are names for several scenarios.
func scenarioGroups() map[string][]string {
	groups := map[string][]string{}
	for _, s := range scenarios() {
		group := "normal"
		if s.bad {
			group = "bad"
		}
		groups[group] = append(groups[group], s.name)
	}
	return groups
}
