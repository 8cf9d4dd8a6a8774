package postgres

import (
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/store"
)

const usualTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTraceIsTheSameInEveryForm(t *testing.T) {
	t.Parallel()
	var printed traces
	for range 100 {
		var raw [traceSize]byte
		for i := range raw {
			raw[i] = byte(rand.Uint32()) //nolint:gosec // no secret
		}
		text := printTrace(raw[:])
		require.True(t, canonicalTrace(text), text)
		require.Equal(t, raw[:], appendTrace(nil, text))
		require.Equal(t, `\x`+hex.EncodeToString(raw[:]), traceText(text).String)
		for i := range raw { // each differs from the one before in one byte
			raw[i]++
			text = printTrace(raw[:])
			for range 2 {
				got, err := printed.headers(nil, raw[:])
				require.NoError(t, err)
				require.Equal(t, map[string]string{"traceparent": text}, got)
			}
		}
	}
	require.Equal(t, usualTrace, printTrace(appendTrace(nil, usualTrace)))
	require.False(t, traceText("").Valid)
}

func TestTraceIsOnlyWhatComesBackAsItIs(t *testing.T) {
	t.Parallel()
	require.True(t, canonicalTrace(usualTrace))
	for i := range len(usualTrace) {
		for _, c := range []byte{' ', '-', '/', ':', '@', 'G', 'A', '`', 'g', 0, 0xff} {
			if c == '-' && usualTrace[i] == '-' {
				continue
			}
			text := usualTrace[:i] + string([]byte{c}) + usualTrace[i+1:]
			require.False(t, canonicalTrace(text), text)
			require.False(t, canonicalTrace(usualTrace[:i]))
		}
	}
	require.False(t, canonicalTrace(usualTrace+"0"))
	require.False(t, canonicalTrace("01"+usualTrace[2:]))
}

func TestTraceThatIsNone(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 24, 26} {
		got, err := new(traces).headers([]byte(`{"a": "b"}`), make([]byte, size))
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "b"}, got)
	}
	got, err := new(traces).headers(nil, nil)
	require.NoError(t, err)
	require.Nil(t, got)
}

// written is what the columns hold of headers.
func written(t *testing.T, headers map[string]string) (text, raw []byte) {
	t.Helper()
	beside, err := headersArg(headers)
	require.NoError(t, err)
	require.Equal(t, beside.Valid, hasHeaders(&store.NewMessage{Headers: headers}))
	if beside.Valid { // jsonb is written with a space behind each colon and comma
		text = []byte(strings.NewReplacer(`":"`, `": "`, `","`, `", "`).Replace(beside.String))
	}
	if v := traceOf(headers); v != "" {
		raw = appendTrace(nil, v)
	}
	return text, raw
}

func TestHeadersGoThere(t *testing.T) {
	t.Parallel()
	for _, headers := range []map[string]string{
		nil,
		{"traceparent": usualTrace},
		{"traceparent": usualTrace, "tracestate": "y"},
		{"traceparent": strings.ToUpper(usualTrace)},
		{"traceparent": ""},
		{"traceparent": `a"b\c`},
		{"traceparent": "ü\n"},
		{"traceparent": "x", "tracestate": "y"},
		{"other": "x"},
	} {
		before, err := json.Marshal(headers)
		require.NoError(t, err)
		text, raw := written(t, headers)
		got, err := new(traces).headers(text, raw)
		require.NoError(t, err)
		require.Equal(t, headers, got)
		after, err := json.Marshal(headers)
		require.NoError(t, err)
		require.Equal(t, before, after, "the caller's are left as they are")
	}
	require.False(t, hasHeaders(&store.NewMessage{Headers: map[string]string{"traceparent": usualTrace}}))
	_, err := parseHeaders(`{"traceparent": "a", "b": 1}`)
	require.Error(t, err)
	// As an earlier version stores it, and the function in the database.
	got, err := new(traces).headers([]byte(`{"traceparent": "`+usualTrace+`"}`), nil)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"traceparent": usualTrace}, got)
}
