package server

import "syscall"

// dieWithParent stops the server when this process is killed and can't do it.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
