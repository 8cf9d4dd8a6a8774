package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMeminfo(t *testing.T) {
	t.Parallel()
	require.Greater(t, meminfo("MemTotal"), int64(64<<20), "in bytes")
	require.Positive(t, meminfo("MemAvailable"))
	require.Less(t, meminfo("MemAvailable"), meminfo("MemTotal"))
	require.Zero(t, meminfo("Nonsense"))
}

func TestProcessWithoutHugePages(t *testing.T) {
	t.Parallel()
	huge, err := hasHugePages(os.Getpid())
	require.NoError(t, err)
	require.False(t, huge)
	_, err = hasHugePages(-1)
	require.Error(t, err)
}
