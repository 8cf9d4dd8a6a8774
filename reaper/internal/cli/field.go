package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/pflag"
)

// filters are flags that are parameters of the API under the same names.
type filters map[string]*string

func (f filters) flag(flags *pflag.FlagSet, name, about string) {
	f[name] = flags.String(name, "", about)
}

// values are those that were given.
func (f filters) values() url.Values {
	values := url.Values{}
	for name, text := range f {
		if *text != "" {
			values.Set(strings.ReplaceAll(name, "-", "_"), *text)
		}
	}
	return values
}

// eachField calls f with the fields of an object in their order.
func eachField(object json.RawMessage, f func(name string, raw json.RawMessage)) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		f(fmt.Sprint(name), raw)
	}
	return nil
}

// writeField shows a field to people: nothing of null, the lines of a text
// indented, without what a terminal would obey.
func writeField(w io.Writer, name string, raw json.RawMessage) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	switch text {
	case "", "null", "{}", "[]":
		return
	}
	lines := strings.Split(strings.ReplaceAll(text, "\t", "    "), "\n")
	for i, line := range lines {
		lines[i] = strings.Map(visible, line)
	}
	sep := " "
	if len(lines) > 1 {
		sep = "\n    "
	}
	_, _ = fmt.Fprintf(w, "%s:%s%s\n", name, sep, strings.Join(lines, "\n    "))
}
