package sqlite

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

const (
	// cacheSize bounds the statements that are kept, each of them once for
	// every connection that has used it.
	cacheSize = 96
	// cacheAfter is how often a statement must come before it is kept.
	cacheAfter = 3
	// cacheTexts bounds the texts whose uses are counted.
	cacheTexts = 1024
	// cachePatience is how long to wait for a connection to prepare on.
	cachePatience = 10 * time.Millisecond
)

// cache keeps the statements that come often: SQLite takes longer to prepare
// a short one than to run it.
type cache struct {
	mu    sync.Mutex
	kept  map[string]*sql.Stmt
	uses  map[string]int
	ended bool
}

// get returns the statement if it is kept. wanted reports that it should be.
func (c *cache) get(query string) (stmt *sql.Stmt, wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stmt := c.kept[query]; stmt != nil || len(c.kept) >= cacheSize {
		return stmt, false
	}
	if c.uses == nil {
		c.uses = map[string]int{}
	}
	if n := c.uses[query]; n > 0 || len(c.uses) < cacheTexts {
		c.uses[query] = n + 1
		return nil, n+1 >= cacheAfter
	}
	return nil, false
}

// keep prepares statements on the pool, where it may have to wait for a
// connection. One that fails is left for another time.
func (c *cache) keep(ctx context.Context, db *sql.DB, queries []string) {
	if len(queries) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cachePatience)
	defer cancel()
	for _, query := range queries {
		stmt, err := db.PrepareContext(ctx, query)
		if err != nil {
			return
		}
		c.add(query, stmt)
	}
}

func (c *cache) add(query string, stmt *sql.Stmt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.kept[query] != nil || len(c.kept) >= cacheSize {
		_ = stmt.Close()
		return
	}
	if c.kept == nil {
		c.kept = map[string]*sql.Stmt{}
	}
	c.kept[query] = stmt
	delete(c.uses, query)
}

// close gives the statements back.
func (c *cache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, stmt := range c.kept {
		_ = stmt.Close()
	}
	clear(c.kept)
}

// row runs a query that comes often and reads its only row.
func (s *Store) row(ctx context.Context, dest []any, query string, args ...any) error {
	stmt, wanted := s.common.cache.get(query)
	if stmt != nil {
		return stmt.QueryRowContext(ctx, args...).Scan(dest...)
	}
	err := s.sql.QueryRowContext(ctx, query, args...).Scan(dest...)
	if err == nil && wanted {
		s.common.cache.keep(ctx, s.sql, []string{query})
	}
	return err
}
