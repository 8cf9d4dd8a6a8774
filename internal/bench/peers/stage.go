package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// gauge is what a server has used so far.
type gauge struct {
	cpu time.Duration
	wal int64 // bytes
}

func (g gauge) since(before gauge) gauge {
	return gauge{cpu: g.cpu - before.cpu, wal: g.wal - before.wal}
}

// leftovers are what a run leaves in the database.
type leftovers struct {
	dead  int64 // dead tuples of all tables
	bytes int64 // size of all tables with their indexes
}

// stage is an empty place for one run of one system.
type stage interface {
	// place is what the system's open is told.
	place() string
	gauge(ctx context.Context) (gauge, error)
	// rest brings the server to a known state between two phases.
	rest(ctx context.Context) error
	leftovers(ctx context.Context) (leftovers, error)
	close(ctx context.Context) error
}

// newStage makes an empty place on the entry's engine.
func (h *harness) newStage(ctx context.Context, e entry) (stage, error) {
	switch e.engine {
	case onPostgres:
		return h.postgres.newDatabase(ctx)
	case onRedis:
		return startRedis(ctx)
	case onSQLite:
		return newFileStage()
	}
	return nil, fmt.Errorf("no such engine: %q", e.engine)
}

// fileStage is a folder with an SQLite database.
type fileStage struct{ dir string }

func newFileStage() (*fileStage, error) {
	dir, err := os.MkdirTemp("", "styx-peers-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	return &fileStage{dir: dir}, nil
}

func (f *fileStage) place() string { return filepath.Join(f.dir, "styx.db") }

func (f *fileStage) gauge(context.Context) (gauge, error) { return gauge{}, nil } // all is in the process

func (f *fileStage) rest(context.Context) error { return nil }

func (f *fileStage) leftovers(context.Context) (l leftovers, err error) {
	files, err := os.ReadDir(f.dir)
	if err != nil {
		return l, fmt.Errorf("read the size of the database: %w", err)
	}
	for _, file := range files {
		info, e := file.Info()
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		l.bytes += info.Size()
	}
	return l, err
}

func (f *fileStage) close(context.Context) error { return os.RemoveAll(f.dir) }
