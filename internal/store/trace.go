package store

// TraceID returns the trace id of what a Failure has kept as its TraceID: a
// trace id, or a traceparent, which names the span too.
func TraceID(kept string) string {
	if len(kept) == len(traceparent) && kept[2] == '-' && kept[35] == '-' {
		return kept[3:35]
	}
	return kept
}

// traceparent is one of those that the databases keep, which tell it by its
// length.
const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
