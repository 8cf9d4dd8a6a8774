package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

func TestParseRestReadsEveryPart(t *testing.T) {
	t.Parallel()
	var m store.Claimed
	require.NoError(t, parseRest(strings.Join([]string{
		"-3", "2", "-1", "1", "4", "5", "1700000000000001", "1800000000000002", "acme", "c-1", "key",
		"an error\x1fwith the separator",
	}, "\x1f"), &m))
	require.Equal(t, -3, m.Priority)
	require.Equal(t, 2, m.RetryCount)
	require.Equal(t, time.Duration(-1), m.Timeout)
	require.Equal(t, []int{1, 4, 5}, []int{m.WorkerLosses, m.Snoozes, m.ReplayCount})
	require.Equal(t, int64(1700000000000001), m.RetryAfter.UnixMicro())
	require.Equal(t, int64(1800000000000002), m.ExpiresAt.UnixMicro())
	require.Equal(t, []string{"acme", "c-1", "key"}, []string{m.Tenant, m.CorrelationID, m.IdempotencyKey})
	require.Equal(t, "an error\x1fwith the separator", m.LastError)
}

func TestParseRestLeavesAbsentPartsZero(t *testing.T) {
	t.Parallel()
	var m store.Claimed
	require.NoError(t, parseRest("0\x1f0\x1f0\x1f0\x1f0\x1f0\x1f\x1f\x1f\x1f\x1f\x1f", &m))
	require.Equal(t, store.Claimed{}, m)
	require.Error(t, parseRest("0\x1f0", &m))
	require.Error(t, parseRest("x"+strings.Repeat("\x1f", restParts-1), &m))
}
