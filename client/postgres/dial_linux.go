package postgres

import (
	"fmt"
	"strings"
	"syscall"
	"time"
)

// userTimeout is how long sent data may stay unacknowledged before the kernel
// gives the connection up.
const userTimeout = 30 * time.Second

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall lacks on most
// architectures; it is the same number on all of them.
const tcpUserTimeout = 0x12

func control(network, _ string, conn syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var optErr error
	err := conn.Control(func(fd uintptr) {
		optErr = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(userTimeout.Milliseconds()))
	})
	if err != nil {
		return fmt.Errorf("set TCP user timeout: %w", err)
	}
	if optErr != nil {
		return fmt.Errorf("set TCP user timeout: %w", optErr)
	}
	return nil
}
