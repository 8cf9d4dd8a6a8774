//go:build unix

package torture

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Mode is what a proxy does with the connections through it.
type Mode int

// The modes.
const (
	// Pass hands everything on. What an earlier mode has torn is reset.
	Pass Mode = iota
	// Cut resets every connection, new ones too.
	Cut
	// BlackHole swallows everything, and closes nothing.
	BlackHole
	// HalfOpen closes the connections there are on the server's side only.
	HalfOpen
	// DropReplies lets what the client sends through and drops what the
	// server answers; a moment after its first lost reply a connection is
	// reset.
	DropReplies
	// Deaf swallows everything on connections that listen for
	// notifications.
	Deaf
)

// tornFor is how long a connection lives after its first lost reply.
const tornFor = 50 * time.Millisecond

// Proxy stands between clients and a TCP server.
type Proxy struct {
	target string
	l      net.Listener
	all    sync.WaitGroup
	stop   context.CancelFunc // ends connecting

	mu    sync.Mutex
	mode  Mode
	links map[*link]struct{}
	done  bool
}

// link is one connection.
type link struct {
	p              *Proxy
	client, server net.Conn
	listens        bool // it has sent LISTEN
	torn           bool // it has lost something
}

// NewProxy starts a proxy to the address target. The caller closes it.
func NewProxy(ctx context.Context, target string) (*Proxy, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	p := &Proxy{target: target, l: l, links: map[*link]struct{}{}}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.all.Go(func() { p.serve(ctx) })
	return p, nil
}

// Addr is where clients connect to.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Close resets every connection and waits for all goroutines.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.done = true
	p.stop()
	_ = p.l.Close()
	for k := range p.links {
		k.reset()
	}
	p.mu.Unlock()
	p.all.Wait()
}

// Set changes the mode.
func (p *Proxy) Set(m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	for k := range p.links {
		switch {
		case m == Cut, m == Pass && k.torn:
			k.reset()
		case m == HalfOpen:
			k.torn = true
			reset(k.server)
		}
	}
}

func (p *Proxy) serve(ctx context.Context) {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return // closed
		}
		p.all.Go(func() { p.accept(ctx, c) })
	}
}

func (p *Proxy) accept(ctx context.Context, c net.Conn) {
	d := net.Dialer{Timeout: 5 * time.Second}
	s, err := d.DialContext(ctx, "tcp", p.target)
	if err != nil {
		reset(c)
		return
	}
	k := &link{p: p, client: c, server: s}
	p.mu.Lock()
	if p.done || p.mode == Cut {
		p.mu.Unlock()
		k.reset()
		return
	}
	p.links[k] = struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { k.pump(c, s, true) })
	both.Go(func() { k.pump(s, c, false) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, k)
	p.mu.Unlock()
	k.reset()
}

// pump carries bytes one way until a side ends.
func (k *link) pump(from, to net.Conn, up bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && k.carries(buf[:n], up) {
			if _, err := to.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	k.p.mu.Lock()
	half := k.torn && !up && k.p.mode != Pass && !k.p.done
	k.p.mu.Unlock()
	if half {
		return // the client is not told
	}
	k.reset()
}

// carries decides whether bytes go on, up to the server or down from it.
func (k *link) carries(b []byte, up bool) bool {
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	if up && bytes.Contains(bytes.ToUpper(b), []byte("LISTEN ")) {
		k.listens = true
	}
	drop := k.torn && k.p.mode != Pass
	switch k.p.mode {
	case BlackHole:
		drop = true
	case Deaf:
		drop = drop || k.listens
	case DropReplies:
		drop = drop && !up || !up
		if drop && !k.torn {
			time.AfterFunc(tornFor, k.reset)
		}
	case Pass, Cut, HalfOpen:
	}
	k.torn = k.torn || drop
	return !drop
}

// reset ends both sides at once, without what is under way.
func (k *link) reset() {
	reset(k.client)
	reset(k.server)
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
