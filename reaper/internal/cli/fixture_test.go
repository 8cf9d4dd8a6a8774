package cli_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper/internal/cli"
)

const patience = 30 * time.Second

// result is what a call of the program left.
type result struct {
	code           int
	stdout, stderr string
}

// call runs the program in this process.
func call(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// ok calls for a success and returns stdout.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	r := call(t, args...)
	require.Zero(t, r.code, "%v: %s", args, r.stderr)
	return r.stdout
}

// object parses one line of JSON.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	require.Equal(t, 1, strings.Count(text, "\n"), text)
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

// lastLine is the error that a call with -o json printed.
func lastLine(t *testing.T, r result) map[string]any {
	t.Helper()
	lines := strings.SplitAfter(strings.TrimSpace(r.stderr)+"\n", "\n")
	return object(t, lines[len(lines)-2])
}

// target are the flags that lead to a database which is empty at first.
func target(t *testing.T, db testdb.DB) []string {
	t.Helper()
	if db.Schema == "" {
		return []string{"--database-url", "sqlite:" + filepath.Join(t.TempDir(), "new.db")}
	}
	return []string{"--database-url", db.URL, "--schema", db.Schema}
}

// buffer may be read while it is written to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
