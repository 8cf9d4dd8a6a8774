package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

const (
	// defaultRows is how many rows a list shows when nothing is said.
	defaultRows = 20
	// pageRows is the largest page that the API gives.
	pageRows = 100
	// wholeRows is the largest page that comes with payloads in whole.
	wholeRows = 10
	// cellWidth is the longest text of a table's cell, in characters.
	cellWidth = 60
)

// paging says which part of a list is wanted.
type paging struct {
	limit  int
	cursor string
}

func (p *paging) flags(flags *pflag.FlagSet) {
	flags.IntVar(&p.limit, "limit", defaultRows, "the largest number of rows; 0 is all")
	flags.StringVar(&p.cursor, "cursor", "", "where to go on: next_cursor of an earlier list with the same filters")
}

// listing is a list of the API.
type listing struct {
	path  string
	query url.Values
	// key holds the rows in the answer.
	key string
	// whole is a list that comes without pages.
	whole bool
	// page is the size of a page, 0 the largest.
	page int
}

// walk calls each with every row, page after page, and returns the cursor of
// what is left.
func (o *operator) walk(ctx context.Context, l listing, p paging, each func(row json.RawMessage) error) (next string, err error) {
	if p.limit < 0 {
		return "", usageError{text: "--limit must not be negative"}
	}
	query := maps.Clone(l.query)
	if query == nil {
		query = url.Values{}
	}
	left, cursor := p.limit, p.cursor
	for {
		size := cmp.Or(l.page, pageRows)
		if p.limit > 0 {
			size = min(size, left)
		}
		if !l.whole {
			query.Set("limit", strconv.Itoa(size))
		}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		var answer map[string]json.RawMessage
		if err := o.Get(ctx, l.path, query, &answer); err != nil {
			return "", err
		}
		var rows []json.RawMessage
		if err := json.Unmarshal(answer[l.key], &rows); err != nil {
			return "", fmt.Errorf("read %s of the answer: %w", l.key, err)
		}
		cursor = ""
		if raw := answer["next_cursor"]; raw != nil {
			if err := json.Unmarshal(raw, &cursor); err != nil {
				return "", fmt.Errorf("read next_cursor of the answer: %w", err)
			}
		}
		for _, row := range rows {
			if err := each(row); err != nil {
				return "", err
			}
		}
		left -= len(rows)
		if cursor == "" || p.limit > 0 && left <= 0 {
			return cursor, nil
		}
	}
}

// show prints a list: as a table, one object, or an object a line.
func (a *app) show(ctx context.Context, o *operator, l listing, p paging, head string, cells func(row json.RawMessage) ([]string, error)) error {
	if a.output == outputJSONL {
		_, err := o.walk(ctx, l, p, a.line)
		return err
	}
	rows := []json.RawMessage{}
	next, err := o.walk(ctx, l, p, func(row json.RawMessage) error {
		rows = append(rows, row)
		return nil
	})
	if err != nil {
		return err
	}
	var cursor *string
	if next != "" {
		cursor = &next
	}
	printed := a.print(map[string]any{l.key: rows, "count": len(rows), "next_cursor": cursor}, func(w io.Writer) {
		if len(rows) > 0 {
			err = table(w, head, rows, cells)
		}
	})
	switch {
	case a.output.isJSON():
	case len(rows) == 0:
		_, _ = fmt.Fprintln(a.stderr, "nothing matches")
	case next != "":
		_, _ = fmt.Fprintln(a.stderr, "there is more: add --cursor", next)
	}
	return errors.Join(printed, err)
}

// line prints one row as one line of JSON.
func (a *app) line(row json.RawMessage) error {
	if _, err := fmt.Fprintf(a.stdout, "%s\n", strings.TrimSpace(string(row))); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// table writes rows under a head, whose columns are separated by spaces.
func table(w io.Writer, head string, rows []json.RawMessage, cells func(row json.RawMessage) ([]string, error)) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, strings.Join(strings.Fields(head), "\t"))
	for _, row := range rows {
		columns, err := cells(row)
		if err != nil {
			return fmt.Errorf("read a row of the answer: %w", err)
		}
		for i, c := range columns {
			columns[i] = cell(c)
		}
		_, _ = fmt.Fprintln(t, strings.TrimRight(strings.Join(columns, "\t"), "\t"))
	}
	return t.Flush()
}

// cell shows a text from outside on one line of a table.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	s = oneLine(s)
	if utf8.RuneCountInString(s) > cellWidth {
		s = string([]rune(s)[:cellWidth-1]) + "…"
	}
	return s
}
