//go:build unix && !linux

package server

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
