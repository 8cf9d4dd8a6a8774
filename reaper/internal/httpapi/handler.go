package httpapi

import (
	"net/http"
	"net/url"
	"strings"
	"sync"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
)

// Handler serves the queues. Make it with New. It is safe for concurrent use.
type Handler struct {
	cfg     Config
	prefix  string // as it stands in a path
	paths   []*endpoint
	outer   http.Handler
	keys    *keyring
	open    *caller
	origins *http.CrossOriginProtection

	requests, waits, large slots
	ready                  readiness
	describe               func() []byte
}

// New returns a handler. Settings that are not valid give joined
// *message.ValidationErrors.
func New(cfg Config) (*Handler, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	keys, err := newKeyring(cfg.Tokens)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		cfg: cfg, prefix: (&url.URL{Path: cfg.Prefix}).EscapedPath(), keys: keys, origins: http.NewCrossOriginProtection(),
		requests: newSlots(cfg.MaxRequests), waits: newSlots(cfg.MaxWaits), large: newSlots(maxLarge),
	}
	if cfg.Open {
		h.open = &caller{name: "anonymous", roles: admin}
	}
	h.describe = sync.OnceValue(func() []byte { return description(h.prefix) })
	h.paths = endpoints(h)
	h.outer = http.HandlerFunc(h.inside)
	if cfg.TracerProvider != nil {
		h.outer = otelhttp.NewHandler(h.outer, "styx",
			otelhttp.WithTracerProvider(cfg.TracerProvider),
			// The global one passes nothing on until somebody sets it.
			otelhttp.WithPropagators(propagation.TraceContext{}),
			otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string {
				return strings.TrimSpace(r.Method + " " + r.Pattern)
			}))
	}
	return h, nil
}

var (
	errNoRoute = notFound.problem("There is nothing under this path.")
	errHost    = wrongHost.problem("This server does not answer to that name.")
)

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.outer.ServeHTTP(w, r) }

func (h *Handler) inside(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if !h.answersTo(r.Host) {
		h.refuse(w, r, errHost)
		return
	}
	e, found := h.lookup(h.strip(r.URL.EscapedPath()))
	if e == nil {
		h.refuse(w, r, errNoRoute)
		return
	}
	r.Pattern = e.path // for the log, and whoever wraps this handler
	e.serve(w, r, found)
}

// strip takes the prefix off a path, if it is there.
func (h *Handler) strip(path string) string {
	if rest, ok := strings.CutPrefix(path, h.prefix+"/"); ok {
		return "/" + rest
	}
	return path
}
