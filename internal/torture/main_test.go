//go:build unix

package torture_test

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/styxmq/styx/internal/torture"
)

// The processes of a run are this binary again.
func TestMain(m *testing.M) {
	if torture.IsRole() {
		os.Exit(torture.RunRole(context.Background()))
	}
	goleak.VerifyTestMain(m)
}
