package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// writeMarkdown writes the report: machine, targets, one table for each
// scenario, and what has failed.
func (h *harness) writeMarkdown(w io.Writer, m machine) {
	fmt.Fprintf(w, "# Styx and its peers\n\n%s\n\n", m)
	fmt.Fprintf(w, "Medians of the rounds, in brackets the least and the largest.\n\n")
	if h.messages < fullMessages {
		fmt.Fprintf(w, "**This run is too small to tell anything: %d messages. It shows that everything works.**\n\n", h.messages)
	}
	for _, name := range h.systems {
		if e, err := lookUp(name); err == nil {
			fmt.Fprintf(w, "- `%s`: %s\n", e.name, e.settings)
		}
	}
	fmt.Fprintf(w, "\nProcesses have up to %d connections to PostgreSQL where nothing else is said.\n", poolConns)
	fmt.Fprintf(w, "\n## Targets\n\n")
	writeTable(w, h.targetRows())
	for _, s := range scenarios() {
		rows := h.scenarioRows(s)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n## %s\n\n%s\n\n", s.title, s.about)
		writeTable(w, rows)
	}
	if failed := h.failures(); len(failed) > 0 {
		fmt.Fprintf(w, "\n## Failed\n\n")
		for _, r := range failed {
			fmt.Fprintf(w, "- %s, %s, round %d: %s\n", r.Scenario, r.System, r.Round, strings.ReplaceAll(r.Error, "\n", " · "))
		}
	}
}

func (h *harness) targetRows() [][]string {
	rows := [][]string{{"Styx against", "target", "measured", ""}}
	for _, t := range targets() {
		value, verdict := t.verdict(h)
		rows = append(rows, []string{t.what, t.bound(), value, verdict})
	}
	return rows
}

// scenarioRows has a row for each figure and a column for each system; nil
// when nothing was measured.
func (h *harness) scenarioRows(s scenario) [][]string {
	header, systems := []string{""}, []string{}
	for _, name := range s.systems {
		if slices.ContainsFunc(h.records, func(r record) bool { return r.Scenario == s.name && r.System == name }) {
			header, systems = append(header, name), append(systems, name)
		}
	}
	if len(systems) == 0 {
		return nil
	}
	rows := [][]string{header}
	for _, m := range h.figures(s.name) {
		row := []string{m.Name}
		for _, system := range systems {
			row = append(row, cell(h.values(s.name, system, m.Name), m.Unit))
		}
		rows = append(rows, row)
	}
	return rows
}

// figures returns every figure of a scenario once, in the order of the runs.
func (h *harness) figures(scenario string) (figures metrics) {
	for _, r := range h.records {
		if r.Scenario != scenario {
			continue
		}
		for _, m := range r.Metrics {
			if !slices.ContainsFunc(figures, func(f metric) bool { return f.Name == m.Name }) {
				figures = append(figures, m)
			}
		}
	}
	return figures
}

// cell shows the figures of the rounds.
func cell(values []float64, u unit) string {
	switch len(values) {
	case 0:
		return "–"
	case 1:
		return u.format(values[0])
	}
	return fmt.Sprintf("%s (%s–%s)", u.format(median(values)), plain.format(slices.Min(values)), plain.format(slices.Max(values)))
}

func writeTable(w io.Writer, rows [][]string) {
	for i, row := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
}

// writeJSON writes every single figure.
func (h *harness) writeJSON(file string, m machine) error {
	type verdict struct {
		Target  string `json:"target"`
		Bound   string `json:"bound"`
		Value   string `json:"value"`
		Verdict string `json:"verdict"`
	}
	var verdicts []verdict
	for _, t := range targets() {
		value, result := t.verdict(h)
		verdicts = append(verdicts, verdict{Target: t.what, Bound: t.bound(), Value: value, Verdict: result})
	}
	data, err := json.MarshalIndent(struct {
		Machine machine   `json:"machine"`
		Targets []verdict `json:"targets"`
		Runs    []record  `json:"runs"`
	}{m, verdicts, h.records}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil { //nolint:gosec // for everyone to read
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}
