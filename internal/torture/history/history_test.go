package history_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/torture/history"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	for _, process := range []string{"a", "b"} {
		w, err := history.Create(dir, process)
		require.NoError(t, err)
		all.Go(func() {
			for id := range int64(500) {
				w.Add(history.Event{Kind: history.Start, ID: id, Token: 1})
			}
			_ = w.Close()
		})
	}
	all.Wait()
	// A process that was killed in the middle of a write.
	f, err := os.OpenFile(filepath.Join(dir, "a.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"t":1,"k":"sta`)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	events, err := history.Read(dir)
	require.NoError(t, err)
	require.Len(t, events, 1000)
	for i := range events[1:] {
		require.LessOrEqual(t, events[i].At, events[i+1].At)
	}
	require.Contains(t, []string{"a", "b"}, events[0].Process)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.jsonl"), []byte("no history\n"), 0o600))
	_, err = history.Read(dir)
	require.ErrorContains(t, err, "c.jsonl")
}
