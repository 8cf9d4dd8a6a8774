package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ctx := context.Background() //nolint:forbidigo // a program begins here
	if len(os.Args) > 1 && os.Args[1] == childArgument {
		os.Exit(childMain(ctx, os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := parent(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// parent measures and reports. What was measured before an error or an
// interrupt is reported all the same.
func parent(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "peers:", err)
		return exitUsage
	}
	h := &harness{options: o, progress: stderr}
	code := 0
	if err := h.runAll(ctx); err != nil {
		fmt.Fprintln(stderr, "peers:", err)
		code = exitFailure
	}
	if len(h.failures()) > 0 {
		code = exitFailure
	}
	m := h.machine(context.WithoutCancel(ctx))
	h.writeMarkdown(stdout, m)
	if o.jsonFile != "" {
		if err := h.writeJSON(o.jsonFile, m); err != nil {
			fmt.Fprintln(stderr, "peers:", err)
			code = exitFailure
		}
	}
	return code
}
