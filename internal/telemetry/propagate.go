package telemetry

import (
	"context"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// DeathHeader names the attempt in which a replayed message had died, as a
// traceparent. The store writes it with the replay.
const DeathHeader = "styx-died-in"

const (
	parentHeader  = "traceparent"
	stateHeader   = "tracestate"
	baggageHeader = "baggage"
)

// The largest values of headers that are read and written, in bytes.
const (
	maxValue   = 512 // tracestate: what every party must be able to pass on
	maxParent  = 128 // a version to come may be longer than today's 55
	maxBaggage = 4096
	maxKey     = 128
)

// bare is what a propagator adds to; nothing waits on it.
var bare = context.Background() //nolint:forbidigo // holds a value for the length of a call

// carrier shows headers to a propagator.
type carrier map[string]string

var _ propagation.TextMapCarrier = carrier{}

// Get returns a value that is not too large.
func (c carrier) Get(key string) string {
	key = strings.ToLower(key)
	v := c[key]
	if key == baggageHeader || len(v) > maxValue || key == parentHeader && len(v) > maxParent {
		return "" // baggage has its own way, past the list of keys
	}
	return v
}

// Set takes a value that every database can store.
func (c carrier) Set(key, value string) {
	key = strings.ToLower(key)
	if key == "" || key == baggageHeader || len(key) > maxKey || len(value) > maxValue || !storable(key) || !storable(value) {
		return
	}
	c[key] = value
}

// Keys returns the names of all headers.
func (c carrier) Keys() []string { return slices.Collect(maps.Keys(c)) }

func storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// Carried is a context on its way: the headers that it adds to a message.
type Carried map[string]string

// Carry returns what a message takes along of ctx; nil is nothing.
func (t *Tracing) Carry(ctx context.Context) Carried {
	var c carrier
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		if t.w3c && sc.TraceState().Len() == 0 {
			c = carrier{parentHeader: formatParent(sc)}
		} else {
			c = carrier{}
			t.inject(ctx, c)
		}
	}
	if t.baggage != nil {
		if text := t.allowed(baggage.FromContext(ctx)).String(); text != "" && len(text) <= maxBaggage {
			if c == nil {
				c = carrier{}
			}
			c[baggageHeader] = text
		}
	}
	return Carried(c)
}

func (t *Tracing) inject(ctx context.Context, c carrier) {
	defer func() {
		if recover() != nil {
			clear(c)
		}
	}()
	t.propagator.Inject(ctx, c)
}

// Into adds what is carried to headers, which are changed unless nil.
func (c Carried) Into(headers map[string]string) map[string]string {
	switch {
	case len(c) == 0:
		return headers
	case headers == nil:
		return maps.Clone(map[string]string(c))
	}
	maps.Copy(headers, c)
	return headers
}

// Last is Into for the only message that takes it along, or the last one: c
// itself may be its headers.
func (c Carried) Last(headers map[string]string) map[string]string {
	if headers == nil && len(c) > 0 {
		return c
	}
	return c.Into(headers)
}

// Origin returns the span that headers name; it is not valid when they name
// none, or not in a way that the propagator knows.
func (t *Tracing) Origin(headers map[string]string) (sc trace.SpanContext) {
	if len(headers) == 0 {
		return sc
	}
	if t.w3c {
		v, given := headers[parentHeader]
		if !given {
			return sc
		}
		if sc, known := parseParent(v); known && (len(headers) == 1 || headers[stateHeader] == "") {
			return sc
		}
	}
	return t.extract(headers)
}

func (t *Tracing) extract(headers map[string]string) (sc trace.SpanContext) {
	defer func() {
		if recover() != nil {
			sc = trace.SpanContext{}
		}
	}()
	ctx := t.propagator.Extract(bare, carrier(headers))
	return trace.SpanContextFromContext(ctx)
}

// Death returns the attempt in which a replayed message had died.
func (t *Tracing) Death(headers map[string]string) trace.SpanContext {
	v, ok := headers[DeathHeader]
	if !ok {
		return trace.SpanContext{}
	}
	if sc, known := parseParent(v); known {
		return sc
	}
	ctx := propagation.TraceContext{}.Extract(bare, carrier{parentHeader: v})
	return trace.SpanContextFromContext(ctx)
}

// WithBaggage returns ctx with the baggage of headers, as far as its keys are
// allowed.
func (t *Tracing) WithBaggage(ctx context.Context, headers map[string]string) context.Context {
	if t.baggage == nil {
		return ctx
	}
	text := headers[baggageHeader]
	if text == "" || len(text) > maxBaggage {
		return ctx
	}
	all, err := baggage.Parse(text)
	if err != nil {
		return ctx
	}
	if kept := t.allowed(all); kept.Len() > 0 {
		return baggage.ContextWithBaggage(ctx, kept)
	}
	return ctx
}

// allowed keeps the members whose keys may pass.
func (t *Tracing) allowed(all baggage.Baggage) baggage.Baggage {
	for _, m := range all.Members() {
		if _, ok := t.baggage[m.Key()]; !ok {
			all = all.DeleteMember(m.Key())
		}
	}
	return all
}

// Parent is the traceparent of a span, by which a dead letter remembers its
// last attempt; empty for none.
func Parent(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	return formatParent(sc)
}
