package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// ErrNoPooler reports that PgBouncer is not installed.
var ErrNoPooler = errors.New("no pgbouncer")

// Pooler is a running PgBouncer in transaction mode.
type Pooler struct {
	dir    string
	url    string
	binary string
	run    *account
	cmd    *exec.Cmd
	exited chan struct{}
}

// StartPooler starts PgBouncer in front of the database that a URL names, with
// so many connections to it at most; it returns when it takes connections, or
// [ErrNoPooler]. Whoever connects to it becomes the user of the URL. The
// caller stops it with [Pooler.Stop].
func StartPooler(ctx context.Context, rawURL string, size int) (*Pooler, error) {
	binary, err := exec.LookPath("pgbouncer")
	if err != nil {
		if binary, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil { // not on the PATH of all users
			return nil, ErrNoPooler
		}
	}
	behind, err := pgconn.ParseConfig(rawURL)
	if err != nil {
		return nil, fmt.Errorf("read the URL of the database: %w", err)
	}
	run, err := unprivileged()
	if err != nil {
		return nil, err
	}
	p := &Pooler{binary: binary, run: run}
	if p.dir, err = os.MkdirTemp("", "styx-pooler-"); err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	if err := p.launch(ctx, behind, size); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func (p *Pooler) launch(ctx context.Context, behind *pgconn.Config, size int) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	config := fmt.Sprintf(`[databases]
* = host=%s port=%d user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 300
server_login_retry = 1
listen_backlog = 1024
ignore_startup_parameters = search_path, extra_float_digits
logfile = %s
`, behind.Host, behind.Port, quote(behind.User), quote(behind.Password), port, size, filepath.Join(p.dir, "log"))
	if err := os.WriteFile(p.file(), []byte(config), 0o600); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	if err := errors.Join(p.run.own(p.dir), p.run.own(p.file())); err != nil {
		return fmt.Errorf("hand over folder: %w", err)
	}
	u := url.URL{
		Scheme: "postgres", User: url.User(behind.User), Path: "/" + behind.Database,
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), RawQuery: "sslmode=disable",
	}
	p.url = u.String()
	if err := p.begin(); err != nil {
		return err
	}
	return p.awaitReady(ctx)
}

func (p *Pooler) file() string { return filepath.Join(p.dir, "pgbouncer.ini") }

func (p *Pooler) begin() error {
	// No context: it outlives StartPooler, and Stop ends it.
	p.cmd = exec.Command(p.binary, "-q", p.file()) //nolint:noctx // see above
	p.cmd.Dir = p.dir
	p.run.prepare(p.cmd)
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return fmt.Errorf("start pgbouncer: %w", err)
	}
	p.exited = make(chan struct{})
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // how it ended is in its log
	}()
	return nil
}

// Crash kills the pooler; [Pooler.Resume] starts it again. A second call does
// nothing. It must not run beside Resume or Stop.
func (p *Pooler) Crash() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill() // it may have ended already
		<-p.exited
		p.cmd = nil
	}
}

// resumeTime is how long Resume looks whether a pooler ends at once.
const resumeTime = 300 * time.Millisecond

// Resume starts a crashed pooler again, on the same port. It does not wait for
// connections: all clients come back at once, and whoever looks is behind
// them.
func (p *Pooler) Resume(ctx context.Context) error {
	if p.cmd != nil {
		return nil
	}
	if err := p.begin(); err != nil {
		return err
	}
	select {
	case <-p.exited:
		p.Crash()
		log, _ := os.ReadFile(filepath.Join(p.dir, "log"))
		return fmt.Errorf("pgbouncer exited: %s", log[max(0, len(log)-1000):])
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(resumeTime):
		return nil
	}
}

func (p *Pooler) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		conn, err := pgconn.Connect(ctx, p.url)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-p.exited:
			log, _ := os.ReadFile(filepath.Join(p.dir, "log"))
			return fmt.Errorf("pgbouncer exited: %s", log)
		case <-ctx.Done():
			return fmt.Errorf("wait for pgbouncer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// URL is the address of the database through the pooler, with a ? and
// parameters in the end.
func (p *Pooler) URL() string { return p.url }

// Stop ends the pooler and removes its folder. A second call does nothing.
func (p *Pooler) Stop() error {
	p.Crash()
	if err := os.RemoveAll(p.dir); err != nil {
		return fmt.Errorf("remove folder: %w", err)
	}
	return nil
}
