//go:build unix && !linux

package torture

import "syscall"

// attributes make a process one of a group of its own. It ends with this one
// by the end of its standard input.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
