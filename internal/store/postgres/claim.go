package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// abandonGrace is how long after its timeout a handler's outcome still
// counts; the deadline leaves room for it.
const abandonGrace = 5 * time.Second

// remoteTimeout bounds a claim for a consumer without an incarnation.
const remoteTimeout = 10 * time.Second

// wanted is what one claim asks for.
type wanted struct {
	store.CursorSpec
	src        source
	kinds      sql.NullString
	limit      int
	number     int64
	other, own int64 // milliseconds until the deadline, see statements.claim
	priority   int   // where to begin: for sourceReady
	after      int64
	due        time.Time // for the others
	remote     bool
	scope      int64 // 0: none; negative: the claim looks back, see scopeOf
	solid      int64 // see floor.solid; 0: nothing
}

// taken is what it got.
type taken struct {
	messages []store.Claimed
	full     bool // there may be more
}

// claim asks for messages of one source, together with the claims of other
// queues that come at the same time.
func (c *cursor) claim(ctx context.Context, src source, lane, limit int, number int64) (taken, error) {
	w := wanted{
		CursorSpec: c.spec, src: src, kinds: c.kinds, limit: limit, number: number, other: -1,
		own: (c.spec.Lease + abandonGrace).Milliseconds(), remote: c.remote,
	}
	if c.spec.Timeout >= 0 {
		w.other = c.spec.Timeout.Milliseconds() + w.own
	}
	if c.remote {
		w.own, w.other = c.own, c.spec.Lease.Milliseconds()
	}
	switch src {
	case sourceReady:
		w.priority, w.after = lane+message.MinPriority, *c.floors[lane].pos
		w.scope = c.scopeAt(lane)
		if w.scope != 0 {
			w.solid = c.floors[lane].solid()
		}
	case sourceDue:
		w.due = *c.due.pos
	case sourceSuspect:
	}
	if c.remote {
		// Whoever asks may be gone before the answer is there. It is told what
		// was claimed all the same, so that it can give that back.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), remoteTimeout)
		defer cancel()
	}
	alone := func() (taken, error) { return c.s.claimOne(ctx, &w) }
	if c.remote || src == sourceSuspect || !c.s.hasNative() {
		return alone()
	}
	return c.s.claims.do(ctx, &w, alone)
}

// scopeAt is the scope of a priority as a claim or probe there has it now.
func (c *cursor) scopeAt(lane int) int64 {
	scope := c.scope + int64(lane)
	switch f := &c.floors[lane]; {
	case f.whole:
		return 0
	case f.behind:
		return -scope
	}
	return scope
}

// claimOne claims from one queue.
func (s *Store) claimOne(ctx context.Context, w *wanted) (taken, error) {
	if !w.remote {
		out, err := s.claimNative(ctx, w)
		if !errors.Is(err, store.ErrNoNative) {
			return taken{out, len(out) >= w.limit}, mapError(err)
		}
	}
	var from, id any
	switch w.src {
	case sourceReady:
		from, id = int64(w.priority), w.after
	default:
		from = timeArg(w.due)
	}
	args := []any{w.Queue, w.WorkerID, w.number, w.other, w.own, w.kinds, from, id, w.limit}
	if !w.remote {
		args = append(args, sql.NullInt64{Int64: w.scope, Valid: w.scope != 0}, sql.NullInt64{Int64: w.solid, Valid: w.solid != 0})
	}
	rows, err := s.sql.QueryContext(ctx, s.hot.claimBy(w.src, w.kinds.Valid, w.remote), args...)
	if err != nil {
		return taken{}, mapError(err)
	}
	defer func() { _ = rows.Close() }()
	out := make([]store.Claimed, 0, w.limit)
	var printed traces
	for rows.Next() {
		out = append(out, store.Claimed{})
		if err := w.scan(rows, &out[len(out)-1], &printed); err != nil {
			return taken{}, mapError(err)
		}
	}
	return taken{out, len(out) >= w.limit}, mapError(rows.Err())
}

// scan reads the columns of claimedColumns.
func (w *wanted) scan(rows *sql.Rows, m *store.Claimed, printed *traces) error {
	var place string
	var headers, trace []byte
	var rest sql.NullString
	dest := []any{&place, &m.ID, &m.LeaseToken, &m.Kind, &m.Payload, &m.CreatedAt, &m.MaxRetries, &headers, &trace, &rest}
	if w.remote {
		dest = append(dest, &m.Deadline, &m.UpdatedAt)
	}
	err := rows.Scan(dest...)
	if err != nil {
		return err
	}
	m.CreatedAt, m.Place = m.CreatedAt.UTC(), parsePlace(place)
	m.Headers, err = printed.headers(headers, trace)
	if rest.Valid && err == nil {
		err = parseRest(rest.String, m)
	}
	return w.complete(m, err)
}

// complete adds what no column says.
func (w *wanted) complete(m *store.Claimed, err error) error {
	if err != nil {
		return fmt.Errorf("read claimed message %d: %w", m.ID, err)
	}
	m.Queue, m.Status, m.WorkerID = w.Queue, message.StatusProcessing, w.WorkerID
	m.Attempt = m.RetryCount + 1
	return nil
}

// claimNative is claimOne past database/sql.
func (s *Store) claimNative(ctx context.Context, w *wanted) ([]store.Claimed, error) {
	from, id := timeParam(w.due), Param{OID: oidInt8}
	if w.src == sourceReady {
		from, id = int2Param(w.priority), int8Param(w.after)
	}
	out := make([]store.Claimed, 0, w.limit)
	names := names{kinds: w.Kinds}
	err := s.claimInTurn(ctx, []*wanted{w}, Statement{s.hot.nativeClaim(w.src, w.kinds.Valid), []Param{
		textParam(w.Queue), int8Param(w.WorkerID), int8Param(w.number), int8Param(w.other), int8Param(w.own),
		w.kindsParam(), from, id, int8Param(int64(w.limit)), optional(w.scope), optional(w.solid),
	}}, func(values [][]byte) error {
		out = append(out, store.Claimed{})
		return w.decode(values, &out[len(out)-1], &names)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// optional is NULL for 0.
func optional(v int64) Param {
	if v == 0 {
		return Param{OID: oidInt8}
	}
	return int8Param(v)
}

func (w *wanted) kindsParam() Param {
	if !w.kinds.Valid {
		return Param{OID: oidTextArray}
	}
	return textArrayParam(w.Kinds, false)
}

// decode reads the columns of claimedColumns in binary form.
func (w *wanted) decode(values [][]byte, m *store.Claimed, kept *names) error {
	d := decoder{values: values}
	m.Place, m.ID, m.LeaseToken = d.place(), d.int64(), d.int64()
	m.Kind, m.Payload = kept.of(d.bytes()), string(d.bytes())
	m.CreatedAt, m.MaxRetries = d.time(), d.int32()
	if headers, trace := d.bytes(), d.bytes(); d.err == nil {
		m.Headers, d.err = kept.traces.headers(headers, trace)
	}
	if rest := d.bytes(); rest != nil && d.err == nil {
		d.err = parseRest(string(rest), m)
	}
	return w.complete(m, d.err)
}

// names keeps one copy of each kind's name, and of what else rows repeat.
type names struct {
	kinds  []string // sorted
	last   string
	traces traces
}

func (n *names) of(name []byte) string {
	if string(name) == n.last {
		return n.last
	}
	i, ok := slices.BinarySearchFunc(n.kinds, name, func(kind string, name []byte) int {
		return strings.Compare(kind, string(name))
	})
	if ok {
		n.last = n.kinds[i]
	} else {
		n.last = string(name)
	}
	return n.last
}

// parsePlace reads the text of a tid, (block,offset); 0 when it is none.
func parsePlace(text string) uint64 {
	block, offset, ok := strings.Cut(strings.Trim(text, "()"), ",")
	if !ok {
		return 0
	}
	b, errB := strconv.ParseUint(block, 10, 32)
	o, errO := strconv.ParseUint(offset, 10, 16)
	if errB != nil || errO != nil {
		return 0
	}
	return b<<16 | o
}

// placeArray writes a tid[] literal.
func placeArray(places []uint64) string {
	b := make([]byte, 0, 2+16*len(places))
	b = append(b, '{')
	for _, p := range places {
		if p == 0 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(append(b, '"', '('), p>>16, 10)
		b = strconv.AppendUint(append(b, ','), p&0xffff, 10)
		b = append(b, ')', '"')
	}
	return string(append(b, '}'))
}

// timeArg binds a time that came from the database, as text so that every
// driver sends all its digits.
func timeArg(t time.Time) string {
	return t.UTC().Format("2006-01-02 15:04:05.999999+00")
}
