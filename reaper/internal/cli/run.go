package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/reaper"
)

func newRunCommand(a *app) *cobra.Command {
	var (
		cfg     reaper.Config
		migrate bool
		metrics string
		serve   api
		apply   func() error
	)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the reaper until it is told to stop",
		Long: `Run the reaper until SIGINT or SIGTERM. Any number of them may run at once, on
any number of hosts.

The schema must be of this version. --migrate brings it there first; so does
the default SQLite file, without being asked.

The HTTP API is served at --listen, by default to programs on this machine
only; http://127.0.0.1:8080/openapi.json describes it. Any other address needs
tokens, by --tokens-file or STYX_API_TOKENS, and a proxy for TLS.

With --metrics-listen, Prometheus finds the metrics under /metrics there, which
asks for no password: name an address that only it can reach. Traces and
metrics go to a collector by OTLP when the standard variables of OpenTelemetry
say so, such as OTEL_EXPORTER_OTLP_ENDPOINT.`,
		Example: `  reaper run
  reaper run --database-url sqlite:/var/lib/app/styx.db --migrate
  reaper run --listen 0.0.0.0:8080 --tokens-file /etc/styx/tokens
  reaper run --metrics-listen 127.0.0.1:9464
  reaper run --maintain "30 2 * * *" --location Europe/Berlin`,
		Args: cobra.NoArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			if err := apply(); err != nil {
				return err
			}
			err := a.runReaper(ctx, cfg, migrate, metrics, &serve)
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return nil // told to stop before it had begun
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&migrate, "migrate", false, "bring the schema to this version first")
	cmd.Flags().StringVar(&metrics, "metrics-listen", "", "the address at which Prometheus finds /metrics, such as 127.0.0.1:9464")
	cmd.Flags().DurationVar(&cfg.GaugeInterval, "gauge-interval", reaper.DefaultGaugeInterval,
		"how often depths and ages are computed for metrics; negative is never")
	cmd.Flags().BoolVar(&cfg.TenantMetrics, "tenant-metrics", false, "count failures by tenant too")
	serve.flags(cmd.Flags())
	apply = schedules(cmd.Flags(), &cfg)
	retention(cmd.Flags(), &cfg)
	return cmd
}

func (a *app) runReaper(ctx context.Context, cfg reaper.Config, migrate bool, metrics string, serve *api) (err error) {
	handler, err := a.apiConfig(serve)
	if err != nil {
		return err
	}
	loc, err := a.locate()
	if err != nil {
		return err
	}
	db, err := a.openDatabase(ctx, migrate || loc.Default)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	exports, end, err := a.exporting(ctx, metrics != "" || !serve.off())
	if err != nil {
		return err
	}
	defer end()
	cfg.Schema, cfg.Logger = db.Schema, a.logger
	cfg.MeterProvider, cfg.TracerProvider = exports.MeterProvider, exports.TracerProvider
	r, err := reaper.New(db.DB, cfg)
	if err != nil {
		return err
	}
	a.announce(ctx, db)
	if migrate || db.Default {
		c, err := a.client(db)
		if err != nil {
			return err
		}
		if err := c.Migrate(ctx); err != nil {
			return err
		}
	}
	if metrics != "" {
		stop, failed := a.serveMetrics(ctx, metrics, exports.Handler)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	if !serve.off() {
		handler.Metrics, handler.TracerProvider = exports.Handler, exports.TracerProvider
		stop, failed := a.serveAPI(ctx, serve, db, handler)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	a.logger.InfoContext(ctx, "reaper starts", "version", version().Version)
	if err := r.Run(ctx); err != nil {
		return a.adviseMigration(err)
	}
	a.logger.InfoContext(ctx, "reaper stopped")
	return nil
}

// adviseMigration adds the command that helps against an old schema.
func (a *app) adviseMigration(err error) error {
	if !errors.Is(err, message.ErrSchemaMissing) {
		return err
	}
	return fmt.Errorf(`%w; type "reaper migrate up%s", for the same database`, err, a.schemaFlag())
}

// schemaFlag is the flag --schema as it was given, for a command to type.
func (a *app) schemaFlag() string {
	if a.schema == "" {
		return ""
	}
	return " --schema " + a.schema
}
