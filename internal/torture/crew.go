//go:build unix

package torture

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/styxmq/styx/internal/torture/history"
)

// crew are the processes of a run. Whoever ends is replaced until the crew is
// dismissed.
type crew struct {
	binary string
	env    []string
	dir    string
	h      *history.Writer
	all    sync.WaitGroup

	mu      sync.Mutex
	members map[string]*member // by place: role and number
	leaving map[string]bool    // roles that are not replaced any more
	next    int
	poison  float64 // the shares that new producers begin with
	points  float64
}

// member is one process.
type member struct {
	part  part
	place string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	gone  chan struct{}
	asked bool // to end in good order
}

// hire starts a process at a place and keeps the place filled.
func (c *crew) hire(place string, p part) error {
	m, err := c.start(place, p)
	if err != nil {
		return err
	}
	c.all.Go(func() {
		for m != nil {
			m = c.attend(m)
		}
	})
	return nil
}

func (c *crew) start(place string, p part) (*member, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving[p.Role] {
		return nil, nil
	}
	c.next++
	p.Name = fmt.Sprintf("%s-%d", place, c.next)
	p.Seed += uint64(c.next) << 32
	p.Poison, p.Points = c.poison, c.points
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	m := &member{part: p, place: place, gone: make(chan struct{})}
	m.cmd = exec.Command(c.binary) //nolint:gosec,noctx // this program, ended by dismiss
	m.cmd.Env = append(append(os.Environ(), c.env...), Variable+"="+string(text))
	m.cmd.SysProcAttr = attributes()
	stderr, err := os.OpenFile(c.said(p.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stderr.Close() }() // the process has its own
	m.cmd.Stderr = stderr
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	c.members[place] = m
	return m, nil
}

// said is the file of what a process wrote to its standard error.
func (c *crew) said(name string) string { return filepath.Join(c.dir, name+".log") }

// attend waits for the end of a process and returns its successor.
func (c *crew) attend(m *member) *member {
	err := m.cmd.Wait()
	close(m.gone)
	how := "ended"
	if err != nil {
		how = err.Error()
	}
	c.h.Add(history.Event{Kind: history.Gone, Name: m.part.Name, Note: how})
	c.mu.Lock()
	expected := m.expects(c.leaving[m.part.Role])
	if c.members[m.place] == m {
		delete(c.members, m.place)
	}
	c.mu.Unlock()
	if !expected {
		c.h.Add(history.Event{Kind: history.Broken, Name: m.part.Name, Note: how + ": " + c.lastWords(m.part.Name)})
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		time.Sleep(wait)
		successor, err := c.start(m.place, m.part)
		if err == nil {
			return successor
		}
	}
}

// expects reports whether the process may have ended as it did.
func (m *member) expects(leaving bool) bool {
	s, ok := m.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return false
	case s.Signaled():
		// It may be asked to end before it can listen.
		return s.Signal() == syscall.SIGKILL || s.Signal() == syscall.SIGTERM && (m.asked || leaving)
	case s.ExitStatus() == 0:
		return m.asked || leaving
	}
	return s.ExitStatus() == exitNoStart || s.ExitStatus() == exitPoisoned && m.part.Role == roleWorker
}

func (c *crew) lastWords(name string) string {
	text, _ := os.ReadFile(c.said(name))
	return strings.TrimSpace(string(text[max(0, len(text)-2000):]))
}

// pick returns a member of a role at random, nil when there is none.
func (c *crew) pick(rng *rand.Rand, role string) *member {
	ms := c.targets(role)
	if len(ms) == 0 {
		return nil
	}
	return ms[rng.IntN(len(ms))]
}

// targets are the members of a role that faults may touch.
func (c *crew) targets(role string) []*member {
	return slices.DeleteFunc(c.of(role), func(m *member) bool { return m.part.Spared })
}

// of returns the members of a role, in the order of their places.
func (c *crew) of(role string) (ms []*member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m.part.Role == role {
			ms = append(ms, m)
		}
	}
	slices.SortFunc(ms, func(a, b *member) int { return strings.Compare(a.place, b.place) })
	return ms
}

// signal sends a signal; the process may have ended already.
func (m *member) signal(s syscall.Signal) { _ = m.cmd.Process.Signal(s) }

// harm sets the shares of messages that do harm.
func (c *crew) harm(poison, points float64) {
	c.mu.Lock()
	c.poison, c.points = poison, points
	c.mu.Unlock()
	for _, m := range c.of(roleProducer) {
		m.tell("poison", fmt.Sprint(poison))
		m.tell("points", fmt.Sprint(points))
	}
}

func (m *member) tell(verb, arg string) { _, _ = fmt.Fprintln(m.stdin, verb, arg) }

// retire asks a member to end in good order; it will be replaced.
func (c *crew) retire(m *member) {
	c.mu.Lock()
	m.asked = true
	c.mu.Unlock()
	m.signal(syscall.SIGTERM)
}

// dismiss ends a role in good order, within a limit, and reports whether all
// had left by then.
func (c *crew) dismiss(role string, limit time.Duration) bool {
	c.mu.Lock()
	c.leaving[role] = true
	c.mu.Unlock()
	ms := c.of(role)
	for _, m := range ms {
		m.signal(syscall.SIGCONT)
		m.signal(syscall.SIGTERM)
	}
	end := time.NewTimer(limit)
	defer end.Stop()
	for _, m := range ms {
		select {
		case <-m.gone:
		case <-end.C:
			return false
		}
	}
	return true
}

// disband kills who is left and waits for all.
func (c *crew) disband() {
	c.mu.Lock()
	for _, role := range roles {
		c.leaving[role] = true
	}
	for _, m := range c.members {
		m.signal(syscall.SIGKILL)
	}
	c.mu.Unlock()
	c.all.Wait()
}
