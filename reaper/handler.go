package reaper

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/uptrace/bun"
	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/reaper/internal/httpapi"
)

// The roles of a caller over HTTP. The description under /openapi.json tells
// which of them each route is for.
const (
	// RoleProducer enqueues, and sees how its messages fare, but neither
	// payloads nor errors.
	RoleProducer = httpapi.RoleProducer
	// RoleWorker claims and settles.
	RoleWorker = httpapi.RoleWorker
	// RoleViewer sees everything but the audit log and changes nothing.
	RoleViewer = httpapi.RoleViewer
	// RoleOperator sees everything, pauses, replays, resolves and cancels.
	RoleOperator = httpapi.RoleOperator
	// RoleAdmin may do everything, and alone may purge.
	RoleAdmin = httpapi.RoleAdmin
)

// The defaults of HandlerConfig, and what holds for a message that is
// enqueued over HTTP.
const (
	// DefaultKind is the kind of a message without one.
	DefaultKind = httpapi.DefaultKind
	// DefaultHTTPMaxRetries is the max_retries of a message without one.
	DefaultHTTPMaxRetries = httpapi.DefaultMaxRetries
	// DefaultBodyLimit is the largest body of a request: 8 MiB.
	DefaultBodyLimit = httpapi.DefaultBodyLimit
	// DefaultRequestTimeout is how long a request may take.
	DefaultRequestTimeout = httpapi.DefaultTimeout
	// DefaultMaxRequests is how many requests are at work at once.
	DefaultMaxRequests = httpapi.DefaultMaxRequests
	// DefaultMaxWaits is how many claims wait at once.
	DefaultMaxWaits = httpapi.DefaultMaxWaits
	// DefaultTickLimit is how old the last tick of a reaper may be.
	DefaultTickLimit = httpapi.DefaultTickLimit
)

// Token is a bearer token, known by its hash only.
type Token struct {
	// Name stands in the audit log: up to 128 bytes, no spaces.
	Name string
	// Roles are what it may do: the Role constants.
	Roles []string
	// Queues are those that it may touch. Defaults to all of them.
	Queues []string
	// SHA256 is the hash of the text that the caller sends.
	SHA256 [sha256.Size]byte
}

// Identity is who calls, as [HandlerConfig.Identify] knows him.
type Identity struct {
	// Name stands in the audit log, up to 128 bytes.
	Name string
	// Roles are what he may do: the Role constants.
	Roles []string
	// Queues are those that he may touch. Defaults to all of them.
	Queues []string
}

// HandlerConfig configures a [Handler]. Exactly one of Tokens, Identify and
// Unprotected must be set; the rest has defaults.
type HandlerConfig struct {
	// Schema is the PostgreSQL schema of the tables. Defaults to "styx".
	// SQLite has none.
	Schema string
	// Prefix is the path under which the handler is mounted, such as
	// "/styx", without a slash at its end. The handler takes it off the
	// paths of requests by itself, and puts it before those in Location.
	// Where http.StripPrefix takes it off, it must be given all the same.
	// Defaults to none.
	Prefix string
	// Tokens are the bearer tokens that are let in. See [ParseTokens].
	Tokens []Token
	// Identify tells who calls, for services that know so already; false is
	// nobody, who is answered with 401. It is called for each request,
	// concurrently.
	Identify func(r *http.Request) (Identity, bool)
	// Unprotected lets everybody who can reach the handler do everything.
	// Set it only behind something that keeps strangers out.
	Unprotected bool
	// Hosts are the names that the Host header may have, whatever its port:
	// a page in a browser may otherwise reach a server on a private address
	// under a name of its own. Defaults to any.
	Hosts []string
	// RequireLeaseToken refuses to settle a message without the lease_token
	// of its claim, which is how a slow consumer takes a message from its
	// successor. Defaults to false.
	RequireLeaseToken bool
	// PayloadLimit is the largest payload in bytes. Defaults to
	// message.DefaultPayloadLimit, 1 MiB.
	PayloadLimit int
	// BodyLimit is the largest body of a request in bytes; larger ones are
	// answered with 413. Defaults to DefaultBodyLimit.
	BodyLimit int64
	// Timeout limits a request, not counting the wait of a claim. Defaults
	// to DefaultRequestTimeout.
	Timeout time.Duration
	// MaxRequests is how many requests are at work at once, MaxWaits how
	// many claims wait besides; more are answered with 429 and Retry-After.
	// Default to DefaultMaxRequests and DefaultMaxWaits.
	MaxRequests, MaxWaits int
	// TickLimit is how old the last tick of a reaper may be before /readyz
	// answers 503; negative is any age. Defaults to DefaultTickLimit.
	TickLimit time.Duration
	// Stopping, when it is closed, ends the waits of all claims at once, so
	// that http.Server.Shutdown need not wait for them. Defaults to never.
	Stopping <-chan struct{}
	// Metrics serves /metrics, for viewers. Defaults to 404.
	Metrics http.Handler
	// TracerProvider records a span for each request, and one for each
	// enqueue in it. Defaults to none for requests, and to the global one
	// for enqueues. Without a span, the traceparent of a request goes into
	// the message.
	TracerProvider trace.TracerProvider
	// Logger takes a line for each request that failed. Defaults to
	// slog.Default().
	Logger *slog.Logger
}

// Handler returns the HTTP API of the queues in db: enqueue, claim, settle,
// inspect and operate, for programs in any language. It is described by
// itself, under /openapi.json. Mount it anywhere:
//
//	h, err := reaper.Handler(db, reaper.HandlerConfig{Prefix: "/styx", Tokens: tokens})
//	mux.Handle("/styx/", h)
//
// It touches no database before the first request, starts nothing that
// outlives a request, and is safe for concurrent use. A server of it must
// permit answers that take Timeout and 30 seconds more, for claims that wait.
//
// Settings that are not valid give joined *message.ValidationErrors.
func Handler(db *bun.DB, cfg HandlerConfig) (http.Handler, error) {
	c, err := client.New(db, client.Config{
		Schema: cfg.Schema, PayloadLimit: cfg.PayloadLimit, Logger: cfg.Logger, TracerProvider: cfg.TracerProvider,
	})
	inner := httpapi.Config{
		Client: c, Prefix: cfg.Prefix, Open: cfg.Unprotected, Hosts: cfg.Hosts, RequireLeaseToken: cfg.RequireLeaseToken,
		BodyLimit: cfg.BodyLimit, Timeout: cfg.Timeout, MaxRequests: cfg.MaxRequests, MaxWaits: cfg.MaxWaits,
		TickLimit: cfg.TickLimit, Stopping: cfg.Stopping, Metrics: cfg.Metrics, TracerProvider: cfg.TracerProvider, Logger: cfg.Logger,
	}
	for _, t := range cfg.Tokens {
		inner.Tokens = append(inner.Tokens, httpapi.Token(t))
	}
	if cfg.Identify != nil {
		inner.Identify = func(r *http.Request) (httpapi.Identity, bool) {
			id, ok := cfg.Identify(r)
			return httpapi.Identity(id), ok
		}
	}
	h, refused := httpapi.New(inner)
	if err := errors.Join(err, refused); err != nil {
		return nil, err
	}
	return h, nil
}

// LoopbackHosts are the names under which a server on a loopback address is
// called, for HandlerConfig.Hosts.
func LoopbackHosts() []string { return httpapi.LoopbackHosts() }

// ParseTokens reads tokens, one a line; empty lines and those that begin with
// # are left out:
//
//	name role[,role…] sha256:HEX [queue[,queue…]]
//
// Queues are escaped as in a URL. A line that is not understood gives a
// [*message.ValidationError] that names its number and does not quote it.
func ParseTokens(text string) ([]Token, error) {
	parsed, err := httpapi.ParseTokens(text)
	if err != nil {
		return nil, err
	}
	tokens := make([]Token, len(parsed))
	for i, t := range parsed {
		tokens[i] = Token(t)
	}
	return tokens, nil
}

// NewToken makes a token with a random text, which is nowhere but in the
// result. A name, role or queue that is not valid gives a
// [*message.ValidationError].
func NewToken(name string, roles, queues []string) (text string, t Token, err error) {
	text, made, err := httpapi.NewToken(name, roles, queues)
	if err != nil {
		return "", Token{}, fmt.Errorf("make a token: %w", err)
	}
	return text, Token(made), nil
}

// Line is the token as [ParseTokens] reads it.
func (t Token) Line() string { return httpapi.Token(t).Line() }
