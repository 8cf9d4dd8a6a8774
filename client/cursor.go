package client

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/styxmq/styx/client/message"
)

// A cursor is a version byte, the id where the next page begins and a sum
// over both, the sort of list and its filters. The sum finds cursors that
// were cut, edited or made by another list; it is no secret, and a forged
// cursor shows nothing that the list would not.
const (
	cursorVersion = 1
	cursorSum     = 8
	cursorSize    = 1 + 8 + cursorSum
)

var cursorText = base64.RawURLEncoding.Strict()

// encodeCursor returns the text for a page that begins after an id; the
// scope is whatever must be the same in the next call.
func encodeCursor(after int64, scope ...string) string {
	raw := make([]byte, 0, cursorSize)
	raw = append(raw, cursorVersion)
	raw = binary.BigEndian.AppendUint64(raw, uint64(after))
	sum := cursorChecksum(raw, scope)
	raw = append(raw, sum[:]...)
	return cursorText.EncodeToString(raw)
}

// decodeCursor returns the id where the page begins: 0 for the empty cursor.
func decodeCursor(text string, scope ...string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	refused := errCursor()
	if len(text) != cursorText.EncodedLen(cursorSize) {
		return 0, refused
	}
	raw, err := cursorText.DecodeString(text)
	if err != nil || len(raw) != cursorSize || raw[0] != cursorVersion {
		return 0, refused
	}
	head, sum := raw[:1+8], raw[1+8:]
	if want := cursorChecksum(head, scope); string(sum) != string(want[:]) {
		return 0, refused
	}
	after := int64(binary.BigEndian.Uint64(head[1:]))
	if after <= 0 {
		return 0, refused
	}
	return after, nil
}

func errCursor() error {
	return &message.ValidationError{
		Field: "cursor", Code: message.CodeInvalid,
		Message: "cursor must come from a page of the same list with the same filters.",
	}
}

func cursorChecksum(head []byte, scope []string) (sum [cursorSum]byte) {
	var b strings.Builder
	b.Write(head)
	for _, s := range scope {
		b.WriteString(strconv.Itoa(len(s)) + ":" + s)
	}
	full := sha256.Sum256([]byte(b.String()))
	copy(sum[:], full[:])
	return sum
}
