package storetest

import (
	"database/sql"
	"fmt"
	"time"
)

// Engine is what the suite must know about a database to make states that
// the interfaces cannot make.
type Engine struct {
	Name string
	// Ago is an SQL expression for the moment d before the database's now.
	Ago func(d time.Duration) string
	// Isolations are the levels of a transaction that callers may use.
	Isolations []sql.IsolationLevel
	// AbortsTx reports that a failed statement ends its transaction.
	AbortsTx bool
	// Hints reports that a table of claims says where to look for what a
	// worker holds.
	Hints bool
	// Created is the table that keeps created_at, by id.
	Created string
	// OneWriter reports that writers wait for each other, and give up at
	// some time.
	OneWriter bool
	// Partitioned reports that the archive is deleted by the partition.
	Partitioned bool
	// Age returns the statements that move an archived message to so many
	// days ago. {{s}} stands for the prefix of tables.
	Age func(id int64, days int) []string
}

// PostgreSQL is the Engine of package postgres.
var PostgreSQL = Engine{
	Name: "PostgreSQL",
	Ago: func(d time.Duration) string {
		return fmt.Sprintf("(clock_timestamp() - interval '%d microseconds')", d.Microseconds())
	},
	Isolations:  []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
	AbortsTx:    true,
	Hints:       true,
	Created:     "messages",
	Partitioned: true,
	Age: func(id int64, days int) []string {
		day := time.Now().UTC().AddDate(0, 0, -days)
		next := day.AddDate(0, 0, 1)
		name := "{{s}}archive_" + day.Format("20060102")
		return []string{
			"CREATE TABLE " + name + " (LIKE {{s}}archive INCLUDING DEFAULTS)",
			fmt.Sprintf("ALTER TABLE {{s}}archive ATTACH PARTITION %s FOR VALUES FROM ('%s 00:00+00') TO ('%s 00:00+00')",
				name, day.Format(time.DateOnly), next.Format(time.DateOnly)),
			fmt.Sprintf("UPDATE {{s}}archive SET finished_at = '%s 12:00+00' WHERE id = %d", day.Format(time.DateOnly), id),
		}
	},
}

// SQLite is the Engine of package sqlite, which keeps times as integers of
// microseconds since 1970.
var SQLite = Engine{
	Name: "SQLite",
	Ago: func(d time.Duration) string {
		return fmt.Sprintf("(cast(unixepoch('subsec') * 1000 as integer) * 1000 - %d)", d.Microseconds())
	},
	Isolations: []sql.IsolationLevel{sql.LevelDefault},
	Created:    "contents",
	OneWriter:  true,
	Age: func(id int64, days int) []string {
		return []string{fmt.Sprintf(
			"UPDATE {{s}}archive SET finished_at = cast(unixepoch('subsec') * 1000 as integer) * 1000 - %d WHERE id = %d",
			(time.Duration(days) * 24 * time.Hour).Microseconds(), id)}
	},
}
