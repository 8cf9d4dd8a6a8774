//go:build unix

package torture_test

import (
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/torture"
)

// A soak of seconds measures, draws and judges; whether anything grows shows
// in one of an hour only.
func TestSoak(t *testing.T) {
	t.Parallel()
	needServer(t)
	dir := t.TempDir()
	cfg := torture.SoakConfig{
		Duration: 10 * time.Second, Every: 500 * time.Millisecond, Length: time.Second, Rate: 50, Seed: 1,
		Faults: []string{"kill-workers", "rolling-restart", "poison-10", "held-snapshot"},
		CSV:    filepath.Join(dir, "soak.csv"), SVG: filepath.Join(dir, "soak.svg"), Log: writer{t},
	}
	report, err := torture.Soak(t.Context(), cfg)
	require.NoError(t, err)
	require.True(t, report.OK(), "%v", report.Violations)
	require.NotZero(t, report.Acknowledged)
	require.NotEmpty(t, report.Samples)
	last := report.Samples[len(report.Samples)-1].Values
	require.Len(t, report.Flatness, len(last))
	require.Positive(t, last[1], "the size of the tables")
	require.Positive(t, last[2], "the size of the indexes")
	require.Positive(t, last[5], "goroutines of a worker")
	require.Positive(t, last[7], "goroutines of a reaper")
	var out strings.Builder
	report.WriteFlatness(&out)
	t.Log("\n" + out.String())

	text, err := os.ReadFile(cfg.CSV)
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+len(report.Samples))
	picture, err := os.ReadFile(cfg.SVG)
	require.NoError(t, err)
	lines := 0
	for d := xml.NewDecoder(strings.NewReader(string(picture))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "polyline" {
			lines++
		}
	}
	require.Len(t, last, lines)
}
