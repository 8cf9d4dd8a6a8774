//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/reaper"
)

// serve is a daemon process: a reaper with the HTTP API, as `reaper run` is.
func (p *player) serve(ctx context.Context) error {
	listener, err := listen(ctx, p.Address)
	if err != nil {
		return unreachable(err)
	}
	stopping := make(chan struct{})
	handler, err := reaper.Handler(p.db, reaper.HandlerConfig{
		Unprotected: true, Hosts: reaper.LoopbackHosts(), Stopping: stopping, Logger: p.log,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	r, err := reaper.New(p.db, reaper.Config{Logger: p.log})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: client.MaxWait + 3*reaper.DefaultRequestTimeout,
		ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	err = unreachable(r.Run(ctx))
	close(stopping)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), reaper.DefaultRequestTimeout+5*time.Second)
	defer cancel()
	if server.Shutdown(grace) != nil {
		_ = server.Close() // who still waits gets no answer
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// listen takes the address, which the predecessor may hold for a moment more.
func listen(ctx context.Context, address string) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", address)
		if err == nil {
			return l, nil
		}
		if !pause(ctx, 50*time.Millisecond) {
			return nil, fmt.Errorf("listen for the HTTP API: %w", err)
		}
	}
}

// freeAddresses finds n addresses to listen on.
func freeAddresses(ctx context.Context, n int) (free []string, err error) {
	for range n {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = l.Close() }() // only then, or two would be the same
		free = append(free, l.Addr().String())
	}
	return free, nil
}
