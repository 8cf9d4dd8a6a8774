package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/styxmq/styx/client/message"
)

const (
	// minServer is the oldest server_version_num.
	minServer = 150000

	stateForbidden  = "42501" // insufficient_privilege
	stateDependents = "2BP01" // dependent_objects_still_exist
)

// Migrate brings the schema to the newest version, a transaction for each
// step, and makes the coming partitions. Whoever comes second waits, on a lock
// of the schema's name, and then finds everything done.
func (s *Store) Migrate(ctx context.Context) (applied []int, err error) {
	for {
		version, err := s.stepUp(ctx)
		if err != nil {
			return applied, s.explainMigrate(err)
		}
		if version == 0 {
			return applied, nil
		}
		applied = append(applied, version)
	}
}

// stepUp applies the next migration and returns its version, or 0 when there
// is none. The lock stands before the first look, and the schema is created
// under it.
func (s *Store) stepUp(ctx context.Context) (version int, err error) {
	err = s.readCommitted(ctx, func(tx *sql.Tx) error {
		current, err := s.lockVersion(ctx, tx)
		if err != nil {
			return err
		}
		steps := migrations()
		if current == len(steps) {
			return s.addPartitions(ctx, tx)
		}
		if current == 0 {
			if err := s.createSchema(ctx, tx); err != nil {
				return err
			}
		}
		step := steps[current]
		if _, err := tx.ExecContext(ctx, s.ddl(step.up)); err != nil {
			return fmt.Errorf("apply migration %04d_%s: %w", step.version, step.name, err)
		}
		if _, err := tx.ExecContext(ctx, s.text(`INSERT INTO {{s}}migrations (version, name) VALUES ($1, $2)`),
			step.version, step.name); err != nil {
			return fmt.Errorf("record migration %04d_%s: %w", step.version, step.name, err)
		}
		version = step.version
		return nil
	})
	return version, err
}

// lockVersion waits for its turn and returns the version of the database,
// unless the database is ahead of this program or the server is too old.
func (s *Store) lockVersion(ctx context.Context, tx *sql.Tx) (current int, err error) {
	var server int
	if err := tx.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::integer`).Scan(&server); err != nil {
		return 0, err
	}
	if err := checkServer(server); err != nil {
		return 0, err
	}
	if err := s.lock(ctx, tx, "migrate"); err != nil {
		return 0, err
	}
	current, err = s.version(ctx, tx)
	if err != nil {
		return 0, err
	}
	if known := len(migrations()); current > known {
		return 0, fmt.Errorf("schema %q has version %d, this program knows %d: %w",
			s.schema, current, known, message.ErrSchemaNewer)
	}
	return current, nil
}

func checkServer(number int) error {
	if number < minServer {
		return fmt.Errorf("need PostgreSQL %d or newer, the server is version %d.%d", minServer/10000, number/10000, number%10000)
	}
	return nil
}

// lock takes an advisory lock on a purpose within this schema until the
// transaction ends.
func (s *Store) lock(ctx context.Context, tx *sql.Tx, purpose string) error {
	_, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))`,
		"styx "+purpose+" "+s.schema)
	return err
}

// createSchema makes the schema, but only if it is missing: a role may own it
// without the right to create another.
func (s *Store) createSchema(ctx context.Context, tx *sql.Tx) error {
	var exists bool
	err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1::text)`,
		s.schema).Scan(&exists)
	if err != nil {
		return err
	}
	if !exists {
		if _, err := tx.ExecContext(ctx, s.ddl(`CREATE SCHEMA {{schema}}`)); err != nil {
			return fmt.Errorf("create schema %q: %w", s.schema, err)
		}
	}
	if _, err := tx.ExecContext(ctx, s.ddl(createMigrations)); err != nil {
		return fmt.Errorf("create table of versions: %w", err)
	}
	return nil
}

// version returns the newest version applied, 0 if there is none.
func (s *Store) version(ctx context.Context, on conn) (version int, err error) {
	var exists bool
	err = on.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c
	JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname = $1::text AND c.relname = 'migrations')`, s.schema).Scan(&exists)
	if err != nil || !exists {
		return 0, err
	}
	err = on.QueryRowContext(ctx, s.text(`SELECT coalesce(max(version), 0) FROM {{s}}migrations`)).Scan(&version)
	return version, err
}

// SchemaVersion returns the version of the database and the newest known one.
func (s *Store) SchemaVersion(ctx context.Context) (current, known int, err error) {
	known = len(migrations())
	current, err = s.version(ctx, s.sql)
	if err != nil {
		return 0, known, fmt.Errorf("read schema version: %w", mapError(err))
	}
	return current, known, nil
}

// MigrateDown takes the newest versions back, a transaction for each step. A
// target that is not below the database's version changes nothing. At 0 the
// schema goes too if nothing else is in it and this role could make it again.
func (s *Store) MigrateDown(ctx context.Context, target int) (removed []int, err error) {
	if target < 0 {
		return nil, &message.ValidationError{
			Field: "target", Code: message.CodeOutOfRange,
			Message: fmt.Sprintf("target must not be negative, such as %d.", target),
		}
	}
	for {
		version, err := s.stepDown(ctx, target)
		if err != nil {
			return removed, s.explainMigrate(err)
		}
		if version == 0 {
			return removed, nil
		}
		removed = append(removed, version)
	}
}

func (s *Store) stepDown(ctx context.Context, target int) (version int, err error) {
	err = s.readCommitted(ctx, func(tx *sql.Tx) error {
		current, err := s.lockVersion(ctx, tx)
		if err != nil || current <= target {
			return err
		}
		step := migrations()[current-1]
		if _, err := tx.ExecContext(ctx, s.ddl(step.down)); err != nil {
			return fmt.Errorf("take back migration %04d_%s: %w", step.version, step.name, err)
		}
		if _, err := tx.ExecContext(ctx, s.text(`DELETE FROM {{s}}migrations WHERE version = $1`), step.version); err != nil {
			return fmt.Errorf("record migration %04d_%s: %w", step.version, step.name, err)
		}
		version = step.version
		if version > 1 {
			return nil
		}
		return s.dropSchema(ctx, tx)
	})
	return version, err
}

func (s *Store) dropSchema(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, s.text(`DROP TABLE {{s}}migrations`)); err != nil {
		return fmt.Errorf("drop table of versions: %w", err)
	}
	var again bool
	err := tx.QueryRowContext(ctx, `SELECT has_database_privilege(current_database(), 'CREATE')`).Scan(&again)
	if err != nil || !again || s.schema == "public" {
		return err
	}
	if _, err := tx.ExecContext(ctx, `SAVEPOINT schema`); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, s.ddl(`DROP SCHEMA {{schema}}`))
	if state := sqlState(err); state == stateDependents || state == stateForbidden {
		_, err = tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT schema`)
	}
	return err
}

// explainMigrate says what to do about an error of a migration.
func (s *Store) explainMigrate(err error) error {
	if errors.Is(err, message.ErrSchemaNewer) {
		return err
	}
	if sqlState(err) == stateForbidden {
		return fmt.Errorf("migrate schema %q: this role may not, ask an owner to run the migration: %w", s.schema, err)
	}
	return fmt.Errorf("migrate schema %q: %w", s.schema, mapError(err))
}

// readCommitted runs f in a transaction at READ COMMITTED, whatever the default of
// the database is, and commits unless f returns an error.
func (s *Store) readCommitted(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.sql.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // the error of f says more
		return err
	}
	return tx.Commit()
}
