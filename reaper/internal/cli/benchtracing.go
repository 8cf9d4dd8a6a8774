package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/reaper/internal/export"
	"github.com/styxmq/styx/worker"
)

const (
	// benchTracingRounds is how often tracing is compared unless told
	// otherwise: each way begins a round as often as the others.
	benchTracingRounds = 6
	// benchSampled is the share of the attempts that are recorded.
	benchSampled = 0.01
)

// benchTelemetry is what client and worker are told about telemetry. The zero
// value is what they are told by a program that has none.
type benchTelemetry struct {
	name   string
	tracer trace.TracerProvider
	meter  metric.MeterProvider
	mode   worker.TraceMode
}

// tracingResult is what was measured of one way to trace.
type tracingResult struct {
	Tracing string `json:"tracing"` // off, noop or sampled
	// EnqueuePer and DrainPer are medians of the rounds.
	EnqueuePer float64 `json:"enqueue_per_s"`
	DrainPer   float64 `json:"drain_per_s"`
	// EnqueueOverOff and DrainOverOff are medians of what each round gives
	// when it is compared with the same round without tracing.
	EnqueueOverOff float64 `json:"enqueue_over_off,omitempty"`
	DrainOverOff   float64 `json:"drain_over_off,omitempty"`
	// Share is the part of the traces that is recorded, Spans how many spans
	// that were.
	Share  float64      `json:"sampled_share,omitempty"`
	Spans  *int64       `json:"spans,omitempty"`
	Rounds []benchRound `json:"rounds"`
}

// compareTracing does each round without tracing, with providers that record
// nothing, and with an SDK that samples and throws away. The ways take turns
// in coming first: a table that grows would otherwise favour one of them.
//
// Messages are enqueued thousands at a time, and whoever follows the producer's
// decision would record thousands of them or none; therefore each attempt
// begins a trace of its own and links to the producer, so that the share of
// those recorded is that of the sampler.
func (b *bench) compareTracing(ctx context.Context, result *benchResult) (err error) {
	plain := b.client
	defer func() { b.client, b.telemetry = plain, benchTelemetry{} }()
	discard := export.NewDiscard(benchSampled)
	defer func() { err = errors.Join(err, discard.Shutdown(context.WithoutCancel(ctx))) }()
	ways := []benchTelemetry{
		{name: "off"},
		{name: "noop", tracer: tracenoop.NewTracerProvider(), meter: metricnoop.NewMeterProvider()},
		{name: "sampled", tracer: discard, mode: worker.TraceLink},
	}
	result.Tracing = make([]tracingResult, len(ways))
	for i := range b.rounds {
		for n := range ways {
			way := (i + n) % len(ways)
			b.telemetry = ways[way]
			b.client, err = client.New(b.db.DB, client.Config{
				Schema: b.db.Schema, Logger: b.logger, TracerProvider: b.telemetry.tracer, MeterProvider: b.telemetry.meter,
			})
			if err != nil {
				return err
			}
			round, err := b.round(ctx, fmt.Sprintf("round %d of %d, tracing %s: ", i+1, b.rounds, b.telemetry.name))
			if err != nil {
				return err
			}
			if way == 0 {
				result.add(round)
			} else {
				result.merge(round.benchCheck)
			}
			result.Tracing[way].Tracing = b.telemetry.name
			result.Tracing[way].Rounds = append(result.Tracing[way].Rounds, round)
		}
	}
	if err := discard.ForceFlush(ctx); err != nil {
		return fmt.Errorf("flush the spans: %w", err)
	}
	spans := discard.Spans()
	result.Tracing[2].Share, result.Tracing[2].Spans = benchSampled, &spans
	for i := range result.Tracing {
		result.Tracing[i].summarise(result.Tracing[0].Rounds)
	}
	return nil
}

// summarise compares the rounds with those without tracing.
func (r *tracingResult) summarise(off []benchRound) {
	enqueue, drain := benchRound.enqueuePer, benchRound.drainPer
	r.EnqueuePer, r.DrainPer = median(r.Rounds, enqueue), median(r.Rounds, drain)
	if r.Tracing == "off" {
		return
	}
	r.EnqueueOverOff, r.DrainOverOff = over(r.Rounds, off, enqueue), over(r.Rounds, off, drain)
}

func (r benchRound) enqueuePer() float64 { return r.EnqueuePer }
func (r benchRound) drainPer() float64   { return r.DrainPer }

// over is the median of the quotients of pairs, to three decimals.
func over(rounds, base []benchRound, of func(benchRound) float64) float64 {
	quotients := make([]float64, len(rounds))
	for i := range rounds {
		quotients[i] = of(rounds[i]) / of(base[i])
	}
	return math.Round(1000*middle(quotients)) / 1000
}

func median(rounds []benchRound, of func(benchRound) float64) float64 {
	values := make([]float64, len(rounds))
	for i := range rounds {
		values[i] = of(rounds[i])
	}
	return math.Round(10*middle(values)) / 10
}

// middle is the median of at least one value.
func middle(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// lines tells people, each line by a call.
func (r *tracingResult) lines(line func(name, format string, args ...any)) {
	name := "tracing " + r.Tracing
	switch {
	case r.Tracing == "off":
		line(name, "enqueue %.0f/s, drain %.0f/s, medians of %d rounds", r.EnqueuePer, r.DrainPer, len(r.Rounds))
	case r.Spans != nil:
		line(name, "enqueue %.0f/s (%.1f %% of off), drain %.0f/s (%.1f %% of off), %.3g %% of the traces, %d spans",
			r.EnqueuePer, 100*r.EnqueueOverOff, r.DrainPer, 100*r.DrainOverOff, 100*r.Share, *r.Spans)
	default:
		line(name, "enqueue %.0f/s (%.1f %% of off), drain %.0f/s (%.1f %% of off)",
			r.EnqueuePer, 100*r.EnqueueOverOff, r.DrainPer, 100*r.DrainOverOff)
	}
}
