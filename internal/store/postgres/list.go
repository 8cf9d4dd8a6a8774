package postgres

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

// add appends a term; each ? in it is the value.
func (c *conditions) add(term string, value any) {
	c.args = append(c.args, value)
	c.terms = append(c.terms, strings.ReplaceAll(term, "?", "$"+strconv.Itoa(len(c.args))))
}

// equal appends column = value unless the value is empty.
func (c *conditions) equal(column, value string) {
	if value != "" {
		c.add(column+" = ?::text", value)
	}
}

func (c *conditions) String() string {
	if len(c.terms) == 0 {
		return "true"
	}
	return strings.Join(c.terms, " AND ")
}

// arm is one of the three places of a list.
type arm struct{ columns, table, id, where string }

// arms returns the places where messages of the status are, all for none.
func arms(status message.Status) []arm {
	hot := arm{hotColumns, "{{s}}messages m", "m.id", ""}
	archived := arm{archiveColumns, "{{s}}archive a", "a.id", ""}
	dead := arm{deadColumns, "{{s}}dead_letters d", "d.message_id", " AND d.resolution IS DISTINCT FROM 'replayed'"}
	switch status {
	case message.StatusPending:
		hot.where = " AND m.status = 0"
		return []arm{hot}
	case message.StatusProcessing:
		hot.where = " AND m.status = 1"
		return []arm{hot}
	case message.StatusSucceeded:
		return []arm{archived}
	case message.StatusDead:
		return []arm{dead}
	}
	return []arm{hot, archived, dead}
}

// List merges the first rows by id of each place in one statement, so that a
// row which moves meanwhile appears exactly once. Indexes: messages_pkey,
// archive_id, dead_letters_message, each read in order from q.After on.
//
// With a filter the ids are bounded first to those before the Scan-th row of
// any place. Where this bound lies matters to the work only: the list itself
// takes everything up to it.
func (s *Store) List(ctx context.Context, q store.ListQuery) (store.ListPage, error) {
	page, err := s.list(ctx, q)
	if err != nil {
		return store.ListPage{}, fmt.Errorf("list messages: %w", mapError(err))
	}
	return page, nil
}

func (s *Store) list(ctx context.Context, q store.ListQuery) (page store.ListPage, err error) {
	after, beyond, order, until := q.After, " > ?::bigint", " ORDER BY 1", " <= ?::bigint"
	if q.Descending {
		beyond, order, until = " < ?::bigint", " ORDER BY 1 DESC", " >= ?::bigint"
		if after == 0 {
			after = math.MaxInt64
		}
	}
	limit := max(q.Limit, 1)
	places := arms(q.Status)

	var bound sql.NullInt64
	if q.Queue != "" || q.Kind != "" || q.Tenant != "" || q.CorrelationID != "" || places[0].where != "" {
		if bound, err = s.scanBound(ctx, q, after, places); err != nil {
			return page, err
		}
	}

	// text selects up to n rows of each place and then of all; its arguments
	// are the same values in the same order, so the numbers fit each arm.
	text := func(columns func(arm) string, n int) (string, []any) {
		var c conditions
		parts := make([]string, 0, len(places))
		for _, p := range places {
			c = conditions{}
			c.add(p.id+beyond, after)
			if bound.Valid {
				c.add(p.id+until, bound.Int64)
			}
			alias := p.id[:2]
			c.equal(alias+"queue", q.Queue)
			c.equal(alias+"kind", q.Kind)
			c.equal(alias+"tenant", q.Tenant)
			c.equal(alias+"correlation_id", q.CorrelationID)
			parts = append(parts, "(SELECT "+columns(p)+" FROM "+p.table+" WHERE "+c.String()+p.where+
				order+" LIMIT "+strconv.Itoa(n)+")")
		}
		if len(parts) == 1 { // one SELECT in brackets takes no second ORDER BY
			return parts[0], c.args
		}
		return strings.Join(parts, " UNION ALL ") + order + " LIMIT " + strconv.Itoa(n), c.args
	}
	if q.Offset > 0 {
		ids, args := text(func(p arm) string { return p.id + " AS id" }, q.Offset)
		furthest := "max"
		if q.Descending {
			furthest = "min"
		}
		err := s.sql.QueryRowContext(ctx, s.text("SELECT count(*), coalesce("+furthest+"(id), 0) FROM ("+ids+") x"), args...).
			Scan(&page.Skipped, &after)
		if err != nil || page.Skipped < q.Offset {
			page.Next = bound.Int64
			return page, err
		}
	}
	statement, args := text(func(p arm) string { return previewed(p.columns, p.id[:2]+"payload", q.Preview) }, limit+1)
	page.Messages, err = s.messages(ctx, statement, args, q.Preview)
	if err != nil {
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
// first, NULL when no place has so many. Index-only scans where the
// visibility map allows.
func (s *Store) scanBound(ctx context.Context, q store.ListQuery, after int64, places []arm) (bound sql.NullInt64, err error) {
	scan := q.Scan
	if scan <= 0 {
		scan = defaultScan
	}
	nearest, beyond, order := "least", " > $1::bigint", ""
	if q.Descending {
		nearest, beyond, order = "greatest", " < $1::bigint", " DESC"
	}
	parts := make([]string, len(places))
	for i, p := range places {
		parts[i] = "(SELECT " + p.id + " FROM " + p.table + " WHERE " + p.id + beyond +
			" ORDER BY " + p.id + order + " OFFSET " + strconv.Itoa(scan-1) + " LIMIT 1)"
	}
	err = s.sql.QueryRowContext(ctx, s.text("SELECT "+nearest+"("+strings.Join(parts, ", ")+")"), after).Scan(&bound)
	return bound, err
}

// messages reads rows of the columns in row, previewed.
func (s *Store) messages(ctx context.Context, statement string, args []any, preview int) ([]message.Message, error) {
	rows, err := s.sql.QueryContext(ctx, s.text(statement), args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []message.Message
	for rows.Next() {
		var r row
		var size int
		if err := rows.Scan(r.dest(&size)...); err != nil {
			return nil, err
		}
		m, err := r.message()
		if err != nil {
			return nil, err
		}
		store.Preview(&m, preview, size)
		all = append(all, m)
	}
	return all, rows.Err()
}
