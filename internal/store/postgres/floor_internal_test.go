package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFloorRisesOnlyPastTransactionsThatHaveEnded(t *testing.T) {
	t.Parallel()
	var f floor[int64]

	require.Equal(t, int64(0), f.begin(true, true))
	f.observe(100, 105, true)
	f.advanced(1000, compareID)
	f.advanced(2000, compareID)
	require.Equal(t, int64(2000), f.soft)
	require.Equal(t, int64(0), f.hard)

	// The next look makes the position a candidate.
	require.Equal(t, int64(0), f.begin(true, false))
	f.observe(110, 120, true) // the first candidate, 0, is ripe
	f.advanced(2500, compareID)
	f.begin(true, false)
	f.observe(110, 130, true)
	f.advanced(3000, compareID)
	require.Equal(t, int64(0), f.hard)

	// A transaction that ran then is still running: nothing rises.
	from := f.begin(true, false)
	f.observe(125, 140, true)
	require.Equal(t, f.hard, from)
	f.advanced(3500, compareID)
	require.Equal(t, int64(0), f.hard)

	// It has ended, and a scan from the old floor has passed the candidate.
	f.begin(true, false)
	f.observe(130, 150, true)
	f.advanced(3600, compareID)
	require.Equal(t, int64(2500), f.hard)
}

func TestFloorDoesNotRiseOnAScanThatBeganBeforeItWasRipe(t *testing.T) {
	t.Parallel()
	var f floor[int64]
	f.begin(true, true)
	f.observe(100, 105, true)
	f.advanced(1000, compareID)
	f.begin(true, false)
	f.observe(105, 110, true)
	f.exhausted(1000, compareID) // promotes 0
	f.begin(true, false)
	f.observe(105, 115, true) // candidate 1000

	// A light look between two full batches has a ripe snapshot, but its
	// scan goes on from the soft floor.
	f.begin(false, false)
	f.observe(115, 120, false)
	f.advanced(2000, compareID)
	require.Equal(t, int64(0), f.hard)

	f.begin(true, false)
	f.observe(115, 120, true)
	f.exhausted(2000, compareID)
	require.Equal(t, int64(1000), f.hard)
}

func TestFloorKeepsScanningUntilItHasCaughtUp(t *testing.T) {
	t.Parallel()
	var f floor[int64]
	f.begin(true, true)
	f.observe(100, 105, true)
	f.advanced(5000, compareID)

	// From the hard floor on, rows that committed late come first.
	f.begin(true, false)
	f.observe(100, 106, true)
	f.advanced(40, compareID)
	require.True(t, f.behind)
	require.Equal(t, int64(40), f.begin(false, false), "it goes on where it was")
	f.advanced(5100, compareID)
	require.False(t, f.behind)
	require.Equal(t, int64(5100), f.begin(false, false))
}
