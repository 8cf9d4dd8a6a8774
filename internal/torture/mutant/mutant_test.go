//go:build unix

package mutant_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/styxmq/styx/internal/testdb/server"
	"github.com/styxmq/styx/internal/torture/mutant"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every mutant can be built, and those are caught that do their harm at once;
// `make mutants` hunts all of them.
func TestMutants(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes a minute")
	}
	if _, err := server.FindBinaries(t.Context()); errors.Is(err, server.ErrNoBinaries) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	binary, err := mutant.Build(t.Context(), t.TempDir())
	require.NoError(t, err)
	mutants := slices.DeleteFunc(mutant.Mutants(), func(m mutant.Mutant) bool {
		return !slices.Contains([]string{"claim-without-guard", "archive-dropped", "reaper-without-lease"}, m.Name)
	})
	catches, control, err := mutant.Hunt(t.Context(), binary, mutants, 1)
	require.NoError(t, err)
	var out bytes.Buffer
	mutant.Write(&out, catches)
	t.Logf("\n%s\nwithout a mutant: %s", out.String(), control.Line())
	for _, c := range catches {
		require.NoError(t, c.Err, c.Mutant.Name)
		require.True(t, c.Caught, c.Mutant.Name)
	}
	require.Empty(t, control.Violations)
}
