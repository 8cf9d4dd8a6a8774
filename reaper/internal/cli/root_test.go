package cli_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/reaper/internal/cli"
)

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"unknown command":       {"harvest"},
		"unknown subcommand":    {"migrate", "sideways"},
		"no subcommand":         {"migrate"},
		"unknown flag":          {"run", "--soul"},
		"argument":              {"sweep", "now"},
		"missing flag":          {"migrate", "down"},
		"negative version":      {"migrate", "down", "--to", "-1"},
		"bad output":            {"version", "-o", "xml"},
		"bad duration":          {"run", "--archive-retention", "7"},
		"duration without unit": {"sweep", "--archive-retention", "7ns", "--database-url", filepath.Join(t.TempDir(), "a.db"), "--batch", "x"},
		"empty URL":             {"sweep", "--database-url", ""},
		"unknown scheme":        {"sweep", "--database-url", "mysql://u:sekret@h/x.db"},
		"not a database":        {"sweep", "--database-url", "hello"},
		"no path":               {"sweep", "--database-url", "sqlite:"},
		"in memory":             {"migrate", "up", "--database-url", "file::memory:"},
		"bad PostgreSQL URL":    {"sweep", "--database-url", "postgres://u:sekret@h:port/x"},
		"schema with SQLite":    {"migrate", "up", "--schema", "mine", "--database-url", filepath.Join(t.TempDir(), "a.db")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := call(t, args...)
			require.Equal(t, 2, r.code, r.stderr)
			require.Empty(t, r.stdout)
			require.Contains(t, r.stderr, "reaper: ")
			require.Contains(t, r.stderr, "--help")
			require.NotContains(t, r.stderr, "sekret")

			r = call(t, append(args, "-o", "json")...)
			require.Equal(t, 2, r.code)
			failure := object(t, r.stderr)
			require.Equal(t, "usage", failure["code"])
			require.EqualValues(t, 2, failure["exit_code"])
			require.NotContains(t, r.stderr, "sekret")
		})
	}
}

func TestDatabaseThatIsAwayIsExitCode5(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"refused": "postgres://app:sekret@127.0.0.1:1/app?connect_timeout=2",
		"folder":  "sqlite:" + filepath.Join(t.TempDir(), "missing", "a.db"),
	} {
		for _, args := range [][]string{{"run", "--migrate"}, {"sweep"}, {"migrate", "up"}, {"migrate", "status"}} {
			r := call(t, append(args, "--database-url", url, "-o", "json")...)
			require.Equal(t, 5, r.code, "%s %v: %s", name, args, r.stderr)
			require.Equal(t, "unavailable", lastLine(t, r)["code"])
			require.NotContains(t, r.stderr, "sekret")
		}
	}
}

func TestCredentialsInTheWrongPlaceAreNotRepeated(t *testing.T) {
	t.Parallel()
	r := call(t, "postgres://app:sekret@db/app")
	require.Equal(t, 2, r.code)
	require.NotContains(t, r.stderr, "sekret")
}

// Not parallel: it sets the environment.
func TestDatabaseIsFoundInTheRightOrder(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	path := func(name string) string { return filepath.Join(folder, name) }
	up := func(args ...string) { ok(t, append([]string{"migrate", "up"}, args...)...) }

	t.Setenv("STYX_DATABASE_URL", "")
	t.Setenv("DATABASE_URL", "")
	up()
	require.FileExists(t, path("styx.db"))
	t.Setenv("DATABASE_URL", "sqlite:second.db")
	up()
	require.FileExists(t, path("second.db"))
	t.Setenv("STYX_DATABASE_URL", "file:third.db?_pragma=synchronous(NORMAL)")
	up()
	require.FileExists(t, path("third.db"))
	up("--database-url", "fourth.db")
	require.FileExists(t, path("fourth.db"))
	up("--database-url", "sqlite://"+path("fifth.db"))
	require.FileExists(t, path("fifth.db"))
	up("--database-url", "sqlite:sixth")
	require.FileExists(t, path("sixth"))

	t.Setenv("STYX_DATABASE_URL", "")
	t.Setenv("DATABASE_URL", "mysql://u:sekret@h/d")
	r := call(t, "migrate", "status")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "DATABASE_URL")
	require.NotContains(t, r.stderr, "sekret")
}

func TestHelp(t *testing.T) {
	t.Parallel()
	require.Contains(t, ok(t), "Available Commands")
	codes := ok(t, "help", "exit-codes")
	for _, line := range []string{"0  done", "1  an error", "2  wrong usage", "3  nothing", "4  a part", "5  the database"} {
		require.Contains(t, codes, line)
	}
	require.Contains(t, ok(t, "run", "--help"), "--archive-retention")
	require.Contains(t, ok(t, "help", "migrate", "down"), "--yes")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	require.True(t, strings.HasPrefix(ok(t, "version"), "reaper "))
	v := object(t, ok(t, "version", "-o", "json"))
	require.NotEmpty(t, v["version"])
	require.NotEmpty(t, v["go"])
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"table", "json"} {
		var stderr bytes.Buffer
		code := cli.Run(t.Context(), []string{"version", "-o", format}, strings.NewReader(""), broken{}, &stderr)
		require.Equal(t, 1, code)
		require.Contains(t, stderr.String(), "no space left")
	}
}
