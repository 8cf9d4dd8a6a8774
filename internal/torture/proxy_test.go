//go:build unix

package torture_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/internal/torture"
)

// echo is a server that answers every line with itself and tells of it.
type echo struct {
	l    net.Listener
	got  chan string
	ends chan struct{} // a connection has ended
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &echo{l: l, got: make(chan string, 100), ends: make(chan struct{}, 100)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				for r := bufio.NewReader(c); ; {
					line, err := r.ReadString('\n')
					if err != nil {
						break
					}
					e.got <- line
					if _, err := io.WriteString(c, line); err != nil {
						break
					}
				}
				_ = c.Close()
				e.ends <- struct{}{}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return e
}

const wait = 30 * time.Second

func (e *echo) next(t *testing.T) string {
	t.Helper()
	select {
	case line := <-e.got:
		return line
	case <-time.After(wait):
		t.Fatal("the server got nothing")
		return ""
	}
}

// peer is a client of the proxy.
type peer struct {
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, p *torture.Proxy) *peer {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &peer{c, bufio.NewReader(c)}
}

func (c *peer) say(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(c, line)
	require.NoError(t, err)
}

func (c *peer) hears(t *testing.T, line string) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(wait)))
	got, err := c.r.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, line, got)
}

func (c *peer) ends(t *testing.T) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(wait)))
	_, err := c.r.ReadString('\n')
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "nothing ended it")
}

// silent looks for a moment that nothing comes and nothing ends.
func (c *peer) silent(t *testing.T) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err := c.r.ReadString('\n')
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func rig(t *testing.T) (*echo, *torture.Proxy) {
	t.Helper()
	e := newEcho(t)
	p, err := torture.NewProxy(t.Context(), e.l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return e, p
}

func TestProxyPasses(t *testing.T) {
	t.Parallel()
	e, p := rig(t)
	c := dial(t, p)
	c.say(t, "one\n")
	require.Equal(t, "one\n", e.next(t))
	c.hears(t, "one\n")
	require.NoError(t, c.Close())
	<-e.ends
}

func TestProxyCuts(t *testing.T) {
	t.Parallel()
	e, p := rig(t)
	c := dial(t, p)
	c.say(t, "one\n")
	c.hears(t, "one\n")
	p.Set(torture.Cut)
	c.ends(t)
	<-e.ends
	var d net.Dialer
	if refused, err := d.DialContext(t.Context(), "tcp", p.Addr()); err == nil { // or it is reset at once
		(&peer{refused, bufio.NewReader(refused)}).ends(t)
		require.NoError(t, refused.Close())
	}
	p.Set(torture.Pass)
	c = dial(t, p)
	c.say(t, "two\n")
	c.hears(t, "two\n")
}

func TestProxySwallows(t *testing.T) {
	t.Parallel()
	e, p := rig(t)
	c, idle := dial(t, p), dial(t, p)
	for _, each := range []*peer{c, idle} {
		each.say(t, "one\n")
		each.hears(t, "one\n")
		e.next(t)
	}
	p.Set(torture.BlackHole)
	c.say(t, "two\n")
	c.silent(t)
	require.Empty(t, e.got)
	p.Set(torture.Pass)
	c.ends(t) // it has lost something
	idle.say(t, "three\n")
	idle.hears(t, "three\n") // this one has not
}

func TestProxyHalfOpen(t *testing.T) {
	t.Parallel()
	e, p := rig(t)
	c := dial(t, p)
	c.say(t, "one\n")
	c.hears(t, "one\n")
	p.Set(torture.HalfOpen)
	<-e.ends
	c.silent(t)
	p.Set(torture.Pass)
	c.ends(t)
}

func TestProxyDropsReplies(t *testing.T) {
	t.Parallel()
	e, p := rig(t)
	c := dial(t, p)
	c.say(t, "one\n")
	c.hears(t, "one\n")
	e.next(t)
	p.Set(torture.DropReplies)
	c.say(t, "commit\n")
	require.Equal(t, "commit\n", e.next(t))
	c.ends(t)
}

func TestProxyDeafens(t *testing.T) {
	t.Parallel()
	e, p := rig(t)
	c, other := dial(t, p), dial(t, p)
	c.say(t, "listen styx\n")
	c.hears(t, "listen styx\n")
	e.next(t)
	p.Set(torture.Deaf)
	c.say(t, "more\n")
	c.silent(t)
	other.say(t, "one\n")
	other.hears(t, "one\n")
	require.Equal(t, "one\n", e.next(t))
	p.Set(torture.Pass)
	c.ends(t)
}
