package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/client/sqlite"
)

// The names of the engines, as shown and as taken by flags.
const (
	enginePostgres = "postgres"
	engineSQLite   = "sqlite"
)

// defaultFile is the database when none is named.
const defaultFile = "styx.db"

// database is an open database. Close it.
type database struct {
	*bun.DB
	location
	// Schema is the one that --schema names; empty is the default.
	Schema string
}

// location says where a database is.
type location struct {
	// Engine is enginePostgres or engineSQLite.
	Engine string
	// Target names the database to people: without password and options.
	Target string
	// Default reports that no database was named.
	Default bool

	open string // for the engine's Open
	file string // the SQLite file, if it is known
}

// openDatabase opens the database that flag and environment name. An SQLite
// file that does not exist is made if create says so; otherwise that, like
// any database that cannot be reached, is an error with exit code 5.
func (a *app) openDatabase(ctx context.Context, create bool) (*database, error) {
	loc, err := a.locate()
	if err != nil {
		return nil, err
	}
	if a.schema != "" && loc.Engine == engineSQLite {
		return nil, usageError{text: "--schema is for PostgreSQL; an SQLite file has none"}
	}
	if !create && loc.file != "" {
		if _, err := os.Stat(loc.file); errors.Is(err, fs.ErrNotExist) {
			return nil, unavailableError{fmt.Errorf(`%s does not exist; "reaper migrate up" makes it`, loc.Target)}
		}
	}
	var db *bun.DB
	if loc.Engine == enginePostgres {
		db, err = postgres.Open(ctx, loc.open)
	} else {
		db, err = sqlite.Open(ctx, loc.open)
	}
	if errors.As(err, new(*message.ValidationError)) {
		return nil, usage(err)
	}
	if err != nil {
		return nil, unavailableError{err}
	}
	return &database{DB: db, location: loc, Schema: a.schema}, nil
}

// client returns a client of the database.
func (a *app) client(db *database) (*client.Client, error) {
	return client.New(db.DB, client.Config{Schema: db.Schema, Logger: a.logger})
}

// announce tells which database is about to be changed.
func (a *app) announce(ctx context.Context, db *database) {
	target := db.Target
	if db.Engine == enginePostgres {
		target += " schema " + cmp.Or(db.Schema, "styx")
	}
	if a.output.isJSON() {
		a.logger.InfoContext(ctx, "database", "target", target)
		return
	}
	_, _ = fmt.Fprintln(a.stderr, "database:", target)
}

// locate finds the name of the database: the flag's, else that of
// STYX_DATABASE_URL, else of DATABASE_URL, else the default file.
func (a *app) locate() (location, error) {
	if a.flags.changed("api-url") {
		return location{}, usageError{text: "--api-url is for queue, message, dlq, doctor and check; this command needs the database itself"}
	}
	if a.flags.changed("database-url") {
		return parseLocation("--database-url", a.databaseURL)
	}
	for _, name := range []string{"STYX_DATABASE_URL", "DATABASE_URL"} {
		if value := a.getenv(name); value != "" {
			return parseLocation(name, value)
		}
	}
	loc := fileLocation(defaultFile)
	loc.Default = true
	return loc, nil
}

// parseLocation understands a URL or path. Its errors do not quote it, since
// there may be a password in it.
func parseLocation(source, text string) (location, error) {
	refuse := func(why string) (location, error) {
		return location{}, usageError{text: source + ": " + why}
	}
	const forms = "name a database as postgres://…, sqlite:PATH, file:PATH or a path that ends in .db"
	scheme, rest, hasScheme := strings.Cut(text, ":")
	switch strings.ToLower(scheme) {
	case "postgres", "postgresql":
		if hasScheme && strings.HasPrefix(rest, "//") {
			text = strings.ToLower(scheme) + ":" + rest
			return location{Engine: enginePostgres, Target: withoutPassword(text), open: text}, nil
		}
	case "sqlite":
		if !hasScheme {
			break
		}
		path := strings.TrimPrefix(rest, "//")
		if path == "" {
			return refuse("the path after sqlite: is empty")
		}
		return fileLocation(path), nil
	case "file":
		if !hasScheme {
			break
		}
		path, _, _ := strings.Cut(text, "?")
		return location{Engine: engineSQLite, Target: path, open: text}, nil
	}
	switch {
	case text == "":
		return refuse("it is empty; " + forms)
	case strings.Contains(text, "://"):
		return refuse("its scheme is not known; " + forms)
	case strings.HasSuffix(text, ".db"):
		return fileLocation(text), nil
	}
	return refuse("it is not understood; " + forms)
}

// fileLocation is an SQLite file. A path that looks like a URI is none.
func fileLocation(path string) location {
	open := path
	if strings.HasPrefix(path, "file:") {
		open = "./" + path
	}
	return location{Engine: engineSQLite, Target: "sqlite:" + path, open: open, file: open}
}

// withoutPassword shows where a PostgreSQL URL leads, and as whom.
func withoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return enginePostgres
	}
	shown := url.URL{Scheme: enginePostgres, Host: u.Host, Path: u.Path}
	if name := u.User.Username(); name != "" {
		shown.User = url.User(name)
	}
	return shown.String()
}
