package telemetry

import (
	"encoding/hex"

	"go.opentelemetry.io/otel/trace"
)

// A traceparent of version 0: 00-<trace id>-<span id>-<flags>.
const (
	parentSize = 55
	atTrace    = 3
	atSpan     = atTrace + 32 + 1
	atFlags    = atSpan + 16 + 1
)

// parseParent reads a traceparent as almost all are. What it does not know may
// be one all the same, and is left to the propagator.
func parseParent(v string) (sc trace.SpanContext, ok bool) {
	if len(v) != parentSize || v[:atTrace] != "00-" || v[atSpan-1] != '-' || v[atFlags-1] != '-' || v[atFlags] != '0' {
		return sc, false
	}
	c := trace.SpanContextConfig{Remote: true}
	switch v[atFlags+1] {
	case '0':
	case '1':
		c.TraceFlags = trace.FlagsSampled
	default:
		return sc, false
	}
	if !unhex(c.TraceID[:], v[atTrace:atSpan-1]) || !unhex(c.SpanID[:], v[atSpan:atFlags-1]) {
		return sc, false
	}
	sc = trace.NewSpanContext(c)
	return sc, sc.IsValid()
}

// unhex decodes lower-case digits, two for each byte of dst.
func unhex(dst []byte, s string) bool {
	var bad byte
	for i := range dst {
		high, low := digits[s[2*i]], digits[s[2*i+1]]
		dst[i] = high<<4 | low
		bad |= high | low
	}
	return bad <= 0xf
}

// digits are the values of lower-case hexadecimal digits, 0xff for what is
// none.
var digits = func() (table [256]byte) {
	for i := range table {
		table[i] = 0xff
	}
	for i, c := range []byte("0123456789abcdef") {
		table[c] = byte(i)
	}
	return table
}()

// formatParent is the traceparent of a span.
func formatParent(sc trace.SpanContext) string {
	var b [parentSize]byte
	trc, span := sc.TraceID(), sc.SpanID()
	flags := sc.TraceFlags() & (trace.FlagsSampled | trace.FlagsRandom)
	copy(b[:], "00-")
	hex.Encode(b[atTrace:], trc[:])
	b[atSpan-1] = '-'
	hex.Encode(b[atSpan:], span[:])
	b[atFlags-1] = '-'
	hex.Encode(b[atFlags:], []byte{byte(flags)})
	return string(b[:])
}
