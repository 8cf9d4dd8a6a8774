package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"
)

// childGrace is how long a child may take over its own timeout to say so.
const childGrace = 30 * time.Second

// process is a child that does one task.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	ready  chan struct{}
	held   chan struct{} // its handlers wait at the gate
	ended  chan struct{}
	worked atomic.Int64 // as it has told
	result *result      // once it has ended
	err    error        // once it has ended
	cancel context.CancelFunc
}

// startChild starts a child and waits until it is ready to go.
func startChild(ctx context.Context, t task) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, t.Timeout+childGrace)
	p := &process{ready: make(chan struct{}), held: make(chan struct{}), ended: make(chan struct{}), cancel: cancel}
	p.cmd = exec.CommandContext(ctx, self, childArgument)
	p.cmd.Stderr = os.Stderr
	in, inErr := p.cmd.StdinPipe()
	out, outErr := p.cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, p.cmd.Start()); err != nil {
		cancel()
		return nil, fmt.Errorf("start a child: %w", err)
	}
	p.in = in
	go p.listen(out)
	if err := p.tell(t); err != nil {
		return nil, errors.Join(err, p.abandon())
	}
	select {
	case <-p.ready:
		return p, nil
	case <-p.ended:
		return nil, p.failure()
	}
}

// tell writes one line: a text, or a task as JSON.
func (p *process) tell(what any) error {
	line, ok := what.(string)
	if !ok {
		data, err := json.Marshal(what)
		if err != nil {
			return fmt.Errorf("tell a child: %w", err)
		}
		line = string(data)
	}
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return fmt.Errorf("tell a child: %w", err)
	}
	return nil
}

// listen reads what the child says until its end.
func (p *process) listen(out io.Reader) {
	defer close(p.ended)
	defer p.cancel()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	ready, held := false, false
	for lines.Scan() {
		var w word
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			p.err = errors.Join(p.err, fmt.Errorf("a child said %q: %w", lines.Text(), err))
			continue
		}
		if w.Ready && !ready {
			ready = true
			close(p.ready)
		}
		if w.Held && !held {
			held = true
			close(p.held)
		}
		if w.Worked > 0 {
			p.worked.Store(int64(w.Worked))
		}
		if w.Result != nil {
			p.result = w.Result
		}
	}
	err := p.cmd.Wait()
	if p.result == nil || p.result.Error == "" {
		p.err = errors.Join(p.err, err)
	}
}

// failure is why a child has ended too soon.
func (p *process) failure() error {
	if p.result != nil && p.result.Error != "" {
		return errors.New(p.result.Error)
	}
	return errors.Join(errors.New("a child has ended without a result"), p.err)
}

// wait returns the result when the child has ended.
func (p *process) wait() (result, error) {
	<-p.ended // bounded by the context of its command
	if p.result == nil || p.result.Error != "" {
		return result{}, p.failure()
	}
	return *p.result, p.err
}

// abandon ends a child whose result nobody wants.
func (p *process) abandon() error {
	p.cancel()
	<-p.ended
	return nil
}

// stop tells a child to stop and returns its result.
func (p *process) stop() (result, error) {
	if err := p.tell(tellStop); err != nil {
		return result{}, errors.Join(err, p.abandon())
	}
	return p.wait()
}

// runTask does a task from beginning to end.
func runTask(ctx context.Context, t task) (result, error) {
	p, err := startChild(ctx, t)
	if err != nil {
		return result{}, err
	}
	if err := p.tell(tellGo); err != nil {
		return result{}, errors.Join(err, p.abandon())
	}
	return p.wait()
}
