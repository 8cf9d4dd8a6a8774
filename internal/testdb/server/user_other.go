//go:build !unix

package server

import (
	"errors"
	"os"
	"os/exec"
)

type account struct{}

func unprivileged() (*account, error) {
	return nil, errors.New("starting a PostgreSQL server is supported on Unix only; set STYX_TEST_DATABASE_URL")
}

func (a *account) own(string) error { return nil }

func (a *account) prepare(*exec.Cmd) {}

var fastShutdown, immediateShutdown = os.Interrupt, os.Kill
