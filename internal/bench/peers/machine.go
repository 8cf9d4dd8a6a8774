package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// machine is what a report was measured on.
type machine struct {
	Time       string `json:"time"`
	Processor  string `json:"processor"`
	Processors int    `json:"processors"`
	Memory     string `json:"memory"`
	System     string `json:"system"`
	Go         string `json:"go"`
	PostgreSQL string `json:"postgresql"`
	Redis      string `json:"redis"`
	HugePages  bool   `json:"huge_pages"`
	Messages   int    `json:"messages"`
	Rounds     int    `json:"rounds"`
}

func (h *harness) machine(ctx context.Context) machine {
	m := machine{
		Time: time.Now().UTC().Format(time.RFC3339), Processor: field("/proc/cpuinfo", "model name"),
		Processors: runtime.NumCPU(), Memory: field("/proc/meminfo", "MemTotal"),
		System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		Messages: h.messages, Rounds: h.rounds,
	}
	if h.postgres != nil {
		m.PostgreSQL, m.HugePages = h.postgres.version, h.postgres.huge
	}
	if out, err := exec.CommandContext(ctx, "redis-server", "--version").Output(); err == nil {
		for part := range strings.FieldsSeq(string(out)) {
			if version, ok := strings.CutPrefix(part, "v="); ok {
				m.Redis = version
			}
		}
	}
	return m
}

// String is a paragraph of the report.
func (m machine) String() string {
	text := fmt.Sprintf("%s · %s, %d processors, %s memory · %s, %s · PostgreSQL %s with %s", m.Time, m.Processor, m.Processors,
		m.Memory, m.System, m.Go, m.PostgreSQL, strings.Join(postgresSettings, " "))
	if m.HugePages {
		text += " in huge pages"
	}
	if m.Redis != "" {
		text += " · Redis " + m.Redis
	}
	return text + fmt.Sprintf(" · everything on one machine · %d messages, %d rounds", m.Messages, m.Rounds)
}

// field returns the value of the first line "name : value" of a file.
func field(file, name string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
