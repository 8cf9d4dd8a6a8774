package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are the flags, and what follows from them.
type options struct {
	systems   []string
	scenarios []string
	rounds    int // of the ordinary scenarios
	badRounds int // of the long ones
	messages  int
	jsonFile  string
	timeout   time.Duration // of one phase
	steady    time.Duration
	latency   time.Duration
	scan      time.Duration // of one analytical transaction
	idle      time.Duration // until a worker counts as idle
	processes []int
	queues    []int
	hugePages bool
}

const (
	fullMessages, quickMessages = 200_000, 2_000
	fullRounds, fullBadRounds   = 5, 3
	maxProcesses                = 70 // of 4 connections each; the server takes 300
)

func parseOptions(args []string, stderr io.Writer) (options, error) {
	o := options{}
	var systemList, scenarioList, processList string
	var quick bool
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&systemList, "systems", "all", "`names` of the systems, separated by commas: "+strings.Join(systemNames(), ", "))
	flags.StringVar(&scenarioList, "scenarios", "all", "`names` of the scenarios, or the groups normal and bad: "+strings.Join(scenarioNames(), ", "))
	flags.IntVar(&o.rounds, "rounds", fullRounds, "how often to run each scenario; the bad days at most 3 times")
	flags.IntVar(&o.messages, "messages", fullMessages, "messages of a drain; the other scenarios take shares or multiples of it")
	flags.BoolVar(&quick, "quick", false, "see whether everything works: 2,000 messages, 1 round, seconds instead of minutes")
	flags.StringVar(&processList, "processes", "", "`numbers` of worker processes, separated by commas, instead of 1, 4, 16 and 64")
	flags.BoolVar(&o.hugePages, "huge-pages", true, "let the machine keep huge pages for the server meanwhile, if it lets this user")
	flags.StringVar(&o.jsonFile, "json", "", "write every single figure to this `file`")
	flags.DurationVar(&o.steady, "steady", time.Minute, "how long the steady state lasts")
	flags.DurationVar(&o.latency, "latency", 30*time.Second, "how long to measure latencies")
	flags.DurationVar(&o.timeout, "timeout", 15*time.Minute, "the longest that one phase may take")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.scan, o.idle = 30*time.Second, 3*time.Second
	o.processes, o.queues = []int{1, 4, 16, 64}, []int{1, 100, 1000}
	if quick {
		given := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
		o.hurry(given)
	}
	if processList != "" {
		o.processes = nil
		for text := range strings.SplitSeq(processList, ",") {
			k, err := strconv.Atoi(text)
			if err != nil || k < 1 || k > maxProcesses {
				return o, fmt.Errorf("numbers of processes must be between 1 and %d: %q", maxProcesses, text)
			}
			o.processes = append(o.processes, k)
		}
	}
	o.badRounds = min(o.rounds, fullBadRounds)
	if o.rounds < 1 || o.messages < 100 || o.steady <= 0 || o.latency <= 0 || o.timeout <= 0 {
		return o, errors.New("rounds must be 1 or more, messages 100 or more, durations above 0")
	}
	var err error
	if o.systems, err = choose(systemList, systemNames(), nil); err != nil {
		return o, err
	}
	o.scenarios, err = choose(scenarioList, scenarioNames(), scenarioGroups())
	return o, err
}

// hurry makes everything small that no flag has set.
func (o *options) hurry(given map[string]bool) {
	if !given["messages"] {
		o.messages = quickMessages
	}
	if !given["rounds"] {
		o.rounds = 1
	}
	if !given["steady"] {
		o.steady = 2 * time.Second
	}
	if !given["latency"] {
		o.latency = 2 * time.Second
	}
	if !given["timeout"] {
		o.timeout = 2 * time.Minute
	}
	o.hugePages = o.hugePages && given["huge-pages"]
	o.scan, o.idle = time.Second, time.Second
	o.processes, o.queues = []int{1, 3}, []int{1, 10}
}

// choose reads a list of names, in the order of all.
func choose(list string, all []string, groups map[string][]string) ([]string, error) {
	if list == "all" {
		return all, nil
	}
	var wanted []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		switch {
		case groups[name] != nil:
			wanted = append(wanted, groups[name]...)
		case slices.Contains(all, name):
			wanted = append(wanted, name)
		default:
			return nil, fmt.Errorf("no such name: %q; there are %s", name, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !slices.Contains(wanted, name) }), nil
}
