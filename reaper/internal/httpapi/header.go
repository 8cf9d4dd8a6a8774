package httpapi

import (
	"maps"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/client/message"
)

// idempotencyKey reads the header of that name: a string of RFC 8941, which is
// quoted, or bare.
func idempotencyKey(f *fields, header http.Header) string {
	given := header["Idempotency-Key"]
	if len(given) == 0 {
		return ""
	}
	key, ok := given[0], len(given) == 1
	if strings.HasPrefix(key, `"`) {
		key, ok = unquoteHeader(key)
	}
	if !ok || key == "" {
		f.refuse("Idempotency-Key", message.CodeInvalid, `Idempotency-Key must be given once, such as "8e03978e".`)
		return ""
	}
	return key
}

// unquoteHeader takes the quotes and escapes off a string.
func unquoteHeader(s string) (string, bool) {
	if len(s) < 2 || s[len(s)-1] != '"' {
		return "", false
	}
	inner := s[1 : len(s)-1]
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		switch inner[i] {
		case '"':
			return "", false
		case '\\':
			if i++; i == len(inner) || inner[i] != '"' && inner[i] != '\\' {
				return "", false
			}
		}
		b.WriteByte(inner[i])
	}
	return b.String(), true
}

const (
	traceParent = "traceparent"
	traceState  = "tracestate"
	// maxTraceState is the size that everybody must carry on.
	maxTraceState = 512
)

// trace puts the request's trace context among the headers of a message,
// unless the message has one of its own, or a span of the request does so.
func (c *call) trace(headers map[string]string) map[string]string {
	given := c.r.Header["Traceparent"]
	if len(given) != 1 || !isTraceParent(given[0]) || trace.SpanContextFromContext(c.ctx).IsValid() {
		return headers
	}
	if _, own := headers[traceParent]; own {
		return headers
	}
	headers = maps.Clone(headers)
	if headers == nil {
		headers = make(map[string]string, 2)
	}
	headers[traceParent] = given[0]
	if state := strings.Join(c.r.Header["Tracestate"], ","); state != "" && len(state) <= maxTraceState {
		headers[traceState] = state
	}
	return headers
}

// isTraceParent recognises version, trace, span and flags, in lower case.
func isTraceParent(s string) bool {
	const shape = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx"
	if len(s) < len(shape) || len(s) > maxTraceState {
		return false
	}
	for i := range len(shape) {
		digit := s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'f'
		if shape[i] == 'x' && !digit || shape[i] == '-' && s[i] != '-' {
			return false
		}
	}
	switch {
	case s[:2] == "ff", s[:2] == "00" && len(s) != len(shape), len(s) > len(shape) && s[len(shape)] != '-':
		return false
	}
	return strings.Trim(s[3:35], "0") != "" && strings.Trim(s[36:52], "0") != ""
}
