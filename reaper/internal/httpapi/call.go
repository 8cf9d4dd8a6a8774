package httpapi

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/styxmq/styx/client/message"
)

// call is one request behind the gates.
type call struct {
	// ctx ends with the request, or its time.
	ctx    context.Context
	r      *http.Request
	route  *route
	caller *caller
	// queue and id are those of the path, where it has them.
	queue string
	id    int64
	// body is checked JSON, empty when there is none. It is gone once the
	// call has returned.
	body []byte
	// leave gives the place among the requests back; a second call does
	// nothing.
	leave func()
}

// origin is the address that the request came from.
func (c *call) origin() string {
	host, _, err := net.SplitHostPort(c.r.RemoteAddr)
	if err != nil {
		host = c.r.RemoteAddr
	}
	return host[:min(len(host), message.MaxNameLength)]
}

// reason is the one in the body, else that of the header X-Reason.
func (c *call) reason(body string) string {
	if body != "" {
		return body
	}
	return c.r.Header.Get("X-Reason")
}

// parseID understands the decimal text of an id. Nothing else has one: no
// sign, no leading zero.
func parseID(text string) (int64, bool) {
	if text == "" || text[0] == '0' || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	id, err := strconv.ParseInt(text, 10, 64)
	return id, err == nil
}

// object reads the body, which may be absent, as an object.
func (c *call) object(f *fields, read func(field string, raw []byte) bool) error {
	if len(c.body) == 0 {
		return nil
	}
	body := skipSpace(c.body)
	if body[0] != '{' {
		return invalidJSON.problem("The body must be a JSON object.")
	}
	f.object(body, read)
	return nil
}
