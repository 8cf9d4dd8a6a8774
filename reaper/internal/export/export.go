// Package export carries measurements and spans out of the daemon: to
// Prometheus, which fetches them, and by OTLP as the standard environment
// variables of OpenTelemetry say. Only the binary links it, never the library.
package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// ServiceName is that of the daemon, unless OTEL_SERVICE_NAME says otherwise.
const ServiceName = "styx-reaper"

// Config says what is exported.
type Config struct {
	// Prometheus makes Handler.
	Prometheus bool
	// Version is the program's.
	Version string
	// Logger takes the errors of exporters.
	Logger *slog.Logger
}

// Export is what was started. Its fields are nil for what is not wanted;
// nothing is measured and recorded then.
type Export struct {
	// Handler serves the metrics to Prometheus.
	Handler http.Handler
	// MeterProvider and TracerProvider are for the Configs of Styx.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider

	stop []func(context.Context) error
}

// Start begins to export. What OTEL_EXPORTER_OTLP_ENDPOINT and its kin,
// OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER do not ask for is not
// exported; OTEL_SDK_DISABLED turns all of that off, but not Prometheus.
func Start(ctx context.Context, cfg Config) (*Export, error) {
	e := new(Export)
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", ServiceName), attribute.String("service.version", cfg.Version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe this program for telemetry: %w", err)
	}
	for _, part := range []func(context.Context, Config, *resource.Resource) error{e.metrics, e.traces} {
		if err := part(ctx, cfg, res); err != nil {
			return nil, errors.Join(err, e.Shutdown(ctx))
		}
	}
	if len(e.stop) > 0 && cfg.Logger != nil {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
			cfg.Logger.WarnContext(context.WithoutCancel(ctx), "export telemetry", slog.Any("error", err))
		}))
	}
	return e, nil
}

func (e *Export) metrics(ctx context.Context, cfg Config, res *resource.Resource) error {
	options := []sdkmetric.Option{sdkmetric.WithResource(res)}
	if cfg.Prometheus {
		registry := prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(),
			otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
		if err != nil {
			return fmt.Errorf("export metrics to Prometheus: %w", err)
		}
		options = append(options, sdkmetric.WithReader(reader))
		e.Handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry})
	}
	if wanted("METRICS") {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return fmt.Errorf("export metrics: %w", err)
		}
		options = append(options, sdkmetric.WithReader(reader))
	}
	if len(options) == 1 {
		return nil
	}
	p := sdkmetric.NewMeterProvider(options...)
	e.MeterProvider, e.stop = p, append(e.stop, p.Shutdown)
	return nil
}

func (e *Export) traces(ctx context.Context, _ Config, res *resource.Resource) error {
	if !wanted("TRACES") {
		return nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return fmt.Errorf("export traces: %w", err)
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(exporter))
	e.TracerProvider, e.stop = p, append(e.stop, p.Shutdown)
	return nil
}

// wanted reports whether the environment asks for a signal. Without this the
// standard's default would be an exporter to a collector on this host.
func wanted(signal string) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	for _, name := range []string{
		"OTEL_" + signal + "_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT",
	} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// Shutdown exports what is left, within ctx, and ends.
func (e *Export) Shutdown(ctx context.Context) error {
	var errs []error
	for _, stop := range e.stop {
		errs = append(errs, stop(ctx))
	}
	e.stop = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("export what is left of telemetry: %w", err)
	}
	return nil
}
