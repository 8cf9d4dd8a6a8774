package sqlite_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/client/sqlite"
)

func open(t *testing.T, path string) *bun.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func exec(t *testing.T, db bun.IDB, query string, args ...any) {
	t.Helper()
	_, err := db.NewRaw(query, args...).Exec(t.Context())
	require.NoError(t, err)
}

func pragma(t *testing.T, db bun.IDB, name string) string {
	t.Helper()
	var value string
	require.NoError(t, db.NewRaw("PRAGMA "+name).Scan(t.Context(), &value))
	return value
}

func TestOpenRoundTrip(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "styx.db")
	db := open(t, path)
	exec(t, db, "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
	exec(t, db, "INSERT INTO notes VALUES (?, ?)", int64(1)<<60, "naïve ?")

	var id int64
	var text string
	require.NoError(t, open(t, path).NewRaw("SELECT id, text FROM notes").Scan(t.Context(), &id, &text))
	require.Equal(t, int64(1)<<60, id)
	require.Equal(t, "naïve ?", text)
}

// Reported as rails/solid_queue#385.
func TestOpenSetsEveryConnection(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "styx.db"))
	require.Equal(t, sqlite.MaxOpenConns, db.Stats().MaxOpenConnections)

	for range sqlite.MaxOpenConns { // all held at once, so each is another one
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		for name, want := range map[string]string{
			"journal_mode":       "wal",
			"synchronous":        "2", // FULL
			"busy_timeout":       "10000",
			"journal_size_limit": "67108864",
			"temp_store":         "2", // MEMORY
			"cache_size":         "-16384",
		} {
			require.Equal(t, want, pragma(t, conn, name), name)
		}
	}
	require.Equal(t, sqlite.MaxOpenConns, db.Stats().InUse)
}

func TestOpenOddPaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"plain.db", "two words.db", "q?mode=memory&_pragma=synchronous(OFF).db", "hash#tag.db", "100%.db", "%41.db",
		"plus+sign.db", "naïve ☃.db", ":memory:", "file:styx.db", "semi;colon&and=.db", `back\slash"quote'.db`, "?", "#",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), name)
			db := open(t, path)
			exec(t, db, "CREATE TABLE here (id INTEGER)")

			entries, err := os.ReadDir(filepath.Dir(path))
			require.NoError(t, err)
			var names []string
			for _, entry := range entries {
				names = append(names, entry.Name())
			}
			require.ElementsMatch(t, []string{name, name + "-wal", name + "-shm"}, names)
			require.Equal(t, "2", pragma(t, db, "synchronous"))
		})
	}
}

func TestOpenURI(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a b%.db")
	exec(t, open(t, path), "CREATE TABLE here (id INTEGER)")
	escaped := (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()

	for name, test := range map[string]struct{ uri, synchronous string }{
		"one slash":    {"file:" + escaped, "2"},
		"three":        {"file://" + escaped, "2"},
		"localhost":    {"file://localhost" + escaped, "2"},
		"fragment":     {"file:" + escaped + "#part", "2"},
		"pragma":       {"file:" + escaped + "?_pragma=Synchronous(NORMAL)", "1"},
		"pragma spelt": {"file:" + escaped + "?_pragma=synchronous%3D1", "1"},
		"shorthand":    {"file:" + escaped + "?_sync=EXTRA&cache=private", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, test.uri)
			require.Equal(t, test.synchronous, pragma(t, db, "synchronous"))
			require.Equal(t, "wal", pragma(t, db, "journal_mode"))
			exec(t, db, "SELECT id FROM here")
		})
	}
}

func TestOpenReadOnlyURI(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "styx.db")
	exec(t, open(t, path), "CREATE TABLE here (id INTEGER)")

	_, err := open(t, "file:"+filepath.ToSlash(path)+"?mode=ro").NewRaw("INSERT INTO here VALUES (1)").Exec(t.Context())
	var sqliteErr *driver.Error
	require.ErrorAs(t, err, &sqliteErr)
	require.Equal(t, sqlite3.SQLITE_READONLY, sqliteErr.Code())
}

// Not parallel: it changes the working folder.
func TestOpenResolvesRelativePathOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	db := open(t, "styx.db")
	exec(t, db, "CREATE TABLE here (id INTEGER)")
	held, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, held.Close()) }()

	t.Chdir(t.TempDir())
	exec(t, db, "SELECT id FROM here") // on a second connection
}

func TestOpenRefusesPath(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ path, code string }{
		"empty":            {"", message.CodeRequired},
		"memory":           {":memory:", message.CodeInvalid},
		"memory URI":       {"file::memory:", message.CodeInvalid},
		"memory mode":      {"file:styx.db?mode=memory&cache=shared", message.CodeInvalid},
		"memory vfs":       {"file:/styx.db?vfs=memdb", message.CodeInvalid},
		"temporary URI":    {"file:", message.CodeInvalid},
		"host in the URI":  {"file://example.com/styx.db", message.CodeInvalid},
		"escape":           {"file:100%.db", message.CodeInvalid},
		"options":          {"file:styx.db?a=%zz", message.CodeInvalid},
		"NUL":              {"styx\x00.db", message.CodeEncoding},
		"NUL in the URI":   {"file:styx%00.db", message.CodeEncoding},
		"options with ';'": {"file:styx.db?a=1;b=2", message.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := sqlite.Open(t.Context(), test.path)
			var invalid *message.ValidationError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, "path", invalid.Field)
			require.Equal(t, test.code, invalid.Code)
		})
	}
}

func TestOpenMissingFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "missing", "styx.db")
	_, err := sqlite.Open(t.Context(), path)
	require.ErrorContains(t, err, path)
	var sqliteErr *driver.Error
	require.ErrorAs(t, err, &sqliteErr)
	require.Equal(t, sqlite3.SQLITE_CANTOPEN, sqliteErr.Code()&0xff)
}

func TestOpenNotADatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "styx.db")
	require.NoError(t, os.WriteFile(path, []byte("this is a letter, not a database; do not touch it\n"), 0o600))
	_, err := sqlite.Open(t.Context(), path)
	var sqliteErr *driver.Error
	require.ErrorAs(t, err, &sqliteErr)
	require.Equal(t, sqlite3.SQLITE_NOTADB, sqliteErr.Code())
}

func TestOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	path := filepath.Join(t.TempDir(), "styx.db")
	db, err := sqlite.Open(ctx, path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()

	cancel()
	require.NoError(t, db.PingContext(t.Context()))
	_, err = sqlite.Open(ctx, path)
	require.ErrorIs(t, err, context.Canceled)
}

// Many programs that start at once find no file, and each turns it into WAL.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "styx.db")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			db, err := sqlite.Open(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// A transaction that reads first and writes then must not fail because others
// do the same.
// Reported as rails/solid_queue#309 and David-Crty/databasement#233.
func TestTransactionsQueueForTheWriteLock(t *testing.T) {
	t.Parallel()
	const writers, rounds = 4, 25
	path := filepath.Join(t.TempDir(), "styx.db")
	db := open(t, path)
	exec(t, db, "CREATE TABLE counter (n INTEGER)")
	exec(t, db, "INSERT INTO counter VALUES (0)")

	increment := func(ctx context.Context, tx bun.Tx) error {
		var n int
		if err := tx.NewRaw("SELECT n FROM counter").Scan(ctx, &n); err != nil {
			return err
		}
		_, err := tx.NewRaw("UPDATE counter SET n = ?", n+1).Exec(ctx)
		return err
	}
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range rounds {
				if err := db.RunInTx(t.Context(), nil, increment); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	var n int
	require.NoError(t, db.NewRaw("SELECT n FROM counter").Scan(t.Context(), &n))
	require.Equal(t, writers*rounds, n)
}
