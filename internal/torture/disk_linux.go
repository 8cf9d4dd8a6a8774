package torture

import (
	"fmt"
	"os"
	"syscall"
)

// diskSize is that of a disk in bytes. It takes memory only as it is used.
const diskSize = 4 << 30

// disk is a file system in memory that can be made full.
type disk struct{ dir string }

// mountDisk makes one, which is permitted to root outside most containers
// only.
func mountDisk() (*disk, error) {
	dir, err := os.MkdirTemp("", "styx-disk-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	d := &disk{dir}
	if err := d.mount(0, diskSize); err != nil {
		_ = os.Remove(dir) // it is empty
		return nil, err
	}
	return d, nil
}

func (d *disk) mount(flags uintptr, size int64) error {
	if err := syscall.Mount("tmpfs", d.dir, "tmpfs", flags, fmt.Sprintf("mode=755,size=%d", size)); err != nil {
		return fmt.Errorf("mount a small disk: %w", err)
	}
	return nil
}

// fill leaves no room. It fails when somebody takes some at the same moment.
func (d *disk) fill() error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &s); err != nil {
		return fmt.Errorf("look at the disk: %w", err)
	}
	used := int64(s.Blocks-s.Bfree) * s.Bsize //nolint:gosec // no disk is that large
	return d.mount(syscall.MS_REMOUNT, used+s.Bsize)
}

// release gives the room back.
func (d *disk) release() error { return d.mount(syscall.MS_REMOUNT, diskSize) }

func (d *disk) unmount() error {
	if err := syscall.Unmount(d.dir, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount a disk: %w", err)
	}
	return os.Remove(d.dir)
}
