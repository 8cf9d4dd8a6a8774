package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func sample(scenario, system string, figures ...metric) record {
	return record{Scenario: scenario, System: system, Metrics: figures}
}

func figure(name string, value float64) metric {
	return metric{Name: name, Value: value, Unit: perSecond}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"0":         plain.format(0),
		"0.75":      plain.format(0.75),
		"12.3 ms":   millis.format(12.34),
		"456 µs":    micros.format(456.4),
		"1,234,568": perSecond.format(1234567.6),
		"1,000":     perSecond.format(1000),
		"85 %":      percent.format(85),
	} {
		require.Equal(t, want, got)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	var m metrics
	m.rate("rate", 10, 2*time.Second)
	m.latency("latency", 1500*time.Microsecond)
	m.each("each", time.Millisecond, 100)
	m.each("nothing", time.Millisecond, 0)
	require.Equal(t, metrics{{"rate", 5, perSecond}, {"latency", 1.5, millis}, {"each", 10, micros}}, m)
	require.Zero(t, perSecondOf(5, 0))
}

func TestTargets(t *testing.T) {
	t.Parallel()
	h := &harness{options: options{processes: []int{1, 4, 64}, queues: []int{1, 1000}}}
	for _, round := range []float64{1, 2, 3} {
		h.records = append(h.records,
			sample("drain", "styx", figure(drainRate, 40*round), figure(walMessage, 300)),
			sample("drain", "river", figure(drainRate, 5*round), figure(walMessage, 1000)),
			sample("drain", "river-default", figure(drainRate, 10*round)),
			sample("snapshot", "styx", figure(snapshotShare, 80+round)),
			sample("latency", "styx-default", figure(latencyP50, 2)),
			sample("latency", "river", figure(latencyP50, 2)),
			sample("processes", "styx", figure(processRate(1), 100), figure(processRate(4), 200), figure(processRate(64), 150), figure(processIdle(64), 3.5)),
		)
	}
	got := map[string]string{}
	for _, row := range h.targetRows()[1:] {
		got[row[0]] = strings.Join(row[1:], " ")
	}
	for what, want := range map[string]string{
		"drain / the better River":                         "≥ 4 4 pass",
		"drain / asynq":                                    "≥ 9 – –",
		"WAL a message / River":                            "≤ 0.33 0.30 pass",
		"under a held snapshot, last / first slice":        "≥ 85 % 82 % miss",
		"p50 at 100/s, defaults / River tuned":             "≤ 1 1 pass",
		"most processes / the best number of them":         "≥ 0.70 0.75 pass",
		"connections of an idle worker process":            "≤ 3 3.50 miss",
		"most queues in one worker / one queue":            "≥ 0.60 – –",
		"drain on SQLite / the better River on PostgreSQL": "≥ 2 – –",
	} {
		require.Equal(t, want, got[what], what)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	h := &harness{
		options: options{messages: 10, systems: []string{"styx", "asynq"}, processes: []int{1}, queues: []int{1}},
		records: []record{
			sample("drain", "styx", figure(drainRate, 1000)), sample("drain", "styx", figure(drainRate, 3000)),
			sample("drain", "asynq", figure("only here", 7)),
			{Scenario: "drain", System: "river", Round: 2, Error: "one\ntwo"},
		},
	}
	var out bytes.Buffer
	h.writeMarkdown(&out, machine{Processor: "abacus"})
	for _, want := range []string{
		"abacus", "too small to tell anything", "- `asynq`: v0.26.0",
		"|  | styx | river | asynq |\n|---|---|---|---|\n| drain/s | 2,000 (1,000–3,000) | – | – |\n| only here | – | – | 7 |\n",
		"- drain, river, round 2: one · two",
	} {
		require.Contains(t, out.String(), want)
	}
	require.NotContains(t, out.String(), "Latency")
}
