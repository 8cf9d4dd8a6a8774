package httpapi

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

var (
	noStore   = []string{"no-store"}
	noSniff   = []string{"nosniff"}
	noContent = []string{"default-src 'none'; frame-ancestors 'none'"}
	noReferer = []string{"no-referrer"}
	sameOnly  = []string{"same-origin"}
)

// secure sets the headers that every answer has. The map is written directly:
// its keys are canonical.
func secure(header http.Header) {
	header["Cache-Control"] = noStore
	header["X-Content-Type-Options"] = noSniff
	header["Content-Security-Policy"] = noContent
	header["Referrer-Policy"] = noReferer
	header["Cross-Origin-Resource-Policy"] = sameOnly
}

// answersTo reports whether a Host header names this server. A page of the
// web may have its own name lead to a loopback address; its requests still
// carry that name.
func (h *Handler) answersTo(host string) bool {
	if len(h.cfg.Hosts) == 0 {
		return true
	}
	name := host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		name = bare
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	return slices.Contains(h.cfg.Hosts, name)
}

// LoopbackHosts are the names under which a server on a loopback address is
// called.
func LoopbackHosts() []string { return []string{"localhost", "127.0.0.1", "::1"} }

// slots are places for those who are at work at once.
type slots chan struct{}

func newSlots(n int) slots { return make(slots, n) }

// try takes a place if there is one.
func (s slots) try() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) leave() { <-s }
