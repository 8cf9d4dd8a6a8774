package observability_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/styxmq/styx/internal/telemetry"
	"github.com/styxmq/styx/internal/testdb"
)

// patience bounds every wait for an event.
const patience = time.Minute

// service is one of the Compose file.
type service struct {
	Image       string
	Command     []string
	Environment map[string]string
	Volumes     []string
}

func services(t *testing.T) map[string]service {
	t.Helper()
	var file struct{ Services map[string]service }
	parse(t, "compose.yaml", &file)
	for _, name := range []string{"postgres", "prometheus", "grafana", "collector", "jaeger", "reaper", "worker"} {
		require.Contains(t, file.Services, name)
	}
	for name, s := range file.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			_, err := os.Stat(source)
			require.NoError(t, err, "a volume of %s", name)
		}
	}
	return file.Services
}

// process is a running program whose output is read until a line matches.
type process struct {
	cmd    *exec.Cmd
	mu     sync.Mutex
	output strings.Builder
	done   chan struct{} // its output has ended
}

// start runs a program, and stops it when the test ends, which it must do in
// good order.
func start(t *testing.T, env map[string]string, path string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(path, args...), done: make(chan struct{})} //nolint:noctx // it is stopped by a signal
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "OTEL_") && !strings.HasSuffix(name, "DATABASE_URL") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	for name, value := range env {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	r, w := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = w, w
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			p.mu.Lock()
			fmt.Fprintln(&p.output, lines.Text())
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
		defer kill.Stop()
		err := p.cmd.Wait()
		_ = w.Close()
		<-p.done
		if err != nil {
			t.Errorf("%s: %v\n%s", filepath.Base(path), err, p.text())
		}
	})
	return p
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// find waits for what the expression's group matches in the output.
func (p *process) find(t *testing.T, expression string) string {
	t.Helper()
	pattern := regexp.MustCompile(expression)
	var found []string
	require.Eventually(t, func() bool {
		found = pattern.FindStringSubmatch(p.text())
		return found != nil
	}, patience, 20*time.Millisecond, "%s: %s", p.cmd.Path, expression)
	return found[1]
}

// collector counts what arrives by OTLP.
type collector struct {
	mu    sync.Mutex
	paths map[string]int
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	c.mu.Lock()
	c.paths[r.URL.Path]++
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *collector) count(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paths[path]
}

// run starts a service of the Compose file from the local build: the same
// arguments and variables, but for addresses.
func (s service) run(t *testing.T, database, otlp string) *process {
	t.Helper()
	args := slices.Clone(s.Command)
	for i, a := range args {
		args[i] = regexp.MustCompile(`^0\.0\.0\.0:\d+$`).ReplaceAllString(a, "127.0.0.1:0")
	}
	env := map[string]string{"OTEL_BSP_SCHEDULE_DELAY": "500"}
	for name, value := range s.Environment {
		switch name {
		case "DATABASE_URL":
			value = database
		case "OTEL_EXPORTER_OTLP_ENDPOINT":
			value = otlp
		}
		env[name] = value
	}
	return start(t, env, program(t, args[0]), args[1:]...)
}

// scrape starts Prometheus with the configuration of this folder on the given
// targets, and returns its URL.
func scrape(t *testing.T, targets ...string) string {
	t.Helper()
	binary := tool(t, "prometheus")
	var config map[string]any
	parse(t, filepath.Join("prometheus", "prometheus.yml"), &config)
	config["global"] = map[string]string{"scrape_interval": "1s", "evaluation_interval": "1s"}
	rules, err := filepath.Abs(filepath.Join("prometheus", "rules.yml"))
	require.NoError(t, err)
	config["rule_files"] = []string{rules}
	jobs := config["scrape_configs"].([]any) //nolint:forcetypeassert // the test fails then
	require.Len(t, jobs, 1)
	jobs[0].(map[string]any)["static_configs"] = []any{map[string]any{"targets": targets}} //nolint:forcetypeassert // as above
	text, err := yaml.Marshal(config)
	require.NoError(t, err)
	folder := t.TempDir()
	path := filepath.Join(folder, "prometheus.yml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	p := start(t, nil, binary, "--config.file="+path, "--storage.tsdb.path="+filepath.Join(folder, "data"),
		"--web.listen-address=127.0.0.1:0")
	return "http://" + p.find(t, `msg="Listening on" address=(\S+)`)
}

// ask runs a query and returns the number of its results.
func ask(ctx context.Context, server, query string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/api/v1/query?query="+url.QueryEscape(query), nil)
	if err != nil {
		return 0, err
	}
	reply, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode == http.StatusServiceUnavailable {
		return 0, nil // it is starting
	}
	var body struct {
		Error string
		Data  struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(reply.Body).Decode(&body); err != nil {
		return 0, err
	}
	if body.Error != "" && reply.StatusCode == http.StatusBadRequest {
		return 0, errors.New(body.Error)
	}
	return len(body.Data.Result), nil
}

// queries are those of all panels, with the variables filled in.
func queries(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("grafana", "dashboard.json"))
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Type    string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	var all []string
	for _, p := range dashboard.Panels {
		require.Equal(t, p.Type != "row", len(p.Targets) > 0)
		for _, target := range p.Targets {
			all = append(all, strings.NewReplacer("$__rate_interval", "1m", "$queue", ".*").Replace(target.Expr))
		}
	}
	require.Greater(t, len(all), 20)
	return all
}

func get(t *testing.T, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	reply, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, reply.StatusCode)
	return string(text)
}

// The daemon and the worker run as the Compose file has them, a Prometheus
// scrapes them, and every query of the dashboard finds something.
func TestDashboardShowsALiveSystem(t *testing.T) {
	t.Parallel()
	tool(t, "prometheus")
	promtool := tool(t, "promtool")
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	seen := &collector{paths: map[string]int{}}
	otlp := httptest.NewServer(seen)
	t.Cleanup(otlp.Close)
	database := testdb.Database(t).URL

	all := services(t)
	reaper := all["reaper"].run(t, database, otlp.URL)
	const served = `(http://127\.0\.0\.1:\d+)/metrics`
	targets := []string{reaper.find(t, served)}
	targets = append(targets, all["worker"].run(t, database, otlp.URL).find(t, served))
	server := scrape(t, strings.TrimPrefix(targets[0], "http://"), strings.TrimPrefix(targets[1], "http://"))

	left := queries(t)
	for deadline := time.Now().Add(patience); len(left) > 0; {
		left = slices.DeleteFunc(left, func(query string) bool {
			n, err := ask(t.Context(), server, query)
			require.NoError(t, err, query)
			return n > 0
		})
		if time.Now().After(deadline) {
			require.Empty(t, left, "queries without data")
		}
		if len(left) > 0 {
			<-time.After(250 * time.Millisecond)
		}
	}

	known := map[string]bool{}
	for _, i := range telemetry.Instruments() {
		known[i.Prometheus] = true
	}
	shown := map[string]bool{}
	for _, target := range targets {
		text := get(t, target+"/metrics")
		cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Empty(t, string(out))
		for _, name := range regexp.MustCompile(`(?m)^# TYPE ((?:styx|messaging)_\w+) `).FindAllStringSubmatch(text, -1) {
			require.True(t, known[name[1]], "%s is not in the table", name[1])
			shown[name[1]] = true
		}
	}
	for name := range known {
		require.True(t, shown[name], "nobody shows %s", name)
	}
	require.Eventually(t, func() bool { return seen.count("/v1/traces") > 1 }, patience, 20*time.Millisecond)
	require.Zero(t, seen.count("/v1/metrics"), "Prometheus fetches them")
}
