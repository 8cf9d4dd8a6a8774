//go:build unix

package server

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is whom the server runs as; nil is whoever runs this process.
type account struct{ uid, gid uint32 }

// unprivileged finds another account for root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("read the ids of user %s: %w", name, err)
		}
		return &account{uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

// own makes the account the owner of a file or folder.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// prepare lets cmd run as the account, in a process group of its own: an
// interrupt from the terminal is for the tests, the server outlives them.
func (a *account) prepare(cmd *exec.Cmd) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	dieWithParent(attr)
	cmd.SysProcAttr = attr
}

var (
	fastShutdown      os.Signal = syscall.SIGINT
	immediateShutdown os.Signal = syscall.SIGQUIT
)
