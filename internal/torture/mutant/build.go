//go:build unix

package mutant

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// variable turns one mutant on.
const variable = "STYX_MUTANT"

// helper is added to each package that is changed.
const helper = `package %s

import "os"

var mutated = os.Getenv("` + variable + `")

func mutant(name string) bool { return mutated == name }

func swap(name, good, bad string) string {
	if mutant(name) {
		return bad
	}
	return good
}

func unless(name, text string) string { return swap(name, text, "") }

var _, _ = swap, unless
`

// Build makes the torture program with all mutants in it, each turned off, in
// the folder dir. It needs the source and the go command.
func Build(ctx context.Context, dir string) (binary string, err error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the source: %w", err)
	}
	root := strings.TrimSpace(string(out))
	files, err := apply(root, Mutants())
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for name, text := range files {
		copied := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("write a changed copy: %w", err)
		}
		replace[filepath.Join(root, name)] = copied
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	plan := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(plan, overlay, 0o600); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	binary = filepath.Join(dir, "torture")
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", plan, "-o", binary, "./internal/torture/cmd/torture")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the mutants: %w\n%s", err, out)
	}
	return binary, nil
}

// apply returns the changed texts of the files, and the helpers, by their
// paths below root.
func apply(root string, mutants []Mutant) (map[string]string, error) {
	files := map[string]string{}
	for _, m := range mutants {
		for _, e := range m.edits {
			text, ok := files[e.file]
			if !ok {
				read, err := os.ReadFile(filepath.Join(root, e.file))
				if err != nil {
					return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
				}
				text = string(read)
				folder := path.Dir(e.file)
				files[path.Join(folder, "mutant_overlay.go")] = fmt.Sprintf(helper, path.Base(folder))
			}
			if n := strings.Count(text, e.old); n != 1 {
				return nil, fmt.Errorf("mutant %s: %q stands %d times in %s, not once", m.Name, e.old, n, e.file)
			}
			files[e.file] = strings.Replace(text, e.old, e.new, 1)
		}
	}
	return files, nil
}
