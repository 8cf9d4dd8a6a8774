// Package examples_test runs every example as its user does, on both engines,
// and checks what it says and that nothing is left behind.
package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/internal/testdb"
)

// deliveriesVariable names a file of 329 real deliveries, which is not a part
// of this repository.
const deliveriesVariable = "STYX_TEST_DELIVERIES"

// patience is how long an example may take.
const patience = 2 * time.Minute

// programs is the folder of the built examples.
var programs string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "styx-examples-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(programs) }()
	return m.Run()
}

var buildAll = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "build", "-o", programs+string(filepath.Separator), "./...").CombinedOutput()
	return string(out), err
})

// build returns the program of an example.
func build(t *testing.T, example string) string {
	t.Helper()
	out, err := buildAll()
	require.NoError(t, err, out)
	return filepath.Join(programs, example)
}

// place is where an example runs: a database and a temporary folder, both
// empty.
type place struct {
	database string // "" is SQLite in the temporary folder
	folder   string
}

func each(t *testing.T, body func(t *testing.T, at place)) {
	t.Helper()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		body(t, place{database: newDatabase(t), folder: t.TempDir()})
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		body(t, place{folder: t.TempDir()})
	})
}

// newDatabase makes a PostgreSQL database and drops it at the end.
func newDatabase(t *testing.T) string {
	t.Helper()
	db := testdb.Postgres(t)
	name := "styx_examples_" + strings.ToLower(rand.Text()[:12])
	_, err := db.NewRaw("CREATE DATABASE ?", bun.Ident(name)).Exec(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := db.NewRaw("DROP DATABASE ? WITH (FORCE)", bun.Ident(name)).Exec(context.WithoutCancel(t.Context()))
		require.NoError(t, err)
	})
	u, err := url.Parse(testdb.URL())
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

// command runs a program there.
func (at place) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"TMPDIR=" + at.folder}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name != "TMPDIR" && name != "DATABASE_URL" && name != "STYX_DATABASE_URL" {
			cmd.Env = append(cmd.Env, v)
		}
	}
	if at.database != "" {
		cmd.Env = append(cmd.Env, "DATABASE_URL="+at.database)
	}
	return cmd
}

// run runs a program to its end and returns the lines that it wrote.
func (at place) run(t *testing.T, program string, args ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := at.command(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), stderr.String())
	require.Empty(t, stderr.String())
	at.isEmpty(t)
	return strings.Split(strings.TrimRight(stdout.String(), "\n"), "\n")
}

// isEmpty requires that nothing is left behind.
func (at place) isEmpty(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(at.folder)
	require.NoError(t, err)
	require.Empty(t, left)
	if at.database == "" {
		return
	}
	db, err := postgres.Open(t.Context(), at.database)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var names []string
	require.NoError(t, db.NewRaw(`SELECT nspname FROM pg_catalog.pg_namespace
	WHERE nspname NOT LIKE 'pg\_%' AND nspname NOT IN ('information_schema', 'public')
	UNION ALL SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = 'public'::regnamespace`).Scan(t.Context(), &names))
	require.Empty(t, names)
}

func last(lines []string) string { return lines[len(lines)-1] }

func TestQuickstart(t *testing.T) {
	t.Parallel()
	program := build(t, "quickstart")
	each(t, func(t *testing.T, at place) {
		lines := at.run(t, program)
		require.Equal(t, "total 6 succeeded 5 dead 1 replayed 1 reaped 1", last(lines))
		story := strings.Join(lines, "\n")
		for _, want := range []string{
			"signal: killed", "alice has mail, at attempt 2", "bob's mailbox is full", "bob has mail, at attempt 2",
			"carol has mail, at attempt 1", "dave has mail, at attempt 1", "erin has no mailbox", "nobody has no mailbox",
			"erin has mail, at attempt 1",
		} {
			require.Equal(t, 1, strings.Count(story, want), "%q in:\n%s", want, story)
		}
	})
}

func TestQuickstartIsShort(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join("quickstart", "main.go"))
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(source, []byte("\n")), 120)
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	program := build(t, "webhooks")
	each(t, func(t *testing.T, at place) {
		lines := at.run(t, program)
		require.Equal(t, "total 12 succeeded 10 dead 2", last(lines))
		var table []string
		for _, line := range lines {
			if fields := strings.Fields(line); len(fields) == 4 {
				table = append(table, strings.Join(fields, " "))
			}
		}
		require.Equal(t, []string{
			"12 deliveries are enqueued.",
			"event succeeded retried dead", "github_app_authorization 0 0 1", "issues 2 0 0", "marketplace_purchase 0 0 1",
			"ping 1 0 0", "pull_request 2 0 0", "push 2 0 0", "release 1 1 0", "star 1 1 0", "watch 1 0 0",
		}, table)
	})
}

func TestWebhooksOfAFile(t *testing.T) {
	t.Parallel()
	program := build(t, "webhooks")
	each(t, func(t *testing.T, at place) {
		long := strings.Repeat("x", 300_000) // longer than a reader's usual buffer
		file := filepath.Join(t.TempDir(), "in.jsonl")
		require.NoError(t, os.WriteFile(file, []byte(`{"event":"push","payload":{"repository":{},"ref":"`+long+`"}}
{"event":"issues","payload":{"repository":null}}
{"event":"other","payload":[]}
`), 0o600))
		require.Equal(t, "total 3 succeeded 1 dead 2", last(at.run(t, program, "-in", file)))
	})
}

func TestWebhooksRefusesALineThatIsNone(t *testing.T) {
	t.Parallel()
	program := build(t, "webhooks")
	each(t, func(t *testing.T, at place) {
		file := filepath.Join(t.TempDir(), "in.jsonl")
		require.NoError(t, os.WriteFile(file, []byte("{\"event\":\"push\",\"payload\":{}}\nnonsense\n"), 0o600))
		out, err := at.command(t.Context(), program, "-in", file).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "delivery 2")
		at.isEmpty(t)
	})
}

func TestWebhooksOfRealDeliveries(t *testing.T) {
	t.Parallel()
	file := os.Getenv(deliveriesVariable)
	if file == "" {
		t.Skip(deliveriesVariable + " names no file")
	}
	program := build(t, "webhooks")
	each(t, func(t *testing.T, at place) {
		require.Equal(t, "total 329 succeeded 280 dead 49", last(at.run(t, program, "-in", file)))
	})
}

func TestHello(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	at := place{folder: t.TempDir()}
	cmd := at.command(ctx, build(t, "hello"))
	cmd.Dir = t.TempDir()
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "welcome, Ada\n", line)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())
}

// The first program of the README is the one that is compiled and run here.
func TestReadmeShowsHello(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	require.NoError(t, err)
	source, err := os.ReadFile(filepath.Join("hello", "main.go"))
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	require.NotNil(t, block)
	_, program, found := strings.Cut(string(source), "\n)\n\n") // after the imports
	require.True(t, found)
	require.Equal(t, program, string(block[1]))
}
