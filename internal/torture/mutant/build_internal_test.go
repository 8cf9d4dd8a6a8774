//go:build unix

package mutant

import (
	"go/parser"
	"go/token"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func root(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// Every place that a mutant changes is still there.
func TestApply(t *testing.T) {
	t.Parallel()
	files, err := apply(root(t), Mutants())
	require.NoError(t, err)
	for name, text := range files {
		_, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		require.NoError(t, err)
	}
	require.Contains(t, files, "worker/mutant_overlay.go")
}

func TestApplyRefusesAPlaceThatIsGone(t *testing.T) {
	t.Parallel()
	for _, old := range []string{"no such text", "return"} {
		_, err := apply(root(t), []Mutant{{Name: "x", edits: []edit{{ledger, old, ""}}}})
		require.ErrorContains(t, err, "not once")
	}
	_, err := apply(root(t), []Mutant{{Name: "x", edits: []edit{{"no/such.go", "", ""}}}})
	require.ErrorContains(t, err, "mutant x")
}
