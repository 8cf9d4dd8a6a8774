// Package remote calls the HTTP API of Styx: over the network, or within the
// process, where a command line has a database instead of a server. What the
// API answers is handed on byte for byte.
package remote
