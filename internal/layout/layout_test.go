package layout_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/styxmq/styx"

// pkg is what `go list -json` says of a package, without its tests.
type pkg struct {
	ImportPath string
	Incomplete bool     // it, or a package that it needs, is missing or broken
	Imports    []string // direct ones
	Deps       []string // all
}

func (p pkg) path() string { return relative(p.ImportPath) }

// relative names a package of this module by its folder, ./worker; others
// keep their import path.
func relative(importPath string) string {
	if rest, ok := strings.CutPrefix(importPath, module+"/"); ok {
		return "./" + rest
	}
	return importPath
}

func run(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...) //nolint:noctx // shared by the tests, bounded by go test
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(err, errors.New(stderr.String()))
	}
	return out, nil
}

var list = sync.OnceValues(func() ([]pkg, error) {
	out, err := run("go", "list", "-e", "-json=ImportPath,Incomplete,Imports,Deps", module+"/...")
	if err != nil {
		return nil, err
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
})

func packages(t *testing.T) []pkg {
	t.Helper()
	pkgs, err := list()
	require.NoError(t, err)
	return pkgs
}

// under reports whether the package, or import path, lies in the tree.
func under(path, tree string) bool { return path == tree || strings.HasPrefix(path, tree+"/") }

func underAny(path string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return under(path, tree) })
}

func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

func TestPackagesExist(t *testing.T) {
	t.Parallel()
	var have []string
	for _, p := range packages(t) {
		have = append(have, p.path())
		if p.Incomplete {
			t.Errorf("%s, or what it imports, is missing or broken", p.path())
		}
	}
	require.Subset(t, have, []string{
		"./client", "./client/message", "./client/postgres", "./client/sqlite", "./worker", "./reaper", "./reaper/cmd/reaper",
		"./internal/store", "./internal/store/postgres", "./internal/store/sqlite",
	})
}

// Each rule forbids, to the packages of a tree, some import paths however far
// away.
func TestArrows(t *testing.T) {
	t.Parallel()
	drivers := []string{"github.com/jackc", "github.com/lib/pq", "modernc.org", "github.com/mattn/go-sqlite3"}
	unwanted := slices.Concat(drivers, []string{
		"github.com/stretchr/testify", "go.uber.org/goleak", "testing", "go.opentelemetry.io/otel/sdk",
		"github.com/spf13", "./internal/testdb", "./internal/store/storetest",
	})
	for _, rule := range []struct {
		name   string
		trees  []string
		except []string
		forbid []string
		direct bool // look at direct imports only
	}{
		{name: "siblings: client", trees: []string{"./client"}, forbid: []string{"./worker", "./reaper"}},
		{name: "siblings: worker", trees: []string{"./worker"}, forbid: []string{"./reaper", "./client/postgres", "./client/sqlite"}},
		{name: "reaper links no engine", trees: []string{"./reaper"}, except: []string{"./reaper/cmd", "./reaper/internal/cli"}, forbid: drivers},
		{
			name:   "what users import is lean",
			trees:  []string{"./client", "./worker", "./reaper"},
			except: []string{"./client/postgres", "./client/sqlite", "./worker/workertest", "./reaper/cmd", "./reaper/internal"},
			forbid: unwanted,
		},
		{name: "one engine: postgres", trees: []string{"./client/postgres"}, forbid: []string{"modernc.org", "./internal/store/sqlite", "testing"}},
		{name: "one engine: sqlite", trees: []string{"./client/sqlite"}, forbid: []string{"github.com/jackc", "./internal/store/postgres", "testing"}},
		{name: "the store links no driver", trees: []string{"./internal/store"}, except: []string{"./internal/store/storetest"}, forbid: drivers},
		{name: "the store is at the bottom", trees: []string{"./internal/store"}, forbid: []string{"./worker", "./reaper"}},
		{name: "store dialects: postgres", trees: []string{"./internal/store/postgres"}, forbid: []string{"./internal/store/sqlite"}},
		{name: "store dialects: sqlite", trees: []string{"./internal/store/sqlite"}, forbid: []string{"./internal/store/postgres"}},
		{
			name:   "the public API suffices",
			trees:  []string{"./reaper/internal/httpapi", "./reaper/internal/dashboard", "./reaper/internal/cli", "./reaper/cmd"},
			forbid: []string{"./internal/store", "./internal/engine"}, direct: true,
		},
		{name: "examples are users", trees: []string{"./examples"}, forbid: []string{"./internal", "./reaper/internal"}, direct: true},
		{name: "nothing imports the examples", trees: []string{"./client", "./worker", "./reaper", "./internal"}, forbid: []string{"./examples"}},
		{
			name:   "only Open links a driver",
			trees:  []string{"./client", "./worker", "./reaper", "./examples", "./internal"},
			except: []string{"./client/postgres", "./client/sqlite", "./internal/testdb"},
			forbid: drivers, direct: true,
		},
	} {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range packages(t) {
				if !underAny(p.path(), rule.trees...) || underAny(p.path(), rule.except...) {
					continue
				}
				imports := p.Deps
				if rule.direct {
					imports = p.Imports
				}
				for _, imported := range imports {
					if underAny(relative(imported), rule.forbid...) {
						t.Errorf("%s must not import %s", p.path(), relative(imported))
					}
				}
			}
		})
	}
}

// What a package may import at most, of what is not in the standard library.
func TestAllowedImports(t *testing.T) {
	t.Parallel()
	allowed := map[string][]string{
		"./client/message": {},
		"./internal/store": {"./client/message", "github.com/uptrace/bun"},
	}
	for _, p := range packages(t) {
		trees, ok := allowed[p.path()]
		if !ok {
			continue
		}
		for _, imported := range p.Imports {
			if !standard(imported) && !underAny(relative(imported), trees...) {
				t.Errorf("%s must not import %s", p.path(), relative(imported))
			}
		}
	}
}

// The worker knows of the client no more than the messages.
func TestWorkerAndClientMeetInMessage(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if !under(p.path(), "./worker") {
			continue
		}
		for _, imported := range p.Deps {
			if rel := relative(imported); under(rel, "./client") && rel != "./client/message" {
				t.Errorf("%s must not import %s", p.path(), rel)
			}
		}
	}
}

func TestTopLevel(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"worker", "client", "reaper", "examples", "internal",
		"go.mod", "go.sum", "README.md", "CHANGELOG.md", "LICENSE", "Makefile",
	}
	root, err := run("go", "list", "-m", "-f", "{{.Dir}}", module)
	require.NoError(t, err)
	out, err := run("git", "-C", strings.TrimSpace(string(root)), "ls-files", "-z")
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("not a git checkout")
	}
	require.NoError(t, err)
	for file := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		top, _, _ := strings.Cut(path.Clean(file), "/")
		if !strings.HasPrefix(top, ".") && !slices.Contains(allowed, top) {
			t.Errorf("%s does not belong at the top of the repository", top)
		}
	}
}
