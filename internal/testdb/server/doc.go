// Package server runs a throw-away PostgreSQL server: its own data folder in
// the temporary folder, its own port on the loopback address, a random
// password, and nothing left behind. PostgreSQL refuses to run as root, so for
// root it runs as the user postgres or nobody.
package server
