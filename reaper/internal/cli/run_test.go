package cli_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/client/sqlite"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper/internal/cli"
)

type work struct{}

func (work) Kind() string { return "work" }

// enqueue stores messages that expire at once.
func enqueue(t *testing.T, db testdb.DB, n int) []int64 {
	t.Helper()
	c, err := client.New(db.DB, client.Config{Schema: db.Schema, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, c.Migrate(t.Context()))
	ids := make([]int64, n)
	for i := range ids {
		m, err := c.Enqueue(t.Context(), work{}, &client.EnqueueOptions{ExpiresIn: time.Millisecond, Queue: "q"})
		require.NoError(t, err)
		ids[i] = m.ID
	}
	require.Eventually(t, func() bool {
		m, err := c.Get(t.Context(), ids[n-1])
		require.NoError(t, err)
		return time.Since(m.ExpiresAt) > time.Second // the database's clock is this machine's
	}, patience, 10*time.Millisecond)
	return ids
}

// flagsOf lead to the test's own database.
func flagsOf(db testdb.DB) []string {
	if db.Schema == "" {
		return []string{"--database-url", "sqlite:" + db.URL}
	}
	return []string{"--database-url", db.URL, "--schema", db.Schema}
}

func TestSweepPrintsWhatItDid(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		enqueue(t, db, 2)
		r := call(t, append(flagsOf(db), "sweep", "-o", "json")...)
		require.Zero(t, r.code, r.stderr)
		report := object(t, r.stdout)
		require.EqualValues(t, 2, report["expired"])
		require.EqualValues(t, 2, report["dead"])
		require.Len(t, report["moved"], 2)
		require.Contains(t, r.stderr, `"decision":"expired"`)

		require.Equal(t, "nothing to do\n", ok(t, append(flagsOf(db), "sweep")...))
		enqueue(t, db, 1)
		text := ok(t, append(flagsOf(db), "sweep")...)
		require.Contains(t, text, "1 messages expired")
		require.Regexp(t, `(?m)^\d+ +q +work +1/5 +expired +dead$`, text)
	})
}

func TestSweepRefusesAnOldSchema(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		r := call(t, append(flagsOf(db), "sweep")...)
		require.Equal(t, 1, r.code)
		require.Contains(t, r.stderr, "reaper migrate up")
		r = call(t, append(flagsOf(db), "run", "-o", "json")...)
		require.Equal(t, 1, r.code)
		require.Contains(t, lastLine(t, r)["error"], "reaper migrate up")
	})
}

func TestRunMigratesWhenAskedAndEndsInGoodOrder(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var stdout, stderr buffer
		done := make(chan int, 1)
		go func() {
			done <- cli.Run(ctx, append(target(t, db), "run", "--migrate", "-o", "json"), strings.NewReader(""), &stdout, &stderr)
		}()
		require.Eventually(t, func() bool { return strings.Contains(stderr.String(), "reaper starts") }, patience, 10*time.Millisecond)
		cancel()
		require.Zero(t, <-done)
		require.Empty(t, stdout.String())
		for line := range strings.Lines(stderr.String()) {
			object(t, line)
		}
		require.Contains(t, stderr.String(), "reaper stopped")
	})
}

func TestRunRefusesBadSpecsByName(t *testing.T) {
	t.Parallel()
	db := testdb.SQLite(t)
	enqueue(t, db, 1)
	for flag, name := range map[string]string{"--rescue": "Rescue", "--sweep": "Sweep", "--maintain": "Maintain"} {
		r := call(t, append(flagsOf(db), "run", "-o", "json", flag, "TZ=0")...)
		require.Equal(t, 2, r.code)
		require.Equal(t, name, lastLine(t, r)["field"])
	}
	r := call(t, append(flagsOf(db), "run", "-o", "json", "--location", "Nowhere/X")...)
	require.Equal(t, 2, r.code)
	require.Equal(t, "location", lastLine(t, r)["field"])
}

// build makes the program.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "reaper")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/styxmq/styx/reaper/cmd/reaper").CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// The real program, as a first user runs it: no settings, an empty folder.
func TestProgramEndsWithSIGTERM(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM")
	}
	folder := t.TempDir()
	cmd := exec.CommandContext(t.Context(), build(t), "run")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "STYX_DATABASE_URL=", "DATABASE_URL=")
	var stdout bytes.Buffer
	var stderr buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	require.Eventually(t, func() bool { return strings.Contains(stderr.String(), "reaper starts") }, patience, 10*time.Millisecond)

	db, err := sqlite.Open(t.Context(), filepath.Join(folder, "styx.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	ids := enqueue(t, testdb.DB{DB: db}, 1)
	c, err := client.New(db, client.Config{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		m, err := c.Get(t.Context(), ids[0])
		require.NoError(t, err)
		return m.Status == message.StatusDead
	}, patience, 10*time.Millisecond, "it works on the file in the working folder")

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), stderr.String())
	require.Contains(t, stderr.String(), "reaper stopped")
	require.Empty(t, stdout.String())
}
