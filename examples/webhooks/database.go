package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/styxmq/styx/client"
	"github.com/styxmq/styx/client/postgres"
	"github.com/styxmq/styx/client/sqlite"
)

// open opens the database that the environment names, else one in a temporary
// folder, which closeDB removes.
func open(ctx context.Context) (db *bun.DB, schema string, closeDB func() error, err error) {
	url := cmp.Or(os.Getenv("STYX_DATABASE_URL"), os.Getenv("DATABASE_URL"))
	switch {
	case strings.HasPrefix(url, "postgres://"), strings.HasPrefix(url, "postgresql://"):
		if db, err = postgres.Open(ctx, url); err != nil {
			return nil, "", nil, err
		}
		return db, fmt.Sprintf("styx_webhooks_%d", os.Getpid()), db.Close, nil
	case url != "":
		return nil, "", nil, errors.New("the database URL in the environment must begin with postgres://; without one SQLite is used")
	}
	dir, err := os.MkdirTemp("", "styx-webhooks-")
	if err != nil {
		return nil, "", nil, err
	}
	if db, err = sqlite.Open(ctx, filepath.Join(dir, "styx.db")); err != nil {
		return nil, "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return db, "", func() error { return errors.Join(db.Close(), os.RemoveAll(dir)) }, nil
}

// remove takes the tables away, and with them the schema; it does so even
// after Ctrl-C.
func remove(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_, err := c.Migrations().Down(ctx, 0)
	return err
}
