package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/styxmq/styx/internal/store"
)

// copyRows is the number of messages from which COPY, which needs a
// transaction and ids that are drawn before, costs less than an INSERT.
const copyRows = 500

// copyable reports whether the messages may go by COPY, which knows no
// expressions: times count from the database's clock.
func (s *Store) copyable(ms []store.NewMessage) bool {
	return s.hasNative() && len(ms) >= copyRows && !slices.ContainsFunc(ms, func(m store.NewMessage) bool {
		return m.Postponed() || m.ExpiresIn > 0
	})
}

// insertCopy is insertChunk by COPY, in a transaction of the store's own. It
// returns store.ErrNoNative before anything was sent where the driver cannot.
func (s *Store) insertCopy(ctx context.Context, on ownTx, ms []store.NewMessage, ids []int64, out []store.Inserted) ([]store.Inserted, error) {
	drawn, at, err := s.drawNative(ctx, on, len(ms), ids == nil)
	if err != nil {
		return out, err
	}
	if ids == nil {
		ids = drawn
	}
	rows := newCopyStream(ms, ids, at)
	n, err := s.nativeCopy(ctx, on, s.text(`COPY {{s}}messages (`+strings.Join(rows.names, ", ")+`) FROM STDIN (FORMAT binary)`), rows)
	if err != nil {
		return out, err
	}
	if n != len(ms) {
		return out, fmt.Errorf("copy a batch: %d of %d", n, len(ms))
	}
	created := decoder{values: [][]byte{at}}
	now := created.time()
	for _, id := range ids {
		out = append(out, store.Inserted{ID: id, CreatedAt: now})
	}
	return out, nil
}

// drawNative returns n ids, unless they are not wanted, and the server's time
// as it came.
func (s *Store) drawNative(ctx context.Context, on conn, n int, wanted bool) (ids []int64, at []byte, err error) {
	if !wanted {
		n = 0
	}
	text := s.hot.get("draw native", func() string {
		return `SELECT array_agg(` + drawnID(s.prefix) + `), clock_timestamp() FROM generate_series(1, $1::bigint)`
	})
	_, err = s.native(ctx, on, text, []Param{int8Param(int64(n))}, func(values [][]byte) error {
		d := decoder{values: values}
		ids, at = d.int64s(make([]int64, 0, n)), slices.Clone(d.bytes())
		return d.err
	})
	if err == nil && len(ids) != n {
		err = fmt.Errorf("draw ids: %d of %d", len(ids), n)
	}
	return ids, at, err
}

// copyBuffer is about how much is encoded at once: the server works on one
// part while the next is made.
const copyBuffer = 64 << 10

// copyStream is the stream of a COPY in binary form.
type copyStream struct {
	ms    []store.NewMessage
	ids   []int64
	at    []byte
	names []string
	put   []func(b []byte, i int) []byte
	buf   []byte
	sent  int // of buf
	next  int // message; past the last: the end has been put
}

// some reports whether one of the messages meets a condition.
func some(ms []store.NewMessage, meets func(m *store.NewMessage) bool) bool {
	for i := range ms {
		if meets(&ms[i]) {
			return true
		}
	}
	return false
}

// newCopyStream chooses the columns: those that no message uses are left out.
func newCopyStream(ms []store.NewMessage, ids []int64, at []byte) *copyStream {
	r := &copyStream{ms: ms, ids: ids, at: at}
	add := func(name string, put func(b []byte, i int) []byte) {
		r.names, r.put = append(r.names, name), append(r.put, put)
	}
	text := func(name string, of func(m *store.NewMessage) string, optional bool) {
		if !optional || some(ms, func(m *store.NewMessage) bool { return of(m) != "" }) {
			add(name, func(b []byte, i int) []byte {
				v := of(&ms[i])
				if optional && v == "" {
					return binary.BigEndian.AppendUint32(b, math.MaxUint32)
				}
				b = binary.BigEndian.AppendUint32(b, uint32(len(v))) //nolint:gosec // the server takes less than 1 GB
				return append(b, v...)
			})
		}
	}
	add("id", func(b []byte, i int) []byte { return copyInt8(b, r.ids[i]) })
	add("created_at", func(b []byte, _ int) []byte { return append(binary.BigEndian.AppendUint32(b, 8), r.at...) })
	text("queue", func(m *store.NewMessage) string { return m.Queue }, false)
	text("kind", func(m *store.NewMessage) string { return m.Kind }, false)
	text("payload", func(m *store.NewMessage) string { return m.Payload }, false)
	text("tenant", func(m *store.NewMessage) string { return m.Tenant }, true)
	text("correlation_id", func(m *store.NewMessage) string { return m.CorrelationID }, true)
	text("idempotency_key", func(m *store.NewMessage) string { return m.IdempotencyKey }, true)
	add("max_retries", func(b []byte, i int) []byte {
		return binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 4), uint32(ms[i].MaxRetries)) //nolint:gosec // validated
	})
	if some(ms, func(m *store.NewMessage) bool { return m.Priority != 0 }) {
		add("priority", func(b []byte, i int) []byte {
			return binary.BigEndian.AppendUint16(append(b, 0, 0, 0, 2), uint16(ms[i].Priority)) //nolint:gosec // its bits
		})
	}
	if some(ms, func(m *store.NewMessage) bool { return m.Timeout != 0 }) {
		add("timeout_ms", func(b []byte, i int) []byte { return copyInt8(b, millis(ms[i].Timeout)) })
	}
	if some(ms, hasHeaders) {
		add("headers", func(b []byte, i int) []byte {
			text, _ := headersArg(ms[i].Headers)
			if !text.Valid {
				return binary.BigEndian.AppendUint32(b, math.MaxUint32)
			}
			b = binary.BigEndian.AppendUint32(b, uint32(len(text.String)+1)) //nolint:gosec // headers are small
			return append(append(b, 1), text.String...)                      // jsonb begins with its version
		})
	}
	if some(ms, func(m *store.NewMessage) bool { return traceOf(m.Headers) != "" }) {
		add("trace", func(b []byte, i int) []byte {
			v := traceOf(ms[i].Headers)
			if v == "" {
				return binary.BigEndian.AppendUint32(b, math.MaxUint32)
			}
			return appendTrace(binary.BigEndian.AppendUint32(b, traceSize), v)
		})
	}
	r.buf = append(make([]byte, 0, 2*copyBuffer), "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	return r
}

func copyInt8(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), uint64(v)) //nolint:gosec // its bits
}

// Read is io.Reader.
func (r *copyStream) Read(p []byte) (int, error) {
	if r.sent == len(r.buf) {
		if r.next > len(r.ms) {
			return 0, io.EOF
		}
		r.buf, r.sent = r.buf[:0], 0
	}
	for len(r.buf) < copyBuffer && r.next < len(r.ms) {
		r.buf = binary.BigEndian.AppendUint16(r.buf, uint16(len(r.put))) //nolint:gosec // a dozen
		for _, put := range r.put {
			r.buf = put(r.buf, r.next)
		}
		r.next++
	}
	if r.next == len(r.ms) {
		r.buf = append(r.buf, 0xff, 0xff)
		r.next++
	}
	n := copy(p, r.buf[r.sent:])
	r.sent += n
	return n, nil
}
