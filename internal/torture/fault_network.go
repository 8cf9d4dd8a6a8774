//go:build unix

package torture

import (
	"context"
	"time"
)

// cut resets all connections through the proxy, now and then for a while.
type cut struct{}

func (cut) Name() string     { return "cut" }
func (cut) On(e Engine) bool { return e == Postgres }
func (cut) Inflict(ctx context.Context, f *Field) error {
	defer f.Proxy.Set(Pass)
	f.during(ctx, 100*time.Millisecond, 800*time.Millisecond, func() {
		f.Proxy.Set(Cut)
		pause(ctx, f.between(0, 300*time.Millisecond))
		f.Proxy.Set(Pass)
	})
	return nil
}

// blackHole swallows everything for a while.
type blackHole struct{}

func (blackHole) Name() string                                { return "black-hole" }
func (blackHole) On(e Engine) bool                            { return e == Postgres }
func (blackHole) Inflict(ctx context.Context, f *Field) error { return f.hold(ctx, BlackHole) }

// halfOpen closes the connections on the server's side only.
type halfOpen struct{}

func (halfOpen) Name() string                                { return "half-open" }
func (halfOpen) On(e Engine) bool                            { return e == Postgres }
func (halfOpen) Inflict(ctx context.Context, f *Field) error { return f.hold(ctx, HalfOpen) }

// deaf loses the connections that listen, without anybody being told.
type deaf struct{}

func (deaf) Name() string                                { return "deaf" }
func (deaf) On(e Engine) bool                            { return e == Postgres }
func (deaf) Inflict(ctx context.Context, f *Field) error { return f.hold(ctx, Deaf) }

func (f *Field) hold(ctx context.Context, m Mode) error {
	defer f.Proxy.Set(Pass)
	f.Proxy.Set(m)
	pause(ctx, f.Length)
	return nil
}

// lostReply loses the answers to what was sent, commits among it.
type lostReply struct{}

func (lostReply) Name() string     { return "lost-reply" }
func (lostReply) On(e Engine) bool { return e == Postgres }
func (lostReply) Inflict(ctx context.Context, f *Field) error {
	defer f.Proxy.Set(Pass)
	f.during(ctx, 200*time.Millisecond, 600*time.Millisecond, func() {
		f.Proxy.Set(DropReplies)
		pause(ctx, f.between(2*tornFor/10, 2*tornFor))
		f.Proxy.Set(Pass)
	})
	return nil
}
