package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// unit says how to show a figure.
type unit string

const (
	perSecond unit = "1/s"
	micros    unit = "µs"
	millis    unit = "ms"
	bytesUnit unit = "B"
	mebibytes unit = "MiB"
	plain     unit = ""
	percent   unit = "%"
)

// metric is one figure of one run.
type metric struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  unit    `json:"unit"`
}

// metrics are the figures of one run, in the order of the report.
type metrics []metric

func (m *metrics) add(name string, value float64, u unit) {
	*m = append(*m, metric{Name: name, Value: value, Unit: u})
}

func (m *metrics) rate(name string, n int, d time.Duration) {
	m.add(name, perSecondOf(n, d), perSecond)
}

func (m *metrics) latency(name string, d time.Duration) {
	m.add(name, float64(d)/float64(time.Millisecond), millis)
}

// each adds a time as microseconds for each of n messages.
func (m *metrics) each(name string, d time.Duration, n int) {
	if n > 0 {
		m.add(name, float64(d)/float64(time.Microsecond)/float64(n), micros)
	}
}

func perSecondOf(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// format shows a figure with three digits that count.
func (u unit) format(v float64) string {
	var text string
	switch {
	case v >= 1000:
		text = thousands(int64(v + 0.5))
	case v >= 100 || v == float64(int64(v)):
		text = strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		text = strconv.FormatFloat(v, 'f', 1, 64)
	default:
		text = strconv.FormatFloat(v, 'f', 2, 64)
	}
	if u == plain || u == perSecond {
		return text
	}
	return fmt.Sprintf("%s %s", text, u)
}

func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var parts []string
	for len(digits) > 3 {
		parts = append([]string{digits[len(digits)-3:]}, parts...)
		digits = digits[:len(digits)-3]
	}
	return strings.Join(append([]string{digits}, parts...), ",")
}
