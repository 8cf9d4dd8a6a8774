package cli

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/styxmq/styx/client/message"
	"github.com/styxmq/styx/reaper"
)

// retention are the flags of what is kept and how deletions go.
func retention(flags *pflag.FlagSet, cfg *reaper.Config) {
	flags.DurationVar(&cfg.ArchiveRetention, "archive-retention", reaper.DefaultArchiveRetention,
		"how long succeeded messages are kept; 0 is the default, negative for ever")
	flags.DurationVar(&cfg.ResolvedRetention, "resolved-retention", reaper.DefaultResolvedRetention,
		"how long resolved dead letters are kept; 0 is the default, negative for ever")
	flags.DurationVar(&cfg.DeadRetention, "dead-retention", 0,
		"how long dead letters wait for somebody before they are deleted; 0 is for ever")
	flags.IntVar(&cfg.Batch, "batch", reaper.DefaultBatch, "the largest number of rows of one statement")
	flags.DurationVar(&cfg.Timeout, "timeout", reaper.DefaultTimeout, "the longest that one statement may take")
}

// schedules are the flags of when things are done, and a function that puts
// them into the configuration.
func schedules(flags *pflag.FlagSet, cfg *reaper.Config) (apply func() error) {
	flags.StringVar(&cfg.Rescue, "rescue", reaper.DefaultRescue, "when to take back lost messages, as a cron spec")
	flags.StringVar(&cfg.Sweep, "sweep", reaper.DefaultSweep, "when to look for lost messages that no claim names, as a cron spec")
	flags.StringVar(&cfg.Maintain, "maintain", reaper.DefaultMaintain, "when to delete what is old, as a cron spec")
	zone := flags.String("location", "UTC", "the time zone of cron specs, such as Europe/Berlin")
	return func() error {
		loc, err := time.LoadLocation(*zone)
		if err != nil {
			return &message.ValidationError{
				Field: "location", Code: message.CodeInvalid, Message: fmt.Sprintf("the time zone %q is not known.", *zone),
			}
		}
		cfg.Location = loc
		return nil
	}
}
