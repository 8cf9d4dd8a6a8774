package telemetry

import (
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/client/message"
)

// maxOpenings bounds what is kept: an application may make up queues and
// kinds.
const maxOpenings = 500

// Opening is what spans of one sort begin with: their name, and the attributes
// that a sampler may want to decide by. Many spans share one, and nobody
// changes it.
type Opening struct {
	Name       string
	Attributes trace.SpanStartOption

	sort sort
}

// sort is what messages have in common whose spans begin alike.
type sort struct {
	operation, queue, kind string
	attempt, maxAttempts   int // 0 before there is an attempt
	replays                int
}

// openings keeps those that were made, so that a span which nobody records
// costs little. It is safe for concurrent use.
type openings struct {
	last  atomic.Pointer[Opening] // mostly the next one too
	mu    sync.RWMutex
	known map[sort]*Opening
}

// Sending returns what the span begins with that makes a message; Identify
// adds the rest.
func (t *Tracing) Sending(queue, kind string) *Opening {
	return t.openings.of(sort{operation: OperationSend, queue: queue, kind: kind})
}

// Processing returns what the span of an attempt begins with; Identify adds
// what only this message has.
func (t *Tracing) Processing(m *message.Message) *Opening {
	return t.openings.of(sort{OperationProcess, m.Queue, m.Kind, m.Attempt, m.MaxRetries, m.ReplayCount})
}

func (o *openings) of(s sort) *Opening {
	if last := o.last.Load(); last != nil && last.sort == s {
		return last
	}
	o.mu.RLock()
	opening := o.known[s]
	o.mu.RUnlock()
	if opening == nil {
		opening = o.add(s)
	}
	o.last.Store(opening)
	return opening
}

func (o *openings) add(s sort) *Opening {
	s.queue, s.kind = strings.Clone(s.queue), strings.Clone(s.kind) // of what they were read from nothing is kept
	attrs := append(Operation(s.operation, s.queue), KeyKind.String(s.kind))
	if s.operation == OperationProcess {
		attrs = append(attrs, KeyAttempt.Int(s.attempt), KeyMaxAttempts.Int(s.maxAttempts))
	}
	if s.replays > 0 {
		attrs = append(attrs, KeyReplayCount.Int(s.replays))
	}
	opening := &Opening{SpanName(s.operation, s.queue), trace.WithAttributes(attrs...), s}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil || len(o.known) >= maxOpenings {
		o.known = map[sort]*Opening{} // those in use come back
	}
	o.known[s] = opening
	return opening
}
