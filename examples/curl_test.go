package examples_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serve runs the daemon of a place until the test ends and returns its address.
func serve(t *testing.T, at place) string {
	t.Helper()
	database := at.database
	if database == "" {
		database = "sqlite:" + filepath.Join(at.folder, "styx.db")
	}
	program := filepath.Join(t.TempDir(), "reaper")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../reaper/cmd/reaper").CombinedOutput()
	require.NoError(t, err, string(out))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "run", "--listen", "127.0.0.1:0", "--migrate", "--database-url", database, "-o", "json")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	found, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			var line struct{ URL string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.URL != "" {
				found <- line.URL
			}
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		<-ended
		require.NoError(t, cmd.Wait())
	})
	select {
	case address := <-found:
		return address
	case <-ended:
		require.Fail(t, "the daemon ended")
	case <-time.After(patience):
		require.Fail(t, "the daemon does not serve")
	}
	return ""
}

// script runs one of the shell scripts against a server.
func script(t *testing.T, name, api string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join("curl", name))
	cmd.Env = append(cmd.Environ(), "STYX_API_URL="+api, "STYX_API_TOKEN=")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, stderr.String())
	return string(out)
}

func TestCurl(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, at place) {
		api := serve(t, at)
		require.Equal(t, `enqueued for ada@example.com
enqueued for nobody@example.com
enqueued for grace@example.com
sent to ada@example.com
failed: no mailbox nobody@example.com
sent to grace@example.com
dead letters: 1
replayed
sent to nobody@example.com
succeeded 3 dead 0
`, script(t, "worker.sh", api))
		require.Regexp(t, `^\d+ calls answered as they should\n$`, script(t, "lifecycle.sh", api))
	})
}
