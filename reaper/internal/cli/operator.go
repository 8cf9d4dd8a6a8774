package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"strings"

	"github.com/styxmq/styx/reaper"
	"github.com/styxmq/styx/reaper/internal/remote"
)

const (
	apiVariable   = "STYX_API_URL"
	tokenVariable = "STYX_API_TOKEN"
)

// operator is what the commands of an operator work with: the HTTP API, of a
// server or, over a database, within this process.
type operator struct {
	*remote.API
	// target names the place to people, without a password.
	target string
}

// operates is does for the commands of an operator.
func (a *app) operates(f func(ctx context.Context, o *operator, args []string) error) func(ctx context.Context, args []string) error {
	return func(ctx context.Context, args []string) error {
		address, err := a.apiAddress()
		if err != nil {
			return err
		}
		if address != "" {
			return a.dialled(ctx, address, f, args)
		}
		return a.direct(ctx, f, args)
	}
}

// apiAddress is the server to call, empty for a database.
func (a *app) apiAddress() (string, error) {
	switch {
	case a.flags.changed("api-url") && a.flags.changed("database-url"):
		return "", usageError{text: "name either --api-url or --database-url"}
	case a.flags.changed("api-url"):
		if a.apiURL == "" {
			return "", usageError{text: "--api-url: it is empty"}
		}
		return a.apiURL, nil
	case a.flags.changed("database-url"):
		return "", nil
	}
	return a.getenv(apiVariable), nil
}

func (a *app) dialled(ctx context.Context, address string, f func(context.Context, *operator, []string) error, args []string) error {
	token := a.getenv(tokenVariable)
	if a.tokenFile != "" {
		content, err := os.ReadFile(a.tokenFile)
		if err != nil {
			return usageError{text: "--api-token-file: " + err.Error(), err: err}
		}
		token = strings.TrimSpace(string(content))
	}
	api, err := remote.Dial(address, token)
	if err != nil {
		return err
	}
	return f(ctx, &operator{API: api, target: address}, args)
}

// direct serves the API of a database to this process alone. Whoever may open
// the database may do everything.
func (a *app) direct(ctx context.Context, f func(context.Context, *operator, []string) error, args []string) (err error) {
	db, err := a.openDatabase(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	name := whoami()
	h, err := reaper.Handler(db.DB, reaper.HandlerConfig{
		Schema: db.Schema, TickLimit: -1, Logger: a.logger,
		Identify: func(*http.Request) (reaper.Identity, bool) {
			return reaper.Identity{Name: name, Roles: []string{reaper.RoleAdmin}}, true
		},
	})
	if err != nil {
		return err
	}
	target := db.Target
	if db.Engine == enginePostgres {
		target += " schema " + cmp.Or(db.Schema, "styx")
	}
	return f(ctx, &operator{API: remote.Within(h), target: target}, args)
}

// whoami is the user's name, for the audit log.
func whoami() string {
	u, err := user.Current()
	if err != nil {
		return "unknown"
	}
	return cmp.Or(u.Username, u.Uid, "unknown")
}

// announce tells which place is about to be changed.
func (o *operator) announce(a *app) {
	if !a.output.isJSON() {
		_, _ = fmt.Fprintln(a.stderr, "target:", o.target)
	}
}
