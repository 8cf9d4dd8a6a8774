package httpapi

import (
	"fmt"
	"slices"
)

// The roles.
const (
	// RoleProducer enqueues, and sees how its messages fare, without their
	// payloads and errors.
	RoleProducer = "producer"
	// RoleWorker claims and settles.
	RoleWorker = "worker"
	// RoleViewer sees everything but the audit log and changes nothing.
	RoleViewer = "viewer"
	// RoleOperator sees everything and pauses, replays, resolves and cancels.
	RoleOperator = "operator"
	// RoleAdmin may do everything, and alone may purge.
	RoleAdmin = "admin"
)

// Roles lists every role.
func Roles() []string {
	return []string{RoleProducer, RoleWorker, RoleViewer, RoleOperator, RoleAdmin}
}

// roles is a set of roles.
type roles uint8

const (
	producer roles = 1 << iota
	worker
	viewer
	operator
	admin

	// anybody needs no token.
	anybody roles = 0
)

// parseRoles turns names into a set.
func parseRoles(names []string) (roles, error) {
	var set roles
	for _, name := range names {
		i := slices.Index(Roles(), name)
		if i < 0 {
			return 0, fmt.Errorf("has the unknown role %q; there are %v", show(name), Roles())
		}
		set |= 1 << i
	}
	if set == 0 {
		return 0, fmt.Errorf("has no role; there are %v", Roles())
	}
	return set, nil
}

// Identity is who calls.
type Identity struct {
	// Name stands in the audit log.
	Name string
	// Roles are what it may do.
	Roles []string
	// Queues are those that it may touch; empty is all.
	Queues []string
}

// caller is an identity as the gates need it.
type caller struct {
	name   string
	roles  roles
	queues []string
}

func newCaller(id Identity) (*caller, error) {
	set, err := parseRoles(id.Roles)
	if err != nil {
		return nil, err
	}
	return &caller{name: id.Name, roles: set, queues: id.Queues}, nil
}

// may reports whether the caller has one of the roles; an admin has them all.
func (c *caller) may(wanted roles) bool { return c.roles&(wanted|admin) != 0 }

// reaches reports whether the caller may touch the queue.
func (c *caller) reaches(queue string) bool {
	return len(c.queues) == 0 || slices.Contains(c.queues, queue)
}

// limited reports whether there are queues that the caller may not touch.
func (c *caller) limited() bool { return len(c.queues) > 0 }

// sees reports whether the caller may read payloads and errors.
func (c *caller) sees() bool { return c.roles&^producer != 0 }
