package message_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
)

func TestMergeTakesOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	defaults := message.EnqueueOptions{
		Queue: "d", Delay: time.Hour, Priority: 3, MaxRetries: 7, Timeout: time.Minute, IdempotencyKey: "k",
		Tenant: "t", CorrelationID: "c", ExpiresIn: time.Hour, Headers: map[string]string{"a": "1", "b": "1"},
	}
	require.Equal(t, defaults, message.EnqueueOptions{}.Merge(defaults))

	own := message.EnqueueOptions{
		Queue: "o", Delay: time.Second, Priority: -1, MaxRetries: 1, Timeout: -1, IdempotencyKey: "ok",
		Tenant: "ot", CorrelationID: "oc", ExpiresIn: time.Second, Headers: map[string]string{"b": "2"},
	}
	merged := own.Merge(defaults)
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, merged.Headers)
	merged.Headers = own.Headers
	require.Equal(t, own, merged)
	require.Equal(t, map[string]string{"a": "1", "b": "1"}, defaults.Headers, "the defaults are not changed")

	at := message.EnqueueOptions{RunAt: time.Unix(1, 0)}.Merge(defaults)
	require.Zero(t, at.Delay, "delay and time count as one")
}

func TestErrorsNameWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want []string
	}{
		{&message.ValidationError{Field: "max_retries", Message: "must be 1."}, []string{"max_retries", "must be 1."}},
		{&message.StateError{ID: 7, Operation: "replay", Current: message.StatusPending}, []string{"replay", "7", "pending"}},
		{&message.DuplicateError{Queue: "q", Key: "k", ID: 9}, []string{`"q"`, `"k"`, "message 9"}},
		{&message.DuplicateError{Queue: "q", Key: "k", Mismatch: true}, []string{"another message", "differs"}},
	} {
		for _, want := range c.want {
			require.ErrorContains(t, c.err, want)
		}
	}
}

func TestAnErrorShowsALongKeyShortAndOnOneLine(t *testing.T) {
	t.Parallel()
	text := (&message.DuplicateError{Queue: "q", Key: strings.Repeat("ä", 200) + "\n", ID: 1}).Error()
	require.Less(t, len(text), 250)
	require.True(t, utf8.ValidString(text))
	require.NotContains(t, text, "\n")
}

func TestAnIDKeepsEveryDigitInJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(message.Message{ID: 9223372036854775807, Payload: `{"n":9007199254740993}`})
	require.NoError(t, err)
	var back message.Message
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, int64(9223372036854775807), back.ID)
	require.JSONEq(t, `{"n":9007199254740993}`, back.Payload)
	require.NotContains(t, string(text), "retry_after", "absent times are left out")
}

func TestKindsAndDecisions(t *testing.T) {
	t.Parallel()
	for _, k := range []message.FailureKind{message.FailureTransient, message.FailurePermanent, message.FailureUnknown} {
		require.True(t, k.Valid())
	}
	require.False(t, message.FailureKind("").Valid())
	seen := map[message.Decision]bool{}
	for _, d := range message.Decisions() {
		require.False(t, seen[d], d)
		seen[d] = true
	}
	require.Len(t, seen, 7)
}
