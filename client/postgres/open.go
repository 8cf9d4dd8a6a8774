package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/styxmq/styx/client/message"
)

const (
	// MaxOpenConns is the size of the pool that Open makes. As many may
	// stay idle, so that a busy program does not close and reopen them.
	// Change it with SetMaxOpenConns and SetMaxIdleConns.
	MaxOpenConns = 20
	// ConnMaxIdleTime is how long an unused connection stays open. Change
	// it with SetConnMaxIdleTime.
	ConnMaxIdleTime = 5 * time.Minute
	// ConnectTimeout bounds one attempt to connect to one host, unless
	// connect_timeout in the URL says otherwise.
	ConnectTimeout = 10 * time.Second
)

// Open connects to the PostgreSQL database that rawURL names, as a URL
// (postgres://user:password@host:port/database?option=value) or as keywords
// and values (host=… dbname=…). All options of libpq that pgx knows are
// understood, several hosts and the PG* environment variables for what the
// URL leaves out among them, and so are pgx's own: default_query_exec_mode,
// statement_cache_capacity, description_cache_capacity. Any other option is
// sent to the server as a setting of the session, such as tcp_user_timeout.
//
// One connection is made before Open returns, within ctx; ctx has no part in
// the life of the database afterwards. A connection whose peer has vanished
// is noticed within about a minute (by TCP keepalives; on Linux, data that
// stays unacknowledged for 30 seconds ends it as well). A connection that
// refuses a write because its server has become read-only is closed, so that
// the pool finds the new primary after a failover; with several hosts in the
// URL, add target_session_attrs=read-write.
//
// A URL that is empty or cannot be understood is a [*message.ValidationError]
// with the field url; a server that cannot be reached or refuses is the
// driver's error, wrapped. Neither shows the password. The database is safe
// for concurrent use and is the caller's to close.
func Open(ctx context.Context, rawURL string) (*bun.DB, error) {
	cfg, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = ConnectTimeout
	}
	cfg.DialFunc = newDialer(cfg.ConnectTimeout).DialContext
	cfg.OnPgError = closeReadOnly(cfg.OnPgError)

	sqldb := stdlib.OpenDB(*cfg)
	sqldb.SetMaxOpenConns(MaxOpenConns)
	sqldb.SetMaxIdleConns(MaxOpenConns)
	sqldb.SetConnMaxIdleTime(ConnMaxIdleTime)
	if err := ping(ctx, sqldb); err != nil {
		return nil, err
	}
	return bun.NewDB(sqldb, pgdialect.New()), nil
}

func ping(ctx context.Context, sqldb *sql.DB) error {
	if err := sqldb.PingContext(ctx); err != nil {
		return errors.Join(fmt.Errorf("open PostgreSQL database: %w", err), sqldb.Close())
	}
	return nil
}

func parse(rawURL string) (*pgx.ConnConfig, error) {
	if strings.TrimSpace(rawURL) == "" {
		return nil, &message.ValidationError{
			Field: "url", Code: message.CodeRequired,
			Message: "the URL of the PostgreSQL database is empty",
		}
	}
	cfg, err := pgx.ParseConfig(rawURL)
	if err != nil {
		return nil, &message.ValidationError{
			Field: "url", Code: message.CodeInvalid,
			Message: explain(rawURL, err),
		}
	}
	return cfg, nil
}

// explain says what is wrong with rawURL. Errors of net/url and of the driver
// quote what they could not parse, which may be a part of the password, so
// their text is used only where the password is known and not in it.
func explain(rawURL string, err error) string {
	scheme, _, isURL := strings.Cut(rawURL, "://")
	if !isURL || strings.ContainsAny(scheme, "= ") {
		return "neither a postgres:// URL nor keywords and values (host=… dbname=…) that are understood"
	}
	if scheme != "postgres" && scheme != "postgresql" {
		return fmt.Sprintf("the scheme is %q, not postgres or postgresql", scheme)
	}
	u, urlErr := url.Parse(rawURL)
	if urlErr != nil {
		return "not a URL; in a user name or password the characters % / ? # [ ] @ : and space must be percent-encoded"
	}
	cause := errors.Unwrap(err)
	if cause == nil || showsSecret(u, cause.Error()) {
		return "the hosts, ports or options are not understood"
	}
	return cause.Error()
}

func showsSecret(u *url.URL, text string) bool {
	query := u.Query()
	secrets := slices.Concat(query["password"], query["sslpassword"])
	if password, ok := u.User.Password(); ok {
		secrets = append(secrets, password)
	}
	for _, secret := range secrets {
		if secret != "" && strings.Contains(text, secret) {
			return true
		}
	}
	return false
}
