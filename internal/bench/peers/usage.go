package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of processor time in /proc, which Linux fixes.
const clockTick = 10 * time.Millisecond

// ownCPU is the processor time of this process so far.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakRSS is the largest memory that this process has used, in bytes.
func peakRSS() int64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64) // 0 if it cannot be told
			return kib << 10
		}
	}
	return 0
}

// treeCPU is the processor time of a server so far: that of the process, of
// its children, and of those that it has waited for.
func treeCPU(pid int) (time.Duration, error) {
	root, err := readStat(strconv.Itoa(pid))
	if err != nil {
		return 0, err
	}
	ticks := root.own + root.waited
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("list the processes: %w", err)
	}
	for _, d := range dirs {
		if _, err := strconv.Atoi(d.Name()); err != nil {
			continue
		}
		if child, err := readStat(d.Name()); err == nil && child.parent == pid { // else it has just ended
			ticks += child.own + child.waited
		}
	}
	return time.Duration(ticks) * clockTick, nil
}

type processStat struct {
	parent      int
	own, waited int64 // ticks
}

func readStat(pid string) (processStat, error) {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return processStat{}, fmt.Errorf("read the processor time: %w", err)
	}
	return parseStat(string(data))
}

// parseStat reads a line of /proc/PID/stat; the name in it may hold blanks and
// brackets.
func parseStat(line string) (s processStat, err error) {
	_, rest, ok := strings.Cut(line[max(0, strings.LastIndexByte(line, ')')):], ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 15 {
		return s, fmt.Errorf("read the processor time: %q", line)
	}
	var numbers [4]int64
	for i := range numbers { // utime, stime, cutime, cstime: the fields 14 to 17 of all
		if numbers[i], err = strconv.ParseInt(fields[11+i], 10, 64); err != nil {
			return s, fmt.Errorf("read the processor time: %w", err)
		}
	}
	s.own, s.waited = numbers[0]+numbers[1], numbers[2]+numbers[3]
	s.parent, err = strconv.Atoi(fields[1])
	return s, err
}
