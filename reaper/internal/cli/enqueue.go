package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/styxmq/styx/reaper/internal/remote"
)

func newMessageEnqueue(a *app) *cobra.Command {
	var (
		kind, payload, file    string
		delay, timeout, expiry time.Duration
		runAt                  string
		priority, maxRetries   int
		key, tenant, corr      string
		headers                []string
	)
	cmd := &cobra.Command{
		Use:   "enqueue QUEUE",
		Short: "Enqueue a message",
		Example: `  reaper message enqueue mail --kind welcome --payload '{"to":"ada@example.com"}'
  reaper message enqueue reports --kind nightly --payload-file - --delay 10m < report.json`,
		Args: cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	cmd.RunE = a.does(a.operates(func(ctx context.Context, o *operator, args []string) error {
		if args[0] == "" {
			return usageError{text: "name a queue"}
		}
		text := payload
		if flags.Changed("payload-file") {
			content, err := a.readAll(file)
			if err != nil {
				return err
			}
			text = content
		}
		body := map[string]any{"payload": text}
		for name, v := range map[string]any{
			"kind": kind, "run-at": runAt, "priority": priority, "max-retries": maxRetries, "idempotency-key": key,
			"tenant": tenant, "correlation-id": corr, "delay": delay.Seconds(), "processing-timeout": timeout.Seconds(),
			"expires-in": expiry.Seconds(),
		} {
			if flags.Changed(name) {
				body[strings.ReplaceAll(name, "-", "_")] = v
			}
		}
		if len(headers) > 0 {
			pairs := map[string]string{}
			for _, h := range headers {
				name, value, found := strings.Cut(h, "=")
				if !found {
					return usageError{text: "--header: write it as name=value"}
				}
				pairs[name] = value
			}
			body["headers"] = pairs
		}
		o.announce(a)
		var raw json.RawMessage
		if err := o.Post(ctx, "/queues/"+remote.Segment(args[0])+"/messages", body, &raw); err != nil {
			return err
		}
		var m messageRow
		if err := json.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		return a.print(raw, func(w io.Writer) { _, _ = fmt.Fprintf(w, "message %d is %s in %s\n", m.ID, m.Status, oneLine(m.Queue)) })
	}))
	flags.StringVar(&kind, "kind", "message", "the kind of work, which names the handler")
	flags.StringVar(&payload, "payload", "", "the payload")
	flags.StringVar(&file, "payload-file", "", "the file with the payload; - is stdin")
	flags.DurationVar(&delay, "delay", 0, "not before that long from now")
	flags.StringVar(&runAt, "run-at", "", "not before this time, such as 2027-01-01T06:00:00Z")
	flags.IntVar(&priority, "priority", 0, "from -9, first, to 9, last")
	flags.IntVar(&maxRetries, "max-retries", 0, "the number of attempts, 1 to 10 (default 3)")
	flags.DurationVar(&timeout, "processing-timeout", 0, "the longest that one attempt may take")
	flags.DurationVar(&expiry, "expires-in", 0, "dead if not begun within this time")
	flags.StringVar(&key, "idempotency-key", "", "a second message with this key is not stored")
	flags.StringVar(&tenant, "tenant", "", "on whose behalf the work is done")
	flags.StringVar(&corr, "correlation-id", "", "ties messages of one business transaction together")
	flags.StringArrayVar(&headers, "header", nil, "a header, name=value; may be repeated")
	cmd.MarkFlagsOneRequired("payload", "payload-file")
	cmd.MarkFlagsMutuallyExclusive("payload", "payload-file")
	cmd.MarkFlagsMutuallyExclusive("delay", "run-at")
	return cmd
}

// readAll reads a file or stdin; one line end at the end of it is not part of
// the payload.
func (a *app) readAll(file string) (string, error) {
	var (
		content []byte
		err     error
	)
	if file == "-" {
		content, err = io.ReadAll(a.stdin)
	} else {
		content, err = os.ReadFile(file)
	}
	if err != nil {
		return "", usageError{text: "--payload-file: " + err.Error(), err: err}
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r"), nil
}
