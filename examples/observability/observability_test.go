// Package observability_test runs what this folder shows: the rules by
// promtool, and the dashboard against a live Prometheus that scrapes the
// programs of the Compose file.
package observability_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"github.com/styxmq/styx/internal/telemetry"
)

// programs is the folder of the built programs.
var programs string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "styx-observability-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(programs) }()
	code := m.Run()
	if err := goleak.Find(goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener")); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

var build = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "build", "-o", programs+string(filepath.Separator), "../../reaper/cmd/reaper", "./worker").CombinedOutput()
	return string(out), err
})

// program returns one of this repository's.
func program(t *testing.T, name string) string {
	t.Helper()
	out, err := build()
	require.NoError(t, err, out)
	return filepath.Join(programs, name)
}

// tool returns a program of the package prometheus; without it the test is
// skipped, but fails in CI.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip(name + " is not installed")
	}
	require.NoError(t, err)
	return path
}

func parse(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into), path)
}

type rule struct {
	Alert, Record, Expr string
	Labels, Annotations map[string]string
}

func rules(t *testing.T) (alerts, records []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	parse(t, filepath.Join("prometheus", "rules.yml"), &file)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				alerts = append(alerts, r)
			} else {
				records = append(records, r)
			}
		}
	}
	require.NotEmpty(t, alerts)
	require.NotEmpty(t, records)
	return alerts, records
}

func TestRulesPassTheirTests(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), tool(t, "promtool"), args...)
		cmd.Dir = "prometheus"
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

func TestEachAlertFiresAndIsSilent(t *testing.T) {
	t.Parallel()
	var file struct {
		Tests []struct {
			Name string
			Expr []struct {
				Expr    string
				Samples []any `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	parse(t, filepath.Join("prometheus", "rules_test.yml"), &file)
	fires, silent := map[string]bool{}, map[string]bool{}
	name := regexp.MustCompile(`ALERTS\{alertname="(\w+)", alertstate="firing"\}`)
	for _, test := range file.Tests {
		require.Len(t, test.Expr, 1, test.Name)
		found := name.FindStringSubmatch(test.Expr[0].Expr)
		require.NotNil(t, found, test.Name)
		if len(test.Expr[0].Samples) > 0 {
			fires[found[1]] = true
		} else {
			silent[found[1]] = true
		}
	}
	alerts, _ := rules(t)
	for _, a := range alerts {
		require.True(t, fires[a.Alert], "%s never fires in a test", a.Alert)
		require.True(t, silent[a.Alert], "%s is never silent in a test", a.Alert)
	}
}

// Whoever is woken up reads what it is and which command to type.
func TestAlertsTellWhatToDo(t *testing.T) {
	t.Parallel()
	alerts, records := rules(t)
	all := ""
	for _, a := range alerts {
		all += a.Expr
		require.Contains(t, []string{"page", "warn"}, a.Labels["severity"], a.Alert)
		for _, key := range []string{"summary", "description", "runbook", "dashboard"} {
			require.NotEmpty(t, a.Annotations[key], "%s of %s", key, a.Alert)
		}
		require.Contains(t, a.Annotations["runbook"], "`reaper ", a.Alert)
		require.NotRegexp(t, `[<>]=? *[1-9]`, a.Expr, "%s has a threshold of its own", a.Alert)
	}
	for _, r := range records {
		require.Contains(t, all, r.Record, "nothing uses this threshold")
	}
}

// The commands that the rules name are there.
func TestRunbooksNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	reaper := program(t, "reaper")
	alerts, _ := rules(t)
	commands := map[string]bool{}
	for _, a := range alerts {
		for _, c := range regexp.MustCompile("`(reaper [^`]*)`").FindAllStringSubmatch(a.Annotations["runbook"], -1) {
			commands[strings.ReplaceAll(strings.ReplaceAll(c[1], "{{ $labels.queue }}", "mail"), "{{ $labels.fingerprint }}", "f")] = true
		}
	}
	for command := range commands {
		var words []string
		for _, w := range strings.Fields(command) {
			if strings.HasPrefix(w, "-") || w == "mail" {
				break
			}
			words = append(words, w)
		}
		out, err := exec.CommandContext(t.Context(), reaper, append(words[1:], "--help")...).CombinedOutput()
		require.NoError(t, err, "%s: %s", command, out)
		// A group shows its own help whatever follows.
		require.Contains(t, string(out), strings.Join(words, " "), command)
		for _, w := range strings.Fields(command) {
			if strings.HasPrefix(w, "--") {
				require.Contains(t, string(out), w+" ", command)
			}
		}
	}
}

func TestReadmeHasEveryMetric(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var want []string
	for _, i := range telemetry.Instruments() {
		labels := make([]string, len(i.Labels))
		for j, l := range i.Labels {
			labels[j] = "`" + strings.ReplaceAll(l, ".", "_") + "`"
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |",
			i.Prometheus, i.Type, i.Unit, strings.Join(labels, ", "), i.By, i.Help))
	}
	var got []string
	for line := range strings.SplitSeq(string(text), "\n") {
		if strings.HasPrefix(line, "| `styx_") || strings.HasPrefix(line, "| `messaging_") {
			got = append(got, line)
		}
	}
	require.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
}
