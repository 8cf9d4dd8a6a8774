package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/styxmq/styx/internal/store"
)

const (
	// conditionTimeout bounds Condition.
	conditionTimeout = 3 * time.Second
	// unhandledSample is how many messages of each queue and source are
	// looked at, unhandledMax how many kinds are returned.
	unhandledSample, unhandledMax = 100, 20
	// syncFull is the level of PRAGMA synchronous from which on a commit
	// waits for the disk.
	syncFull = 2
)

// Condition reads one state of the database. There is no server, so nothing
// is said of one.
func (s *Store) Condition(ctx context.Context) (c store.Condition, err error) {
	ctx, cancel := context.WithTimeout(ctx, conditionTimeout)
	defer cancel()
	err = s.read(ctx, func(w *work) error {
		c = store.Condition{LastTick: -1}
		var (
			ticked sql.NullInt64
			level  int
		)
		if err := w.scan([]any{&ticked}, `SELECT `+clock+` - (SELECT ticked_at FROM styx_reaper)`); err != nil {
			return err
		}
		if ticked.Valid {
			c.LastTick = max(0, time.Duration(ticked.Int64)*time.Microsecond)
		}
		if err := w.scan([]any{&level}, `PRAGMA synchronous`); err != nil {
			return err
		}
		c.SynchronousCommit = level >= syncFull
		if err := w.scan([]any{&c.Overdue}, `SELECT count(*) FROM (
			SELECT 1 FROM styx_messages m INDEXED BY styx_messages_held
			 WHERE m.status = 1 AND m.deadline <= `+clock+` - 10000000 LIMIT ?)`, store.StatsCap); err != nil {
			return err
		}
		var err error
		c.Unhandled, err = unhandled(ctx, w)
		return err
	})
	if err != nil {
		return store.Condition{}, fmt.Errorf("look at the condition of the database: %w", err)
	}
	return c, nil
}

// unhandled looks at the oldest ready messages of each queue, by the indexes.
func unhandled(ctx context.Context, w *work) (all []store.Unhandled, err error) {
	const (
		ready = "styx_messages INDEXED BY styx_messages_ready WHERE status = 0 AND due_at IS NULL"
		due   = "styx_messages INDEXED BY styx_messages_due WHERE status = 0 AND losses = 0 AND due_at <= " + clock
	)
	for _, from := range []struct{ rows, order string }{{ready, "priority, id"}, {due, "due_at"}} {
		err := eachQueue(ctx, w, from.rows, func(queue string) error {
			if len(all) >= unhandledMax {
				return nil
			}
			rows, err := w.query(`SELECT DISTINCT k.kind FROM (
				SELECT kind FROM `+from.rows+` AND queue = ? ORDER BY `+from.order+` LIMIT ?) k
			 WHERE NOT EXISTS (SELECT 1 FROM styx_workers w WHERE `+alive+`
			   AND EXISTS (SELECT 1 FROM json_each(w.queues) WHERE value = ?)
			   AND (json_array_length(w.kinds) = 0 OR EXISTS (SELECT 1 FROM json_each(w.kinds) WHERE value = k.kind)))
			 ORDER BY k.kind LIMIT ?`, queue, unhandledSample, queue, unhandledMax)
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			for rows.Next() {
				u := store.Unhandled{Queue: queue}
				if err := rows.Scan(&u.Kind); err != nil {
					return err
				}
				if !slices.Contains(all, u) {
					all = append(all, u)
				}
			}
			return rows.Err()
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b store.Unhandled) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Kind, b.Kind))
	})
	return all[:min(len(all), unhandledMax)], nil
}
