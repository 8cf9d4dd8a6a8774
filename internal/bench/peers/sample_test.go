package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	require.Zero(t, median(nil))
	require.InDelta(t, 3, median([]float64{3}), 0)
	require.InDelta(t, 2, median([]float64{9, 1, 2}), 0)
	require.InDelta(t, 2.5, median([]float64{9, 1, 2, 3}), 0)
	values := []float64{3, 1, 2}
	median(values)
	require.Equal(t, []float64{3, 1, 2}, values, "the values stay in their order")
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	require.Zero(t, percentile(nil, 50))
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(i + 1)
	}
	for p, want := range map[float64]int64{0: 1, 1: 1, 50: 50, 95: 95, 99: 99, 99.5: 100, 100: 100} {
		require.Equal(t, want, percentile(hundred, p), "p%v", p)
	}
	require.Equal(t, int64(7), percentile([]int64{7}, 99))
	require.Equal(t, int64(2), percentile([]int64{1, 2, 3}, 50))
}

func TestRateWithin(t *testing.T) {
	t.Parallel()
	second := time.Second.Nanoseconds()
	marks := []int64{second / 2, second, second + 1, 3 * second}
	require.InDelta(t, 20, rateWithin(marks, 10, 0, second), 1e-9)
	require.InDelta(t, 10, rateWithin(marks, 10, second, 3*second), 1e-9)
	require.Zero(t, rateWithin(marks, 10, second, second))
}
