# make help lists the targets.

GO         ?= go
STATICCHECK = bin/staticcheck
TALLY       = bin/tally
LOKI        = bin/loki
UNIT        = unit -race ./...
E2E         = e2e -C e2e -count=1 -timeout=45m ./...
SOURCES     = cmd internal pkg e2e
DOCUMENTED  = ./cmd/orphand/app ./pkg/access ./internal/alerts

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: needs ## a real control plane, accidents, and what orphand says; KEEP=1 leaves it running
	KEEP=$(KEEP) $(GO) run ./e2e/cmd/demo

.PHONY: test
test: lint needs testbed $(TALLY) sim ## lint, unit tests with the race detector, end-to-end scenarios; the last line counts them
	@$(TALLY) $(UNIT) , $(E2E)

.PHONY: unit
unit: needs $(TALLY) ## unit tests with the race detector
	@$(TALLY) $(UNIT)

.PHONY: e2e
e2e: needs testbed $(TALLY) ## end-to-end scenarios on a real control plane
	@$(TALLY) $(E2E)

# A first build takes a quarter of an hour, and tests show no progress.
.PHONY: testbed
testbed: needs
	@$(GO) run ./e2e/cmd/cluster build

# Only the project's own modules are looked at: go vet does not end over the one that holds all of Kubernetes.
.PHONY: lint
lint: needs $(STATICCHECK) ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l $(SOURCES)); test -z "$$unformatted" || { echo "not formatted, run gofmt -w on:" $$unformatted >&2; exit 1; }
	$(GO) vet ./...
	$(GO) -C e2e vet ./...
	$(STATICCHECK) ./...
	cd e2e && ../$(STATICCHECK) ./...

.PHONY: bench
bench: needs ## benchmarks
	$(GO) test -run='^$$' -bench=. -benchmem ./...

SEEDS ?= 10000

.PHONY: sim
sim: needs ## try to make orphand lie in SEEDS histories of a simulated cluster with true processes in it
	$(GO) run ./internal/sim/cmd/sim -seeds $(SEEDS) -cover

.PHONY: sim-mutants
sim-mutants: needs ## break the rule in each of its parts, and see the simulator, or a test, catch it
	$(GO) run ./internal/sim/cmd/mutants

FUZZTIME ?= 60s

# A target that is not minimized for long finds more: the reader's seeds are whole histories.
.PHONY: fuzz
fuzz: needs ## every fuzz target for FUZZTIME
	@for package in $$(grep -rl --include=*_test.go '^func Fuzz' cmd internal pkg | xargs -n1 dirname | sort -u); do \
		for target in $$(grep -rhoE '^func Fuzz[A-Za-z]+' --include=*_test.go $$package | cut -c6-); do \
			$(GO) test ./$$package -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x || exit 1; \
		done; \
	done

.PHONY: scale
scale: needs ## what one deleted job of 2,000 pods costs, on a real control plane with made-up nodes
	$(GO) run ./e2e/cmd/scale

RETENTION ?=

.PHONY: retention-scale
retention-scale: needs ## what the removal of 10,000 jobs costs, beside Kubernetes' own TTL controller; RETENTION="-n 1000" for fewer
	$(GO) run ./e2e/cmd/retentionscale $(RETENTION)

.PHONY: cases
cases: needs ## list the reported faults that are replayed, and replay them with the rules' own histories
	@awk 'FNR==1 {sub(/^# /,""); n=split(FILENAME, path, "/"); printf "%-52s %s\n", path[n], $$0}' testdata/cases/*.yaml
	$(GO) run ./cmd/orphand replay testdata/cases/*.yaml testdata/rules/*.yaml > /dev/null

.PHONY: build
build: needs ## bin/orphand
	$(GO) build -o bin/ ./cmd/orphand

.PHONY: docs
docs: needs ## write anew what is made from the code: pages of docs/, roles, alert rules
	$(GO) test $(DOCUMENTED) -run='^TestDocs' -count=1 -update

.PHONY: docs-check
docs-check: needs ## fail when what is made from the code is not what the code says
	$(GO) test $(DOCUMENTED) -run='^TestDocs' -count=1

.PHONY: alerts-test
alerts-test: $(LOKI) ## alert rules with promtool, a real Prometheus on the control plane; line rules with jq and Loki's parser
	@scripts/needs prometheus jq
	ORPHAND_NEED_PROMETHEUS=1 $(GO) test ./cmd/orphand/app -run='^TestEveryAlert' -count=1 -v
	ORPHAND_NEED_PROMETHEUS=1 $(GO) test -C e2e ./install -run='^(TestARealPrometheus|TestTheFilterAndTheLokiRules)' -count=1 -v -timeout=30m

.PHONY: clean
clean: ## remove bin/
	rm -rf bin

.PHONY: needs
needs:
	@scripts/needs

# All are rebuilt only when their sources changed, and then from Go's own cache.
.PHONY: $(STATICCHECK) $(TALLY) $(LOKI)
$(STATICCHECK): needs
	@GOWORK=off $(GO) build -C tools -o ../$@ honnef.co/go/tools/cmd/staticcheck

$(LOKI): needs
	@GOWORK=off $(GO) build -C tools/loki -o ../../$@ .

$(TALLY): needs
	@$(GO) build -o $@ ./internal/tally
