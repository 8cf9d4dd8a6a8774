package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	redisReady = 20 * time.Second
	redisStop  = 20 * time.Second
	redisLook  = 20 * time.Millisecond
)

// redisServer is a Redis of one run, with a port and a folder of its own.
type redisServer struct {
	dir    string
	addr   string
	cmd    *exec.Cmd
	exited chan struct{}
}

func startRedis(ctx context.Context) (r *redisServer, err error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("asynq needs redis-server, on Debian the package redis-server: %w", err)
	}
	dir, err := os.MkdirTemp("", "styx-peers-redis-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for Redis: %w", err)
	}
	r = &redisServer{dir: dir, exited: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a port for Redis: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return nil, fmt.Errorf("find a port for Redis: %w", err)
	}
	r.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, fmt.Errorf("make a log for Redis: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }() // Redis has its own handle
	// No context: close ends it.
	r.cmd = exec.Command(binary, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, //nolint:noctx // see above
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--daemonize", "no")
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start Redis: %w", err)
	}
	go func(cmd *exec.Cmd, exited chan<- struct{}) {
		defer close(exited)
		_ = cmd.Wait() // how it ended is in its log
	}(r.cmd, r.exited)
	if err := r.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, r.end())
	}
	return r, nil
}

func (r *redisServer) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, redisReady)
	defer cancel()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "tcp", r.addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-r.exited:
			log, _ := os.ReadFile(filepath.Join(r.dir, "log"))
			return fmt.Errorf("start Redis: it exited\n%s", log)
		case <-ctx.Done():
			return fmt.Errorf("start Redis: %w", err)
		case <-time.After(redisLook):
		}
	}
}

func (r *redisServer) place() string { return r.addr }

func (r *redisServer) gauge(context.Context) (g gauge, err error) {
	g.cpu, err = treeCPU(r.cmd.Process.Pid)
	return g, err
}

func (r *redisServer) rest(context.Context) error { return nil }

// leftovers counts the size of the append-only file.
func (r *redisServer) leftovers(context.Context) (l leftovers, err error) {
	files, err := filepath.Glob(filepath.Join(r.dir, "appendonlydir", "*"))
	if err != nil {
		return l, err
	}
	if old, e := os.Stat(filepath.Join(r.dir, "appendonly.aof")); e == nil {
		l.bytes += old.Size() // before Redis 7
	}
	for _, file := range files {
		if info, e := os.Stat(file); e == nil { // else a rewrite has replaced it
			l.bytes += info.Size()
		}
	}
	return l, nil
}

func (r *redisServer) close(context.Context) error { return errors.Join(r.end(), os.RemoveAll(r.dir)) }

func (r *redisServer) end() error {
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-r.exited:
		return nil
	case <-time.After(redisStop):
	}
	err := r.cmd.Process.Kill()
	<-r.exited
	return err
}
