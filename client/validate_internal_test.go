package client

import (
	"errors"
	"maps"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
)

const hour = time.Hour

// Reported as wildanniam/koderea#102, resque/resque-scheduler#96 and
// hibiken/asynq#275.
func TestOptionsAreRefusedBeforeTheDatabase(t *testing.T) {
	t.Parallel()
	many := make(map[string]string)
	for i := range message.MaxHeaders + 1 {
		many[strings.Repeat("h", i+1)] = ""
	}
	for title, test := range map[string]struct {
		opts        EnqueueOptions
		field, code string
	}{
		"queue too long":            {EnqueueOptions{Queue: strings.Repeat("q", 129)}, "queue", message.CodeTooLong},
		"queue with a newline":      {EnqueueOptions{Queue: "q\n"}, "queue", message.CodeEncoding},
		"queue of bad UTF-8":        {EnqueueOptions{Queue: "\xff"}, "queue", message.CodeEncoding},
		"delay and time":            {EnqueueOptions{Delay: 1, RunAt: fakeNow}, "run_at", message.CodeInvalid},
		"delay beyond the limit":    {EnqueueOptions{Delay: message.MaxDelay + 1}, "delay", message.CodeOutOfRange},
		"largest duration":          {EnqueueOptions{Delay: math.MaxInt64}, "delay", message.CodeOutOfRange},
		"year 9999":                 {EnqueueOptions{RunAt: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}, "run_at", message.CodeOutOfRange},
		"year 300000":               {EnqueueOptions{RunAt: time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC)}, "run_at", message.CodeOutOfRange},
		"end of time":               {EnqueueOptions{RunAt: time.Unix(math.MaxInt64, 999999999)}, "run_at", message.CodeOutOfRange},
		"milliseconds as seconds":   {EnqueueOptions{RunAt: time.Unix(time.Now().UnixMilli(), 0)}, "run_at", message.CodeOutOfRange},
		"priority too low":          {EnqueueOptions{Priority: message.MinPriority - 1}, "priority", message.CodeOutOfRange},
		"priority too high":         {EnqueueOptions{Priority: message.MaxPriority + 1}, "priority", message.CodeOutOfRange},
		"negative retries":          {EnqueueOptions{MaxRetries: -1}, "max_retries", message.CodeOutOfRange},
		"too many retries":          {EnqueueOptions{MaxRetries: message.MaxMaxRetries + 1}, "max_retries", message.CodeOutOfRange},
		"timeout below none":        {EnqueueOptions{Timeout: -2}, "timeout", message.CodeOutOfRange},
		"timeout too long":          {EnqueueOptions{Timeout: message.MaxTimeout + 1}, "timeout", message.CodeOutOfRange},
		"negative expiry":           {EnqueueOptions{ExpiresIn: -1}, "expires_in", message.CodeOutOfRange},
		"expiry too far":            {EnqueueOptions{ExpiresIn: message.MaxDelay + 1}, "expires_in", message.CodeOutOfRange},
		"key too long":              {EnqueueOptions{IdempotencyKey: strings.Repeat("k", 256)}, "idempotency_key", message.CodeTooLong},
		"key with NUL":              {EnqueueOptions{IdempotencyKey: "k\x00"}, "idempotency_key", message.CodeEncoding},
		"key of bad UTF-8":          {EnqueueOptions{IdempotencyKey: "\xc3"}, "idempotency_key", message.CodeEncoding},
		"tenant too long":           {EnqueueOptions{Tenant: strings.Repeat("t", 129)}, "tenant", message.CodeTooLong},
		"tenant with a tab":         {EnqueueOptions{Tenant: "\t"}, "tenant", message.CodeEncoding},
		"correlation id too long":   {EnqueueOptions{CorrelationID: strings.Repeat("c", 256)}, "correlation_id", message.CodeTooLong},
		"too many headers":          {EnqueueOptions{Headers: many}, "headers", message.CodeTooLong},
		"headers too large":         {EnqueueOptions{Headers: map[string]string{"h": strings.Repeat("v", message.MaxHeaderBytes)}}, "headers", message.CodeTooLong},
		"header without a name":     {EnqueueOptions{Headers: map[string]string{"": "v"}}, "headers", message.CodeInvalid},
		"header name with NUL":      {EnqueueOptions{Headers: map[string]string{"h\x00": "v"}}, "headers", message.CodeInvalid},
		"header value with NUL":     {EnqueueOptions{Headers: map[string]string{"h": "v\x00"}}, "headers", message.CodeEncoding},
		"header value of bad UTF-8": {EnqueueOptions{Headers: map[string]string{"h": "\xfe"}}, "headers", message.CodeEncoding},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			c, f := fakeClient(t, Config{})
			_, err := c.Enqueue(t.Context(), note{}, &test.opts)
			requireInvalid(t, err, test.field, test.code)
			require.Zero(t, f.calls)
			_, err = c.EnqueueMany(t.Context(), []Item{{Payload: note{}}, {Payload: note{}, Options: &test.opts}})
			requireInvalid(t, err, "messages[1]."+test.field, test.code)
			require.Zero(t, f.calls)
		})
	}
}

func TestOptionsAtTheirLimitsAreTaken(t *testing.T) {
	t.Parallel()
	headers := map[string]string{"h": strings.Repeat("v", message.MaxHeaderBytes-1)}
	for title, opts := range map[string]EnqueueOptions{
		"longest names": {
			Queue: strings.Repeat("q", 128), Tenant: strings.Repeat("t", 128),
			IdempotencyKey: strings.Repeat("k", 255), CorrelationID: strings.Repeat("c", 255),
		},
		"largest numbers":  {Priority: message.MaxPriority, MaxRetries: message.MaxMaxRetries, Timeout: message.MaxTimeout},
		"smallest numbers": {Priority: message.MinPriority, MaxRetries: 1, Timeout: -1},
		"longest delay":    {Delay: message.MaxDelay, ExpiresIn: message.MaxDelay},
		"latest time":      {RunAt: time.Now().Add(message.MaxDelay)},
		"largest headers":  {Headers: headers},
		"multi-line value": {Headers: map[string]string{"h": "a\r\n\tb"}},
	} {
		c, f := fakeClient(t, Config{})
		_, err := c.Enqueue(t.Context(), note{}, &opts)
		require.NoError(t, err, title)
		require.Equal(t, 1, f.calls)
	}
}

func TestEveryProblemIsNamed(t *testing.T) {
	t.Parallel()
	c, _ := fakeClient(t, Config{})
	_, err := c.EnqueueRaw(t.Context(), "", "", &EnqueueOptions{Queue: "\n", Priority: 99})
	for _, field := range []string{"kind", "payload", "queue", "priority"} {
		require.ErrorContains(t, err, "invalid "+field+":")
	}
}

// Reported as raystack/entropy#91.
func TestPastTimesAreNow(t *testing.T) {
	t.Parallel()
	for _, opts := range []EnqueueOptions{
		{},
		{Delay: -hour},
		{Delay: math.MinInt64},
		{RunAt: time.Unix(0, 0)},
		{RunAt: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)},
		{RunAt: time.Date(-290000, 1, 1, 0, 0, 0, 0, time.UTC)},
		{RunAt: time.Unix(math.MinInt64, 0)},
	} {
		c, f := fakeClient(t, Config{})
		m, err := c.Enqueue(t.Context(), note{}, &opts)
		require.NoError(t, err)
		require.False(t, f.inserted[0].Postponed())
		require.Zero(t, m.RetryAfter)
	}
	c, f := fakeClient(t, Config{})
	recent := time.Now().Add(-hour) // left to the database, whose clock counts
	_, err := c.Enqueue(t.Context(), note{}, &EnqueueOptions{RunAt: recent})
	require.NoError(t, err)
	require.Equal(t, recent, f.inserted[0].RunAt)
}

func TestTimeoutsRoundUp(t *testing.T) {
	t.Parallel()
	for given, want := range map[time.Duration]time.Duration{
		0: 0, -1: -1, 1: time.Millisecond, time.Millisecond: time.Millisecond,
		time.Millisecond + 1: 2 * time.Millisecond, message.MaxTimeout: message.MaxTimeout,
	} {
		c, f := fakeClient(t, Config{})
		m, err := c.Enqueue(t.Context(), note{}, &EnqueueOptions{Timeout: given})
		require.NoError(t, err)
		require.Equal(t, want, f.inserted[0].Timeout)
		require.Equal(t, want, m.Timeout)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for title, test := range map[string]struct {
		cfg         Config
		field, code string
	}{
		"negative limit":   {Config{PayloadLimit: -1}, "payload_limit", message.CodeOutOfRange},
		"limit too large":  {Config{PayloadLimit: MaxPayloadLimit + 1}, "payload_limit", message.CodeOutOfRange},
		"window too long":  {Config{IdempotencyWindow: message.MaxDelay + 1}, "idempotency_window", message.CodeOutOfRange},
		"default queue":    {Config{Defaults: EnqueueOptions{Queue: "\x00"}}, "defaults.queue", message.CodeEncoding},
		"default priority": {Config{Defaults: EnqueueOptions{Priority: 10}}, "defaults.priority", message.CodeOutOfRange},
		"default key":      {Config{Defaults: EnqueueOptions{IdempotencyKey: "k"}}, "defaults.idempotency_key", message.CodeInvalid},
		"no database":      {Config{}, "db", message.CodeRequired},
	} {
		c, err := New(nil, test.cfg)
		require.Nil(t, c, title)
		requireInvalid(t, err, test.field, test.code)
		require.ErrorContains(t, err, "invalid db:", "the last problem is told too")
	}
}

func TestConfigIsCopied(t *testing.T) {
	t.Parallel()
	cfg := Config{Defaults: EnqueueOptions{Headers: map[string]string{"h": "before"}}}
	c, f := fakeClient(t, cfg)
	cfg.Defaults.Headers["h"] = "after"
	own := map[string]string{"own": "before"}
	m, err := c.Enqueue(t.Context(), note{}, &EnqueueOptions{Headers: own})
	require.NoError(t, err)
	own["own"] = "after"
	want := map[string]string{"h": "before", "own": "before"}
	require.Equal(t, want, f.inserted[0].Headers)
	require.Equal(t, want, maps.Clone(m.Headers))
}

func FuzzPayload(f *testing.F) {
	for _, seed := range []string{"", "{}", "\x00", `"\u0000"`, "\xff", `"\ufffd"`, `"\ud800"`, "\ufffd", strings.Repeat("x", 65)} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, text, key string) {
		const limit = 64
		c, fake := fakeClient(t, Config{PayloadLimit: limit})
		_, err := c.EnqueueRaw(t.Context(), "k", text, nil)
		valid := text != "" && len(text) <= limit && utf8.ValidString(text) && !strings.Contains(text, "\x00")
		require.Equal(t, valid, err == nil)
		if valid {
			require.Equal(t, text, fake.inserted[0].Payload)
		}

		// What JSON takes comes back the same, or is refused.
		c, fake = fakeClient(t, Config{})
		_, err = c.Enqueue(t.Context(), table{key: text}, nil)
		require.Equal(t, utf8.ValidString(text) && utf8.ValidString(key), err == nil)
		if err != nil {
			_, ok := errors.AsType[*message.ValidationError](err)
			require.True(t, ok)
			return
		}
		require.Equal(t, table{key: text}, decode[table](t, fake.inserted[0].Payload))
	})
}

func FuzzHeaders(f *testing.F) {
	f.Add("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Add("", "x")
	f.Add("a\x00", "\xff")
	f.Add(strings.Repeat("h", message.MaxNameLength+1), strings.Repeat("v", message.MaxHeaderBytes))
	f.Fuzz(func(t *testing.T, name, value string) {
		c, fake := fakeClient(t, Config{})
		_, err := c.EnqueueRaw(t.Context(), "k", "x", &EnqueueOptions{Headers: map[string]string{name: value}})
		if err != nil {
			invalid, ok := errors.AsType[*message.ValidationError](err)
			require.True(t, ok)
			require.Equal(t, "headers", invalid.Field)
			require.True(t, utf8.ValidString(invalid.Message), "what is shown can be shown")
			require.Empty(t, fake.inserted)
			return
		}
		require.True(t, utf8.ValidString(name) && utf8.ValidString(value) && !strings.Contains(value, "\x00"))
		require.Equal(t, value, fake.inserted[0].Headers[name])
	})
}
