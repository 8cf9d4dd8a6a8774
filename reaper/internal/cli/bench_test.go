package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper/internal/cli"
)

// benchReport is what programs may rely on.
type benchReport struct {
	EnqueuePer    float64            `json:"enqueue_per_s"`
	DrainPer      float64            `json:"drain_per_s"`
	TotalPer      float64            `json:"total_per_s"`
	SinglePer     float64            `json:"single_enqueue_per_s"`
	Latency       map[string]float64 `json:"latency_ms"`
	WAL           *float64           `json:"wal_bytes_per_message"`
	PeakRSS       int64              `json:"peak_rss_bytes"`
	Checked       bool               `json:"checked"`
	LastOverFirst float64            `json:"last_over_first"`
	SnapshotHeld  float64            `json:"snapshot_held_s"`
	Rounds        []benchReport      `json:"rounds"`
	Tracing       []struct {
		Tracing        string        `json:"tracing"`
		EnqueuePer     float64       `json:"enqueue_per_s"`
		DrainPer       float64       `json:"drain_per_s"`
		EnqueueOverOff *float64      `json:"enqueue_over_off"`
		DrainOverOff   *float64      `json:"drain_over_off"`
		Share          float64       `json:"sampled_share"`
		Spans          *int64        `json:"spans"`
		Rounds         []benchReport `json:"rounds"`
	} `json:"tracing"`
	Queue    string            `json:"queue"`
	Engine   string            `json:"engine"`
	Versions map[string]string `json:"versions"`
	Settings struct {
		Concurrency int               `json:"concurrency"`
		Lease       string            `json:"lease"`
		Database    map[string]string `json:"database"`
	} `json:"settings"`
}

// bench runs the command and returns its report.
func bench(t *testing.T, db testdb.DB, args ...string) benchReport {
	t.Helper()
	out := benchOutput(t, db, append(args, "-o", "json")...)
	var report benchReport
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Equal(t, 1, strings.Count(out, "\n"), "one object on one line")
	return report
}

func benchOutput(t *testing.T, db testdb.DB, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Run(t.Context(), append(benchArgs(db), args...), strings.NewReader(""), &stdout, &stderr)
	require.Zero(t, code, stderr.String())
	require.NotContains(t, stderr.String(), "\r", "a progress bar, though stderr is no terminal")
	return stdout.String()
}

func benchArgs(db testdb.DB) []string {
	args := []string{"bench", "--messages", "300", "--concurrency", "20", "--latency-messages", "10", "--latency-rate", "1000"}
	if db.Schema == "" {
		return append(args, "--database-url", "sqlite:"+db.URL)
	}
	return append(args, "--database-url", db.URL, "--schema", db.Schema)
}

func TestBenchReports(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		r := bench(t, db, "--rounds", "2", "--hold-snapshot", "--single-enqueue", "3")
		require.True(t, r.Checked)
		require.Positive(t, r.EnqueuePer)
		require.Positive(t, r.DrainPer)
		require.Positive(t, r.TotalPer)
		require.Positive(t, r.SinglePer)
		require.Positive(t, r.PeakRSS)
		require.Positive(t, r.SnapshotHeld)
		require.Positive(t, r.LastOverFirst)
		require.Len(t, r.Rounds, 2)
		require.InDelta(t, r.DrainPer, r.Rounds[0].DrainPer, 0)
		for _, round := range r.Rounds {
			require.True(t, round.Checked)
			require.Equal(t, db.Schema != "", round.WAL != nil)
		}
		require.Equal(t, db.Schema != "", r.WAL != nil)
		for _, name := range []string{"p50", "p95", "p99", "max"} {
			require.Positive(t, r.Latency[name])
		}
		require.LessOrEqual(t, r.Latency["p50"], r.Latency["max"])
		for _, name := range []string{"styx", "go", "server"} {
			require.NotEmpty(t, r.Versions[name])
		}
		require.Equal(t, 20, r.Settings.Concurrency)
		require.Equal(t, "15s", r.Settings.Lease)
		if db.Schema != "" {
			require.Equal(t, "postgres", r.Engine)
			require.NotEmpty(t, r.Settings.Database["synchronous_commit"])
		} else {
			require.Equal(t, "sqlite", r.Engine)
			require.Equal(t, "wal", r.Settings.Database["journal_mode"])
		}
	})
}

func TestBenchComparesTracing(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		r := bench(t, db, "--compare-tracing", "--rounds", "2", "--messages", "50", "--latency-messages", "2")
		require.True(t, r.Checked)
		require.Len(t, r.Rounds, 2)
		require.Len(t, r.Tracing, 3)
		for i, name := range []string{"off", "noop", "sampled"} {
			way := r.Tracing[i]
			require.Equal(t, name, way.Tracing)
			require.Positive(t, way.EnqueuePer)
			require.Positive(t, way.DrainPer)
			require.Len(t, way.Rounds, 2)
			for _, round := range way.Rounds {
				require.True(t, round.Checked)
			}
			if i == 0 {
				require.Nil(t, way.EnqueueOverOff)
				require.Nil(t, way.DrainOverOff)
				require.Equal(t, r.Rounds, way.Rounds, "the other numbers are of these rounds")
			} else {
				require.Positive(t, *way.EnqueueOverOff)
				require.Positive(t, *way.DrainOverOff)
			}
			require.Equal(t, name == "sampled", way.Spans != nil)
		}
		require.InDelta(t, 0.01, r.Tracing[2].Share, 0)
		require.NotContains(t, benchOutput(t, db, "--latency-messages", "0", "-o", "json"), "tracing")
	})
}

func TestBenchComparesTracingInText(t *testing.T) {
	t.Parallel()
	out := benchOutput(t, testdb.SQLite(t), "--compare-tracing", "--messages", "10", "--latency-messages", "0")
	for _, want := range []string{"medians of 6 rounds", "tracing noop ", "tracing sampled ", " % of off)", "1 % of the traces"} {
		require.Contains(t, out, want)
	}
}

func TestBenchLeavesNothingOfItsOwnSchema(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		bench(t, db)
		version, _, err := benchClient(t, db).Migrations().Version(t.Context())
		require.NoError(t, err)
		require.Zero(t, version)
	})
}

func TestBenchLeavesTheMessagesOfOthers(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		c := benchClient(t, db)
		require.NoError(t, c.Migrate(t.Context()))
		mine, err := c.EnqueueRaw(t.Context(), "kind", "payload", nil)
		require.NoError(t, err)
		before := rowCounts(t, db)

		bench(t, db, "--single-enqueue", "2")

		require.Equal(t, before, rowCounts(t, db))
		m, err := c.Get(t.Context(), mine.ID)
		require.NoError(t, err)
		require.Equal(t, "payload", m.Payload)
	})
}

func TestBenchKeeps(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		r := bench(t, db, "--keep", "--latency-messages", "0", "--payload-bytes", "1000")
		require.Nil(t, r.Latency)
		page, err := benchClient(t, db).List(t.Context(), client.ListOptions{Queue: r.Queue, Limit: client.MaxPageSize})
		require.NoError(t, err)
		require.Equal(t, 300, len(page.Messages)) //nolint:testifylint // Len would print them all
		payloads := map[string]bool{}
		for _, m := range page.Messages {
			require.Len(t, m.Payload, 1000)
			payloads[m.Payload] = true
		}
		require.Equal(t, 300, len(payloads), "the payloads differ") //nolint:testifylint // as above
	})
}

func TestBenchPrintsText(t *testing.T) {
	t.Parallel()
	out := benchOutput(t, testdb.SQLite(t), "--rounds", "2", "--latency-messages", "3")
	for _, want := range []string{"300 of 100 bytes", "drain ", "p99", "round 2", "every message was worked once"} {
		require.Contains(t, out, want)
	}
}

func TestBenchRemovesTheFileItMade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new.db")
	benchOutput(t, testdb.DB{URL: path}, "--latency-messages", "0")
	left, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestBenchRefusesBadNumbers(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--messages", "0"},
		{"--concurrency", "-1"},
		{"--payload-bytes", "0"},
		{"--rounds", "0"},
		{"--single-enqueue", "-1"},
		{"--latency-messages", "-1"},
		{"--latency-rate", "0"},
		{"--latency-rate", "NaN"},
		{"extra"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "never.db")
			var stdout, stderr bytes.Buffer
			code := cli.Run(t.Context(), append(benchArgs(testdb.DB{URL: path}), args...), strings.NewReader(""), &stdout, &stderr)
			require.Equal(t, 2, code, stderr.String())
			require.Empty(t, stdout.String())
			_, err := os.Stat(path)
			require.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

func benchClient(t *testing.T, db testdb.DB) *client.Client {
	t.Helper()
	c, err := client.New(db.DB, client.Config{Schema: db.Schema})
	require.NoError(t, err)
	return c
}

// rowCounts counts the rows of every table.
func rowCounts(t *testing.T, db testdb.DB) map[string]int {
	t.Helper()
	var tables []string
	query := db.NewRaw(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'styx%'`)
	if db.Schema != "" {
		query = db.NewRaw(`SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = ?`, db.Schema)
	}
	require.NoError(t, query.Scan(t.Context(), &tables))
	require.NotEmpty(t, tables)
	counts := map[string]int{}
	for _, table := range tables {
		from := bun.Safe(table)
		if db.Schema != "" {
			from = bun.Safe(`"` + db.Schema + `".` + table)
		}
		var n int
		require.NoError(t, db.NewRaw(`SELECT count(*) FROM ?`, from).Scan(t.Context(), &n))
		counts[table] = n
	}
	return counts
}

func TestBenchInterruptedCleansUp(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		c := benchClient(t, db)
		require.NoError(t, c.Migrate(t.Context()))
		before := rowCounts(t, db)
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		var stdout, stderr bytes.Buffer
		ended := make(chan int, 1)
		go func() {
			ended <- cli.Run(ctx, append(benchArgs(db), "--messages", "1000000"), strings.NewReader(""), &stdout, &stderr)
		}()
		require.Eventually(t, func() bool {
			stats, err := c.Stats(ctx)
			return err == nil && len(stats) > 0
		}, time.Minute, 10*time.Millisecond)
		interrupt()
		require.NotZero(t, <-ended)
		require.Empty(t, stdout.String())
		require.Equal(t, before, rowCounts(t, db), stderr.String())
	})
}
