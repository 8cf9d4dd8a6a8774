// Package telemetry makes Styx visible to OpenTelemetry. It knows the API
// only, never the SDK: without one nothing is recorded, and what remains of
// the cost is a few nanoseconds for each message.
//
// A message carries the context of the span that made it in its headers, by
// default as W3C trace context: traceparent and tracestate, and baggage for
// the keys that were allowed. Headers are untrusted: what is malformed, too
// large or absent is ignored. Nothing that a provider or propagator does, a
// panic included, reaches the message.
//
// The conventions for messaging are those of one version, which is pinned in
// semconv.go; what they do not name has the prefix styx. No payload, and no
// name made of an id, is ever recorded.
package telemetry
