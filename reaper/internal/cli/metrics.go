package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/styxmq/styx/reaper/internal/export"
)

// farewell is how long the last measurements and spans may take to leave.
const farewell = 5 * time.Second

// exporting starts what the flags and the environment ask for. The function
// that it returns ends it.
func (a *app) exporting(ctx context.Context, prometheus bool) (*export.Export, func(), error) {
	e, err := export.Start(ctx, export.Config{Prometheus: prometheus, Version: version().Version, Logger: a.logger})
	if err != nil {
		return nil, nil, err
	}
	return e, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		if err := e.Shutdown(ctx); err != nil {
			a.logger.WarnContext(ctx, "the last of the telemetry is lost", slog.Any("error", err))
		}
	}, nil
}

// serveMetrics serves the handler under /metrics on an address of its own. The
// function that it returns ends it.
func (a *app) serveMetrics(ctx context.Context, addr string, h http.Handler) (func() error, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(a.logger.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	a.logger.InfoContext(ctx, "metrics are served", "url", "http://"+listener.Addr().String()+"/metrics")
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close()
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve metrics: %w", err)
		}
		return nil
	}, nil
}
