package server

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// MinVersion is the oldest major version of PostgreSQL that Styx supports.
const MinVersion = 15

// ErrNoBinaries reports that no PostgreSQL server of a supported version is
// installed.
var ErrNoBinaries = fmt.Errorf("no PostgreSQL server binaries (initdb, postgres) of version %d or newer", MinVersion)

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// FindBinaries returns the folder that holds the newest initdb and postgres
// among the PATH and the usual folders, or [ErrNoBinaries].
func FindBinaries(ctx context.Context) (string, error) {
	var best string
	newest := MinVersion - 1
	for _, dir := range candidates() {
		version, err := majorVersion(ctx, dir)
		if err == nil && version > newest {
			best, newest = dir, version
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if best == "" {
		return "", ErrNoBinaries
	}
	return best, nil
}

func candidates() []string {
	var dirs []string
	for _, name := range []string{"postgres", "pg_ctl", "initdb"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		// Debian and others link single programs into a folder of the PATH.
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/usr/local/pgsql/bin",
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
	} {
		found, _ := filepath.Glob(pattern) // the patterns are well-formed
		dirs = append(dirs, found...)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func majorVersion(ctx context.Context, dir string) (int, error) {
	if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0, err
	}
	match := versionPattern.FindSubmatch(out)
	if match == nil {
		return 0, errors.New("postgres --version names no version")
	}
	return strconv.Atoi(string(match[1]))
}
