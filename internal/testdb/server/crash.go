package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// Crash ends the server as `pg_ctl stop -m immediate` does: at once, without
// a checkpoint, so that the next start has to recover from the log. The data
// stay. [Server.Resume] starts it again, [Server.Stop] removes it. A second
// call does nothing. It must not run beside Resume or Stop.
func (s *Server) Crash() { s.end(immediateShutdown) }

// SetEnv changes what is added to the environment of the server from its next
// start on. It must not run beside Resume.
func (s *Server) SetEnv(env []string) { s.cfg.Env = env }

// Resume starts a crashed server again, on the same port and with the same
// settings, and returns when it takes connections. It does nothing when the
// server runs.
func (s *Server) Resume(ctx context.Context) error {
	select {
	case <-s.exited:
	default:
		return nil
	}
	var err error
	// Something else may have the port for a moment.
	for range attempts {
		if err = s.launch(); err != nil {
			return err
		}
		if err = s.awaitReady(ctx); err == nil {
			return nil
		}
		s.end(immediateShutdown)
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("start PostgreSQL again: %w\n%s", err, s.logTail())
}

// AwaitReady returns when the server takes connections, for one that restarts
// by itself after one of its processes was killed.
func (s *Server) AwaitReady(ctx context.Context) error {
	select {
	case <-s.exited:
		return errors.New("the server has ended")
	default:
		return s.awaitReady(ctx)
	}
}

// Addr is the host and port that the server listens on.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URLAt is the address of the server as seen through another host and port,
// such as a proxy's.
func (s *Server) URLAt(addr string) string { return s.url(addr) }
