package cli

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/reaper/internal/remote"
)

// The exit codes, which are documented in exitCodesTopic.
const (
	exitOK = iota
	exitError
	exitUsage
	exitNothing
	exitPartial
	exitUnavailable
	exitBreach
)

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long: `The exit codes of reaper:

  0  done; also when there was nothing to do, and when run was told to stop
  1  an error
  2  wrong usage, or a confirmation is missing: nothing was done
  3  nothing matches what was named
  4  a part was done, another failed
  5  the database or the API is not available
  6  doctor has found something

check has the codes of monitoring systems instead: see "reaper check --help".

With -o json an error is one JSON object on stderr, its last line:
  {"code":"unavailable","exit_code":5,"error":"…"}
where code is error, usage, nothing_matched, partial or unavailable.`,
	}
}

// usageError is a mistake in the arguments.
type usageError struct {
	text string
	err  error
}

func (e usageError) Error() string { return e.text }
func (e usageError) Unwrap() error { return e.err }

func usage(err error) error {
	if errors.As(err, new(usageError)) {
		return err
	}
	return usageError{text: err.Error(), err: err}
}

// unavailableError is a database that cannot be opened.
type unavailableError struct{ err error }

func (e unavailableError) Error() string { return e.err.Error() }
func (e unavailableError) Unwrap() error { return e.err }

// partialError is what failed beside something that was done.
type partialError struct{ err error }

func (e partialError) Error() string { return e.err.Error() }
func (e partialError) Unwrap() error { return e.err }

// nothingError tells that nothing matches.
type nothingError struct{ text string }

func (e nothingError) Error() string { return e.text }

// breachError is a result that was printed already and is an exit code; err
// is for those who want JSON.
type breachError struct {
	code int
	err  error
}

func (e breachError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return "something was found"
}

func (e breachError) Unwrap() error { return e.err }

// exitCode tells errors apart.
func exitCode(err error) (int, string) {
	switch {
	case errors.As(err, new(usageError)), errors.As(err, new(*message.ValidationError)):
		return exitUsage, "usage"
	case errors.As(err, new(partialError)):
		return exitPartial, "partial"
	case errors.Is(err, message.ErrNotFound), errors.As(err, new(nothingError)):
		return exitNothing, "nothing_matched"
	case errors.As(err, new(unavailableError)), errors.As(err, new(*remote.UnavailableError)), isUnavailable(err):
		return exitUnavailable, "unavailable"
	}
	return exitError, "error"
}

// isUnavailable reports whether a database that was there is gone, by the
// codes of its errors.
func isUnavailable(err error) bool {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		code := state.SQLState()
		return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P") || strings.HasPrefix(code, "53")
	}
	if p, ok := errors.AsType[*remote.Problem](err); ok {
		return p.Status == http.StatusServiceUnavailable || p.Status == http.StatusBadGateway || p.Status == http.StatusGatewayTimeout
	}
	var n net.Error
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n)
}

// failure is an error as JSON.
type failure struct {
	Code     string `json:"code"`
	ExitCode int    `json:"exit_code"`
	Error    string `json:"error"`
	// Field is the setting that was refused.
	Field string `json:"field,omitempty"`
}

// credentials are what stands before the host of a URL, as in an argument that
// is in the wrong place and quoted by an error.
var credentials = regexp.MustCompile(`://[^\s]*@`)

// fail writes the error to stderr and returns its exit code.
func (a *app) fail(err error) int {
	if breach, ok := errors.AsType[breachError](err); ok {
		return breach.code
	}
	code, word := exitCode(err)
	text := credentials.ReplaceAllString(err.Error(), "://…@")
	if a.output.isJSON() {
		f := failure{Code: word, ExitCode: code, Error: text}
		if invalid, ok := errors.AsType[*message.ValidationError](err); ok {
			f.Field = invalid.Field
		}
		_ = json.NewEncoder(a.stderr).Encode(f)
		return code
	}
	_, _ = fmt.Fprintln(a.stderr, "reaper:", text)
	if code == exitUsage {
		_, _ = fmt.Fprintln(a.stderr, `See "reaper --help".`)
	}
	return code
}
