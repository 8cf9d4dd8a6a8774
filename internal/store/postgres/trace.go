package postgres

import (
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"
)

// traceparent is the header that most messages with headers have alone. In its
// canonical form, as traceLayout, it is kept in the column trace instead:
// 16 bytes of trace id, 8 of the parent's id and the flags.
const (
	traceparent = "traceparent"
	traceLayout = "00-TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT-PPPPPPPPPPPPPPPP-FF"
	traceSize   = 25
)

// traceOf returns the traceparent for the column trace, an empty text when
// there is none, or one that would not come back as it is.
func traceOf(headers map[string]string) string {
	if len(headers) == 0 {
		return ""
	}
	if v := headers[traceparent]; canonicalTrace(v) {
		return v
	}
	return ""
}

func canonicalTrace(v string) bool {
	if len(v) != len(traceLayout) || v[:3] != traceLayout[:3] {
		return false
	}
	for i := 3; i < len(v); i++ {
		c := v[i]
		if traceLayout[i] == '-' {
			if c != '-' {
				return false
			}
		} else if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// appendTrace appends a canonical traceparent as the column holds it.
func appendTrace(b []byte, v string) []byte {
	digit := func(c byte) byte {
		if c >= 'a' {
			return c - 'a' + 10
		}
		return c - '0'
	}
	for i := 3; i < len(v); i += 2 {
		if v[i] == '-' {
			i++
		}
		b = append(b, digit(v[i])<<4|digit(v[i+1]))
	}
	return b
}

// traceText writes a canonical traceparent as the text of the column, an empty
// one as NULL.
func traceText(v string) sql.NullString {
	if v == "" {
		return sql.NullString{}
	}
	return sql.NullString{String: `\x` + v[3:35] + v[36:52] + v[53:], Valid: true}
}

// printTrace returns the traceparent of a value of the column.
func printTrace(raw []byte) string {
	b := make([]byte, 0, len(traceLayout))
	b = hex.AppendEncode(append(b, "00-"...), raw[:16])
	b = hex.AppendEncode(append(b, '-'), raw[16:24])
	return string(hex.AppendEncode(append(b, '-'), raw[24:]))
}

// headersArg writes what headers leave beside the column trace; NULL is
// nothing.
func headersArg(headers map[string]string) (sql.NullString, error) {
	if traceOf(headers) != "" {
		if len(headers) == 1 {
			return sql.NullString{}, nil
		}
		headers = maps.Clone(headers)
		delete(headers, traceparent)
	}
	if len(headers) == 0 {
		return sql.NullString{}, nil
	}
	text, err := json.Marshal(headers)
	return sql.NullString{String: string(text), Valid: err == nil}, err
}

// traces prints the traceparents of rows, of which many in a row are often the
// same. The zero value is ready for use.
type traces struct {
	raw  [traceSize]byte
	text string
}

func (t *traces) of(raw []byte) string {
	if t.text == "" || string(raw) != string(t.raw[:]) {
		t.raw, t.text = [traceSize]byte(raw), printTrace(raw)
	}
	return t.text
}

// headers puts together what the columns headers and trace hold; nil is NULL.
// A trace that is none, which only a change by hand can leave, is passed over.
func (t *traces) headers(text, raw []byte) (headers map[string]string, err error) {
	if text != nil {
		if headers, err = parseHeaders(string(text)); err != nil {
			return nil, err
		}
	}
	if len(raw) != traceSize {
		return headers, nil
	}
	if headers == nil {
		return map[string]string{traceparent: t.of(raw)}, nil
	}
	headers[traceparent] = t.of(raw)
	return headers, nil
}

// parseHeaders reads headers as the server writes jsonb. Some have nothing but
// a trace context, which needs no parser.
func parseHeaders(text string) (headers map[string]string, err error) {
	if rest, ok := strings.CutPrefix(text, `{"`+traceparent+`": "`); ok {
		if v, ok := strings.CutSuffix(rest, `"}`); ok && !strings.ContainsAny(v, `"\`) {
			return map[string]string{traceparent: v}, nil
		}
	}
	err = json.Unmarshal([]byte(text), &headers)
	return headers, err
}
