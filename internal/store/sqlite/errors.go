package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// Result codes of SQLite: the low byte of an extended code.
const (
	codeError    = 1
	codeBusy     = 5
	codeLocked   = 6
	codeReadOnly = 8
	codeIO       = 10
	codeFull     = 13
	codeCantOpen = 14
	codeProtocol = 15
)

// codeOf finds the primary result code in an error of the driver, 0 if there
// is none.
func codeOf(err error) int {
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		return coded.Code() & 0xff
	}
	return 0
}

// mapError tells the errors of the database apart, by code, and keeps the
// cause. A missing table has no code of its own; on is asked whether the
// schema is there.
func mapError(ctx context.Context, on conn, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	switch codeOf(err) {
	case codeBusy, codeLocked, codeProtocol:
		return fmt.Errorf("%w: %w", store.ErrContention, err)
	case codeReadOnly, codeIO, codeFull, codeCantOpen:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case codeError:
		if current, failed := version(ctx, on); failed == nil && current < len(migrations()) {
			return fmt.Errorf("%w: %w", message.ErrSchemaMissing, err)
		}
		return err
	}
	switch {
	case errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("%w: %w", message.ErrTxDone, err)
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

func (s *Store) mapError(ctx context.Context, err error) error { return mapError(ctx, s.sql, err) }
