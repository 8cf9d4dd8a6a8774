package store

import (
	"unicode/utf8"

	"github.com/styxmq/styx/client/message"
)

// PreviewRead is how many characters, or bytes, a statement reads of a text of
// which n bytes are shown: enough to tell that there is more, and to end with a
// whole character.
func PreviewRead(n int) int { return min(n, maxText) + utf8.UTFMax }

// maxText is more than a text may have in either engine.
const maxText = 1 << 30

// Preview cuts the texts of a message, of which PreviewRead was read, to n
// bytes; size is that of the whole payload. 0 leaves everything as it is.
func Preview(m *message.Message, n, size int) {
	if n <= 0 {
		return
	}
	if size > n {
		m.Payload, m.PayloadBytes = head(m.Payload, n), size
	}
	m.LastError = brief(m.LastError, n)
}

// PreviewLetter is Preview of a dead letter.
func PreviewLetter(l *message.DeadLetter, n, size int) {
	if n <= 0 {
		return
	}
	Preview(&l.Message, n, size)
	l.ErrorMessage, l.Stack = brief(l.ErrorMessage, n), brief(l.Stack, n)
}

// head returns the beginning of a text, without a part of a character.
func head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for end := n; end >= 0 && end > n-utf8.UTFMax; end-- {
		if utf8.RuneStart(text[end]) {
			return text[:end]
		}
	}
	return text[:n] // no UTF-8
}

// brief is head of a text for people, who see an ellipsis where it was cut.
func brief(text string, n int) string {
	const mark = "…"
	if len(text) <= n || n < len(mark) {
		return head(text, n)
	}
	return head(text, n-len(mark)) + mark
}
