// Command testpg runs another command beside a throw-away PostgreSQL server,
// whose address the command finds in STYX_TEST_DATABASE_URL:
//
//	testpg [-pgbin DIR] [-keep] [-c name=value]... -- COMMAND [ARG]...
//	testpg -check
//
// Interrupts and terminations are passed on to the command. When it has ended
// the server is stopped, its folder is removed, and testpg exits with the
// command's exit code: 128 plus the signal if a signal ended it, 2 for wrong
// usage, 1 if the server or the command could not be started. With -check it
// only looks for a server to start, and exits with 1 if there is none.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/styxmq/styx/internal/testdb/server"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parseFlags(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "testpg:", err)
		return exitUsage
	}
	if opts.check {
		if _, err := server.FindBinaries(ctx); err != nil {
			fmt.Fprintln(stderr, "testpg:", err)
			return exitFailure
		}
		return 0
	}
	// Caught from here on, so that no signal leaves a server behind; those
	// that come before the command runs are handed to it afterwards.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	srv, err := server.Start(ctx, opts.server)
	if err != nil {
		fmt.Fprintln(stderr, "testpg:", err)
		return exitFailure
	}
	code := runCommand(opts.command, srv.URL(), signals, stdout, stderr)
	if err := srv.Stop(); err != nil {
		fmt.Fprintln(stderr, "testpg:", err)
		code = max(code, exitFailure)
	}
	if opts.server.Keep {
		fmt.Fprintln(stderr, "testpg: kept", srv.Dir())
	}
	return code
}

type options struct {
	server  server.Config
	check   bool
	command []string
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("testpg", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&opts.server.BinDir, "pgbin", "", "`folder` of initdb and postgres (default: the newest found)")
	flags.BoolVar(&opts.server.Keep, "keep", false, "keep the server's folder and say where it is")
	flags.BoolVar(&opts.check, "check", false, "only look for a server to start")
	flags.Func("c", "a server setting, `name=value`; may be repeated", func(s string) error {
		opts.server.Settings = append(opts.server.Settings, s)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	opts.command = flags.Args()
	if len(opts.command) == 0 && !opts.check {
		return opts, errors.New("no command to run; usage: testpg [flags] -- COMMAND [ARG]")
	}
	return opts, nil
}

func runCommand(command []string, url string, signals <-chan os.Signal, stdout, stderr io.Writer) int {
	// No context: the command decides itself how it ends on a signal.
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // see above
	cmd.Env = append(os.Environ(), "STYX_TEST_DATABASE_URL="+url)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(stderr, "testpg:", err)
		return exitFailure
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			_ = cmd.Process.Signal(sig) // it may have ended already
		case err := <-done:
			return exitCode(err, stderr)
		}
	}
}

func exitCode(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		fmt.Fprintln(stderr, "testpg:", err)
		return exitFailure
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}
