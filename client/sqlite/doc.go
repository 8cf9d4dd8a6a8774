// Package sqlite opens an SQLite database file for use with Styx:
//
//	db, err := sqlite.Open(ctx, "styx.db")
//	if err != nil {
//		return err
//	}
//	defer db.Close()
//
// It is the only package of Styx that links an SQLite driver, which is pure
// Go: no C compiler is needed. A program which has a [*bun.DB] of its own
// hands that to Styx instead and never imports this package.
//
// The file belongs on a local disk: several processes of one host may share
// it, but the write-ahead log does not work across a network file system.
package sqlite
