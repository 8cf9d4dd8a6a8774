package worker_test

// children are what a child process can do, by name.
var children = map[string]func() error{}
