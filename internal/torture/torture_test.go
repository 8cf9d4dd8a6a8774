//go:build unix

package torture_test

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb/server"
	"github.com/styxmq/styx/internal/torture"
	"github.com/styxmq/styx/internal/torture/check"
)

// writer logs what the coordinator tells.
type writer struct{ t *testing.T }

func (w writer) Write(p []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimSpace(p))
	return len(p), nil
}

// judge demands that every promise was kept, and that there was something to
// keep. How fast it was is not asked.
func judge(t *testing.T, cfg torture.Config) {
	t.Helper()
	cfg.Log = writer{t}
	report, err := torture.Run(t.Context(), cfg)
	require.NoError(t, err)
	var out bytes.Buffer
	report.Write(&out)
	t.Logf("\n%s", out.String())
	for _, p := range []check.Promise{check.Lost, check.Stuck, check.Unexpected, check.StaleSettle} {
		require.Zero(t, report.Broken[p], p)
	}
	require.Empty(t, report.Violations)
	require.True(t, report.OK())
	require.NotZero(t, report.Acknowledged)
	require.GreaterOrEqual(t, report.Succeeded+report.Dead, report.Acknowledged)
}

func needServer(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes minutes")
	}
	if _, err := server.FindBinaries(t.Context()); errors.Is(err, server.ErrNoBinaries) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	needServer(t)
	judge(t, torture.Config{
		Duration: 100 * time.Second, Together: 2, Length: 5 * time.Second, Calm: time.Second, Lease: 2 * time.Second,
		Rate: 500, Seed: 1, Messages: 2000,
	})
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	judge(t, torture.Config{
		Engine: torture.SQLite, Duration: 20 * time.Second, Together: 3, Length: 4 * time.Second, Calm: time.Second,
		Lease: 2 * time.Second, Rate: 300, Seed: 1, Producers: 1, Workers: 2, Reapers: 1, Messages: 200,
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := torture.Run(t.Context(), torture.Config{Engine: "oracle"})
	require.ErrorContains(t, err, "oracle")
	_, err = torture.Run(t.Context(), torture.Config{Engine: torture.SQLite, Faults: []string{"crash"}})
	require.ErrorContains(t, err, `no fault "crash" on sqlite`)
	require.Contains(t, torture.Faults(torture.Postgres), "crash")
	require.NotContains(t, torture.Faults(torture.Postgres), "write-lock")
}
