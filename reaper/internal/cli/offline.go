package cli

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/schema"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
)

// nowhere is a database that cannot be connected to.
type nowhere struct{}

func (nowhere) Connect(context.Context) (driver.Conn, error) { return nil, driver.ErrBadConn }
func (nowhere) Driver() driver.Driver                        { return nil }

// offline gives f the migrations of an engine, of which only the SQL is of use.
func (a *app) offline(engine string, f func(*client.Migrations) error) (err error) {
	var dialect schema.Dialect
	switch engine {
	case enginePostgres:
		dialect = pgdialect.New()
	case engineSQLite:
		dialect = sqlitedialect.New()
	default:
		return usageError{text: fmt.Sprintf("--engine must be postgres or sqlite, not %q", engine)}
	}
	db := bun.NewDB(sql.OpenDB(nowhere{}), dialect)
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := client.New(db, client.Config{Schema: a.schema, Logger: a.logger})
	if err != nil {
		return err
	}
	return f(c.Migrations())
}

// newest is the newest version of the schema that this program knows: the
// last one that can be asked for.
func newest(m *client.Migrations) (int, error) {
	for v := 0; ; v++ {
		_, err := m.SQL(v, v+1)
		if errors.As(err, new(*message.ValidationError)) {
			return v, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
