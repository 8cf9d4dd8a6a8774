package name_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/name"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", message.MaxNameLength)
	for text, code := range map[string]string{
		"":                      message.CodeRequired,
		" ":                     "",
		"a":                     "",
		"A":                     "",
		"a-b.c/d?e#f":           "",
		"..":                    "",
		"%2e":                   "",
		"q'; drop":              "",
		"Grüße 🚀":               "",
		"line\u2028line":        "",
		long:                    "",
		long + "n":              message.CodeTooLong,
		"trailing\n":            message.CodeEncoding,
		"nul\x00":               message.CodeEncoding,
		"\x7f":                  message.CodeEncoding,
		"c1\u0085":              message.CodeEncoding,
		"half\xff\xfe":          message.CodeEncoding,
		"surrogate\xed\xa0\x80": message.CodeEncoding,
	} {
		err := name.Check("queue", text)
		if code == "" {
			require.NoError(t, err, "%q", text)
			continue
		}
		var invalid *message.ValidationError
		require.ErrorAs(t, err, &invalid, "%q", text)
		require.Equal(t, code, invalid.Code, "%q", text)
		require.Equal(t, "queue", invalid.Field)
	}
}

func TestOptional(t *testing.T) {
	t.Parallel()
	require.NoError(t, name.Optional("tenant", "", 3))
	require.NoError(t, name.Optional("tenant", "äa", 3))
	require.Error(t, name.Optional("tenant", "äaa", 3))
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"", "default", "a\x00", "\xff", "é\u0085", strings.Repeat("x", 200)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := name.Check("queue", text)
		control := strings.ContainsFunc(text, unicode.IsControl)
		valid := text != "" && len(text) <= message.MaxNameLength && utf8.ValidString(text) && !control
		require.Equal(t, valid, err == nil)
		if err != nil {
			_, ok := errors.AsType[*message.ValidationError](err)
			require.True(t, ok)
		}
	})
}
