package reaper

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/internal/failure"
	"github.com/styxmq/styx/internal/store"
	"github.com/styxmq/styx/internal/telemetry"
)

// scope names this package to those who record.
const scope = "github.com/styxmq/styx/reaper"

// reaping is the span of one run, which begins when something is moved: runs
// that find nothing leave no trace.
type reaping struct {
	tracing *telemetry.Tracing
	began   time.Time
	span    trace.Span // nil before
	queue   string
	several bool // queues
	moved   int
	dead    int
	links   int
}

// begin begins the span, back when the run began.
func (p *reaping) begin(ctx context.Context, queue string) {
	p.queue = queue
	_, p.span = p.tracing.Start(ctx, telemetry.SpanName(telemetry.OperationReap, queue), trace.WithNewRoot(),
		trace.WithTimestamp(p.began), trace.WithAttributes(telemetry.Operation(telemetry.OperationReap, "")...))
}

// add takes what one statement moved.
func (p *reaping) add(ctx context.Context, batch []store.Rescued) {
	if len(batch) == 0 || !p.tracing.On() {
		return
	}
	if p.span == nil {
		p.begin(ctx, batch[0].Queue)
	}
	for i := range batch {
		m := &batch[i]
		p.moved++
		p.several = p.several || m.Queue != p.queue
		origin := p.tracing.Origin(m.Headers)
		decision := telemetry.KeyDecision.String(string(m.Decision))
		if origin.IsValid() && p.links < telemetry.MaxLinks {
			p.links++
			p.span.AddLink(telemetry.Link(origin, telemetry.LinkCreation, telemetry.ID(m.ID), decision))
		}
		if !m.Dead {
			continue
		}
		p.dead++
		opts := []trace.SpanStartOption{
			trace.WithAttributes(append(telemetry.Describe(telemetry.OperationDeadLetter, &m.Message), decision)...),
		}
		if origin.IsValid() {
			opts = append(opts, trace.WithLinks(telemetry.Link(origin, telemetry.LinkCreation)))
		}
		_, span := p.tracing.Start(trace.ContextWithSpan(ctx, p.span), telemetry.SpanName(telemetry.OperationDeadLetter, m.Queue), opts...)
		telemetry.End(span, string(m.Decision), m.LastError)
	}
}

// end ends the span of a run that moved something.
func (p *reaping) end(err error) {
	if p.span == nil {
		return
	}
	if p.several {
		p.span.SetName(telemetry.OperationReap)
	} else {
		p.span.SetAttributes(telemetry.KeyDestination.String(p.queue))
	}
	count, dead := telemetry.KeyBatchCount.Int(p.moved), telemetry.KeyDead.Int(p.dead)
	if err != nil {
		telemetry.End(p.span, failure.Class(err), "the run was not completed", count, dead)
		return
	}
	telemetry.End(p.span, "", "", count, dead)
}
