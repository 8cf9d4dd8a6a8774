package httpapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/name"
)

// endpoint is a path with its methods.
type endpoint struct {
	h        *Handler
	path     string
	segments []string
	methods  map[string]*route
	allow    string
}

// parts are what a path holds, still escaped; empty where it has no such part.
type parts struct{ queue, id string }

// endpoints groups the routes by their paths.
func endpoints(h *Handler) []*endpoint {
	var list []*endpoint
	for _, r := range routes() {
		at := slices.IndexFunc(list, func(e *endpoint) bool { return e.path == r.path })
		if at < 0 {
			at = len(list)
			list = append(list, &endpoint{h: h, path: r.path, segments: strings.Split(r.path, "/"), methods: map[string]*route{}})
		}
		list[at].methods[r.method] = r
		if r.method == http.MethodGet {
			list[at].methods[http.MethodHead] = r
		}
	}
	for _, e := range list {
		allowed := slices.AppendSeq([]string{http.MethodOptions}, maps.Keys(e.methods))
		slices.Sort(allowed)
		e.allow = strings.Join(allowed, ", ")
	}
	return list
}

// lookup looks for the endpoint of an escaped path. A queue may have any name:
// http.ServeMux takes one that is a slash, or dots, for something else.
func (h *Handler) lookup(path string) (*endpoint, parts) {
	const most = 6
	segments := strings.SplitN(path, "/", most+1)
	for _, e := range h.paths {
		if found, ok := e.match(segments); ok {
			return e, found
		}
	}
	return nil, parts{}
}

func (e *endpoint) match(segments []string) (found parts, ok bool) {
	if len(segments) != len(e.segments) {
		return parts{}, false
	}
	for i, want := range e.segments {
		switch {
		case want == "{queue}" && segments[i] != "":
			found.queue = segments[i]
		case want == "{id}" && segments[i] != "":
			found.id = segments[i]
		case want != segments[i]:
			return parts{}, false
		}
	}
	return found, true
}

// serve leads a request through the gates that all routes have.
func (e *endpoint) serve(w http.ResponseWriter, r *http.Request, found parts) {
	route := e.methods[r.Method]
	if route == nil {
		w.Header().Set("Allow", e.allow)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		e.h.refuse(w, r, wrongMethod.problem("This path takes "+e.allow+"."))
		return
	}
	defer e.h.survive(w, r)
	if err := e.h.origins.Check(r); err != nil {
		e.h.refuse(w, r, crossOrigin.problem("A page of another origin must not call this."))
		return
	}
	caller, err := e.h.identify(r, route)
	if err != nil {
		e.h.refuse(w, r, err)
		return
	}
	c := &call{r: r, route: route, caller: caller}
	if err := c.locate(found); err != nil {
		e.h.refuse(w, r, err)
		return
	}
	e.h.work(w, c)
}

// identify finds out who calls, and whether he may.
func (h *Handler) identify(r *http.Request, route *route) (*caller, error) {
	if route.public() {
		return nil, nil //nolint:nilnil // nobody in particular, and no error
	}
	who := h.open
	switch {
	case h.cfg.Identify != nil:
		if id, ok := h.cfg.Identify(r); ok {
			var err error
			if who, err = newCaller(id); err != nil {
				return nil, err
			}
		}
	case who == nil:
		who = h.keys.find(r)
	}
	if who == nil {
		return nil, unauthorized.problem("This needs a token: Authorization: Bearer TOKEN.")
	}
	if !who.may(route.roles) {
		return nil, forbidden.problem("The roles of this token do not permit this.")
	}
	return who, nil
}

// locate reads queue and id out of the path.
func (c *call) locate(found parts) error {
	if found.queue != "" {
		queue, err := url.PathUnescape(found.queue)
		if err != nil {
			return errNoRoute
		}
		if !c.caller.reaches(queue) {
			return errQueue
		}
		if err := name.Check("queue", queue); err != nil {
			return err
		}
		c.queue = queue
	}
	if found.id != "" {
		id, ok := parseID(found.id)
		if !ok {
			return message.ErrNotFound
		}
		c.id = id
	}
	return nil
}

var errQueue = forbidden.problem("This token is not for this queue.")

// work takes a place among the requests, reads the body, and serves.
func (h *Handler) work(w http.ResponseWriter, c *call) {
	if !c.route.public() {
		if !h.requests.try() {
			h.refuse(w, c.r, errBusy)
			return
		}
		c.leave = sync.OnceFunc(h.requests.leave)
		defer c.leave()
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), h.cfg.Timeout)
	defer cancel()
	c.ctx = ctx
	if c.route.body != noBody {
		body, release, err := h.readBody(w, c)
		defer release()
		if err != nil {
			h.refuse(w, c.r, err)
			return
		}
		c.body = body
	}
	answer, err := c.route.serve(h, c)
	if err != nil {
		h.refuse(w, c.r, err)
		return
	}
	h.answer(w, c.r, answer)
}

var errBusy = tooManyRequests.problem("This server has as many requests at work as it takes.")

// survive answers for a handler that panics.
func (h *Handler) survive(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	h.refuse(w, r, panicError{v})
}
