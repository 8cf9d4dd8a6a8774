package main

import "time"

// task is what a child process does, told as one line of JSON.
type task struct {
	System string `json:"system"`
	Place  string `json:"place"`
	Conns  int    `json:"conns"`
	// What it does: enqueue, work, or both at once.
	Enqueue *enqueueTask  `json:"enqueue,omitempty"`
	Work    *workTask     `json:"work,omitempty"`
	Timeout time.Duration `json:"timeout"`
}

// enqueueTask says what to enqueue.
type enqueueTask struct {
	First   int           `json:"first"` // number of the first message
	Count   int           `json:"count"` // how many at most
	Bytes   int           `json:"bytes"` // size of a payload
	Queues  int           `json:"queues"`
	Batch   int           `json:"batch"`   // messages of one call; 1 enqueues one by one
	Threads int           `json:"threads"` // goroutines
	Delay   time.Duration `json:"delay"`   // until they are due
	Rate    float64       `json:"rate"`    // messages a second; 0 as fast as possible
	During  time.Duration `json:"during"`  // how long at most, 0 for until Count
	Backlog int           `json:"backlog"` // largest number not yet worked, 0 for any; beside a work task only
	Settle  time.Duration `json:"settle"`  // how long to let the worker fall idle before
}

// workTask says how to work.
type workTask struct {
	Size        int    `json:"size"` // messages of the run have numbers below this
	Queues      int    `json:"queues"`
	Concurrency int    `json:"concurrency"`
	Crowd       bool   `json:"crowd"` // whether it is one of many processes
	Maintain    bool   `json:"maintain"`
	Failing     bool   `json:"failing"`
	Latency     bool   `json:"latency"`
	Expect      int    `json:"expect"` // messages to work before it stops by itself; 0 for until it is told
	Every       int    `json:"every"`  // messages from mark to mark
	Gate        bool   `json:"gate"`   // whether handlers wait until they are told to open
	File        string `json:"file"`   // where to save the counts

	Procs  int           `json:"procs"`  // GOMAXPROCS; 0 for Go's default
	Report time.Duration `json:"report"` // how often it tells how far it is; 0 is reportEvery
}

// result is what a child tells at its end.
type result struct {
	Enqueued    int           `json:"enqueued"`
	EnqueueTook time.Duration `json:"enqueue_took"`
	Worked      int           `json:"worked"`        // distinct successes
	WorkedAtEnd int           `json:"worked_at_end"` // of the enqueue, when both were done at once
	Failed      int           `json:"failed"`
	WorkTook    time.Duration `json:"work_took"` // from the start of the worker until all is recorded
	Marks       []int64       `json:"marks,omitempty"`
	Began       int64         `json:"began"` // nanoseconds since 1970
	Last        int64         `json:"last"`  // when the last message was handled
	P50         time.Duration `json:"p50"`
	P95         time.Duration `json:"p95"`
	P99         time.Duration `json:"p99"`
	CPU         time.Duration `json:"cpu"`
	RSS         int64         `json:"rss"` // the most that the process has used
	Error       string        `json:"error,omitempty"`
}

// word is a line that a child prints.
type word struct {
	Ready  bool    `json:"ready,omitempty"`
	Held   bool    `json:"held,omitempty"` // a handler waits at the gate
	Worked int     `json:"worked,omitempty"`
	Result *result `json:"result,omitempty"`
}

// The lines that a child is told after its task.
const (
	tellGo   = "go"
	tellOpen = "open"
	tellStop = "stop"
)
