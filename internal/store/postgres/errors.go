package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// sqlState finds the SQLSTATE of an error of any driver: pgx and lib/pq
// offer SQLState, bun's own driver the field C.
func sqlState(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	var field interface{ Field(byte) string }
	if errors.As(err, &field) {
		return field.Field('C')
	}
	return ""
}

// mapError tells the errors of the database apart, by code, and keeps the
// cause.
func mapError(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	state := sqlState(err)
	switch state {
	case "25P02": // in_failed_sql_transaction
		return fmt.Errorf("%w: %w", message.ErrTxDone, err)
	case "40P01", "40001", "55P03": // deadlock, serialization, lock not available
		return fmt.Errorf("%w: %w", store.ErrContention, err)
	case "25006", "53300", "57P01", "57P02", "57P03": // read only, too many, shutting down
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case "42P01", "3F000": // undefined table, undefined schema
		return fmt.Errorf("%w: %w", message.ErrSchemaMissing, err)
	}
	switch {
	case strings.HasPrefix(state, "08"), strings.HasPrefix(state, "53"): // connection, resources
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("%w: %w", message.ErrTxDone, err)
	case state == "" && (errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || isNet(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

func isNet(err error) bool {
	var n net.Error
	return errors.As(err, &n)
}
