//go:build unix

package torture

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What grows is told from what does not.
func TestFlatness(t *testing.T) {
	t.Parallel()
	const n = 90
	samples := make([]Sample, n)
	for i := range samples {
		samples[i].Values = make([]float64, len(series))
		for j, s := range series {
			samples[i].Values[j] = 3*s.slack + float64(i%7)*s.slack/50
		}
		samples[i].Values[4] += float64(i) / n * 4 * series[4].slack
	}
	samples[n-1].Values[0] *= 1000 // once is not growth
	for i, f := range flatness(samples) {
		require.Equal(t, i != 4, f.Flat, f.Title)
	}
	for _, f := range flatness(nil) {
		require.False(t, f.Flat, "nothing was measured")
	}
}
