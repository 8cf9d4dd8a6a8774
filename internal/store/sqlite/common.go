package sqlite

import (
	"database/sql"
	"runtime"
	"sync"
	"weak"
)

// common is what all stores of one *sql.DB share, for as long as there is one.
type common struct {
	lock  queue
	group group
	bell  bell
	cache *cache
}

// commons holds on to neither the databases nor what their stores share.
var commons = struct {
	mu  sync.Mutex
	all map[weak.Pointer[sql.DB]]weak.Pointer[common]
}{all: map[weak.Pointer[sql.DB]]weak.Pointer[common]{}}

// commonOf returns what the stores of db share.
func commonOf(db *sql.DB) *common {
	key := weak.Make(db)
	commons.mu.Lock()
	defer commons.mu.Unlock()
	if c := commons.all[key].Value(); c != nil {
		return c
	}
	c := &common{cache: &cache{}}
	commons.all[key] = weak.Make(c)
	runtime.AddCleanup(c, forget, gone{key, c.cache})
	return c
}

// gone is what is left of a common that nobody uses any more.
type gone struct {
	key   weak.Pointer[sql.DB]
	cache *cache
}

func forget(g gone) {
	commons.mu.Lock()
	if commons.all[g.key].Value() == nil { // else another took its place
		delete(commons.all, g.key)
	}
	commons.mu.Unlock()
	g.cache.close()
}
