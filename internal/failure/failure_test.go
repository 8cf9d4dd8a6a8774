package failure_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/failure"
)

type classed struct{ class string }

func (c classed) Error() string      { return "an error" }
func (c classed) ErrorClass() string { return c.class }

type hostile struct{}

func (hostile) Error() string { panic("no text") }

func TestClassNamesTheFirstErrorThatIsNoMereWrapper(t *testing.T) {
	t.Parallel()
	path := &fs.PathError{Op: "open", Path: "x", Err: errors.New("gone")}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"plain", errors.New("x"), "*errors.errorString"},
		{"typed", path, "*fs.PathError"},
		{"wrapped", fmt.Errorf("send: %w", path), "*fs.PathError"},
		{"wrapped twice", fmt.Errorf("a: %w", fmt.Errorf("b: %w", path)), "*fs.PathError"},
		{"joined", errors.Join(path, errors.New("x")), "*fs.PathError"},
		{"several wrapped", fmt.Errorf("%w and %w", path, errors.New("x")), "*fs.PathError"},
		{"names itself", fmt.Errorf("call: %w", classed{"stripe.card_declined"}), "stripe.card_declined"},
		{"names itself badly", classed{"a\x00b\xff"}, "a\uFFFDb\uFFFD"},
		{"none", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, failure.Class(c.err))
		})
	}
}

func TestTextSurvivesAnErrorMethodThatPanics(t *testing.T) {
	t.Parallel()
	require.Contains(t, failure.Text(hostile{}), "panicked")
	require.Empty(t, failure.Text(nil))
}

func TestTextIsCut(t *testing.T) {
	t.Parallel()
	text := failure.Text(errors.New(strings.Repeat("ä", 10<<20)))
	require.LessOrEqual(t, len(text), failure.MaxMessage)
	require.True(t, utf8.ValidString(text))
	require.True(t, strings.HasSuffix(text, "…"))
}

func TestFingerprintIsOneForFailuresOfOneCause(t *testing.T) {
	t.Parallel()
	same := []string{
		`order 42 of "ada" not found`,
		`order 1007 of "bob" not found`,
	}
	require.Equal(t, failure.Fingerprint("k", "c", same[0], "f"), failure.Fingerprint("k", "c", same[1], "f"))
	base := failure.Fingerprint("k", "c", "text", "f")
	require.Len(t, base, 16)
	for _, other := range []string{
		failure.Fingerprint("k2", "c", "text", "f"), failure.Fingerprint("k", "c2", "text", "f"),
		failure.Fingerprint("k", "c", "other text", "f"), failure.Fingerprint("k", "c", "text", "f2"),
	} {
		require.NotEqual(t, base, other)
	}
}

func TestPatternReplacesWhatDiffers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dial tcp 10.0.0.7:5432: connection refused":      "dial tcp #.#.#.#:#: connection refused",
		"job 6f9619ff-8b86-d011-b42d-00cf4fc964ff failed": "job # failed",
		`can't parse "x' y"`:                              `can't parse ?`,
		"user 'ada' and 'bob'":                            "user ? and ?",
		`an open " quote`:                                 `an open " quote`,
		"müller failed":                                   "müller failed",
		"":                                                "",
	} {
		require.Equal(t, want, failure.Pattern(text), text)
	}
}

func TestStackLeavesOutTheRuntimeAndWhatIsSkipped(t *testing.T) {
	t.Parallel()
	var stack, frame string
	func() {
		defer func() {
			_ = recover()
			stack, frame = failure.Stack("github.com/styxmq/styx/internal/failure.")
		}()
		none := []int{}
		none[len(none)-1] = 1
	}()
	require.Contains(t, frame, "failure_test.TestStack")
	require.NotContains(t, stack, "runtime.")
	require.Contains(t, stack, "failure_test.go:")
}

func FuzzClean(f *testing.F) {
	f.Add("", 10)
	f.Add("a\x00b\xff\xfe", 4)
	f.Add(strings.Repeat("\xff", 100), 10)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		if limit < 8 || limit > 1<<16 {
			return
		}
		got := failure.Clean(s, limit)
		require.LessOrEqual(t, len(got), limit)
		require.True(t, utf8.ValidString(got))
		require.NotContains(t, got, "\x00")
		_ = failure.Fingerprint(s, s, s, s)
	})
}

func FuzzFingerprint(f *testing.F) {
	f.Add("order", "no order", uint64(7), uint64(9007199254740993))
	f.Add("it's", `cannot read "a.txt`, uint64(0), uint64(1))
	f.Add("\xff", "\x00'", uint64(1), uint64(10))
	f.Fuzz(func(t *testing.T, kind, text string, a, b uint64) {
		of := func(n uint64) string {
			return failure.Fingerprint(kind, "c", text+" "+strconv.FormatUint(n, 10)+" rows", "f")
		}
		require.Regexp(t, `^[0-9a-f]{16}$`, of(a))
		require.Equal(t, of(a), of(b), "numbers do not matter")
		require.NotEqual(t, of(a), failure.Fingerprint(kind+"x", "c", text+" "+strconv.FormatUint(a, 10)+" rows", "f"))
	})
}
