package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

// signals are what this program shows of itself.
type signals struct {
	meters  *metric.MeterProvider
	tracers *trace.TracerProvider
	server  *http.Server
	served  chan error
}

// observe sets the SDK of OpenTelemetry up: metrics for Prometheus at the
// address, and by OTLP what the environment asks for.
func observe(ctx context.Context, addr string) (*signals, error) {
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	// Names as Prometheus has them, with units and _total.
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(),
		otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		return nil, err
	}
	meters := []metric.Option{metric.WithResource(res), metric.WithReader(reader)}
	tracers := []trace.TracerProviderOption{trace.WithResource(res)}
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" {
		push, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, err
		}
		spans, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, err
		}
		meters, tracers = append(meters, metric.WithReader(push)), append(tracers, trace.WithBatcher(spans))
	}
	s := &signals{meters: metric.NewMeterProvider(meters...), tracers: trace.NewTracerProvider(tracers...)}
	if addr == "" {
		return s, nil
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s.server, s.served = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, make(chan error, 1)
	go func() { s.served <- s.server.Serve(listener) }()
	fmt.Println("metrics are served at http://" + listener.Addr().String() + "/metrics")
	return s, nil
}

// stop sends what is left. A collector that is away does not fail the program.
func (s *signals) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := errors.Join(s.meters.Shutdown(ctx), s.tracers.Shutdown(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "worker: the last of the telemetry is lost:", err)
	}
	if s.server == nil {
		return nil
	}
	if err := s.server.Shutdown(ctx); err != nil {
		_ = s.server.Close()
	}
	if err := <-s.served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
