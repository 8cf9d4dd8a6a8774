.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

GO ?= go
TESTFLAGS ?=
BENCHFLAGS ?= --messages 200000 --concurrency 2000

LINT := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
TESTPG := $(GO) run ./internal/testdb/cmd/testpg

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build every package, and the reaper into bin/.
	$(GO) build ./...
	$(GO) build -o bin/ ./reaper/cmd/reaper

# With STYX_TEST_DATABASE_URL set, that server is used and none is started.
.PHONY: test
test: deps ## Run all tests on both engines; TESTFLAGS='-run Name' narrows them.
	@if [ -n "$${STYX_TEST_DATABASE_URL:-}" ]; then \
		$(GO) test -race -timeout 15m $(TESTFLAGS) ./...; \
	else \
		$(TESTPG) -- $(GO) test -race -timeout 15m $(TESTFLAGS) ./...; \
	fi

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

# The race detector needs a C compiler, the tests a PostgreSQL server to start.
.PHONY: deps
deps: ## Install what the tests need where it is missing (Debian), or say what is.
	@missing=(); \
	command -v $${CC:-gcc} >/dev/null || missing+=(gcc libc6-dev); \
	if [ -z "$${STYX_TEST_DATABASE_URL:-}" ] && ! $(TESTPG) -check 2>/dev/null; then \
		missing+=(postgresql); \
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
