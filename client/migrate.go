package client

import (
	"context"
	"fmt"
)

// Migrate brings the schema of the database to the version that this program
// knows, from nothing if need be. Any number of processes may call it at once,
// as at their start; a repeat does nothing.
//
// A database that a newer version of Styx has migrated is left alone and
// gives [message.ErrSchemaNewer]. The rights to create objects are needed
// only when there is something to do.
func (c *Client) Migrate(ctx context.Context) error {
	_, err := c.Migrations().Up(ctx)
	return err
}

// Migrations looks after the schema in steps, for tools. Get it from
// [Client.Migrations]. It is safe for concurrent use.
type Migrations struct {
	c *Client
}

// Migrations returns the operations on the schema.
func (c *Client) Migrations() *Migrations { return &Migrations{c} }

// Up is [Client.Migrate]; it returns the versions applied, in order.
func (m *Migrations) Up(ctx context.Context) ([]int, error) {
	applied, err := m.c.store.Migrate(ctx)
	if len(applied) > 0 {
		m.c.logger.InfoContext(ctx, "migrated the schema", "versions", applied)
	}
	if err != nil {
		return applied, fmt.Errorf("migrate the schema: %w", err)
	}
	return applied, nil
}

// Down takes versions back, the newest first, until target is the newest, and
// returns them; 0 removes everything, with all messages. No worker, reaper
// or client may be at work meanwhile.
func (m *Migrations) Down(ctx context.Context, target int) ([]int, error) {
	removed, err := m.c.store.MigrateDown(ctx, target)
	if len(removed) > 0 {
		m.c.logger.InfoContext(ctx, "took back versions of the schema", "versions", removed)
	}
	if err != nil {
		return removed, fmt.Errorf("migrate the schema down to version %d: %w", target, err)
	}
	return removed, nil
}

// Version returns the version of the database, 0 when there is none, and the
// newest that this program knows.
func (m *Migrations) Version(ctx context.Context) (current, known int, err error) {
	current, known, err = m.c.store.SchemaVersion(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("read the version of the schema: %w", err)
	}
	return current, known, nil
}

// SQL returns the statements that lead from one version to another, up or
// down, for other migration tools; 0 is the empty database. It does not touch
// the database.
func (m *Migrations) SQL(from, to int) (string, error) {
	text, err := m.c.store.MigrationSQL(from, to)
	if err != nil {
		return "", fmt.Errorf("write migration from version %d to %d: %w", from, to, err)
	}
	return text, nil
}
