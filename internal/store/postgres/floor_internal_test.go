package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFloorFollowsAScanThatBeganAfterEveryOldTransactionHadEnded(t *testing.T) {
	t.Parallel()
	var f floor[int64]
	f.begin(true, true)
	f.observe(100, 100, 5000, true) // candidate 5000, at transaction 100
	require.Equal(t, int64(0), f.begin(true, true))
	f.observe(101, 101, 5500, true) // all up to 100 have ended
	f.advanced(1000, compareID)
	require.Equal(t, int64(1000), f.hard)
	f.advanced(2000, compareID)
	require.Equal(t, int64(2000), f.hard)

	require.Equal(t, int64(2000), f.begin(true, false), "the next look begins where this one is")
	f.observe(110, 110, 9000, true)
	f.advanced(6000, compareID)
	require.Equal(t, int64(5000), f.hard, "not past the candidate")

	// A new candidate is needed now.
	f.begin(false, false)
	f.observe(120, 120, 9500, false)
	f.advanced(7000, compareID)
	require.Equal(t, int64(5000), f.hard)
}

func TestFloorWaitsForATransactionThatIsStillRunning(t *testing.T) {
	t.Parallel()
	var f floor[int64]
	f.begin(true, true)
	f.observe(90, 100, 5000, true)
	for range 3 {
		f.begin(true, false)
		f.observe(95, 105, 6000, true) // 95 still runs
		f.advanced(6000, compareID)
		require.Equal(t, int64(0), f.hard)
	}
	f.begin(true, false)
	f.observe(100, 110, 6000, true)
	f.exhausted(6000, compareID)
	require.Equal(t, int64(5000), f.hard)
}

func TestFloorDoesNotRiseOnAScanThatBeganBeforeItWasRipe(t *testing.T) {
	t.Parallel()
	var f floor[int64]
	f.begin(true, true)
	f.observe(90, 100, 5000, true)
	f.advanced(1000, compareID)

	// A light look between two full batches has a ripe snapshot, but its
	// scan goes on from where it was.
	f.begin(false, false)
	f.observe(100, 110, 6000, false)
	f.advanced(2000, compareID)
	require.Equal(t, int64(0), f.hard)

	f.begin(true, false)
	f.observe(100, 110, 6000, true)
	f.advanced(2500, compareID)
	require.Equal(t, int64(2500), f.hard)
}

func TestFloorNeverSinks(t *testing.T) {
	t.Parallel()
	var f floor[int64]
	f.begin(true, true)
	f.observe(100, 100, 5000, true)
	f.begin(true, false)
	f.observe(100, 101, 5000, true)
	f.advanced(4000, compareID)
	require.Equal(t, int64(0), f.begin(true, true), "a full scan begins at zero")
	f.observe(100, 102, 5000, true)
	f.advanced(40, compareID)
	require.Equal(t, int64(4000), f.hard)
}

func TestFloorKeepsScanningUntilItHasCaughtUp(t *testing.T) {
	t.Parallel()
	var f floor[int64]
	f.begin(true, true)
	f.observe(90, 105, 9000, true)
	f.advanced(5000, compareID)

	// From the hard floor on, rows that committed late come first.
	f.begin(true, false)
	f.observe(90, 106, 9000, true)
	f.advanced(40, compareID)
	require.True(t, f.behind)
	require.Equal(t, int64(40), f.begin(false, false), "it goes on where it was")
	f.advanced(5100, compareID)
	require.False(t, f.behind)
	require.Equal(t, int64(5100), f.begin(false, false))
}
