package failure

import (
	"runtime"
	"strconv"
	"strings"
)

// Stack returns the frames of the caller's goroutine below a panic, leaving
// out the runtime and, by prefix, the functions of skip; and the first frame
// of the application, as a function's name without its line.
func Stack(skip string) (stack, frame string) {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var b strings.Builder
	for {
		f, more := frames.Next()
		if f.Function != "" && !strings.HasPrefix(f.Function, "runtime.") && !strings.HasPrefix(f.Function, skip) {
			if frame == "" {
				frame = f.Function
			}
			b.WriteString(f.Function)
			b.WriteString("\n\t")
			b.WriteString(f.File)
			b.WriteByte(':')
			b.WriteString(strconv.Itoa(f.Line))
			b.WriteByte('\n')
		}
		if !more || b.Len() > MaxStack {
			return Clean(b.String(), MaxStack), frame
		}
	}
}
