package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/styxmq/styx/internal/testdb/server"
)

// postgresSettings are those of the server beside PostgreSQL's defaults.
var postgresSettings = []string{"shared_buffers=2GB", "max_wal_size=8GB", "max_connections=300", "synchronous_commit=on"}

// postgresServer is the server that all runs share.
type postgresServer struct {
	server  *server.Server
	admin   *pgx.Conn
	pid     int
	version string
	pages   hugePages
	huge    bool // whether it has them
	made    atomic.Int64
}

func startPostgres(ctx context.Context, huge bool) (p *postgresServer, err error) {
	p = &postgresServer{}
	if huge {
		if p.pages, err = reserveHugePages(); err != nil {
			return nil, err
		}
	}
	s, err := server.Start(ctx, server.Config{Settings: postgresSettings})
	if err != nil {
		return nil, errors.Join(err, p.pages.release())
	}
	p.server = s
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	if p.admin, err = pgx.Connect(ctx, s.URL()); err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	if err := p.admin.QueryRow(ctx, `SHOW server_version`).Scan(&p.version); err != nil {
		return nil, fmt.Errorf("read the server's version: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(s.Dir(), "data", "postmaster.pid"))
	if err != nil {
		return nil, fmt.Errorf("find the server's process: %w", err)
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	if p.pid, err = strconv.Atoi(string(line)); err != nil {
		return nil, fmt.Errorf("find the server's process: %w", err)
	}
	if p.huge, err = hasHugePages(p.pid); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *postgresServer) stop() error { return errors.Join(p.server.Stop(), p.pages.release()) }

// database is a stage of its own on the shared server.
type database struct {
	server *postgresServer
	name   string
	url    string
	conn   *pgx.Conn
}

func (p *postgresServer) newDatabase(ctx context.Context) (*database, error) {
	d := &database{server: p, name: fmt.Sprintf("run_%d", p.made.Add(1))}
	if _, err := p.admin.Exec(ctx, `CREATE DATABASE `+d.name); err != nil {
		return nil, fmt.Errorf("create a database: %w", err)
	}
	u, err := url.Parse(p.server.URL())
	if err != nil {
		return nil, fmt.Errorf("read the server's address: %w", err)
	}
	u.Path = "/" + d.name
	d.url = u.String()
	if d.conn, err = pgx.Connect(ctx, d.url); err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return d, d.checkpoint(ctx)
}

func (d *database) place() string { return d.url }

func (d *database) gauge(ctx context.Context) (g gauge, err error) {
	if err := d.conn.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint`).Scan(&g.wal); err != nil {
		return g, fmt.Errorf("read the position of the WAL: %w", err)
	}
	g.cpu, err = treeCPU(d.server.pid)
	return g, err
}

func (d *database) rest(ctx context.Context) error {
	if _, err := d.conn.Exec(ctx, `VACUUM (ANALYZE)`); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	return d.checkpoint(ctx)
}

func (d *database) checkpoint(ctx context.Context) error {
	if _, err := d.conn.Exec(ctx, `CHECKPOINT`); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

func (d *database) leftovers(ctx context.Context) (l leftovers, err error) {
	err = d.conn.QueryRow(ctx, `SELECT coalesce(sum(n_dead_tup), 0)::bigint, coalesce(sum(pg_total_relation_size(relid)), 0)::bigint
	FROM pg_stat_user_tables`).Scan(&l.dead, &l.bytes)
	if err != nil {
		return l, fmt.Errorf("read the size of the tables: %w", err)
	}
	return l, nil
}

// clients counts the connections of others to the database.
func (d *database) clients(ctx context.Context) (n int, err error) {
	err = d.conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
	WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the connections: %w", err)
	}
	return n, nil
}

func (d *database) close(ctx context.Context) error {
	err := d.conn.Close(ctx)
	if _, e := d.server.admin.Exec(ctx, `DROP DATABASE `+d.name+` WITH (FORCE)`); e != nil {
		err = errors.Join(err, fmt.Errorf("drop a database: %w", e))
	}
	return err
}
