package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/styxmq/styx/internal/store"
	queue "github.com/styxmq/styx/internal/store/postgres"
)

func init() { queue.RegisterNative(runNative, copyNative) }

// prepared is what one connection has for runNative, kept in its custom data.
type prepared struct {
	// none: the connection is set to a protocol without binary values.
	none bool
	// limit is how many statements may be prepared; 0 behind a pooler, where
	// the next transaction may be on another connection of the server.
	limit      int
	made       int // so far, for names that were never used
	statements map[string]*pgconn.StatementDescription
}

// preparedKey finds it.
const preparedKey = "github.com/styxmq/styx"

// binary asks for that format for all values.
var binary = []int16{pgx.BinaryFormatCode}

// runNative is a queue.NativeFunc.
func runNative(ctx context.Context, driverConn any, text string, params []queue.Param, row func(values [][]byte) error) (int, error) {
	std, ok := driverConn.(*stdlib.Conn)
	if !ok {
		return 0, store.ErrNoNative
	}
	p := preparedOf(std.Conn())
	if p.none {
		return 0, store.ErrNoNative
	}
	conn := std.Conn().PgConn()
	values, oids := make([][]byte, len(params)), make([]uint32, len(params))
	for i := range params {
		values[i], oids[i] = params[i].Value, params[i].OID
	}
	for again := false; ; again = true {
		statement, err := p.statement(ctx, conn, text, oids)
		if err != nil {
			return 0, err
		}
		var result *pgconn.ResultReader
		if statement != nil {
			result = conn.ExecStatement(ctx, statement, values, binary, formats(len(statement.Fields)))
		} else {
			result = conn.ExecParams(ctx, text, values, oids, binary, binary)
		}
		n, err := read(result, row)
		if err == nil || statement == nil || again || !gone(err) || conn.TxStatus() != 'I' {
			return n, err
		}
		delete(p.statements, text)
		if err := conn.Deallocate(ctx, statement.Name); err != nil {
			return 0, err
		}
	}
}

// copyNative is a queue.CopyFunc.
func copyNative(ctx context.Context, driverConn any, text string, rows io.Reader) (int, error) {
	std, ok := driverConn.(*stdlib.Conn)
	if !ok || preparedOf(std.Conn()).none {
		return 0, store.ErrNoNative
	}
	tag, err := std.Conn().PgConn().CopyFrom(ctx, rows, text)
	return int(tag.RowsAffected()), err
}

func preparedOf(conn *pgx.Conn) *prepared {
	custom := conn.PgConn().CustomData()
	if p, ok := custom[preparedKey].(*prepared); ok {
		return p
	}
	cfg := conn.Config()
	p := &prepared{statements: map[string]*pgconn.StatementDescription{}}
	switch cfg.DefaultQueryExecMode {
	case pgx.QueryExecModeCacheStatement:
		p.limit = cfg.StatementCacheCapacity
	case pgx.QueryExecModeSimpleProtocol:
		p.none = true
	default: // each statement stands alone
	}
	custom[preparedKey] = p
	return p
}

// statement returns the prepared statement, or nil where it is to be sent with
// its text.
func (p *prepared) statement(ctx context.Context, conn *pgconn.PgConn, text string, oids []uint32) (*pgconn.StatementDescription, error) {
	if s := p.statements[text]; s != nil {
		return s, nil
	}
	if len(p.statements) >= p.limit {
		return nil, nil //nolint:nilnil // there is none, and no error
	}
	s, err := conn.Prepare(ctx, fmt.Sprintf("styx_%d", p.made+1), text, oids)
	if err != nil {
		return nil, err
	}
	p.made++
	p.statements[text] = s
	return s, nil
}

// formats is the binary format n times: descriptions of columns must have as
// many.
func formats(n int) []int16 {
	f := make([]int16, n)
	for i := range f {
		f[i] = pgx.BinaryFormatCode
	}
	return f
}

func read(result *pgconn.ResultReader, row func(values [][]byte) error) (int, error) {
	var failed error
	for failed == nil && result.NextRow() {
		failed = row(result.Values())
	}
	tag, err := result.Close()
	if err == nil {
		err = failed
	}
	return int(tag.RowsAffected()), err
}

// gone reports that the server has lost a prepared statement, or that its
// result has another shape since the schema has changed; nothing was done.
func gone(err error) bool {
	const invalidStatementName, featureNotSupported = "26000", "0A000"
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (refused.Code == invalidStatementName || refused.Code == featureNotSupported)
}
