package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/net/netutil"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/reaper"
)

const (
	// defaultListen is where the HTTP API is served when nothing is said.
	defaultListen = "127.0.0.1:8080"
	// tokensVariable holds what the file of --tokens-file would.
	tokensVariable = "STYX_API_TOKENS"
	// maxConnections is how many callers are connected at once.
	maxConnections = 4096
	// drain is how long requests at work may take to end.
	drain = reaper.DefaultRequestTimeout + 5*time.Second
)

// api is what the flags say about the HTTP API.
type api struct {
	listen, tokensFile string
	hosts              []string
	requireLeaseToken  bool
	// chosen reports that the address was named, and is not just the default.
	chosen func() bool
}

func (l *api) flags(flags *pflag.FlagSet) {
	flags.StringVar(&l.listen, "listen", defaultListen, `the address of the HTTP API; "off" serves none`)
	flags.StringVar(&l.tokensFile, "tokens-file", "", `the file of the tokens that may call the HTTP API; "reaper token" makes them`)
	flags.StringSliceVar(&l.hosts, "allowed-host", nil, "a name under which the HTTP API is called, as by a proxy; may be repeated")
	flags.BoolVar(&l.requireLeaseToken, "require-lease-token", false, "settle over HTTP only with the lease_token of the claim")
	l.chosen = func() bool { return flags.Changed("listen") }
}

func (l *api) off() bool { return l.listen == "" || l.listen == "off" }

// apiConfig checks the flags before anything is begun.
func (a *app) apiConfig(l *api) (reaper.HandlerConfig, error) {
	cfg := reaper.HandlerConfig{RequireLeaseToken: l.requireLeaseToken, Logger: a.logger, Hosts: lower(l.hosts)}
	if l.off() {
		return cfg, nil
	}
	host, _, err := net.SplitHostPort(l.listen)
	if err != nil {
		return cfg, usageError{text: "--listen: name an address with its port, such as " + defaultListen, err: err}
	}
	text := strings.ReplaceAll(a.getenv(tokensVariable), ";", "\n")
	if l.tokensFile != "" {
		content, err := os.ReadFile(l.tokensFile)
		if err != nil {
			return cfg, usageError{text: "--tokens-file: " + err.Error(), err: err}
		}
		text += "\n" + string(content)
	}
	if cfg.Tokens, err = reaper.ParseTokens(text); err != nil {
		return cfg, err
	}
	local := isLoopback(host)
	if len(cfg.Tokens) == 0 {
		switch {
		case l.tokensFile != "":
			return cfg, usageError{text: "--tokens-file: there is no token in it"}
		case !local:
			return cfg, usageError{text: fmt.Sprintf(
				"--listen %s: without tokens only a loopback address is served, such as %s; name tokens by --tokens-file or %s",
				l.listen, defaultListen, tokensVariable)}
		}
		cfg.Unprotected = true
	}
	if local {
		cfg.Hosts = append(cfg.Hosts, reaper.LoopbackHosts()...)
	}
	return cfg, nil
}

func lower(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strings.ToLower(name)
	}
	return out
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// serveAPI serves the HTTP API until ctx ends. The function that it returns
// ends it sooner, if need be, and waits.
func (a *app) serveAPI(ctx context.Context, l *api, db *database, cfg reaper.HandlerConfig) (func() error, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", l.listen)
	if errors.Is(err, syscall.EADDRINUSE) && !l.chosen() {
		a.logger.WarnContext(ctx, "the HTTP API is not served: its address is taken; name another with --listen", "address", l.listen)
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, errors.New("listen for the HTTP API: " + err.Error()) // an error of the network would be taken for the database's
	}
	stopping := make(chan struct{})
	cfg.Schema, cfg.Stopping = db.Schema, stopping
	handler, err := reaper.Handler(db.DB, cfg)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: client.MaxWait + 3*reaper.DefaultRequestTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(a.logger.Handler(), slog.LevelWarn),
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		served := make(chan error, 1)
		go func() { served <- server.Serve(netutil.LimitListener(listener, maxConnections)) }()
		select {
		case err := <-served:
			a.logger.ErrorContext(ctx, "the HTTP API ended", "error", err)
			ended <- fmt.Errorf("serve the HTTP API: %w", err)
			return
		case <-ctx.Done():
		}
		close(stopping)
		grace, done := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer done()
		if err := server.Shutdown(grace); err != nil {
			_ = server.Close()
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			a.logger.WarnContext(ctx, "the HTTP API ended", "error", err)
		}
		ended <- nil
	}()
	a.logger.InfoContext(ctx, "the HTTP API is served", "url", "http://"+listener.Addr().String(), "tokens", len(cfg.Tokens))
	return func() error { cancel(); return <-ended }, nil
}
