package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb/server"
)

// The test binary is its own child, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArgument {
		os.Exit(childMain(context.Background(), os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// smoke runs the program with few messages. What a system lacks a server for
// is left out.
func smoke(t *testing.T, systems, scenarios string) string {
	t.Helper()
	if _, err := server.FindBinaries(t.Context()); errors.Is(err, server.ErrNoBinaries) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		systems = strings.ReplaceAll(systems, ",asynq", "")
	}
	file := filepath.Join(t.TempDir(), "figures.json")
	var out, progress bytes.Buffer
	code := parent(t.Context(), []string{
		"-quick", "-messages", "200", "-steady", "200ms", "-latency", "200ms",
		"-systems", systems, "-scenarios", scenarios, "-json", file,
	}, &out, &progress)
	require.Zero(t, code, "%s\n%s", progress.String(), out.String())
	require.NotContains(t, out.String(), "## Failed")
	require.FileExists(t, file)
	return out.String()
}

func TestSmokeSystems(t *testing.T) {
	t.Parallel()
	require.Contains(t, smoke(t, "styx,river,river-default,asynq,floor,styx-sqlite", "drain"), "| drain/s |")
}

func TestSmokeScenarios(t *testing.T) {
	t.Parallel()
	require.Contains(t, smoke(t, "styx,styx-default", "all"), "| last / first |")
}

// A message that is worked twice, or not at all, must be an error.
func TestRunFailsOnWrongCounts(t *testing.T) {
	t.Parallel()
	h := &harness{}
	e, err := lookUp("styx-sqlite")
	require.NoError(t, err)
	r := &run{h: h, entry: e}
	require.NoError(t, r.begin(t.Context()))
	t.Cleanup(func() { require.NoError(t, r.end(context.Background())) })
	file := filepath.Join(r.dir, "counts")
	seen := newTally(3, false, false, 0, 0)
	for _, num := range []int{0, 1, 1} {
		require.NoError(t, seen.handle(newPayload(num, small), 1))
	}
	require.NoError(t, seen.save(file))
	r.files = []string{file}
	require.ErrorContains(t, r.check(t.Context(), 3, 3), "of 3 messages 1 were not worked, 1 more than once")
	seen.counts[1].Store(1)
	seen.counts[2].Store(1)
	require.NoError(t, seen.save(file))
	require.ErrorContains(t, r.check(t.Context(), 3, 3), "the database holds 0 successes instead of 3")
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-systems", "sidekiq"}, {"-scenarios", "drain,tea"}, {"-rounds", "0"}, {"-messages", "5"}, {"drain"}, {"-no"},
	} {
		require.Equal(t, exitUsage, parent(t.Context(), args, &bytes.Buffer{}, &bytes.Buffer{}), "%v", args)
	}
}

func TestProcessWarmUp(t *testing.T) {
	for _, test := range []struct{ k, want int }{{1, 200_000}, {13, 200_000}, {14, 210_000}, {64, 960_000}} {
		require.Equal(t, test.want, processWarmUp(test.k, 200_000), "%d processes", test.k)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	o, err := parseOptions([]string{"-quick", "-rounds", "9", "-systems", "river, styx", "-scenarios", "bad,drain"}, &bytes.Buffer{})
	require.NoError(t, err)
	require.Equal(t, []string{"styx", "river"}, o.systems)
	require.Equal(t, []string{"drain", "snapshot", "analytics", "processes", "queues", "backlog", "wakeup"}, o.scenarios)
	require.Equal(t, 9, o.rounds)
	require.Equal(t, 3, o.badRounds)
	require.Equal(t, quickMessages, o.messages)
	full, err := parseOptions(nil, &bytes.Buffer{})
	require.NoError(t, err)
	require.Equal(t, fullMessages, full.messages)
	require.Equal(t, systemNames(), full.systems)
}
