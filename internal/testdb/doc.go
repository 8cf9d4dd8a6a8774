// Package testdb gives tests real databases: a schema of its own on the
// PostgreSQL server that STYX_TEST_DATABASE_URL names, and an SQLite file in
// the test's folder. `make test` starts such a server; without one the tests
// that need it are skipped, and fail where CI=true.
package testdb
