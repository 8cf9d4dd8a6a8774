package telemetry

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// MeterName is the instrumentation scope of all metrics.
const MeterName = "github.com/styxmq/styx"

// Type is the kind of an instrument.
type Type string

// The types.
const (
	Counter       Type = "counter"
	UpDownCounter Type = "up-down counter"
	Histogram     Type = "histogram"
	Gauge         Type = "gauge"
)

// Instrument describes one metric.
type Instrument struct {
	// Name is that of OpenTelemetry, Prometheus the one that its exporter
	// for Prometheus makes of it.
	Name, Prometheus string
	Type             Type
	// Unit in the notation of UCUM.
	Unit string
	// Labels are the names of the attributes.
	Labels []string
	// By is who reports it: client, worker, reaper, or the one reaper at a
	// time that asks the database.
	By      string
	Help    string
	Buckets []float64
}

// maker makes the instruments of one meter by their names in the table.
type maker struct{ meter metric.Meter }

func newMaker(p metric.MeterProvider) maker {
	if p == nil {
		p = otel.GetMeterProvider()
	}
	return maker{p.Meter(MeterName, metric.WithSchemaURL(SchemaURL))}
}

func (m maker) counter(name string) metric.Int64Counter {
	d := describe(name, Counter)
	c, err := m.meter.Int64Counter(name, metric.WithUnit(d.Unit), metric.WithDescription(d.Help))
	handle(err)
	return c
}

func (m maker) upDown(name string) metric.Int64UpDownCounter {
	d := describe(name, UpDownCounter)
	c, err := m.meter.Int64UpDownCounter(name, metric.WithUnit(d.Unit), metric.WithDescription(d.Help))
	handle(err)
	return c
}

func (m maker) seconds(name string) metric.Float64Histogram {
	d := describe(name, Histogram)
	h, err := m.meter.Float64Histogram(name, metric.WithUnit(d.Unit), metric.WithDescription(d.Help),
		metric.WithExplicitBucketBoundaries(d.Buckets...))
	handle(err)
	return h
}

func (m maker) sizes(name string) metric.Int64Histogram {
	d := describe(name, Histogram)
	h, err := m.meter.Int64Histogram(name, metric.WithUnit(d.Unit), metric.WithDescription(d.Help),
		metric.WithExplicitBucketBoundaries(d.Buckets...))
	handle(err)
	return h
}

func (m maker) gauge(name string) metric.Float64Gauge {
	d := describe(name, Gauge)
	g, err := m.meter.Float64Gauge(name, metric.WithUnit(d.Unit), metric.WithDescription(d.Help))
	handle(err)
	return g
}

func (m maker) observed(name string) metric.Float64ObservableGauge {
	d := describe(name, Gauge)
	g, err := m.meter.Float64ObservableGauge(name, metric.WithUnit(d.Unit), metric.WithDescription(d.Help))
	handle(err)
	return g
}

// handle gives an error to the application's handler: a metric that cannot be
// made must not keep a queue from working.
func handle(err error) {
	if err != nil {
		otel.Handle(err)
	}
}

func describe(name string, t Type) Instrument {
	for _, d := range table {
		if d.Name == name && d.Type == t {
			return d
		}
	}
	panic("telemetry: no " + string(t) + " " + name + " in the table of instruments")
}
