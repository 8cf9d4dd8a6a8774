package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/testdb/server"
)

func TestRunUsage(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"no command":   {},
		"unknown flag": {"-fast", "--", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			require.Equal(t, exitUsage, run(t.Context(), args, &stderr, &stderr))
			require.Contains(t, stderr.String(), "testpg:")
		})
	}
}

func TestRunGivesTheCommandAServer(t *testing.T) {
	t.Parallel()
	if _, err := server.FindBinaries(t.Context()); errors.Is(err, server.ErrNoBinaries) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--", "sh", "-c", `echo "$STYX_TEST_DATABASE_URL"; exit 7`}, &stdout, &stderr)
	require.Equal(t, 7, code, stderr.String())
	require.True(t, strings.HasPrefix(stdout.String(), "postgres://"), stdout.String())
	require.Empty(t, stderr.String())
}

func TestRunCommandPassesSignalsOn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script string
		code   int
	}{
		"ended by it":  {`echo ready; while :; do :; done`, 128 + int(syscall.SIGTERM)},
		"caught":       {`trap 'exit 3' TERM; echo ready; while :; do :; done`, 3},
		"not executed": {`exec /no/such/command`, 127},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			signals := make(chan os.Signal, 1)
			var stderr bytes.Buffer
			code := runCommand([]string{"sh", "-c", test.script}, "", signals, onWrite(func() { signals <- syscall.SIGTERM }), &stderr)
			require.Equal(t, test.code, code)
		})
	}
}

func TestRunCommandReportsWhatCannotStart(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	require.Equal(t, exitFailure, runCommand([]string{"/no/such/command"}, "", nil, &stderr, &stderr))
	require.Contains(t, stderr.String(), "/no/such/command")
}

// onWrite is a writer that tells of each write.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}
