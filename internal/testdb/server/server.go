package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	readyTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
	attempts     = 3
)

// Config says how the server runs. The zero value is usable.
type Config struct {
	// BinDir holds initdb and postgres. Defaults to what [FindBinaries]
	// returns.
	BinDir string
	// Settings are server settings, as name=value, beside the address and
	// max_connections=300. Everything else is PostgreSQL's default, fsync
	// on among it.
	Settings []string
	// Env is added to the environment of the server, as name=value.
	Env []string
	// Parent is where the server's folder is made, WALParent where a folder
	// for its write-ahead log is; that must exist, be empty, and be reachable
	// for the server's user. They default to the temporary folder and to the
	// server's own. A WALParent is left to the caller to remove.
	Parent, WALParent string
	// Keep leaves the data folder behind, and shuts down so that the folder
	// can be used without a recovery.
	Keep bool
}

// Server is a running PostgreSQL server.
type Server struct {
	cfg      Config
	dir      string
	port     int
	password string
	run      *account
	cmd      *exec.Cmd
	exited   chan struct{}
}

// Start makes a data folder and starts a server on it; it returns when the
// server takes connections. Cancelling ctx gives up the start and has no part
// afterwards. The caller stops the server with [Server.Stop].
func Start(ctx context.Context, cfg Config) (*Server, error) {
	var err error
	if cfg.BinDir == "" {
		if cfg.BinDir, err = FindBinaries(ctx); err != nil {
			return nil, err
		}
	}
	s := &Server{cfg: cfg, password: rand.Text()}
	if s.run, err = unprivileged(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp(cfg.Parent, "styx-testpg-"); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	if err := s.bringUp(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, nil
}

// URL is the address of the server, with user and password.
func (s *Server) URL() string { return s.url(s.Addr()) }

func (s *Server) url(addr string) string {
	u := url.URL{
		Scheme: "postgres",
		User:   url.UserPassword("postgres", s.password),
		Host:   addr,
		Path:   "/postgres",
	}
	return u.String() + "?sslmode=disable"
}

// Dir is the folder of the server, with its data and its log.
func (s *Server) Dir() string { return s.dir }

// Stop ends the server and removes its folder, unless it is to be kept. It
// takes seconds at most. A second call does nothing.
func (s *Server) Stop() error {
	if s.cmd == nil {
		return nil
	}
	signal := immediateShutdown
	if s.cfg.Keep {
		signal = fastShutdown
	}
	s.end(signal)
	s.cmd = nil
	if s.cfg.Keep {
		return nil
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove data folder: %w", err)
	}
	return nil
}

func (s *Server) bringUp(ctx context.Context) error {
	if err := s.initData(ctx); err != nil {
		return err
	}
	var err error
	// Another process can take the free port between the look and the start.
	for range attempts {
		if s.port, err = freePort(ctx); err != nil {
			return err
		}
		if err = s.launch(); err != nil {
			return err
		}
		if err = s.awaitReady(ctx); err == nil {
			return nil
		}
		s.end(immediateShutdown)
		s.cmd = nil
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("start PostgreSQL: %w\n%s", err, s.logTail())
}

func (s *Server) initData(ctx context.Context) error {
	secret := filepath.Join(s.dir, "password")
	if err := os.WriteFile(secret, []byte(s.password), 0o600); err != nil {
		return fmt.Errorf("write password file: %w", err)
	}
	if err := errors.Join(s.run.own(s.dir), s.run.own(secret)); err != nil {
		return fmt.Errorf("hand over data folder: %w", err)
	}
	args := []string{
		"--pgdata=" + s.dataDir(), "--username=postgres", "--pwfile=" + secret, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-sync",
	}
	if s.cfg.WALParent != "" {
		wal := filepath.Join(s.cfg.WALParent, "wal")
		if err := errors.Join(os.Mkdir(wal, 0o700), s.run.own(wal)); err != nil {
			return fmt.Errorf("make folder for the log: %w", err)
		}
		args = append(args, "--waldir="+wal)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.cfg.BinDir, "initdb"), args...)
	cmd.Dir = s.dir
	s.run.prepare(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run initdb in %s (its user must be able to reach that folder): %w\n%s", s.dir, err, out)
	}
	if err := os.Remove(secret); err != nil {
		return fmt.Errorf("remove password file: %w", err)
	}
	return nil
}

func (s *Server) launch() error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log file: %w", err)
	}
	defer log.Close() // the server has its own handle

	args := []string{"-D", s.dataDir()}
	settings := append([]string{
		"listen_addresses=127.0.0.1",
		"port=" + strconv.Itoa(s.port),
		"unix_socket_directories=" + s.dir,
		"max_connections=300",
	}, s.cfg.Settings...)
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	// No context: the server outlives Start, and Stop ends it.
	cmd := exec.Command(filepath.Join(s.cfg.BinDir, "postgres"), args...) //nolint:noctx // see above
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	if len(s.cfg.Env) > 0 {
		cmd.Env = append(os.Environ(), s.cfg.Env...)
	}
	s.run.prepare(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // how it ended is in its log
	}()
	s.cmd, s.exited = cmd, exited
	return nil
}

func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		conn, err := pgconn.Connect(ctx, s.URL())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.exited:
			return errors.New("the server exited")
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *Server) end(signal os.Signal) {
	_ = s.cmd.Process.Signal(signal) // it may have ended already
	select {
	case <-s.exited:
	case <-time.After(stopTimeout):
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
}

func (s *Server) dataDir() string { return filepath.Join(s.dir, "data") }

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// logTail returns the end of the server's log, for an error message.
func (s *Server) logTail() []byte {
	const limit = 4096
	f, err := os.Open(s.logFile())
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil
	}
	return bytes.TrimSpace(text[max(0, len(text)-limit):])
}

func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
