package client

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/name"
	"github.com/styxmq/styx/internal/store"
)

const (
	// DefaultPageSize is the size of a page when no limit is given.
	DefaultPageSize = 20
	// MaxPageSize is the largest page.
	MaxPageSize = 1000
	// listRounds bounds how often the store is asked for one page: a filter
	// that matches next to nothing must not walk the whole history in one
	// call.
	listRounds = 10
	// MaxOffset is the largest ListOptions.Offset.
	MaxOffset = 1_000_000
	// offsetScan is how many rows of each table one look for an offset
	// takes in.
	offsetScan = 50_000
)

// ListOptions select messages. Empty fields select everything.
type ListOptions struct {
	Queue, Kind, Tenant, CorrelationID string
	Status                             message.Status
	// Descending puts the newest message first instead of the oldest.
	Descending bool
	// Cursor is Page.Next of the page before; empty is the first page. The
	// other fields, but for Limit and Preview, must be those of that page.
	Cursor string
	// Offset is how many messages to skip, 0 to MaxOffset. All of them are
	// looked at, so later pages cost more; a cursor costs the same on every
	// page. It goes with the first page only, not with a Cursor.
	Offset int
	// Limit is the largest number of messages, 1 to MaxPageSize. Defaults
	// to DefaultPageSize.
	Limit int
	// Preview cuts payloads to at most so many bytes, in the database, and
	// errors too, which then end in an ellipsis. The size of a payload that
	// was cut is in its PayloadBytes. 0, the default, cuts nothing.
	Preview int
}

// Page is one page of a list.
type Page struct {
	Messages []message.Message `json:"messages"`
	// Next is the cursor of the next page, empty when there is none. When a
	// filter matches few messages of many, a page may hold fewer than Limit
	// messages, or none, and still have a next one.
	Next string `json:"next,omitempty"`
}

// List returns messages in the order of their ids, whatever their status. A
// walk from page to page shows every message exactly once that exists
// throughout, even while messages change their status; new ones may show up
// in the last pages of an ascending walk. A message of a transaction that
// commits late can have a smaller id than others that were seen before, so
// that a walk which is continued for ever would pass it over.
//
// The cost is bounded by the size of the page, not of the queues. A bad
// filter, limit or cursor is a [*message.ValidationError].
func (c *Client) List(ctx context.Context, opts ListOptions) (Page, error) {
	limit, after, skip, err := opts.check()
	if err != nil {
		return Page{}, err
	}
	q := store.ListQuery{
		Queue: opts.Queue, Kind: opts.Kind, Tenant: opts.Tenant, CorrelationID: opts.CorrelationID,
		Status: opts.Status, After: after, Descending: opts.Descending, Preview: opts.Preview,
	}
	page := Page{Messages: []message.Message{}} // JSON shows an empty list, not null
	for range listRounds {
		q.Limit = limit - len(page.Messages)
		q.Offset, q.Scan = skip, 0
		if skip > 0 {
			q.Scan = offsetScan
		}
		part, err := c.store.List(ctx, q)
		if err != nil {
			return Page{}, fmt.Errorf("list messages: %w", err)
		}
		page.Messages = append(page.Messages, part.Messages...)
		q.After = part.Next
		skip -= part.Skipped
		if part.Next == 0 || len(page.Messages) >= limit {
			break
		}
	}
	if q.After != 0 {
		page.Next = encodeListCursor(q.After, skip, opts.scope())
	}
	return page, nil
}

func (o ListOptions) check() (limit int, after int64, skip int, err error) {
	var p problems
	p.filter("queue", o.Queue)
	p.filter("kind", o.Kind)
	p.filter("tenant", o.Tenant)
	p.collect(name.Optional("correlation_id", o.CorrelationID, message.MaxKeyLength))
	if o.Status != "" && !o.Status.Valid() {
		_, err := message.ParseStatus(string(o.Status))
		p.collect(err)
	}
	limit = p.limit(o.Limit)
	p.preview(o.Preview)
	after, skip, err = decodeListCursor(o.Cursor, o.scope())
	p.collect(err)
	switch {
	case o.Offset < 0 || o.Offset > MaxOffset:
		p.add("offset", message.CodeOutOfRange, "offset must be 0 to %d, not %d.", MaxOffset, o.Offset)
	case o.Offset > 0 && o.Cursor != "":
		p.add("offset", message.CodeInvalid, "offset and cursor must not both be set.")
	case o.Offset > 0:
		skip = o.Offset
	}
	return limit, after, skip, p.err()
}

// encodeListCursor is encodeCursor for a page that begins a number of messages
// after the id, as when an offset was not reached.
func encodeListCursor(after int64, skip int, scope []string) string {
	if skip == 0 {
		return encodeCursor(after, scope...)
	}
	rest := strconv.Itoa(skip)
	return encodeCursor(after, append(scope, "skip", rest)...) + "." + rest
}

func decodeListCursor(text string, scope []string) (after int64, skip int, err error) {
	text, rest, more := strings.Cut(text, ".")
	if !more {
		after, err = decodeCursor(text, scope...)
		return after, 0, err
	}
	if after, err = decodeCursor(text, append(scope, "skip", rest)...); err != nil || after == 0 {
		return 0, 0, errCursor()
	}
	if skip, err = strconv.Atoi(rest); err != nil || skip <= 0 || skip > MaxOffset {
		return 0, 0, errCursor()
	}
	return after, skip, nil
}

func (o ListOptions) scope() []string {
	return []string{
		"messages", o.Queue, o.Kind, o.Tenant, o.CorrelationID, string(o.Status), strconv.FormatBool(o.Descending),
	}
}

// filter checks a text that is compared with a name.
func (p *problems) filter(field, s string) {
	p.collect(name.Optional(field, s, message.MaxNameLength))
}

func (p *problems) preview(n int) {
	if n < 0 {
		p.add("preview", message.CodeOutOfRange, "preview must not be negative.")
	}
}

// limit returns the size of the page.
func (p *problems) limit(limit int) int {
	if limit < 0 || limit > MaxPageSize {
		p.add("limit", message.CodeOutOfRange, "limit must be 1 to %d, not %d.", MaxPageSize, limit)
	}
	if limit == 0 {
		return DefaultPageSize
	}
	return limit
}
