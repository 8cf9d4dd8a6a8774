//go:build unix

package torture

import (
	"bufio"
	"fmt"
	"io"
	"time"
)

// Sizes of the picture, in pixels.
const (
	panelWidth, panelHeight = 860, 110
	marginLeft, marginTop   = 90, 30
	panelGap                = 46
)

// drawSamples writes one SVG picture with a panel for each series, over time.
func drawSamples(w io.Writer, samples []Sample) error {
	out := bufio.NewWriter(w)
	width, height := panelWidth+marginLeft+20, marginTop+len(series)*(panelHeight+panelGap)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="#ffffff"/>
`, width, height, width, height)
	for i := range series {
		drawPanel(out, samples, i, marginTop+i*(panelHeight+panelGap))
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

func drawPanel(out io.Writer, samples []Sample, i, top int) {
	s := series[i]
	highest, end := 0.0, time.Second
	for _, sample := range samples {
		highest, end = max(highest, sample.Values[i]), max(end, sample.At)
	}
	if highest == 0 {
		highest = 1
	}
	text := func(x, y int, anchor, format string, args ...any) {
		fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="%s" fill="#333333">`+format+"</text>\n",
			append([]any{x, y, anchor}, args...)...)
	}
	title := s.title
	if s.unit != "" {
		title += ", " + s.unit
	}
	text(marginLeft, top-6, "start", "%s", title)
	text(marginLeft-6, top+10, "end", "%.1f", highest/s.scale)
	text(marginLeft-6, top+panelHeight, "end", "0")
	text(marginLeft, top+panelHeight+16, "start", "0")
	text(marginLeft+panelWidth, top+panelHeight+16, "end", "%s", end.Round(time.Second))
	fmt.Fprintf(out, `<rect x="%d" y="%d" width="%d" height="%d" fill="#f6f6f6" stroke="#cccccc"/>
<polyline fill="none" stroke="#1f5fa8" stroke-width="1.5" points="`, marginLeft, top, panelWidth, panelHeight)
	for _, sample := range samples {
		fmt.Fprintf(out, "%.1f,%.1f ", marginLeft+sample.At.Seconds()/end.Seconds()*panelWidth,
			float64(top+panelHeight)-sample.Values[i]/highest*panelHeight)
	}
	fmt.Fprintln(out, `"/>`)
}
