package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTally(t *testing.T) {
	t.Parallel()
	seen := newTally(200, true, true, 200, 100)
	for num := range 200 {
		err := seen.handle(newPayload(num, small), 1)
		if fails(num) {
			require.ErrorIs(t, err, errFailure)
			require.NoError(t, seen.handle(newPayload(num, small), 2))
			continue
		}
		require.NoError(t, err)
	}
	select {
	case <-seen.all:
	default:
		t.Fatal("all have succeeded")
	}
	require.Len(t, seen.marks, 2)
	require.Len(t, seen.latencies(), 200)
	require.EqualValues(t, failing(200), seen.failures.Load())
	require.Equal(t, 2, failing(200))
	require.Error(t, seen.handle(newPayload(200, small), 1), "a message of another run")
}

func TestCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	for i, file := range files {
		seen := newTally(4, false, false, 0, 0)
		require.NoError(t, seen.handle(newPayload(i, small), 1))
		require.NoError(t, seen.handle(newPayload(2, small), 1))
		require.NoError(t, seen.save(file))
	}
	counts, err := countsOf(files, 4)
	require.NoError(t, err)
	require.Equal(t, []uint32{1, 1, 2, 0}, counts)
	require.NoError(t, checkCounts(counts[:2], 2))
	require.ErrorContains(t, checkCounts(counts, 3), "1 more than once")
	require.ErrorContains(t, checkCounts([]uint32{1, 0}, 2), "1 were not worked")
	require.ErrorContains(t, checkCounts([]uint32{1, 1}, 1), "1 that should not have been")
	require.Error(t, checkCounts([]uint32{1}, 2))
	require.NoError(t, checkAtMostOnce([]uint32{1, 0, 1, 0}, 3, 2))
	require.Error(t, checkAtMostOnce([]uint32{1, 0, 1, 1}, 3, 2), "one is not due")
	require.Error(t, checkAtMostOnce([]uint32{2, 0}, 2, 1))
	require.Error(t, checkAtMostOnce([]uint32{1, 0}, 2, 2))
	_, err = countsOf([]string{filepath.Join(dir, "none")}, 1)
	require.Error(t, err)
}

func TestPayload(t *testing.T) {
	t.Parallel()
	texts := map[string]bool{}
	for _, size := range []int{small, large} {
		for num := range 300 {
			data, err := json.Marshal(newPayload(num*997, size))
			require.NoError(t, err)
			require.InDelta(t, size, len(data), 1)
			texts[newPayload(num*997, size).Pad] = true
		}
	}
	require.Len(t, texts, 600, "every padding is another")
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	s, err := parseStat("42 (postgres: a) b) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 100 200")
	require.NoError(t, err)
	require.Equal(t, processStat{parent: 7, own: 30, waited: 70}, s)
	for _, bad := range []string{"", "42", "42 (x) S 7", "42 (x) S 7 42 42 0 -1 4194560 1 2 3 4 ten 20 30 40 20"} {
		_, err := parseStat(bad)
		require.Error(t, err, bad)
	}
}
