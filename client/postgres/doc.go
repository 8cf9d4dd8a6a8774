// Package postgres opens a PostgreSQL database for use with Styx:
//
//	db, err := postgres.Open(ctx, "postgres://app:secret@db.internal/app")
//	if err != nil {
//		return err
//	}
//	defer db.Close()
//
// It is the only package of Styx that links a PostgreSQL driver. A program
// which has a [*bun.DB] of its own, with pgx under it, hands that to Styx
// instead and never imports this package.
//
// # Through a pooler
//
// PgBouncer and its kin in transaction mode give every transaction another
// server connection, so statements prepared on one are unknown to the next.
// Add default_query_exec_mode=cache_describe (or exec) to the URL there. Open
// itself sends no startup parameter which a pooler might refuse.
package postgres
