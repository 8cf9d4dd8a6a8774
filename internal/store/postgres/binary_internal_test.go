package postgres

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPlacesAreTheSameInBothForms(t *testing.T) {
	t.Parallel()
	d := decoder{values: [][]byte{{0, 1, 0, 2, 0, 3}}}
	place := d.place()
	require.NoError(t, d.err)
	require.Equal(t, parsePlace("(65538,3)"), place)
	require.Equal(t, `{"(65538,3)","(0,1)"}`, placeArray([]uint64{place, 0, parsePlace("(0,1)")}))
	for _, bad := range []string{"", "(1)", "(1,70000)", "(-1,2)", "(x,1)"} {
		require.Zero(t, parsePlace(bad), bad)
	}
}

func TestBinaryValues(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	numbers := []int64{1, -1, math.MaxInt64}
	d := decoder{values: [][]byte{timeParam(at).Value, int8ArrayParam(numbers).Value, int8ArrayParam(nil).Value, nil}}
	require.Equal(t, at, d.time())
	require.Equal(t, numbers, d.int64s(nil))
	require.Empty(t, d.int64s(nil))
	require.Nil(t, d.bytes())
	require.NoError(t, d.err)
	d.int64()
	require.Error(t, d.err)
}
