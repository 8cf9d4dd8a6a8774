package worker_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childVariable names what this binary does in place of its tests: some
// proofs need processes that can be killed.
const childVariable = "STYX_WORKER_TEST_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childVariable); name != "" {
		child, ok := children[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "no such child:", name)
			os.Exit(2)
		}
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
