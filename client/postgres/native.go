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
func runNative(ctx context.Context, driverConn any, statements []queue.Statement, row func(values [][]byte) error) (int, error) {
	std, ok := driverConn.(*stdlib.Conn)
	if !ok {
		return 0, store.ErrNoNative
	}
	p := preparedOf(std.Conn())
	if p.none {
		return 0, store.ErrNoNative
	}
	conn := std.Conn().PgConn()
	for again := false; ; again = true {
		n, err := p.run(ctx, conn, statements, row)
		if err == nil || again || !gone(err) || conn.TxStatus() != 'I' {
			return n, err
		}
		for i := range statements {
			if err := p.forget(ctx, conn, statements[i].Text); err != nil {
				return 0, err
			}
		}
	}
}

// run sends statements together, as one transaction where there is none yet.
func (p *prepared) run(ctx context.Context, conn *pgconn.PgConn, statements []queue.Statement, row func(values [][]byte) error) (int, error) {
	var batch pgconn.Batch
	for i := range statements {
		s := &statements[i]
		values, oids := make([][]byte, len(s.Params)), make([]uint32, len(s.Params))
		for k := range s.Params {
			values[k], oids[k] = s.Params[k].Value, s.Params[k].OID
		}
		made, err := p.statement(ctx, conn, s.Text, oids)
		switch {
		case err != nil:
			return 0, err
		case len(statements) == 1 && made != nil:
			return read(conn.ExecStatement(ctx, made, values, binary, formats(len(made.Fields))), row)
		case len(statements) == 1:
			return read(conn.ExecParams(ctx, s.Text, values, oids, binary, binary), row)
		case made != nil:
			batch.ExecStatement(made, values, binary, formats(len(made.Fields)))
		default:
			batch.ExecParams(s.Text, values, oids, binary, binary)
		}
	}
	results := conn.ExecBatch(ctx, &batch)
	n := 0
	var failed error
	for i := 0; results.NextResult(); i++ {
		each := row
		if i < len(statements)-1 {
			each = nil
		}
		if n, failed = read(results.ResultReader(), each); failed != nil {
			break
		}
	}
	if err := results.Close(); err != nil {
		return 0, err
	}
	return n, failed
}

// forget makes the next run prepare a statement anew.
func (p *prepared) forget(ctx context.Context, conn *pgconn.PgConn, text string) error {
	made := p.statements[text]
	if made == nil {
		return nil
	}
	delete(p.statements, text)
	return conn.Deallocate(ctx, made.Name)
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
	for failed == nil && row != nil && result.NextRow() {
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
