package httpapi

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzJSON holds the reader of bodies against encoding/json.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, ` {"a" : "b\"\\" , "c":[1,{"d":"}"}] ,"e":{}} `, `[1, "]", [], {"a":[]} ,null,true ]`, `"\ud83d\ude00\ud800"`, `"\\u d800"`, `1e9`,
		`{"a":"\\"}`, `{"":""}`, `["\\\"",2]`, strings.Repeat("[", 17) + strings.Repeat("]", 17), `{"a":1,"a":2}`, "\"\xff\"", `{"a":1}}`, `"`, `{"a`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if checkJSON(text) != nil {
			require.True(t, !json.Valid(text) || !utf8.Valid(text) || bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) > maxDepth)
			return
		}
		require.True(t, json.Valid(text))
		text = bytes.TrimSpace(text)
		require.Equal(t, len(text), valueEnd(text))
		switch text[0] {
		case '{':
			var want map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(text, &want))
			got := map[string]json.RawMessage{}
			for key, value := range members(text) {
				got[key] = value
			}
			require.Equal(t, want, got)
		case '[':
			var want []json.RawMessage
			require.NoError(t, json.Unmarshal(text, &want))
			got := []json.RawMessage{}
			for i, value := range elements(text) {
				require.Len(t, got, i)
				got = append(got, value)
			}
			require.Equal(t, want, got)
		case '"':
			var want string
			require.NoError(t, json.Unmarshal(text, &want))
			got, whole := unquote(text)
			require.Equal(t, want, got)
			if !whole {
				require.Contains(t, want, "\ufffd")
			}
			if back, err := json.Marshal(want); err == nil && !strings.Contains(want, "\ufffd") {
				again, whole := unquote(back)
				require.True(t, whole)
				require.Equal(t, want, again)
			}
		}
	})
}

func TestHalfOfASurrogatePairIsFound(t *testing.T) {
	t.Parallel()
	for literal, whole := range map[string]bool{
		`"\ud83d\ude00"`: true, `"\ufffd"`: true, `"\\ud800"`: true, `"a\u0041"`: true, `"\uD83D\uDE00x"`: true,
		`"\ud800"`: false, `"\udc00"`: false, `"\ud800x"`: false, `"\ud800\n"`: false, `"\ud800\u0041"`: false, `"\ud800\ud800"`: false, `"\\\ud800"`: false,
		`"\ud83d\ude00\ude00"`: false,
	} {
		_, got := unquote([]byte(literal))
		require.Equal(t, whole, got, literal)
	}
}
