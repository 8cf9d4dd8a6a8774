package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
)

// reply is an answer that is a success.
type reply struct {
	// status defaults to 200.
	status int
	// location is a path below the prefix.
	location string
	// replayed tells that the answer is that of an earlier request.
	replayed bool
	body     any
	// instead serves the request in place of all that.
	instead http.Handler
}

func ok(body any) *reply { return &reply{body: body} }

// encoding is a buffer with its encoder.
type encoding struct {
	buf  bytes.Buffer
	json *json.Encoder
}

var encodings = sync.Pool{New: func() any {
	e := new(encoding)
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false)
	return e
}}

var (
	typeJSON    = []string{"application/json"}
	typeProblem = []string{"application/problem+json"}
)

func (h *Handler) answer(w http.ResponseWriter, r *http.Request, a *reply) {
	if a.instead != nil {
		a.instead.ServeHTTP(w, r)
		return
	}
	header := w.Header()
	if a.location != "" {
		header["Location"] = []string{h.prefix + a.location}
	}
	if a.replayed {
		header["Idempotency-Replayed"] = []string{"true"}
	}
	h.write(w, r, max(a.status, http.StatusOK), typeJSON, a.body)
}

func (h *Handler) write(w http.ResponseWriter, r *http.Request, status int, media []string, body any) {
	e, _ := encodings.Get().(*encoding)
	defer func() {
		if e.buf.Cap() <= maxHeld {
			e.buf.Reset()
			encodings.Put(e)
		}
	}()
	if err := e.json.Encode(body); err != nil {
		e.buf.Reset()
		p := h.failed(r.Context(), r, fmt.Errorf("encode the answer: %w", err))
		status, media = p.Status, typeProblem
		_ = e.json.Encode(p) // strings and numbers only
	}
	header := w.Header()
	header["Content-Type"] = media
	header["Content-Length"] = []string{strconv.Itoa(e.buf.Len())}
	w.WriteHeader(status)
	_, _ = w.Write(e.buf.Bytes()) // whoever asked is gone
}

// refuse answers with the problem that err is.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.kind == internal && p.ID == "" {
		p = h.failed(r.Context(), r, err)
	}
	header := w.Header()
	if p.kind.retry > 0 {
		header["Retry-After"] = []string{strconv.Itoa(p.kind.retry)}
	}
	if p.kind == unauthorized {
		header["Www-Authenticate"] = []string{`Bearer realm="styx"`}
	}
	if p.kind == unavailable && r.Context().Err() == nil {
		h.cfg.Logger.WarnContext(r.Context(), "request not served", "method", r.Method, "route", r.Pattern, "error", err)
	}
	h.write(w, r, p.Status, typeProblem, p)
}

// failed logs what is nobody's business but the operator's.
func (h *Handler) failed(ctx context.Context, r *http.Request, err error) *problem {
	p := problemOf(errUnknown)
	p.ID = rand.Text()
	h.cfg.Logger.ErrorContext(ctx, "request failed", "id", p.ID, "method", r.Method, "route", r.Pattern, "error", err)
	return p
}

var errUnknown = panicError{"unknown"}

// panicError is what a handler panicked with.
type panicError struct{ value any }

func (e panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, debug.Stack()) }
