package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"
)

// forgetRange is how many ids one statement of the clean-up covers.
const forgetRange = 50_000

// benchDatabase asks the database what the API does not tell: nobody but a
// bench wants to know.
type benchDatabase struct {
	*database
}

func newBenchDatabase(db *database) *benchDatabase { return &benchDatabase{db} }

// table names a table or view of the schema.
func (d *benchDatabase) table(name string) bun.Safe {
	if d.Engine == engineSQLite {
		return bun.Safe("styx_" + name)
	}
	schema := d.Schema
	if schema == "" {
		schema = "styx"
	}
	return bun.Safe(`"` + strings.ReplaceAll(schema, `"`, `""`) + `".` + name)
}

// wal returns how many bytes of WAL the server has written, nil where that
// cannot be told.
func (d *benchDatabase) wal(ctx context.Context) (*float64, error) {
	if d.Engine != enginePostgres {
		return nil, nil
	}
	var bytes float64
	err := d.NewRaw(`SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8`).Scan(ctx, &bytes)
	if ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		return nil, nil // a server that speaks PostgreSQL, but has no such function
	}
	return &bytes, nil
}

// describe returns the version of the server and its settings that bear on
// speed. It changes none of them.
func (d *benchDatabase) describe(ctx context.Context) (server string, settings map[string]string, err error) {
	settings = map[string]string{}
	if d.Engine == engineSQLite {
		if err := d.NewRaw(`SELECT sqlite_version()`).Scan(ctx, &server); err != nil {
			return "", nil, fmt.Errorf("read the version of SQLite: %w", err)
		}
		for _, name := range []string{"journal_mode", "synchronous", "page_size", "cache_size", "wal_autocheckpoint", "busy_timeout"} {
			var value string
			if err := d.NewRaw("PRAGMA "+name).Scan(ctx, &value); err != nil {
				return "", nil, fmt.Errorf("read the setting %s: %w", name, err)
			}
			settings[name] = value
		}
		return server, settings, nil
	}
	var rows []struct{ Name, Value string }
	err = d.NewRaw(`SELECT name, current_setting(name) AS value FROM pg_catalog.pg_settings WHERE name IN (?)`, bun.List([]string{
		"server_version", "synchronous_commit", "fsync", "full_page_writes", "wal_level", "wal_compression",
		"shared_buffers", "max_wal_size", "checkpoint_timeout", "autovacuum", "max_connections", "jit",
	})).Scan(ctx, &rows)
	if err != nil {
		return "", nil, fmt.Errorf("read the settings of the server: %w", err)
	}
	for _, r := range rows {
		settings[r.Name] = r.Value
	}
	server = settings["server_version"]
	delete(settings, "server_version")
	return server, settings, nil
}

// succeeded returns the ids of the queue's messages in the archive, in order.
func (d *benchDatabase) succeeded(ctx context.Context, queue string, first, last int64) ([]int64, error) {
	var ids []int64
	err := d.NewRaw(`SELECT id FROM ? WHERE queue = ? AND status = 'succeeded' AND id BETWEEN ? AND ?`,
		d.table("all_messages"), queue, first, last).Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	slices.Sort(ids)
	return ids, nil
}

// others reports whether messages of other queues are there.
func (d *benchDatabase) others(ctx context.Context, queue string) (bool, error) {
	var n int
	err := d.NewRaw(`SELECT count(*) FROM (SELECT 1 FROM ? WHERE queue <> ? LIMIT 1) x`, d.table("all_messages"), queue).Scan(ctx, &n)
	if err != nil {
		return false, fmt.Errorf("look for messages of others: %w", err)
	}
	return n > 0, nil
}

// forget deletes all that a run has stored: slice by slice, so that nobody
// waits long for SQLite's only writer.
func (d *benchDatabase) forget(ctx context.Context, queue string, first, last int64) error {
	for lo := first; first > 0 && lo <= last; lo += forgetRange {
		if err := d.forgetSlice(ctx, queue, lo, min(last, lo+forgetRange-1)); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	// The workers bear the name of the queue.
	if d.Engine == enginePostgres {
		// What was stored although its answer was lost.
		if _, err := d.NewRaw(`DELETE FROM ? WHERE queue = ?`, d.table("messages"), queue).Exec(ctx); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
		for _, table := range []string{"claims", "listeners"} {
			if _, err := d.NewRaw(`DELETE FROM ? WHERE worker_id IN (SELECT id FROM ? WHERE name = ?)`,
				d.table(table), d.table("workers"), queue).Exec(ctx); err != nil {
				return fmt.Errorf("clean up: %w", err)
			}
		}
	}
	if _, err := d.NewRaw(`DELETE FROM ? WHERE name = ?`, d.table("workers"), queue).Exec(ctx); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// forgetSlice deletes what belongs to ids from lo to hi: first what hangs on
// the messages of the queue, while it can be told which these are.
func (d *benchDatabase) forgetSlice(ctx context.Context, queue string, lo, hi int64) error {
	hanging := []struct{ table, id string }{{"attempts", "message_id"}}
	if d.Engine == engineSQLite {
		hanging = append(hanging, struct{ table, id string }{"contents", "id"})
	}
	for _, t := range hanging {
		if _, err := d.NewRaw(`DELETE FROM ?0 WHERE ?1 BETWEEN ?2 AND ?3
	AND ?1 IN (SELECT m.id FROM ?4 m WHERE m.id BETWEEN ?2 AND ?3 AND m.queue = ?5)`,
			d.table(t.table), bun.Safe(t.id), lo, hi, d.table("all_messages"), queue).Exec(ctx); err != nil {
			return err
		}
	}
	for _, t := range []struct{ table, id string }{{"dead_letters", "message_id"}, {"archive", "id"}, {"messages", "id"}} {
		if _, err := d.NewRaw(`DELETE FROM ? WHERE ? BETWEEN ? AND ? AND queue = ?`,
			d.table(t.table), bun.Safe(t.id), lo, hi, queue).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// shrink gives the space of an SQLite file back.
func (d *benchDatabase) shrink(ctx context.Context) error {
	if d.Engine != engineSQLite {
		return nil
	}
	_, err := d.NewRaw(`VACUUM`).Exec(ctx)
	return err
}
