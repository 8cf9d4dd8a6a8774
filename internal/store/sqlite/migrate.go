package sqlite

import (
	"context"
	"fmt"

	"github.com/styxmq/styx/client/message"
)

// Migrate brings the schema to the newest version, all steps in one
// transaction, which has the write lock before it looks: whoever comes second
// finds everything done.
func (s *Store) Migrate(ctx context.Context) (applied []int, err error) {
	err = s.exclusive(ctx, func(w *work) error {
		current, err := checkVersion(w)
		if err != nil {
			return err
		}
		if current == 0 {
			if err := w.script(createMigrations); err != nil {
				return fmt.Errorf("create table of versions: %w", err)
			}
		}
		for _, step := range migrations()[current:] {
			if err := w.script(step.up + step.record()); err != nil {
				return fmt.Errorf("apply migration %04d_%s: %w", step.version, step.name, err)
			}
			applied = append(applied, step.version)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	return applied, nil
}

// MigrateDown takes the newest versions back, in one transaction. A target
// that is not below the database's version changes nothing; at 0 the table of
// versions goes too.
func (s *Store) MigrateDown(ctx context.Context, target int) (removed []int, err error) {
	if target < 0 {
		return nil, &message.ValidationError{
			Field: "target", Code: message.CodeOutOfRange,
			Message: fmt.Sprintf("target must not be negative, such as %d.", target),
		}
	}
	err = s.exclusive(ctx, func(w *work) error {
		current, err := checkVersion(w)
		if err != nil {
			return err
		}
		for v := current; v > target; v-- {
			step := migrations()[v-1]
			if err := w.script(step.down + step.erase()); err != nil {
				return fmt.Errorf("take back migration %04d_%s: %w", step.version, step.name, err)
			}
			removed = append(removed, v)
		}
		if target == 0 && current > 0 {
			return w.script(dropMigrations)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("migrate down: %w", err)
	}
	return removed, nil
}

// SchemaVersion returns the version of the database and the newest known one.
func (s *Store) SchemaVersion(ctx context.Context) (current, known int, err error) {
	known = len(migrations())
	current, err = version(ctx, s.sql)
	if err != nil {
		return 0, known, fmt.Errorf("read schema version: %w", s.mapError(ctx, err))
	}
	return current, known, nil
}

// script runs several statements.
func (w *work) script(text string) error {
	_, err := w.on.ExecContext(w.ctx, text)
	return err
}

// checkVersion returns the version of the database, unless that is ahead of
// this program or SQLite is too old for it.
func checkVersion(w *work) (current int, err error) {
	var major, minor int
	var library string
	if err := w.on.QueryRowContext(w.ctx, "SELECT sqlite_version()").Scan(&library); err != nil {
		return 0, err
	}
	if n, _ := fmt.Sscanf(library, "%d.%d", &major, &minor); n == 2 && (major < 3 || major == 3 && minor < 42) {
		return 0, fmt.Errorf("need SQLite 3.42 or newer, the driver has %s", library)
	}
	if current, err = version(w.ctx, w.on); err != nil {
		return 0, err
	}
	if known := len(migrations()); current > known {
		return 0, fmt.Errorf("the database has version %d, this program knows %d: %w", current, known, message.ErrSchemaNewer)
	}
	return current, nil
}

// version returns the newest version applied, 0 if there is none.
func version(ctx context.Context, on conn) (version int, err error) {
	err = on.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'styx_migrations'").Scan(&version)
	if err != nil || version == 0 {
		return 0, err
	}
	err = on.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM styx_migrations").Scan(&version)
	return version, err
}
