package httpapi

import (
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/styxmq/styx/client"
)

// The defaults and limits of Config.
const (
	// DefaultBodyLimit is the largest body of a request: 8 MiB.
	DefaultBodyLimit = 8 << 20
	// DefaultTimeout is how long a request may take, beside its wait.
	DefaultTimeout = 15 * time.Second
	// DefaultBodyTime is how long a body may take to arrive.
	DefaultBodyTime = 15 * time.Second
	// DefaultMaxRequests is the number of requests at work at once.
	DefaultMaxRequests = 128
	// DefaultMaxWaits is the number of claims that wait at once.
	DefaultMaxWaits = 1024
	// DefaultTickLimit is how old the last tick of a reaper may be.
	DefaultTickLimit = time.Minute
)

const (
	// smallBody is the largest body that needs no place among the large ones.
	smallBody = 256 << 10
	// maxLarge is how many larger bodies are held at once.
	maxLarge = 8
	// maxHeld is the largest buffer that is kept for the next request.
	maxHeld = 1 << 20
)

// Config configures a Handler. Client is required; everything else has a
// default, but somebody must be let in by Tokens, Identify or Open.
type Config struct {
	Client *client.Client
	// Prefix is the path under which the handler stands, such as /styx.
	Prefix string
	// Tokens are those who may call, Identify is asked instead of them, and
	// Open lets everybody do everything.
	Tokens   []Token
	Identify func(r *http.Request) (Identity, bool)
	Open     bool
	// Hosts are the names that a Host header may have, whatever the port;
	// empty is any.
	Hosts []string
	// RequireLeaseToken refuses to settle without one.
	RequireLeaseToken bool
	BodyLimit         int64
	Timeout           time.Duration
	BodyTime          time.Duration
	MaxRequests       int
	MaxWaits          int
	// TickLimit is how old the last tick of a reaper may be for /readyz;
	// negative is any age.
	TickLimit time.Duration
	// Stopping ends all waits when it is closed.
	Stopping <-chan struct{}
	// Metrics serves /metrics; nil is 404.
	Metrics http.Handler
	// TracerProvider records a span for each request; nil records none.
	TracerProvider trace.TracerProvider
	Logger         *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.BodyLimit == 0 {
		c.BodyLimit = DefaultBodyLimit
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.BodyTime == 0 {
		c.BodyTime = DefaultBodyTime
	}
	if c.MaxRequests == 0 {
		c.MaxRequests = DefaultMaxRequests
	}
	if c.MaxWaits == 0 {
		c.MaxWaits = DefaultMaxWaits
	}
	if c.TickLimit == 0 {
		c.TickLimit = DefaultTickLimit
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}
