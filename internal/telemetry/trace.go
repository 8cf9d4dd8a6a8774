package telemetry

import (
	"context"
	"reflect"
	"runtime/debug"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/styxmq/styx/internal/failure"
)

const (
	// MaxLinks is the largest number of links of a span.
	MaxLinks = 128
	// maxStatus is the largest description of a status, in bytes.
	maxStatus = 256
)

// Tracing starts spans and carries their context from one process to another.
// It is safe for concurrent use.
type Tracing struct {
	global     bool // the provider is the global one, which may come later
	on         bool // when it is not global
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	w3c        bool                // the propagator is W3C trace context and nothing else
	baggage    map[string]struct{} // keys that may pass; nil: none
	openings   openings
}

// NewTracing returns the tracing of a package, which scope names. A nil
// provider is the global one, also when that is set later; a nil propagator is
// W3C trace context.
func NewTracing(scope string, provider trace.TracerProvider, propagator propagation.TextMapPropagator, baggage []string) *Tracing {
	t := &Tracing{global: provider == nil, propagator: propagator}
	if t.global {
		provider = otel.GetTracerProvider()
	} else {
		t.on = !silent(provider)
	}
	if t.propagator == nil {
		t.propagator = propagation.TraceContext{}
	}
	_, t.w3c = t.propagator.(propagation.TraceContext)
	for _, key := range baggage {
		if t.baggage == nil {
			t.baggage = map[string]struct{}{}
		}
		t.baggage[key] = struct{}{}
	}
	t.tracer = provider.Tracer(scope, trace.WithInstrumentationVersion(version()), trace.WithSchemaURL(SchemaURL))
	return t
}

// version is that of this module in the program.
func version() string {
	const module = "github.com/styxmq/styx"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return ""
}

// On reports whether a span would reach anybody. Callers ask before they
// gather what a span needs.
func (t *Tracing) On() bool {
	if t.global {
		return !silent(otel.GetTracerProvider())
	}
	return t.on
}

// placeholder is the type of the global provider before the application has
// set one; nil when it was faster.
var placeholder = func() reflect.Type {
	t := reflect.TypeOf(otel.GetTracerProvider())
	if t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "go.opentelemetry.io/otel/internal/global" {
		return t
	}
	return nil
}()

// silent reports whether a provider records nothing: it is the one of the API
// that does not, or stands for the one that the application will set.
func silent(provider trace.TracerProvider) bool {
	switch provider.(type) {
	case noop.TracerProvider, *noop.TracerProvider:
		return true
	}
	return reflect.TypeOf(provider) == placeholder
}

// Start begins a span. It always returns one, and a context that carries it.
func (t *Tracing) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (out context.Context, span trace.Span) {
	out, span = ctx, noop.Span{}
	defer func() { _ = recover() }() // a sampler or processor of the application's
	return t.tracer.Start(ctx, name, opts...)
}

// End ends a span. An empty class is success; otherwise class is error.type
// and text, which is cut, the status.
func End(span trace.Span, class, text string, attrs ...attribute.KeyValue) {
	defer func() { _ = recover() }()
	if span.IsRecording() {
		finish(span, class, text, attrs)
	}
	span.End()
}

// EndAttempt ends the span of an attempt with its outcome.
func EndAttempt(span trace.Span, outcome, class, text string) {
	defer func() { _ = recover() }()
	if span.IsRecording() {
		finish(span, class, text, []attribute.KeyValue{KeyOutcome.String(outcome)})
	}
	span.End()
}

func finish(span trace.Span, class, text string, attrs []attribute.KeyValue) {
	if class != "" {
		attrs = append(attrs, KeyErrorType.String(class))
		span.SetStatus(codes.Error, failure.Clean(text, maxStatus))
	}
	span.SetAttributes(attrs...)
}
