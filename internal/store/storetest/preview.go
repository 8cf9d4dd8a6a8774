package storetest

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// felixmosh/bull-board#1059, bensheldon/good_job#1532, riverqueue/river#746: a
// list sent every payload in full.
var previewProperties = []property{
	{"a list shows the beginning of long texts", previewList},
	{"a list of letters does too, and of stacks", previewLetters},
	{"no character is cut in two", previewCharacters},
}

// previews are sizes of payloads around a preview of 100 bytes.
var previews = []int{1, 99, 100, 101, 103, 104, 105, 200, 100_000}

func previewList(t *testing.T, f *fixture) {
	w := f.worker()
	long := strings.Repeat("e", 3000)
	for i, size := range previews {
		f.put(store.NewMessage{Payload: strings.Repeat("x", size)})
		c := w.only("q")
		s := bury(c)
		switch i % 4 {
		case 0:
			s = retry(c, time.Hour)
		case 1:
			s = succeed(c)
		}
		if s.Failure != nil {
			s.Failure.Message = long
		}
		if i%4 != 3 {
			w.settle(s)
		}
	}
	for _, descending := range []bool{false, true} {
		page, err := f.Store.List(t.Context(), store.ListQuery{Limit: 100, Preview: 100, Descending: descending})
		require.NoError(t, err)
		require.Len(t, page.Messages, len(previews))
		for _, m := range page.Messages {
			whole := f.get(m.ID)
			require.Zero(t, whole.PayloadBytes)
			require.Equal(t, whole.Payload[:min(100, len(whole.Payload))], m.Payload)
			size := len(whole.Payload)
			if size <= 100 {
				size = 0
			}
			require.Equal(t, size, m.PayloadBytes)
			if whole.LastError != "" {
				require.Equal(t, long, whole.LastError)
				require.Equal(t, long[:97]+"…", m.LastError)
			}
		}
	}
	for _, preview := range []int{0, 100_000, 1 << 62} {
		page, err := f.Store.List(t.Context(), store.ListQuery{Limit: 100, Preview: preview})
		require.NoError(t, err)
		for _, m := range page.Messages {
			require.Equal(t, f.get(m.ID), m)
		}
	}
}

func previewLetters(t *testing.T, f *fixture) {
	w := f.worker()
	for _, size := range previews {
		f.put(store.NewMessage{Payload: strings.Repeat("x", size)})
		s := bury(w.only("q"))
		s.Failure.Message, s.Failure.Stack = strings.Repeat("m", min(size, 3000)), strings.Repeat("s", min(size, 7000))
		w.settle(s)
	}
	cut := func(s string) string {
		if len(s) > 100 {
			return s[:97] + "…"
		}
		return s
	}
	letters, err := f.Store.Letters(t.Context(), store.LetterQuery{Limit: 100, Preview: 100})
	require.NoError(t, err)
	require.Len(t, letters, len(previews))
	for _, l := range letters {
		whole := f.letter(l.ID)
		require.Zero(t, whole.PayloadBytes)
		if len(whole.Payload) > 100 {
			whole.PayloadBytes, whole.Payload = len(whole.Payload), whole.Payload[:100]
		}
		whole.ErrorMessage, whole.LastError, whole.Stack = cut(whole.ErrorMessage), cut(whole.LastError), cut(whole.Stack)
		require.Equal(t, whole, l)
	}
	letters, err = f.Store.Letters(t.Context(), store.LetterQuery{Limit: 100})
	require.NoError(t, err)
	for _, l := range letters {
		require.Equal(t, f.letter(l.ID), l)
	}
}

func previewCharacters(t *testing.T, f *fixture) {
	texts := append([]string{strings.Repeat("ünder 🦑 ", 40), strings.Repeat("🦑", 40)}, oddTexts...)
	for _, text := range texts {
		f.put(store.NewMessage{Payload: "x" + text})
	}
	w := f.worker()
	for _, c := range w.take("q", len(texts)) {
		s := bury(c)
		s.Failure.Message, s.Failure.Stack = texts[0], texts[1]
		w.settle(s)
	}
	for preview := 1; preview < 40; preview++ {
		page, err := f.Store.List(t.Context(), store.ListQuery{Limit: 100, Status: message.StatusDead, Preview: preview})
		require.NoError(t, err)
		letters, err := f.Store.Letters(t.Context(), store.LetterQuery{Limit: 100, Preview: preview})
		require.NoError(t, err)
		require.Len(t, page.Messages, len(texts))
		require.Len(t, letters, len(texts))
		all := page.Messages
		for _, l := range letters {
			all = append(all, l.Message)
			for _, text := range []string{l.ErrorMessage, l.Stack} {
				require.LessOrEqual(t, len(text), preview)
				require.True(t, utf8.ValidString(text), "%q", text)
			}
		}
		for _, m := range all {
			whole := f.get(m.ID).Payload
			require.LessOrEqual(t, len(m.Payload), preview)
			require.True(t, strings.HasPrefix(whole, m.Payload), "%q of %q", m.Payload, whole)
			if m.PayloadBytes > 0 {
				require.Equal(t, len(whole), m.PayloadBytes)
				require.Greater(t, len(m.Payload), preview-utf8.UTFMax, "as much as fits")
			} else {
				require.Equal(t, whole, m.Payload)
			}
			if utf8.ValidString(whole) {
				require.True(t, utf8.ValidString(m.Payload), "%q", m.Payload)
			}
		}
	}
}
