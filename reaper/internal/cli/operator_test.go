package cli_test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/testdb"
	"github.com/styxmq/styx/reaper"
)

// desk is where an operator sits: flags that lead to the same queues, by the
// database or over HTTP.
type desk struct {
	*client.Client
	flags []string
	db    testdb.DB
}

// desks runs the body on both engines, by the database and over HTTP.
func desks(t *testing.T, body func(t *testing.T, d *desk)) {
	t.Helper()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		c, err := client.New(db.DB, client.Config{Schema: db.Schema})
		require.NoError(t, err)
		require.NoError(t, c.Migrate(t.Context()))
		t.Run("database", func(t *testing.T) {
			flags := []string{"--database-url", "sqlite:" + db.URL}
			if db.Schema != "" {
				flags = []string{"--database-url", db.URL, "--schema", db.Schema}
			}
			body(t, &desk{c, flags, db})
		})
		t.Run("http", func(t *testing.T) {
			text, token, err := reaper.NewToken("ada", []string{reaper.RoleAdmin, reaper.RoleProducer}, nil)
			require.NoError(t, err)
			h, err := reaper.Handler(db.DB, reaper.HandlerConfig{Schema: db.Schema, Tokens: []reaper.Token{token}, Prefix: "/styx"})
			require.NoError(t, err)
			server := httptest.NewServer(h)
			t.Cleanup(server.Close)
			file := filepath.Join(t.TempDir(), "token")
			require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
			body(t, &desk{c, []string{"--api-url", server.URL + "/styx", "--api-token-file", file}, db})
		})
	})
}

// call runs a command of the operator.
func (d *desk) call(t *testing.T, args ...string) result {
	t.Helper()
	return call(t, append(args, d.flags...)...)
}

func (d *desk) ok(t *testing.T, args ...string) string {
	t.Helper()
	r := d.call(t, args...)
	require.Zero(t, r.code, "%v: %s", args, r.stderr)
	return r.stdout
}

// bury makes dead letters in a queue of the test's own.
func (d *desk) bury(t *testing.T, queue, text string, n int) []int64 {
	t.Helper()
	var ids []int64
	for range n {
		m, err := d.EnqueueRaw(t.Context(), "mail", `{"to":"<b>"}`, &client.EnqueueOptions{Queue: queue, MaxRetries: 2, Tenant: "acme"})
		require.NoError(t, err)
		claimed, err := d.Leases().Claim(t.Context(), queue, nil)
		require.NoError(t, err)
		require.Len(t, claimed, 1)
		require.NoError(t, d.Leases().Fail(t.Context(), queue, m.ID, claimed[0].LeaseToken, &client.FailOptions{
			Error: text, Class: "smtp.Refused", Kind: message.FailurePermanent,
		}))
		ids = append(ids, m.ID)
	}
	return ids
}

func (d *desk) status(t *testing.T, id int64) message.Status {
	t.Helper()
	m, err := d.Get(t.Context(), id)
	require.NoError(t, err)
	return m.Status
}

func TestQueueCommands(t *testing.T) {
	t.Parallel()
	desks(t, func(t *testing.T, d *desk) {
		queue := "mail " + t.Name()[strings.LastIndex(t.Name(), "/")+1:]
		made := object(t, d.ok(t, "message", "enqueue", queue, "--payload", "x", "-o", "json"))
		require.Equal(t, queue, made["queue"])

		r := d.call(t, "queue", "pause", queue, "--reason", "the relay is down", "--for", "2h")
		require.Zero(t, r.code, r.stderr)
		require.Contains(t, r.stdout, queue+": paused since ")
		require.Contains(t, r.stdout, "the relay is down")
		require.Contains(t, r.stderr, "target: ")

		list := object(t, d.ok(t, "queue", "ls", "-o", "json"))
		require.NotEmpty(t, list["queues"])
		table := d.ok(t, "queue", "ls")
		require.True(t, strings.HasPrefix(table, "QUEUE "), table)
		require.Contains(t, table, queue)
		for line := range strings.Lines(d.ok(t, "queue", "ls", "-o", "jsonl")) {
			if q := object(t, line); q["queue"] == queue {
				require.Equal(t, true, q["paused"])
				require.EqualValues(t, 1, q["ready"])
			}
		}

		require.Contains(t, d.ok(t, "queue", "resume", queue), "not paused")
		claimed, err := d.Leases().Claim(t.Context(), queue, &client.ClaimOptions{Wait: client.MaxWait})
		require.NoError(t, err)
		require.Len(t, claimed, 1)
	})
}

func TestMessageCommands(t *testing.T) {
	t.Parallel()
	desks(t, func(t *testing.T, d *desk) {
		corr := t.Name()
		made := object(t, d.ok(t, "message", "enqueue", "a/b", "--kind", "k", "--payload", `{"n":9007199254740993}`, "--delay", "1h",
			"--priority", "-2", "--max-retries", "7", "--correlation-id", corr, "--header", "x=1=2", "--tenant", "t", "-o", "json"))
		id := strconv.FormatInt(int64(made["id"].(float64)), 10)
		require.Equal(t, map[string]any{"x": "1=2"}, made["headers"])
		require.EqualValues(t, 7, made["max_retries"])

		list := object(t, d.ok(t, "message", "ls", "--correlation-id", corr, "--queue", "a/b", "-o", "json"))
		require.EqualValues(t, 1, list["count"])
		require.Contains(t, d.ok(t, "message", "ls", "--correlation-id", corr), "pending")
		shown := d.ok(t, "message", "show", id)
		require.Contains(t, shown, `payload: {"n":9007199254740993}`)
		require.Contains(t, d.ok(t, "message", "show", id, "-o", "json"), `"payload":"{\"n\":9007199254740993}"`)

		r := d.call(t, "message", "cancel", id)
		require.Equal(t, 2, r.code, "nobody can confirm")
		require.Contains(t, r.stderr, "add --yes")
		require.Equal(t, message.StatusPending, d.status(t, int64(made["id"].(float64))))
		require.Contains(t, d.ok(t, "message", "cancel", id, "--yes", "--reason", "ordered twice"), "cancelled 1 of 1 message")
		require.Equal(t, message.StatusDead, d.status(t, int64(made["id"].(float64))))

		r = d.call(t, "message", "cancel", id, "--yes", "-o", "json")
		require.Equal(t, 1, r.code)
		require.Contains(t, r.stdout, `"result":"failed"`)
		require.Equal(t, 3, d.call(t, "message", "show", "999999999").code)
		require.Equal(t, 2, d.call(t, "message", "show", "x").code)
		require.Equal(t, 2, d.call(t, "message", "ls", "--status", "gone").code)
		require.Equal(t, 2, d.call(t, "message", "enqueue", "q", "--payload", "x", "--max-retries", "11").code)
		require.Equal(t, 2, d.call(t, "message", "enqueue", "q").code, "no payload")
		require.Equal(t, 2, d.call(t, "message", "walk").code, "no such subcommand")
	})
}

func TestListsGoOverPages(t *testing.T) {
	t.Parallel()
	desks(t, func(t *testing.T, d *desk) {
		const n = 205
		items := make([]client.Item, n)
		for i := range items {
			items[i] = client.Item{Payload: client.Raw{Name: "k", Text: "x"}, Options: &client.EnqueueOptions{Tenant: t.Name()[len("TestLists"):]}}
		}
		_, err := d.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
		flags := []string{"message", "ls", "--tenant", items[0].Options.Tenant, "-o", "jsonl"}
		require.Equal(t, n, strings.Count(d.ok(t, append(flags, "--limit", "0")...), "\n"))
		require.Equal(t, 101, strings.Count(d.ok(t, append(flags, "--limit", "101")...), "\n"))
		first := object(t, d.ok(t, append(flags[:4:4], "--limit", "150", "-o", "json")...))
		rest := object(t, d.ok(t, append(flags[:4:4], "--limit", "150", "--cursor", first["next_cursor"].(string), "-o", "json")...))
		require.EqualValues(t, n-150, rest["count"])
		require.Nil(t, rest["next_cursor"])
	})
}

func TestLetterCommands(t *testing.T) {
	t.Parallel()
	desks(t, func(t *testing.T, d *desk) {
		queue := t.Name()
		ids := d.bury(t, queue, "relay \x1b[2J refused order 7", 5)
		text := func(i int) string { return strconv.FormatInt(ids[i], 10) }

		table := d.ok(t, "dlq", "ls", "--queue", queue)
		require.Contains(t, table, "smtp.Refused")
		require.NotContains(t, table, "\x1b", "what an error holds is not obeyed")
		shown := d.ok(t, "dlq", "show", text(0))
		require.Contains(t, shown, "decision: poison")
		require.Contains(t, shown, "attempt 1: ")
		require.NotContains(t, shown, "\x1b")

		file := filepath.Join(t.TempDir(), "out.jsonl")
		require.Contains(t, d.ok(t, "dlq", "export", "--queue", queue, "--out", file), "exported 5 dead letters")
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(content), d.ok(t, "dlq", "export", "--queue", queue))
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		for line := range strings.Lines(string(content)) {
			require.True(t, json.Valid([]byte(line)))
		}

		require.Equal(t, 2, d.call(t, "dlq", "replay").code, "no filter")
		require.Equal(t, 2, d.call(t, "dlq", "replay", text(0), "--queue", queue, "--yes").code, "ids and a filter")
		require.Contains(t, d.ok(t, "dlq", "replay", "--queue", queue, "--dry-run"), "would replay 5 dead letters")
		r := d.call(t, "dlq", "replay", "--queue", queue)
		require.Equal(t, 2, r.code)
		require.Contains(t, r.stderr, "replay 5 dead letters")
		require.Equal(t, message.StatusDead, d.status(t, ids[0]))

		require.Contains(t, d.ok(t, "dlq", "replay", text(0), "--yes", "--reason", "the relay is back"), "replayed 1 of 1")
		require.Equal(t, message.StatusPending, d.status(t, ids[0]))
		require.Contains(t, d.ok(t, "dlq", "resolve", text(1), "--yes"), "resolved 1 of 1")
		r = d.call(t, "dlq", "replay", text(0), text(2), "--yes", "-o", "json")
		require.Equal(t, 4, r.code, "one of two is not dead")
		out := object(t, r.stdout)
		require.EqualValues(t, 1, out["replayed"])
		require.EqualValues(t, 1, out["failed"])
		require.Equal(t, 3, d.call(t, "dlq", "replay", "--queue", queue, "--fingerprint", "none", "--yes").code)
		require.Contains(t, d.ok(t, "dlq", "replay", "--queue", queue, "--rate", "1000", "--yes"), "replayed 2 of 2 dead letters")
		page, err := d.DeadLetters().List(t.Context(), client.DeadLetterOptions{Queue: queue})
		require.NoError(t, err)
		require.Empty(t, page.DeadLetters)

		require.Equal(t, 2, d.call(t, "dlq", "purge", "--yes").code, "no filter")
		require.Equal(t, 2, d.call(t, "dlq", "purge", "--queue", queue, "--resolved").code, "no confirmation")
		require.Contains(t, d.ok(t, "dlq", "purge", "--queue", queue, "--resolved", "--yes", "--reason", "done"), "purged ")
		audit, err := d.Audit(t.Context(), client.AuditOptions{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, "done", audit.Entries[0].Reason)
		require.NotEmpty(t, audit.Entries[0].Actor)
	})
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	desks(t, func(t *testing.T, d *desk) {
		queue := "it's " + t.Name()
		require.NoError(t, d.Queues().Pause(t.Context(), queue, &client.PauseOptions{Reason: "by hand"}))
		_, err := d.EnqueueRaw(t.Context(), "k", "x", &client.EnqueueOptions{Queue: queue})
		require.NoError(t, err)
		r := d.call(t, "doctor", "-o", "json")
		require.Equal(t, 6, r.code, r.stderr)
		problems := map[string]string{}
		for _, f := range object(t, r.stdout)["findings"].([]any) {
			f := f.(map[string]any)
			if f["queue"] == nil || f["queue"] == queue {
				problems[f["problem"].(string)] = f["fix"].(string)
			}
		}
		require.Equal(t, `reaper queue resume 'it'\''s `+t.Name()+"'", problems["paused"])
		require.Equal(t, "reaper run", problems["reaper"])
		require.Contains(t, problems, "no worker")
		require.NotContains(t, problems, "durability")
		require.Contains(t, d.call(t, "doctor").stdout, "by hand")
	})
}

func TestDoctorKnowsAnOldSchema(t *testing.T) {
	t.Parallel()
	testdb.Each(t, func(t *testing.T, db testdb.DB) {
		flags := target(t, db)
		ok(t, append([]string{"migrate", "up"}, flags...)...)
		ok(t, append([]string{"migrate", "down", "--to", "1", "--yes"}, flags...)...)
		r := call(t, append([]string{"doctor"}, flags...)...)
		require.Equal(t, 6, r.code, r.stderr)
		require.Contains(t, r.stdout, "reaper migrate up")
		r = call(t, append([]string{"check"}, flags...)...)
		require.Equal(t, 3, r.code)
		require.Contains(t, r.stdout, "STYX UNKNOWN - ")
	})
}

func TestCheckHasTheCodesOfMonitoring(t *testing.T) {
	t.Parallel()
	desks(t, func(t *testing.T, d *desk) {
		queue := "a|b " + t.Name()
		for range 3 {
			_, err := d.EnqueueRaw(t.Context(), "k", "x", &client.EnqueueOptions{Queue: queue})
			require.NoError(t, err)
		}
		for args, code := range map[string]int{
			"--max-silence 0":                              0,
			"--max-silence 0 --max-depth 4":                0,
			"--max-silence 0 --max-depth 3":                2,
			"--max-silence 0 --max-depth 4 --warn-depth 2": 1,
			"--max-silence 0 --max-age 1h":                 0,
			"--max-silence 0 --max-age 1ns":                2,
			"--max-silence 0 --warn-age 1ns":               1,
			"--max-silence 0 --max-dead 1":                 0,
			"--max-silence 1m":                             2, // no reaper has ever run
			"--max-silence 0 --max-depth 10001":            3,
		} {
			r := d.call(t, append([]string{"check", "--queue", queue}, strings.Fields(args)...)...)
			require.Equal(t, code, r.code, "%s: %s%s", args, r.stdout, r.stderr)
			require.Equal(t, 1, strings.Count(r.stdout, "\n"), r.stdout)
			require.Regexp(t, `^STYX (OK|WARNING|CRITICAL|UNKNOWN) - [^|]*(\| ready=\d+ dead=\d+ oldest_ready=[\d.]+s)?\n$`, r.stdout)
		}
		v := object(t, d.call(t, "check", "--queue", queue, "--max-silence", "0", "--max-depth", "1", "-o", "json").stdout)
		require.Equal(t, "CRITICAL", v["status"])
	})
}

func TestOperatorFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"queue", "ls", "--api-url", "ftp://x"},
		{"queue", "ls", "--api-url", "http://user:secret@x"},
		{"queue", "ls", "--api-url", ""},
		{"queue", "ls", "--api-url", "http://x", "--database-url", "a.db"},
		{"queue", "ls", "--api-url", "http://127.0.0.1:1", "--api-token-file", "/nowhere/at/all"},
		{"sweep", "--api-url", "http://127.0.0.1:1"},
		{"queue", "ls", "-o", "xml"},
		{"dlq", "rm"},
	} {
		r := call(t, args...)
		require.Equal(t, 2, r.code, "%v: %s", args, r.stderr)
		require.NotContains(t, r.stderr, "secret")
	}
	r := call(t, "queue", "ls", "--api-url", "http://127.0.0.1:1", "-o", "json")
	require.Equal(t, 5, r.code)
	require.Equal(t, "unavailable", lastLine(t, r)["code"])
	require.Contains(t, ok(t, "completion", "bash"), "reaper")
	require.Contains(t, ok(t, "dlq", "replay", "--help"), "Examples:")
}

func TestCallsWithoutAToken(t *testing.T) {
	t.Parallel()
	db := testdb.SQLite(t)
	_, token, err := reaper.NewToken("ada", []string{reaper.RoleViewer}, nil)
	require.NoError(t, err)
	h, err := reaper.Handler(db.DB, reaper.HandlerConfig{Tokens: []reaper.Token{token}})
	require.NoError(t, err)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	r := call(t, "queue", "ls", "--api-url", server.URL)
	require.Equal(t, 1, r.code)
	require.NotEmpty(t, r.stderr)
}
