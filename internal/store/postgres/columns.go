package postgres

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/styxmq/styx/internal/store"
)

// columns builds the lists of a bulk insert.
type columns struct {
	names, values, arrays, aliases []string
	args                           []any
	shape                          strings.Builder
	timed                          bool // some have due_at
}

func newColumns(ms []store.NewMessage, ids []int64) *columns {
	c := &columns{}
	if ids != nil {
		c.array("id", "bigint", "u.id", intArray(ids))
	}
	c.text(ms, "payload", func(m *store.NewMessage) string { return m.Payload }, true)
	c.text(ms, "queue", func(m *store.NewMessage) string { return m.Queue }, false)
	c.text(ms, "kind", func(m *store.NewMessage) string { return m.Kind }, false)
	c.text(ms, "tenant", func(m *store.NewMessage) string { return m.Tenant }, false)
	c.text(ms, "correlation_id", func(m *store.NewMessage) string { return m.CorrelationID }, false)
	c.text(ms, "idempotency_key", func(m *store.NewMessage) string { return m.IdempotencyKey }, false)
	c.headers(ms)
	c.number(ms, "priority", "smallint", func(m *store.NewMessage) int64 { return int64(m.Priority) })
	c.number(ms, "max_retries", "integer", func(m *store.NewMessage) int64 { return int64(m.MaxRetries) })
	c.number(ms, "timeout_ms", "bigint", func(m *store.NewMessage) int64 { return millis(m.Timeout) })
	c.times(ms)
	return c
}

// array adds a column whose values come from unnest.
func (c *columns) array(name, typ, value, literal string) {
	c.args = append(c.args, literal)
	c.names = append(c.names, name)
	c.values = append(c.values, value)
	c.arrays = append(c.arrays, "$"+strconv.Itoa(len(c.args))+"::"+typ+"[]")
	c.aliases = append(c.aliases, name)
	c.shape.WriteString("a" + name + " ")
}

// scalar adds a column that has one value in all rows.
func (c *columns) scalar(name, typ string, value any) {
	c.args = append(c.args, value)
	c.names = append(c.names, name)
	c.values = append(c.values, "$"+strconv.Itoa(len(c.args))+"::"+typ)
	c.shape.WriteString("s" + name + " ")
}

func (c *columns) text(ms []store.NewMessage, name string, of func(*store.NewMessage) string, required bool) {
	first, same, size := of(&ms[0]), !required, 0
	for i := range ms {
		v := of(&ms[i])
		same = same && v == first
		size += len(v) + 3
	}
	switch {
	case same && first == "":
	case same:
		c.scalar(name, "text", first)
	default:
		a := newTextArray(size, !required)
		for i := range ms {
			a.add(of(&ms[i]))
		}
		c.array(name, "text", "u."+name, a.String())
	}
}

func (c *columns) number(ms []store.NewMessage, name, typ string, of func(*store.NewMessage) int64) {
	first, same := of(&ms[0]), true
	values := make([]int64, len(ms))
	for i := range ms {
		values[i] = of(&ms[i])
		same = same && values[i] == first
	}
	if same {
		c.scalar(name, typ, first)
		return
	}
	c.array(name, typ, "u."+name, intArray(values))
}

func (c *columns) headers(ms []store.NewMessage) {
	a, some := newTextArray(0, true), false
	for i := range ms {
		text, _ := headersArg(ms[i].Headers)
		a.add(text.String)
		some = some || text.Valid
	}
	if some {
		c.array("headers", "text", "u.headers::jsonb", a.String())
	}
}

// times adds due_at and expires_at. A row without delay and time has an
// empty text for its time.
func (c *columns) times(ms []store.NewMessage) {
	postponed, expires := false, false
	delays, expiries := make([]int64, len(ms)), make([]int64, len(ms))
	at := newTextArray(0, true)
	for i := range ms {
		later := laterArgs(&ms[i])
		delays[i], expiries[i] = later[0].(int64), later[2].(int64)
		text := ""
		if !ms[i].RunAt.IsZero() && ms[i].Delay <= 0 {
			text = timeArg(ms[i].RunAt)
		}
		at.add(text)
		postponed = postponed || ms[i].Postponed()
		expires = expires || expiries[i] > 0
	}
	if !postponed && !expires {
		return
	}
	c.timed = true
	c.array("due_at", "bigint", `CASE WHEN u.due_at > 0 THEN clock_timestamp() + u.due_at * interval '1 ms'
		WHEN u.run_at IS NOT NULL THEN greatest(u.run_at::timestamptz, clock_timestamp()) END`, intArray(delays))
	c.args = append(c.args, at.String())
	c.arrays = append(c.arrays, fmt.Sprintf("$%d::text[]", len(c.args)))
	c.aliases = append(c.aliases, "run_at")
	if expires {
		c.array("expires_at", "bigint", `CASE WHEN u.expires_at > 0 THEN u.expires_at * interval '1 ms' + CASE
		WHEN u.due_at > 0 THEN clock_timestamp() + u.due_at * interval '1 ms'
		WHEN u.run_at IS NOT NULL THEN greatest(u.run_at::timestamptz, clock_timestamp()) ELSE clock_timestamp() END END`, intArray(expiries))
	}
}
