//go:build unix && !linux

package cli

import (
	"runtime"
	"syscall"
)

// peakRSS is the largest memory that this process has used, in bytes; 0 when
// that cannot be told.
func peakRSS() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(usage.Maxrss) // bytes there, KiB elsewhere
	}
	return int64(usage.Maxrss) << 10
}
