package client

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/internal/store"
)

// DeadLetters shows the messages that will not run again by themselves, and
// does with them what an operator decides. Get it from [Client.DeadLetters].
// It is safe for concurrent use.
type DeadLetters struct {
	c *Client
}

// DeadLetters returns the operations on dead letters.
func (c *Client) DeadLetters() *DeadLetters { return &DeadLetters{c} }

// DeadLetterOptions select dead letters. Empty fields select everything.
type DeadLetterOptions struct {
	Queue, Kind, Tenant, ErrorClass, Fingerprint string
	Decision                                     message.Decision
	// Resolved selects those that were replayed, resolved or cancelled,
	// instead of those that wait for somebody.
	Resolved bool
	// Cursor is DeadLetterPage.Next of the page before; empty is the first
	// page. The other fields, but for Limit and Preview, must be those of
	// that page.
	Cursor string
	// Limit is the largest number of letters, 1 to MaxPageSize. Defaults to
	// DefaultPageSize.
	Limit int
	// Preview is that of ListOptions; it cuts stacks as well.
	Preview int
}

// DeadLetterPage is one page of a list of dead letters.
type DeadLetterPage struct {
	DeadLetters []message.DeadLetter `json:"dead_letters"`
	// Next is the cursor of the next page, empty when there is none.
	Next string `json:"next,omitempty"`
}

// ReplayOptions say who replays, from where and why; the texts are kept.
type ReplayOptions struct {
	// Actor is a person or program, up to 128 bytes.
	Actor string
	// Origin is where the request came from, such as an address, up to 128
	// bytes.
	Origin string
	// Reason is up to 1,024 bytes.
	Reason string
}

// ResolveOptions say who resolves, from where and why; the texts are kept.
type ResolveOptions struct {
	// Actor is a person or program, up to 128 bytes.
	Actor string
	// Origin is where the request came from, such as an address, up to 128
	// bytes.
	Origin string
	// Reason is up to 1,024 bytes.
	Reason string
}

// List returns dead letters, the newest death first. A walk from page to page
// shows every letter once that is there throughout; deaths that happen
// meanwhile come before its first page. A bad filter, limit or cursor is a
// [*message.ValidationError].
func (d *DeadLetters) List(ctx context.Context, opts DeadLetterOptions) (DeadLetterPage, error) {
	limit, after, err := opts.check()
	if err != nil {
		return DeadLetterPage{}, err
	}
	letters, err := d.c.store.Letters(ctx, store.LetterQuery{
		Queue: opts.Queue, Kind: opts.Kind, Tenant: opts.Tenant,
		ErrorClass: opts.ErrorClass, Fingerprint: opts.Fingerprint, Decision: opts.Decision,
		Resolved: opts.Resolved, After: after,
		Preview: opts.Preview,
		Limit:   limit + 1, // the one too many tells of a next page
	})
	if err != nil {
		return DeadLetterPage{}, fmt.Errorf("list dead letters: %w", err)
	}
	page := DeadLetterPage{DeadLetters: letters}
	if letters == nil {
		page.DeadLetters = []message.DeadLetter{} // JSON shows an empty list, not null
	}
	if len(letters) > limit {
		page.DeadLetters = letters[:limit:limit]
		page.Next = encodeCursor(letters[limit-1].LetterID, opts.scope()...)
	}
	return page, nil
}

// Get returns the newest dead letter of a message, resolved or not, or
// [message.ErrNotFound].
func (d *DeadLetters) Get(ctx context.Context, id int64) (*message.DeadLetter, error) {
	letter, err := d.c.store.Letter(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("get dead letter of message %d: %w", id, err)
	}
	return &letter, nil
}

// Replay puts a dead message back into its queue, at once, with a fresh
// budget of attempts; its id, payload and idempotency key stay. Its letter is
// resolved. opts may be nil.
//
// A message that is not dead, for example because somebody else has replayed
// it, gives a [*message.StateError], an unknown one [message.ErrNotFound], and
// one whose idempotency key belongs to another message by now a
// [*message.DuplicateError]; it stays dead then.
func (d *DeadLetters) Replay(ctx context.Context, id int64, opts *ReplayOptions) error {
	if opts == nil {
		opts = new(ReplayOptions)
	}
	by, err := actor(opts.Actor, opts.Origin, opts.Reason)
	if err != nil {
		return err
	}
	err = retry(ctx, nil, func() error { return d.c.store.Replay(ctx, id, by) })
	if err != nil {
		return fmt.Errorf("replay message %d: %w", id, err)
	}
	d.c.replayed(ctx, id)
	return nil
}

// Resolve closes a dead letter without running its message again and frees
// its idempotency key. opts may be nil. Errors are as for
// [DeadLetters.Replay]; a letter that is resolved already gives a
// [*message.StateError].
func (d *DeadLetters) Resolve(ctx context.Context, id int64, opts *ResolveOptions) error {
	if opts == nil {
		opts = new(ResolveOptions)
	}
	by, err := actor(opts.Actor, opts.Origin, opts.Reason)
	if err != nil {
		return err
	}
	err = retry(ctx, nil, func() error { return d.c.store.Resolve(ctx, id, by) })
	if err != nil {
		return fmt.Errorf("resolve message %d: %w", id, err)
	}
	return nil
}

func (o DeadLetterOptions) check() (limit int, after int64, err error) {
	var p problems
	p.filter("queue", o.Queue)
	p.filter("kind", o.Kind)
	p.filter("tenant", o.Tenant)
	p.text("error_class", o.ErrorClass)
	p.text("fingerprint", o.Fingerprint)
	if o.Decision != "" && !slices.Contains(message.Decisions(), o.Decision) {
		p.add("decision", message.CodeInvalid, "decision must be one of %s.", message.Decisions())
	}
	limit = p.limit(o.Limit)
	p.preview(o.Preview)
	after, err = decodeCursor(o.Cursor, o.scope()...)
	p.collect(err)
	return limit, after, p.err()
}

func (o DeadLetterOptions) scope() []string {
	return []string{
		"dead_letters", o.Queue, o.Kind, o.Tenant, o.ErrorClass, o.Fingerprint,
		string(o.Decision), strconv.FormatBool(o.Resolved),
	}
}
