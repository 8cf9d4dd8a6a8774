package client

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// sparse is a list in which every tenth message matches, looked at in steps
// of scan rows.
func sparse(last, scan int64) func(store.ListQuery) (store.ListPage, error) {
	return func(q store.ListQuery) (page store.ListPage, err error) {
		for id := q.After + 1; id <= last; id++ {
			if id%10 == 0 {
				page.Messages = append(page.Messages, message.Message{ID: id})
			}
			if id == last {
				return page, nil
			}
			if len(page.Messages) == q.Limit || id == q.After+scan {
				page.Next = id
				return page, nil
			}
		}
		return page, nil
	}
}

func TestListFillsPages(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{})
	f.list = sparse(1000, 25)
	var ids []int64
	opts := ListOptions{Limit: 8}
	for {
		page, err := c.List(t.Context(), opts)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Messages), 8)
		for _, m := range page.Messages {
			ids = append(ids, m.ID)
		}
		if page.Next == "" {
			break
		}
		require.Len(t, page.Messages, 8)
		opts.Cursor = page.Next
	}
	require.Len(t, ids, 100)
	for i, id := range ids {
		require.Equal(t, int64(i+1)*10, id)
	}
}

func TestListIsBounded(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{})
	calls := 0
	f.list = func(q store.ListQuery) (store.ListPage, error) {
		calls++
		return store.ListPage{Next: q.After + 100}, nil
	}
	page, err := c.List(t.Context(), ListOptions{})
	require.NoError(t, err)
	require.Equal(t, []message.Message{}, page.Messages)
	require.NotEmpty(t, page.Next, "the walk goes on")
	require.Equal(t, listRounds, calls)

	calls = 0
	f.list = func(store.ListQuery) (store.ListPage, error) { return store.ListPage{}, errBroken }
	_, err = c.List(t.Context(), ListOptions{})
	require.ErrorIs(t, err, errBroken)
}

func TestListPassesItsFilters(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{})
	var got store.ListQuery
	f.list = func(q store.ListQuery) (store.ListPage, error) { got = q; return store.ListPage{}, nil }
	_, err := c.List(t.Context(), ListOptions{
		Queue: "q", Kind: "k", Tenant: "t", CorrelationID: "c", Status: message.StatusDead, Descending: true,
	})
	require.NoError(t, err)
	require.Equal(t, store.ListQuery{
		Queue: "q", Kind: "k", Tenant: "t", CorrelationID: "c", Status: message.StatusDead,
		Descending: true, Limit: DefaultPageSize,
	}, got)
}

// Reported as sidekiq/sidekiq#7014.
func TestListIsChecked(t *testing.T) {
	t.Parallel()
	c, _ := fakeClient(t, Config{})
	cursor := encodeCursor(7, ListOptions{Queue: "q"}.scope()...)
	for field, opts := range map[string]ListOptions{
		"queue":          {Queue: "\x00"},
		"kind":           {Kind: "\xff"},
		"tenant":         {Tenant: "\n"},
		"correlation_id": {CorrelationID: "\x00"},
		"status":         {Status: "done"},
		"limit":          {Limit: -1},
		"cursor":         {Cursor: cursor},
	} {
		_, err := c.List(t.Context(), opts)
		var invalid *message.ValidationError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, field, invalid.Field)
	}
	for _, limit := range []int{-1, MaxPageSize + 1, 1e9} {
		_, err := c.List(t.Context(), ListOptions{Limit: limit})
		requireInvalid(t, err, "limit", message.CodeOutOfRange)
		_, err = c.DeadLetters().List(t.Context(), DeadLetterOptions{Limit: limit})
		requireInvalid(t, err, "limit", message.CodeOutOfRange)
	}
	for field, opts := range map[string]DeadLetterOptions{
		"queue":       {Queue: "\x00"},
		"kind":        {Kind: "\x00"},
		"tenant":      {Tenant: "\x00"},
		"error_class": {ErrorClass: "\x00"},
		"fingerprint": {Fingerprint: "\xff"},
		"decision":    {Decision: "bored"},
		"cursor":      {Queue: "q", Cursor: cursor},
	} {
		_, err := c.DeadLetters().List(t.Context(), opts)
		var invalid *message.ValidationError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, field, invalid.Field)
	}
}

func TestDeadLettersPages(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{})
	f.letters = func(q store.LetterQuery) (letters []message.DeadLetter, err error) {
		require.Equal(t, message.DecisionPoison, q.Decision)
		id := int64(10)
		if q.After > 0 {
			id = q.After - 1
		}
		for ; id > 0 && len(letters) < q.Limit; id-- {
			letters = append(letters, message.DeadLetter{LetterID: id})
		}
		return letters, nil
	}
	opts := DeadLetterOptions{Decision: message.DecisionPoison, Limit: 5}
	first, err := c.DeadLetters().List(t.Context(), opts)
	require.NoError(t, err)
	require.Len(t, first.DeadLetters, 5)
	require.Equal(t, int64(6), first.DeadLetters[4].LetterID)
	require.NotEmpty(t, first.Next)

	opts.Cursor = first.Next
	last, err := c.DeadLetters().List(t.Context(), opts)
	require.NoError(t, err)
	require.Len(t, last.DeadLetters, 5)
	require.Equal(t, int64(5), last.DeadLetters[0].LetterID)
	require.Empty(t, last.Next, "a full page need not have a next one")
}

func TestPurgeGoesInBatches(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{})
	left := 2*purgeBatch + 5
	f.purge = func(q store.PurgeQuery) (int, error) {
		n := min(left, q.Limit)
		left -= n
		return n, nil
	}
	n, err := c.DeadLetters().Purge(t.Context(), PurgeOptions{Queue: "q"})
	require.NoError(t, err)
	require.Equal(t, 2*purgeBatch+5, n)

	left, f.errs = 2*purgeBatch, []error{nil, errBroken}
	n, err = c.DeadLetters().Purge(t.Context(), PurgeOptions{OlderThan: hour})
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, purgeBatch, n, "what is gone is told")
}

func TestPurgeIsGuarded(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{})
	for _, test := range []struct {
		opts  PurgeOptions
		field string
	}{
		{PurgeOptions{}, "all"},
		{PurgeOptions{Resolved: true}, "all"},
		{PurgeOptions{All: true, Queue: "q"}, "all"},
		{PurgeOptions{MessageID: 1, Queue: "q"}, "message_id"},
		{PurgeOptions{MessageID: 1, All: true}, "message_id"},
		{PurgeOptions{MessageID: 1, Resolved: true}, "message_id"},
		{PurgeOptions{MessageID: -1}, "message_id"},
		{PurgeOptions{OlderThan: -1}, "older_than"},
		{PurgeOptions{All: true, Actor: "\n"}, "actor"},
		{PurgeOptions{Queue: "\x00"}, "queue"},
	} {
		_, err := c.DeadLetters().Purge(t.Context(), test.opts)
		var invalid *message.ValidationError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, test.field, invalid.Field)
	}
	require.Zero(t, f.calls)
}

// An offset that is far off is looked for over several pages, each of which is
// empty and says how much is left.
func TestListOffsetFarOff(t *testing.T) {
	t.Parallel()
	c, f := fakeClient(t, Config{})
	var asked []store.ListQuery
	f.list = func(q store.ListQuery) (store.ListPage, error) {
		asked = append(asked, q)
		if q.Offset > 10 {
			return store.ListPage{Next: q.After + 100, Skipped: 10}, nil
		}
		return store.ListPage{Messages: []message.Message{{ID: q.After + 1}}, Skipped: q.Offset}, nil
	}
	page, err := c.List(t.Context(), ListOptions{Offset: 135})
	require.NoError(t, err)
	require.Empty(t, page.Messages)
	require.NotEmpty(t, page.Next)
	require.Len(t, asked, listRounds)
	require.Equal(t, 135, asked[0].Offset)

	_, err = c.List(t.Context(), ListOptions{Cursor: page.Next, Queue: "other"})
	requireInvalid(t, err, "cursor", message.CodeInvalid)
	head, _, _ := strings.Cut(page.Next, ".")
	for _, forged := range []string{head, head + ".0", head + ".36", head + ".-35", head + "."} {
		_, err = c.List(t.Context(), ListOptions{Cursor: forged})
		requireInvalid(t, err, "cursor", message.CodeInvalid)
	}
	page, err = c.List(t.Context(), ListOptions{Cursor: page.Next})
	require.NoError(t, err)
	require.Empty(t, page.Next)
	require.Equal(t, []message.Message{{ID: 1301}}, page.Messages)
	require.Equal(t, 5, asked[len(asked)-1].Offset)
	require.Len(t, asked, listRounds+4)
}
