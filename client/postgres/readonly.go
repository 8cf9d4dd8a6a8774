package postgres

import "github.com/jackc/pgx/v5/pgconn"

// readOnlyState is the SQLSTATE of a write that a read-only transaction
// refuses.
const readOnlyState = "25006"

// closeReadOnly lets a connection end whose server refuses to write: after a
// failover it would otherwise stay in the pool, and whoever gets it would be
// refused until the program is restarted. A transaction that its owner has
// made read-only ends no connection.
func closeReadOnly(next pgconn.PgErrorHandler) pgconn.PgErrorHandler {
	return func(c *pgconn.PgConn, err *pgconn.PgError) bool {
		const outside = 'I' // of a transaction
		if err.Code == readOnlyState && (c.TxStatus() == outside || readOnly(c)) {
			return false
		}
		return next == nil || next(c, err)
	}
}

// readOnly reports what the server, since PostgreSQL 14, says of itself.
func readOnly(c *pgconn.PgConn) bool {
	return c.ParameterStatus("in_hot_standby") == "on" || c.ParameterStatus("default_transaction_read_only") == "on"
}
