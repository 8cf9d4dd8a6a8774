package client

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
)

func TestCursorRoundTrip(t *testing.T) {
	t.Parallel()
	for _, id := range []int64{1, 1 << 31, 1<<53 + 1, math.MaxInt64} {
		text := encodeCursor(id, "messages", "q")
		got, err := decodeCursor(text, "messages", "q")
		require.NoError(t, err)
		require.Equal(t, id, got)
		require.Equal(t, text, strings.Trim(text, "+/="), "fits into a URL as it is")
	}
	start, err := decodeCursor("", "messages", "q")
	require.NoError(t, err)
	require.Zero(t, start)
}

func TestCursorOfAnotherListIsRefused(t *testing.T) {
	t.Parallel()
	text := encodeCursor(7, "messages", "q", "")
	for _, scope := range [][]string{
		{"dead_letters", "q", ""},
		{"messages", "Q", ""},
		{"messages", "", "q"},
		{"messages", "q"},
		{"messagesq", "", ""},
	} {
		_, err := decodeCursor(text, scope...)
		requireInvalid(t, err, "cursor", message.CodeInvalid)
	}
}

// Reported as e621ng/e621ng#1538.
func TestTamperedCursorIsRefused(t *testing.T) {
	t.Parallel()
	text := encodeCursor(7, "messages")
	for i := range text {
		for _, c := range []byte{'A', 'z', '_', '\n', '\x00', 0xff} {
			if text[i] == c {
				continue
			}
			_, err := decodeCursor(text[:i]+string([]byte{c})+text[i+1:], "messages")
			requireInvalid(t, err, "cursor", message.CodeInvalid)
		}
	}
	for _, bad := range []string{"7", text[1:], text + "A", text + "=", " " + text, encodeCursor(0, "messages"), encodeCursor(-1, "messages")} {
		_, err := decodeCursor(bad, "messages")
		requireInvalid(t, err, "cursor", message.CodeInvalid)
	}
}

func FuzzCursor(f *testing.F) {
	f.Add("", "q")
	f.Add("AQAAAAAAAAAHAAAAAAAAAAA", "q")
	f.Add(encodeCursor(7, "messages", "q"), "q")
	f.Add(encodeCursor(math.MaxInt64, "messages", "a"), "q")
	f.Fuzz(func(t *testing.T, text, filter string) {
		id, err := decodeCursor(text, "messages", filter)
		switch {
		case err != nil:
			requireInvalid(t, err, "cursor", message.CodeInvalid)
			require.Zero(t, id)
		case text == "":
			require.Zero(t, id)
		default:
			require.Positive(t, id)
			require.Equal(t, text, encodeCursor(id, "messages", filter), "a cursor has one text only")
		}
	})
}
