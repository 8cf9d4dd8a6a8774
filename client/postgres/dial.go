package postgres

import (
	"net"
	"time"
)

// newDialer watches connections from this side only: the settings of the same
// purpose on the server's side are startup parameters, which poolers refuse.
func newDialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout: timeout,
		KeepAliveConfig: net.KeepAliveConfig{
			Enable:   true,
			Idle:     30 * time.Second,
			Interval: 10 * time.Second,
			Count:    3,
		},
		Control: control,
	}
}
