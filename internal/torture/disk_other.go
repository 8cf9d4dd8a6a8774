//go:build unix && !linux

package torture

import "errors"

// disk is a file system that can be made full.
type disk struct{ dir string }

func mountDisk() (*disk, error) { return nil, errors.New("small disks are made on Linux only") }

func (*disk) fill() error    { return nil }
func (*disk) release() error { return nil }
func (*disk) unmount() error { return nil }
