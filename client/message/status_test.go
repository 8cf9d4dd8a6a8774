package message_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
)

// The diagram of the package's documentation, written down a second time:
// each status, each event, and where it leads.
var diagram = map[message.Status]map[message.Event]message.Status{
	message.StatusPending: {
		message.EventClaim:  message.StatusProcessing,
		message.EventExpire: message.StatusDead,
		message.EventCancel: message.StatusDead,
	},
	message.StatusProcessing: {
		message.EventSucceed: message.StatusSucceeded,
		message.EventRetry:   message.StatusPending,
		message.EventBury:    message.StatusDead,
		message.EventRelease: message.StatusPending,
		message.EventReap:    message.StatusPending,
	},
	message.StatusSucceeded: {},
	message.StatusDead: {
		message.EventReplay: message.StatusPending,
	},
}

func TestEveryPairOfStatusAndEventLeadsWhereTheDiagramSays(t *testing.T) {
	t.Parallel()
	require.Len(t, diagram, len(message.Statuses()))
	permitted := 0
	for _, from := range message.Statuses() {
		for _, event := range message.Events() {
			want, ok := diagram[from][event]
			got, permit := from.After(event)
			require.Equal(t, ok, permit, "%s in %s", event, from)
			require.Equal(t, want, got, "%s in %s", event, from)
			if ok {
				permitted++
			}
		}
	}
	require.Len(t, message.Transitions(), permitted, "no arrow twice")
}

func TestTransitionsAreTheCallersOwn(t *testing.T) {
	t.Parallel()
	message.Transitions()[0].To = message.StatusDead
	next, ok := message.StatusPending.After(message.EventClaim)
	require.True(t, ok)
	require.Equal(t, message.StatusProcessing, next)
}

func TestNothingLeavesSucceeded(t *testing.T) {
	t.Parallel()
	for _, event := range message.Events() {
		_, ok := message.StatusSucceeded.After(event)
		require.False(t, ok, event)
	}
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	for _, s := range message.Statuses() {
		got, err := message.ParseStatus(string(s))
		require.NoError(t, err)
		require.Equal(t, s, got)
		require.True(t, s.Valid())
	}
	for _, bad := range []string{"", "Pending", "done", "dead\n"} {
		_, err := message.ParseStatus(bad)
		var invalid *message.ValidationError
		require.ErrorAs(t, err, &invalid, bad)
		require.Equal(t, "status", invalid.Field)
		require.Equal(t, message.CodeInvalid, invalid.Code)
		require.False(t, message.Status(bad).Valid())
	}
}
