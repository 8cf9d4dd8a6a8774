package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

const (
	hugePagesFile = "/proc/sys/vm/nr_hugepages"
	// serverMemory is what the server's processes share: shared_buffers, and
	// what 300 connections and the rest need besides.
	serverMemory = 2<<30 + 256<<20
)

// hugePages are memory that the machine keeps for the server, as PostgreSQL's
// manual advises for one of this size ("Linux Huge Pages"): without them each
// of its processes has page tables of its own for all that they share, 4 KiB
// by 4 KiB.
type hugePages struct {
	before int // how many the machine kept
	raised bool
}

// reserveHugePages sees that there are enough of them, where the machine lets
// this user do so. The setting is the machine's; release puts it back.
func reserveHugePages() (h hugePages, err error) {
	size := meminfo("Hugepagesize")
	if size == 0 {
		return h, nil // another system
	}
	need := int((serverMemory + size - 1) / size)
	if meminfo("HugePages_Free") >= int64(need) {
		return h, nil
	}
	text, err := os.ReadFile(hugePagesFile)
	if err == nil {
		h.before, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if err != nil {
		return h, fmt.Errorf("read the number of huge pages: %w", err)
	}
	if meminfo("MemAvailable") < 2*serverMemory || setHugePages(h.before+need) != nil {
		return h, nil // no room, or not allowed
	}
	h.raised = true
	return h, nil
}

func (h *hugePages) release() error {
	if !h.raised {
		return nil
	}
	h.raised = false
	return setHugePages(h.before)
}

// hasHugePages reports whether the memory that a process shares is made of them.
func hasHugePages(pid int) (bool, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return false, fmt.Errorf("see what the server's memory is made of: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if size, ok := strings.CutPrefix(line, "KernelPageSize:"); ok && strings.TrimSpace(size) != "4 kB" {
			return true, nil
		}
	}
	return false, nil
}

func setHugePages(n int) error {
	if err := os.WriteFile(hugePagesFile, []byte(strconv.Itoa(n)), 0o600); err != nil {
		return fmt.Errorf("set the number of huge pages: %w", err)
	}
	return nil
}

// meminfo is a number of /proc/meminfo, in bytes where it has a unit, or 0.
func meminfo(name string) int64 {
	number, unit, _ := strings.Cut(field("/proc/meminfo", name), " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	if unit == "kB" {
		n <<= 10
	}
	return n
}
