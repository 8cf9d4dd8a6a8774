package reaper

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/styxmq/styx/client/message"
)

// Public report: robfig/cron#554.
func TestSpecsThatNeverRunAreRefusedByName(t *testing.T) {
	t.Parallel()
	for spec, code := range map[string]string{
		" ":                                   message.CodeRequired,
		"\t\n":                                message.CodeRequired,
		"TZ=":                                 message.CodeInvalid,
		"TZ=0":                                message.CodeInvalid,
		"TZ=UTC":                              message.CodeInvalid,
		"CRON_TZ=UTC":                         message.CodeInvalid,
		"CRON_TZ=UTC ":                        message.CodeInvalid,
		"CRON_TZ= * * * * *":                  message.CodeInvalid,
		"CRON_TZ=Nowhere/X * * * * *":         message.CodeInvalid,
		"CRON_TZ=../../etc/passwd * * * * *":  message.CodeInvalid,
		"CRON_TZ=UTC TZ=UTC * * * * *":        message.CodeInvalid,
		"CRON_TZ=UTC TZ=UTC":                  message.CodeInvalid,
		"CRON_TZ=UTC\tTZ=":                    message.CodeInvalid,
		"*/0 * * * *":                         message.CodeInvalid,
		"60 * * * *":                          message.CodeInvalid,
		"* 24 * * *":                          message.CodeInvalid,
		"* * 0 * *":                           message.CodeInvalid,
		"-1 * * * *":                          message.CodeInvalid,
		"5-1 * * * *":                         message.CodeInvalid,
		", * * * *":                           message.CodeInvalid,
		"* * * *":                             message.CodeInvalid,
		"* * * * * *":                         message.CodeInvalid,
		"0 0 30 2 *":                          message.CodeInvalid,
		"0 0 31 4,6,9,11 *":                   message.CodeInvalid,
		"@reboot":                             message.CodeInvalid,
		"@":                                   message.CodeInvalid,
		"@every":                              message.CodeInvalid,
		"@every 5":                            message.CodeInvalid,
		"@every -1s":                          message.CodeOutOfRange,
		"@every 0s":                           message.CodeOutOfRange,
		"@every 99ms":                         message.CodeOutOfRange,
		"@every 9000h":                        message.CodeOutOfRange,
		"CRON_TZ=UTC @every 0s":               message.CodeOutOfRange,
		"1,2,\xff * * * *":                    message.CodeEncoding,
		"* * * * " + strings.Repeat("*", 300): message.CodeTooLong,
		strings.Repeat("*", 10_000):           message.CodeTooLong,
	} {
		_, err := parseSpec("Rescue", spec, time.UTC)
		var invalid *message.ValidationError
		require.ErrorAs(t, err, &invalid, "%q", spec)
		require.Equal(t, "Rescue", invalid.Field, "%q", spec)
		require.Equal(t, code, invalid.Code, "%q: %v", spec, err)
		require.Contains(t, err.Error(), "Rescue")
		require.Less(t, len(err.Error()), 1000)
	}
}

func TestSpecs(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	for spec, want := range map[string]time.Time{
		"@every 200ms":                  from.Add(200 * time.Millisecond),
		"@every 90s":                    from.Add(90 * time.Second),
		"  @every   1h  ":               from.Add(time.Hour),
		"* * * * *":                     time.Date(2026, 3, 4, 5, 7, 0, 0, time.UTC),
		"*/15 * * * *":                  time.Date(2026, 3, 4, 5, 15, 0, 0, time.UTC),
		"30 2 * * *":                    time.Date(2026, 3, 5, 2, 30, 0, 0, time.UTC),
		"0 12 * * mon-fri":              time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC),
		"0 0 29 2 *":                    time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC),
		"@hourly":                       time.Date(2026, 3, 4, 6, 0, 0, 0, time.UTC),
		"@daily":                        time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC),
		"@weekly":                       time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC),
		"@yearly":                       time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
		"CRON_TZ=Asia/Tokyo 30 2 * * *": time.Date(2026, 3, 4, 17, 30, 0, 0, time.UTC),
		"TZ=Asia/Tokyo\t30 2 * * *":     time.Date(2026, 3, 4, 17, 30, 0, 0, time.UTC),
		"CRON_TZ=UTC @daily":            time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC),
	} {
		s, err := parseSpec("Maintain", spec, time.UTC)
		require.NoError(t, err, "%q", spec)
		require.True(t, want.Equal(s.next(from)), "%q: %s", spec, s.next(from))
	}
}

// Public reports: robfig/cron#541, go-co-op/gocron#911,
// kubernetes/kubernetes#121594.
func TestNamedHoursRunOncePerDayAcrossClockChanges(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, zone, spec string
		from, to         string // days
		want             []string
	}{
		{
			"spring forward", "America/New_York", "30 2 * * *", "2026-03-07", "2026-03-10",
			[]string{"2026-03-07T02:30:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"},
		},
		{
			"fall back", "America/New_York", "30 1 * * *", "2026-10-31", "2026-11-03",
			[]string{"2026-10-31T01:30:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"},
		},
		{
			"2:30 on the day of falling back", "America/New_York", "30 2 * * *", "2026-10-31", "2026-11-03",
			[]string{"2026-10-31T02:30:00-04:00", "2026-11-01T02:30:00-05:00", "2026-11-02T02:30:00-05:00"},
		},
		{
			"several in the gap run once", "America/New_York", "0,20,40 2 * * *", "2026-03-08", "2026-03-09",
			[]string{"2026-03-08T03:00:00-04:00"},
		},
		{
			"midnight does not exist", "America/Sao_Paulo", "30 0 * * *", "2018-11-03", "2018-11-06",
			[]string{"2018-11-03T00:30:00-03:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:30:00-02:00"},
		},
		{
			"@daily when midnight does not exist", "America/Sao_Paulo", "@daily", "2018-11-03", "2018-11-06",
			[]string{"2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		},
		{
			"midnight comes twice", "America/Sao_Paulo", "30 23 * * *", "2018-02-17", "2018-02-19",
			[]string{"2018-02-17T23:30:00-02:00", "2018-02-18T23:30:00-03:00"},
		},
		{
			"half an hour", "Australia/Lord_Howe", "15 2 * * *", "2026-10-03", "2026-10-06",
			[]string{"2026-10-03T02:15:00+10:30", "2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"},
		},
		{
			"a day that does not exist", "Pacific/Apia", "0 12 * * *", "2011-12-29", "2012-01-01",
			[]string{"2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			loc, err := time.LoadLocation(test.zone)
			require.NoError(t, err)
			s, err := parseSpec("Maintain", test.spec, loc)
			require.NoError(t, err)
			require.Equal(t, test.want, runs(t, s, loc, test.from, test.to))
		})
	}
}

// runs lists the times from the beginning of a day to that of another.
func runs(t *testing.T, s schedule, loc *time.Location, from, to string) []string {
	t.Helper()
	at, err := time.ParseInLocation(time.DateOnly, from, loc)
	require.NoError(t, err)
	end, err := time.ParseInLocation(time.DateOnly, to, loc)
	require.NoError(t, err)
	list := []string{}
	for at = s.next(at.Add(-time.Second)); at.Before(end); at = s.next(at) {
		list = append(list, at.In(loc).Format(time.RFC3339))
	}
	return list
}

func TestEveryHourRunsByTheTimeThatPasses(t *testing.T) {
	t.Parallel()
	loc, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	for spec, perHour := range map[string]int{"0 * * * *": 1, "*/10 * * * *": 6, "* * * * *": 60, "@hourly": 1} {
		s, err := parseSpec("Rescue", spec, loc)
		require.NoError(t, err)
		require.Len(t, runs(t, s, loc, "2026-03-08", "2026-03-09"), 23*perHour, spec)
		require.Len(t, runs(t, s, loc, "2026-11-01", "2026-11-02"), 25*perHour, spec)
	}
}

func FuzzSpec(f *testing.F) {
	for _, spec := range []string{
		"", "@daily", "@every 1s", "30 2 * * *", "TZ=", "TZ=0", "CRON_TZ=UTC", "CRON_TZ=America/New_York 30 2 * * *",
		"*/5 0-6/2 1,15 jan-mar ?", "0 0 30 2 *", "CRON_TZ=America/Sao_Paulo 30 0 * * 0", "TZ=Pacific/Apia * * * * *",
	} {
		f.Add(spec, int64(1_772_953_199))
	}
	f.Fuzz(func(t *testing.T, spec string, unix int64) {
		s, err := parseSpec("Rescue", spec, time.UTC)
		if err != nil {
			require.ErrorAs(t, err, new(*message.ValidationError))
			return
		}
		at := time.Unix(unix%4_102_444_800, 0) // to the year 2100, and back
		for range 3 {
			next := s.next(at)
			if next.IsZero() {
				return
			}
			require.True(t, next.After(at), "%q: %s after %s", spec, next, at)
			at = next
		}
	})
}
