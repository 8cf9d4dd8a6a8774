package examples_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTracing(t *testing.T) {
	t.Parallel()
	program := build(t, "tracing")
	each(t, func(t *testing.T, at place) {
		require.Equal(t, []string{
			"1 POST /mails (server)",
			"  2 send default (producer)",
			"    3 process default (consumer), attempt 1, outcome retried, link to creation in 2: the mailbox is full",
			"      4 deliver (internal)",
			"5 process default (consumer), attempt 2, outcome dead, link to creation in 2: the mailbox is full",
			"  6 deliver (internal)",
			"  7 dead_letter default (internal), attempt 2, decision exhausted, link to creation in 2: the mailbox is full",
			"8 process default (consumer), attempt 1, outcome succeeded, link to creation in 2, link to death in 5",
			"  9 deliver (internal)",
		}, at.run(t, program))
	})
}

func TestTracingIsShort(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join("tracing", "main.go"))
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(source, []byte("\n")), 150)
}
