package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// defaultScan is how many rows of each table a filtered list looks at for one
// page.
const defaultScan = 5000

// conditions collects the terms of a WHERE and their values.
type conditions struct {
	terms []string
	args  []any
}

func (c *conditions) add(term string, args ...any) {
	c.terms = append(c.terms, term)
	c.args = append(c.args, args...)
}

// equal appends column = value unless the value is empty. For a column of the
// contents it is IS, which leaves the join a left one and the order of the
// tables as it is.
func (c *conditions) equal(column, value string) {
	switch {
	case value == "":
	case strings.HasPrefix(column, "c."):
		c.add(column+" IS ?", value)
	default:
		c.add(column+" = ?", value)
	}
}

func (c *conditions) String() string {
	if len(c.terms) == 0 {
		return "true"
	}
	return strings.Join(c.terms, " AND ")
}

// arm is one of the three places of a list.
type arm struct{ columns, tables, table, id, where string }

// arms returns the places where messages of the status are, all for none.
func arms(status message.Status) []arm {
	hot := arm{hotColumns, hotTables, "styx_messages m", "m.id", ""}
	archived := arm{archiveColumns, archiveTables, "styx_archive m", "m.id", ""}
	dead := arm{deadColumns, deadTables, "styx_dead_letters m", "m.message_id", "m.resolution IS NOT 'replayed'"}
	switch status {
	case message.StatusPending:
		hot.where = "m.status = 0"
		return []arm{hot}
	case message.StatusProcessing:
		hot.where = "m.status = 1"
		return []arm{hot}
	case message.StatusSucceeded:
		return []arm{archived}
	case message.StatusDead:
		return []arm{dead}
	}
	return []arm{hot, archived, dead}
}

// List merges the first rows by id of each place in one statement, so that a
// row which moves meanwhile appears exactly once. Each place is read in the
// order of ids from q.After on.
//
// With a filter the ids are bounded first to those before the Scan-th row of
// any place. Where this bound lies matters to the work only: the list itself
// takes everything up to it.
func (s *Store) List(ctx context.Context, q store.ListQuery) (store.ListPage, error) {
	page, err := s.list(ctx, q)
	if err != nil {
		return store.ListPage{}, fmt.Errorf("list messages: %w", s.mapError(ctx, err))
	}
	return page, nil
}

func (s *Store) list(ctx context.Context, q store.ListQuery) (page store.ListPage, err error) {
	after, beyond, until, order := q.After, " > ?", " <= ?", " ORDER BY 1"
	if q.Descending {
		beyond, until, order = " < ?", " >= ?", " ORDER BY 1 DESC"
		if after == 0 {
			after = math.MaxInt64
		}
	}
	limit := max(q.Limit, 1)
	places := arms(q.Status)

	var bound sql.NullInt64
	if q.Queue != "" || q.Kind != "" || q.Tenant != "" || q.CorrelationID != "" ||
		q.Status == message.StatusPending || q.Status == message.StatusProcessing {
		if bound, err = s.scanBound(ctx, q, after, places); err != nil {
			return page, err
		}
	}
	// text selects up to n rows of each place and then of all.
	text := func(columns func(arm) string, n int) (string, []any) {
		var args []any
		parts := make([]string, len(places))
		for i, p := range places {
			var c conditions
			c.add(p.id+beyond, after)
			if bound.Valid {
				c.add(p.id+until, bound.Int64)
			}
			if p.where != "" {
				c.add(p.where)
			}
			c.equal("m.queue", q.Queue)
			c.equal("m.kind", q.Kind)
			c.equal("c.tenant", q.Tenant)
			c.equal("c.correlation_id", q.CorrelationID)
			args = append(args, c.args...)
			parts[i] = "SELECT * FROM (SELECT " + columns(p) + " FROM " + p.tables + " WHERE " + c.String() +
				order + " LIMIT " + strconv.Itoa(n) + ")"
		}
		return strings.Join(parts, " UNION ALL ") + order + " LIMIT " + strconv.Itoa(n), args
	}
	if q.Offset > 0 {
		ids, args := text(func(p arm) string { return p.id + " AS id" }, q.Offset)
		furthest := "max"
		if q.Descending {
			furthest = "min"
		}
		err := s.sql.QueryRowContext(ctx, "SELECT count(*), coalesce("+furthest+"(id), 0) FROM ("+ids+")", args...).
			Scan(&page.Skipped, &after)
		if err != nil || page.Skipped < q.Offset {
			page.Next = bound.Int64
			return page, err
		}
	}
	statement, args := text(func(p arm) string { return previewed(p.columns, q.Preview) }, limit+1)
	rows, err := s.sql.QueryContext(ctx, statement, args...)
	if err != nil {
		return page, err
	}
	if page.Messages, err = readMessages(rows, q.Preview); err != nil {
		return page, err
	}
	switch {
	case len(page.Messages) > limit:
		page.Messages = page.Messages[:limit]
		page.Next = page.Messages[limit-1].ID
	case bound.Valid:
		page.Next = bound.Int64
	}
	return page, nil
}

// scanBound returns the id of the Scan-th row of the place where that comes
// first, NULL when no place has so many.
func (s *Store) scanBound(ctx context.Context, q store.ListQuery, after int64, places []arm) (bound sql.NullInt64, err error) {
	scan := q.Scan
	if scan <= 0 {
		scan = defaultScan
	}
	nearest, beyond, order := "min", " > ?", ""
	if q.Descending {
		nearest, beyond, order = "max", " < ?", " DESC"
	}
	parts, args := make([]string, len(places)), make([]any, len(places))
	for i, p := range places {
		args[i] = after
		parts[i] = "SELECT * FROM (SELECT " + p.id + " AS id FROM " + p.table + " WHERE " + p.id + beyond +
			" ORDER BY 1" + order + " LIMIT 1 OFFSET " + strconv.Itoa(scan-1) + ")"
	}
	err = s.sql.QueryRowContext(ctx, "SELECT "+nearest+"(id) FROM ("+strings.Join(parts, " UNION ALL ")+")", args...).Scan(&bound)
	return bound, err
}
