package postgres

import (
	"context"
	"errors"

	"github.com/styxmq/styx/internal/store"
)

const (
	// groupFlights is how many inserts are under way before the next ones
	// wait for each other.
	groupFlights = 2
	// groupRows and groupBytes bound one group.
	groupRows, groupBytes = 256, 512 << 10
	// groupAlone is the size from which a payload goes by itself: it would
	// hold up the others.
	groupAlone = 32 << 10
)

// errAlone tells a member that the statement of its group was refused. Nothing
// of it was stored, and by itself each learns whether that was its own fault.
var errAlone = errors.New("the group was refused")

// groups lets messages that are enqueued one by one at the same time share a
// statement and its commit, which costs more than the rows.
type groups = flights[*store.NewMessage, store.Inserted]

func newGroups(s *Store) groups {
	return groups{most: groupFlights, board: boardGroup, run: func(ctx context.Context, of []*store.NewMessage) ([]store.Inserted, error) {
		ms := make([]store.NewMessage, len(of))
		for i, m := range of {
			ms[i] = *m
		}
		out, _, err := s.insertChunk(ctx, s.sql, ms, nil, make([]store.Inserted, 0, len(ms)), chunkForm{mixed: !alike(ms)})
		if sqlState(err) != "" {
			err = errAlone
		}
		return out, err
	}}
}

// boardGroup bounds a group.
func boardGroup(waiting []*passenger[*store.NewMessage, store.Inserted]) int {
	n, bytes := 0, 0
	for n < min(len(waiting), groupRows) && bytes < groupBytes {
		bytes += len(waiting[n].want.Payload)
		n++
	}
	return n
}

// insertSingle stores one message without a key, and returns when it is
// committed.
func (s *Store) insertSingle(ctx context.Context, m *store.NewMessage) (store.Inserted, error) {
	alone := func() (store.Inserted, error) {
		in, _, err := s.insert(ctx, s.sql, m, false)
		return in, err
	}
	if len(m.Payload) >= groupAlone {
		return alone()
	}
	in, err := s.groups.do(ctx, m, alone)
	if errors.Is(err, errAlone) {
		return alone()
	}
	return in, err
}

// alike reports whether messages differ in nothing but their payloads and trace
// contexts and have no options: then every other column is one value in the
// statement.
func alike(ms []store.NewMessage) bool {
	first := &ms[0]
	for i := range ms {
		m := &ms[i]
		if m.Queue != first.Queue || m.Kind != first.Kind || m.Priority != first.Priority ||
			m.MaxRetries != first.MaxRetries || m.Timeout != first.Timeout ||
			m.Tenant != "" || m.CorrelationID != "" || hasHeaders(m) || m.Postponed() || m.ExpiresIn > 0 {
			return false
		}
	}
	return true
}
