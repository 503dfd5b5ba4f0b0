.DEFAULT_GOAL := help
SQLC := go tool -modfile=tools/go.mod sqlc

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: generate
generate: ## Generate install.sql, the first migration and db/ from sql/
	go generate ./sql/schema
	$(SQLC) generate

.PHONY: test
test: ## Run all tests against a real PostgreSQL
	go test -timeout 10m ./...

.PHONY: test-race
test-race: ## Run the tests of the transaction layer under the race detector
	go test -race -timeout 10m ./txn

.PHONY: test-docker
test-docker: ## Run a small suite on a PostgreSQL from Docker (image: PGONCE_TEST_IMAGE)
	PGONCE_TEST_DOCKER=1 go test -count 1 -timeout 10m ./oncetest

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (default 30s)
	@set -e; for folder in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do \
	  for target in $$(grep -ho '^func Fuzz[A-Za-z0-9]*' $$folder/*_test.go | cut -d ' ' -f 2); do \
	    echo "== $$folder $$target"; \
	    go test $$folder -run '^$$' -fuzz "^$$target\$$" -fuzztime $(or $(FUZZTIME),30s) -parallel 2; \
	  done; \
	done

.PHONY: soak
soak: ## Random histories for DURATION (default 10m), checked for linearizability
	go test ./internal/history -v -run Soak -soak $(or $(DURATION),10m) -timeout 0

.PHONY: mutants
mutants: ## Switch off one safeguard at a time, until the random histories find each
	go test ./internal/history -v -run Mutants -slow -timeout 0

.PHONY: model
model: ## Check the model of the claim protocol exhaustively, with and without its safeguards (needs spin and cc)
	go run ./internal/model

.PHONY: matrix
matrix: ## Run the core suites on PostgreSQL 14 to 18, and through PgBouncer on the oldest and newest
	go run ./internal/matrix

.PHONY: check
check: ## Check formatting, vet and generated files
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo 'run gofmt -w' >&2; exit 1; }
	go vet ./...
	$(SQLC) diff
	@before=$$(cat sql/schema/install.sql sql/schema/migrations/*.sql | sha256sum); go generate ./sql/schema; \
	  test "$$before" = "$$(cat sql/schema/install.sql sql/schema/migrations/*.sql | sha256sum)" || \
	  { echo 'generated SQL was stale: commit the result of make generate' >&2; exit 1; }
	go mod tidy -diff

.PHONY: bench
bench: ## Measure the hot path beside other ways, in one run; ends with ratios
	go run ./bench

.PHONY: demo
demo: ## Replay duplicate callbacks against a shop with and without defence
	go run ./cmd/pgonce demo
