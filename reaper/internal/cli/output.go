package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// output is how data is printed; it is the value of the flag -o.
type output string

const (
	outputTable output = "table"
	outputJSON  output = "json"
	// outputJSONL is an object a line, for lists; what is no list is one
	// object on one line in both forms of JSON.
	outputJSONL output = "jsonl"
)

// isJSON reports whether programs will read what is printed.
func (o output) isJSON() bool { return o != outputTable }

// String, Set and Type make it a flag's value.
func (o *output) String() string { return string(*o) }

func (o *output) Set(text string) error {
	switch output(text) {
	case outputTable, outputJSON, outputJSONL:
		*o = output(text)
		return nil
	}
	return errors.New("must be table, json or jsonl")
}

func (o *output) Type() string { return "format" }

// wantsJSON looks for the flag -o json where the arguments could not be
// parsed, so that the error about it has the wanted form.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		switch {
		case arg == "--":
			return false
		case strings.HasPrefix(arg, "-ojson"), strings.HasPrefix(arg, "-o=json"), strings.HasPrefix(arg, "--output=json"):
			return true
		case (arg == "-o" || arg == "--output") && i+1 < len(args) && strings.HasPrefix(args[i+1], "json"):
			return true
		}
	}
	return false
}

// print writes data to stdout: v as one JSON object on a line, or the text
// that f writes.
func (a *app) print(v any, f func(w io.Writer)) error {
	if a.output.isJSON() {
		if err := json.NewEncoder(a.stdout).Encode(v); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		return nil
	}
	var b strings.Builder
	f(&b)
	if _, err := io.WriteString(a.stdout, b.String()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// oneLine shows a name from outside in a table.
func oneLine(s string) string {
	quoted := strconv.Quote(s)
	if quoted == `"`+s+`"` {
		return s
	}
	return quoted
}

// visible replaces characters that a terminal would obey, or that turn the
// direction of the text.
func visible(r rune) rune {
	if strconv.IsPrint(r) {
		return r
	}
	return '\uFFFD'
}
