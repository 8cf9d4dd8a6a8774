package reaper

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/robfig/cron/v3"

	"github.com/styxmq/styx/client/message"
)

const (
	// maxSpec is the longest cron spec in bytes.
	maxSpec = 256
	// minEvery and maxEvery bound the interval of @every.
	minEvery = 100 * time.Millisecond
	maxEvery = 366 * 24 * time.Hour
)

// schedule tells when a job is due.
type schedule interface {
	// next returns the first time after t, zero when there is none.
	next(t time.Time) time.Time
}

// every is due at a steady interval. The library knows whole seconds only.
type every time.Duration

func (e every) next(t time.Time) time.Time { return t.Add(time.Duration(e)) }

// parseSpec understands the cron spec of a setting. What it refuses is a
// *message.ValidationError of that setting.
func parseSpec(setting, spec string, loc *time.Location) (schedule, error) {
	refuse := func(code, why string) (schedule, error) {
		return nil, &message.ValidationError{Field: setting, Code: code, Message: setting + " " + why}
	}
	if len(spec) > maxSpec {
		return refuse(message.CodeTooLong, fmt.Sprintf("must be a cron spec of at most %d bytes, not %d.", maxSpec, len(spec)))
	}
	if !utf8.ValidString(spec) {
		return refuse(message.CodeEncoding, "must be valid UTF-8.")
	}
	rest := strings.TrimSpace(spec)
	if rest == "" {
		return refuse(message.CodeRequired, "must not be blank; leave it empty for the default.")
	}
	if zone, ok := cutZone(rest); ok {
		end := strings.IndexFunc(zone, unicode.IsSpace)
		if end <= 0 {
			return refuse(message.CodeInvalid, fmt.Sprintf("must have a time zone and then, after a space, a cron spec: %q.", spec))
		}
		var err error
		if loc, err = time.LoadLocation(zone[:end]); err != nil {
			return refuse(message.CodeInvalid, fmt.Sprintf("names a time zone that is not known: %q.", zone[:end]))
		}
		rest = strings.TrimSpace(zone[end:])
	}
	if text, ok := strings.CutPrefix(rest, "@every "); ok {
		d, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil {
			return refuse(message.CodeInvalid, fmt.Sprintf("has an interval that is not understood, such as @every 90s would be: %q.", spec))
		}
		if d < minEvery || d > maxEvery {
			return refuse(message.CodeOutOfRange, fmt.Sprintf("must have an interval between %s and %s, not %s.", minEvery, maxEvery, d))
		}
		return every(d), nil
	}
	parsed, err := parseFields(rest)
	if err != nil {
		return refuse(message.CodeInvalid, fmt.Sprintf("is not a cron spec of five fields, a descriptor or @every: %q: %v.", spec, err))
	}
	s := wallSchedule{spec: parsed, loc: loc, steady: parsed.Hour&everyHour == everyHour}
	if s.next(time.Now()).IsZero() {
		return refuse(message.CodeInvalid, fmt.Sprintf("is a cron spec that never comes true: %q.", spec))
	}
	return s, nil
}

func cutZone(spec string) (rest string, ok bool) {
	if rest, ok = strings.CutPrefix(spec, "CRON_TZ="); ok {
		return rest, true
	}
	return strings.CutPrefix(spec, "TZ=")
}

// parseFields understands five fields or a descriptor, for a wall clock
// without a time zone. The library panics at some input.
func parseFields(text string) (spec *cron.SpecSchedule, err error) {
	defer func() {
		if v := recover(); v != nil {
			spec, err = nil, fmt.Errorf("not understood: %v", v)
		}
	}()
	if _, ok := cutZone(text); ok {
		return nil, fmt.Errorf("a second time zone")
	}
	for field := range strings.FieldsSeq(text) {
		if strings.Trim(field, ",") == "" {
			return nil, fmt.Errorf("an empty list")
		}
	}
	parsed, err := cron.ParseStandard("CRON_TZ=UTC " + text)
	if err != nil {
		return nil, err
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("an interval")
	}
	return spec, nil
}
