package sqlite

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/styxmq/styx/client/message"
)

// location is a database file and the options that its URI gave.
type location struct {
	path  string // absolute
	query string // as it stood in the URI
	given url.Values
}

// settings are the pragmas of every connection, unless the URI sets them.
var settings = []struct{ name, value string }{
	{"busy_timeout", "10000"},
	{"journal_mode", "WAL"},
	{"synchronous", "FULL"},
	{"journal_size_limit", "67108864"}, // bytes
	{"temp_store", "MEMORY"},
	{"cache_size", "-16384"}, // KiB, being negative
}

// shorthands are the driver's other names for some pragmas.
var shorthands = map[string][]string{
	"busy_timeout": {"_busy_timeout", "_timeout"},
	"journal_mode": {"_journal_mode", "_journal"},
	"synchronous":  {"_synchronous", "_sync"},
}

func locate(path string) (location, error) {
	if path == "" {
		return location{}, refuse(message.CodeRequired, "the path of the SQLite database is empty")
	}
	file, query := path, ""
	if uri, ok := strings.CutPrefix(path, "file:"); ok {
		var err error
		if file, query, err = splitURI(uri); err != nil {
			return location{}, err
		}
	}
	if strings.ContainsRune(file, 0) {
		return location{}, refuse(message.CodeEncoding, "the path holds a NUL character")
	}
	given, err := url.ParseQuery(query)
	if err != nil {
		return location{}, refuse(message.CodeInvalid, "the options of the URI are not understood")
	}
	if file == "" || file == ":memory:" || given.Get("mode") == "memory" || given.Get("vfs") == "memdb" {
		return location{}, refuse(message.CodeInvalid,
			"each connection would have an in-memory database of its own; name a file")
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return location{}, refuse(message.CodeInvalid, err.Error())
	}
	return location{path: abs, query: query, given: given}, nil
}

// splitURI takes what follows file: apart as SQLite does.
func splitURI(uri string) (file, query string, err error) {
	uri, _, _ = strings.Cut(uri, "#")
	uri, query, _ = strings.Cut(uri, "?")
	if rest, ok := strings.CutPrefix(uri, "//"); ok {
		host, _, _ := strings.Cut(rest, "/")
		if host != "" && host != "localhost" {
			return "", "", refuse(message.CodeInvalid, "the URI names a host; write file:/path or file:path")
		}
		uri = rest[len(host):]
	}
	if file, err = url.PathUnescape(uri); err != nil {
		return "", "", refuse(message.CodeInvalid, "a % in the path of a URI must be written %25")
	}
	if filepath.VolumeName(strings.TrimPrefix(file, "/")) != "" {
		file = strings.TrimPrefix(file, "/") // file:///C:/styx.db
	}
	return file, query, nil
}

// dsn gives the driver an absolute URI: a connection that is opened later, in
// another working folder, must not find another file.
func (l location) dsn() string {
	slashed := filepath.ToSlash(l.path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed
	}
	query := url.Values{}
	for _, s := range settings {
		if !l.sets(s.name) {
			query.Add("_pragma", s.name+"("+s.value+")")
		}
	}
	for name, value := range map[string]string{"_txlock": "immediate", "_error_rc": "true"} {
		if !l.given.Has(name) {
			query.Set(name, value)
		}
	}
	u := url.URL{Scheme: "file", Path: slashed, RawQuery: query.Encode()}
	if l.query != "" {
		u.RawQuery = l.query + "&" + u.RawQuery
	}
	return u.String()
}

// sets reports whether the URI itself sets the pragma.
func (l location) sets(pragma string) bool {
	for _, key := range shorthands[pragma] {
		if l.given.Has(key) {
			return true
		}
	}
	for _, text := range l.given["_pragma"] {
		end := strings.IndexAny(text, "(= ")
		if end < 0 {
			end = len(text)
		}
		if strings.EqualFold(text[:end], pragma) {
			return true
		}
	}
	return false
}

func refuse(code, text string) error {
	return &message.ValidationError{Field: "path", Code: code, Message: text}
}
