package postgres

import (
	"strconv"
	"strings"

	"github.com/styxmq/styx/internal/store"
)

// columns builds the lists of a bulk insert.
type columns struct {
	names, values, arrays, aliases []string
	args                           []any   // for database/sql
	params                         []Param // in native form
	columnForm
	count int // of them
	shape strings.Builder
	timed bool // some have due_at
}

// columnForm says how values are bound, and whether a column that is the same
// in all rows is an array nevertheless.
type columnForm struct{ native, mixed bool }

func newColumns(ms []store.NewMessage, ids []int64, form columnForm) *columns {
	c := &columns{columnForm: form}
	if ids != nil {
		c.numbers("id", "bigint", "u.id", ids)
	}
	c.text(ms, "payload", func(m *store.NewMessage) string { return m.Payload }, true)
	c.text(ms, "queue", func(m *store.NewMessage) string { return m.Queue }, false)
	c.text(ms, "kind", func(m *store.NewMessage) string { return m.Kind }, false)
	c.text(ms, "tenant", func(m *store.NewMessage) string { return m.Tenant }, false)
	c.text(ms, "correlation_id", func(m *store.NewMessage) string { return m.CorrelationID }, false)
	c.text(ms, "idempotency_key", func(m *store.NewMessage) string { return m.IdempotencyKey }, false)
	c.headers(ms)
	c.traces(ms)
	c.number(ms, "priority", "smallint", func(m *store.NewMessage) int64 { return int64(m.Priority) })
	c.number(ms, "max_retries", "integer", func(m *store.NewMessage) int64 { return int64(m.MaxRetries) })
	c.number(ms, "timeout_ms", "bigint", func(m *store.NewMessage) int64 { return millis(m.Timeout) })
	c.times(ms)
	return c
}

// array adds a column whose values come from unnest.
func (c *columns) array(name, typ, value string) {
	c.names = append(c.names, name)
	c.values = append(c.values, value)
	c.unnest(name, typ)
}

// unnest names the next argument as an array of the source.
func (c *columns) unnest(alias, typ string) {
	c.count++
	c.arrays = append(c.arrays, "$"+strconv.Itoa(c.count)+"::"+typ+"[]")
	c.aliases = append(c.aliases, alias)
	c.shape.WriteString("a" + alias + " ")
}

func (c *columns) bindNumbers(values []int64) {
	if c.native {
		c.params = append(c.params, int8ArrayParam(values))
	} else {
		c.args = append(c.args, intArray(values))
	}
}

// bindTexts binds n texts, whose length together is size.
func (c *columns) bindTexts(n, size int, of func(i int) string, nullable bool) {
	if c.native {
		c.params = append(c.params, textsParam(n, size, of, nullable))
		return
	}
	a := newTextArray(size+3*n, nullable)
	for i := range n {
		a.add(of(i))
	}
	c.args = append(c.args, a.String())
}

func (c *columns) numbers(name, typ, value string, values []int64) {
	c.array(name, typ, value)
	c.bindNumbers(values)
}

// scalar adds a column that has one value in all rows.
func (c *columns) scalar(name, typ string) {
	c.count++
	c.names = append(c.names, name)
	c.values = append(c.values, "$"+strconv.Itoa(c.count)+"::"+typ)
	c.shape.WriteString("s" + name + " ")
}

func (c *columns) text(ms []store.NewMessage, name string, of func(*store.NewMessage) string, required bool) {
	first, same, size := of(&ms[0]), !required && !c.mixed, 0
	for i := range ms {
		v := of(&ms[i])
		same = same && v == first
		size += len(v)
	}
	switch {
	case same && first == "":
	case same:
		c.scalar(name, "text")
		if c.native {
			c.params = append(c.params, textParam(first))
		} else {
			c.args = append(c.args, first)
		}
	default:
		c.array(name, "text", "u."+name)
		c.bindTexts(len(ms), size, func(i int) string { return of(&ms[i]) }, !required)
	}
}

func (c *columns) number(ms []store.NewMessage, name, typ string, of func(*store.NewMessage) int64) {
	first, same := of(&ms[0]), !c.mixed
	for i := range ms {
		same = same && of(&ms[i]) == first
	}
	if same {
		c.scalar(name, typ)
		if c.native {
			c.params = append(c.params, int8Param(first))
		} else {
			c.args = append(c.args, first)
		}
		return
	}
	values := make([]int64, len(ms))
	for i := range ms {
		values[i] = of(&ms[i])
	}
	c.numbers(name, typ, "u."+name, values)
}

func (c *columns) headers(ms []store.NewMessage) {
	if !c.mixed && !some(ms, hasHeaders) {
		return
	}
	texts, size := make([]string, len(ms)), 0
	for i := range ms {
		text, _ := headersArg(ms[i].Headers)
		texts[i] = text.String
		size += len(text.String)
	}
	c.array("headers", "text", "u.headers::jsonb")
	c.bindTexts(len(texts), size, func(i int) string { return texts[i] }, true)
}

// hasHeaders reports whether there are any beside the trace context.
func hasHeaders(m *store.NewMessage) bool {
	return len(m.Headers) > 1 || len(m.Headers) == 1 && traceOf(m.Headers) == ""
}

// traces adds the trace contexts, of which the messages of a batch often have
// the same.
func (c *columns) traces(ms []store.NewMessage) {
	values, used, same := make([]string, len(ms)), c.mixed, !c.mixed
	for i := range ms {
		values[i] = traceOf(ms[i].Headers)
		used = used || values[i] != ""
		same = same && values[i] == values[0]
	}
	switch {
	case !used:
	case same:
		c.scalar("trace", "bytea")
		if c.native {
			c.params = append(c.params, Param{oidBytea, appendTrace(nil, values[0])})
		} else {
			c.args = append(c.args, traceText(values[0]))
		}
	default:
		c.array("trace", "bytea", "u.trace")
		if c.native {
			c.params = append(c.params, tracesParam(values))
			return
		}
		a := newTextArray(60*len(values), true)
		for _, v := range values {
			a.add(traceText(v).String)
		}
		c.args = append(c.args, a.String())
	}
}

// times adds due_at and expires_at. A row without delay and time has an
// empty text for its time.
func (c *columns) times(ms []store.NewMessage) {
	postponed, expires := c.mixed, c.mixed
	for i := range ms {
		postponed = postponed || ms[i].Postponed()
		expires = expires || ms[i].ExpiresIn > 0
	}
	if !postponed && !expires {
		return
	}
	c.timed = true
	delays, expiries, at := make([]int64, len(ms)), make([]int64, len(ms)), make([]string, len(ms))
	for i := range ms {
		delays[i], expiries[i] = millis(max(0, ms[i].Delay)), millis(max(0, ms[i].ExpiresIn))
		if !ms[i].RunAt.IsZero() && ms[i].Delay <= 0 {
			at[i] = timeArg(ms[i].RunAt)
		}
	}
	c.numbers("due_at", "bigint", `CASE WHEN u.due_at > 0 THEN clock_timestamp() + u.due_at * interval '1 ms'
		WHEN u.run_at IS NOT NULL THEN greatest(u.run_at::timestamptz, clock_timestamp()) END`, delays)
	c.unnest("run_at", "text")
	c.bindTexts(len(at), 0, func(i int) string { return at[i] }, true)
	if expires {
		c.numbers("expires_at", "bigint", `CASE WHEN u.expires_at > 0 THEN u.expires_at * interval '1 ms' + CASE
		WHEN u.due_at > 0 THEN clock_timestamp() + u.due_at * interval '1 ms'
		WHEN u.run_at IS NOT NULL THEN greatest(u.run_at::timestamptz, clock_timestamp()) ELSE clock_timestamp() END END`, expiries)
	}
}
