# Tandem. `make up` shows it, `make test` proves it, `make help` lists the rest.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
MODULES := shared broker controller nodeagent nodeagent/bittorrent nodeagent/key testenv
VERSION := $(shell deploy/demo/version)
LDFLAGS := -s -w -X tandem.internal/shared/settings.Version=$(VERSION)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := v1.9.0
NFPM := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0
FUZZTIME ?= 1s
BASE ?= main
export GOPRIVATE := tandem.internal
# What is built has no path of this machine in it: it is built once for all checkouts.
export GOFLAGS := -buildvcs=false -trimpath
export CGO_ENABLED ?= 1
# Go's own JSON is then built on the one that Tandem uses, where this Go knows that: one in each program, instead of two.
export GOEXPERIMENT := $(shell GOEXPERIMENT=jsonv2 go env GOEXPERIMENT 2>/dev/null)
# Programs are pure Go, so that one binary runs on any Linux of its architecture.
BUILD := CGO_ENABLED=0 go build -ldflags '$(LDFLAGS)'
BIN ?= bin
AGENT ?= $(BIN)/tandem-node
FULL ?= $(BIN)/tandem-node-full
CLI ?= $(BIN)/tandem
ARCHES ?= amd64

.PHONY: help up demo-upgrade test quick check build agent agent-full cli packages images release torrent notice fmt-check vet staticcheck tidy tidy-check standalone fuzz vuln brokers bench soak ship-check vm clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

up: build ## build and run a unit of three nodes on this machine until Ctrl-C
	@deploy/demo/up

demo-upgrade: build ## on a unit of its own, in two minutes: agents go to a good version, a bad, a hanging, an unsigned one
	@deploy/demo/versions $(BIN)/versions '-s -w -funcalign=1' -trimpath -gcflags=all=-l -tags nethttpomithttp2
	@deploy/demo/upgrade

build: agent cli ## the five binaries, in bin/; BIN=DIR says where else
	@for b in controller/cmd/tandem-controller broker/cmd/tandem-broker nodeagent/key/cmd/tandem-key; do \
		$(BUILD) -o $(BIN)/$$(basename $$b) ./$$b; done

cli: ## the operator's program alone, for the system that GOOS and GOARCH name; CLI=FILE says where
	@$(BUILD) -o "$(CLI)" ./controller/cmd/tandem

# Without inlining (-l), HTTP/2 and gaps between functions the agent takes less of the node's disk and memory, and no time that anybody
# notices: shared/docs/adr/019-an-agent-without-inlining.md. tandem-bench measures what this builds.
agent: ## the node agent alone; AGENT=FILE says where
	@mkdir -p "$$(dirname "$(AGENT)")"
	@CGO_ENABLED=0 go build -ldflags '$(LDFLAGS) -funcalign=1' -gcflags=all=-l -tags nethttpomithttp2 -o "$(AGENT)" ./nodeagent/cmd/tandem-node

# The full agent has BitTorrent, from a module of its own: shared/docs/adr/041-bittorrent-in-a-module-of-its-own.md.
agent-full: ## the node agent with BitTorrent, as bin/tandem-node-full; FULL=FILE says where else
	@mkdir -p "$$(dirname "$(FULL)")"
	@CGO_ENABLED=0 go build -ldflags '$(LDFLAGS) -funcalign=1' -gcflags=all=-l -o "$(FULL)" ./nodeagent/bittorrent/cmd/tandem-node-full

torrent: ## test what only the full agent has, alone and in real time
	CGO_ENABLED=0 go test ./nodeagent/bittorrent/...

test: brokers ## every test, under the race detector, also those against real brokers
	@deploy/demo/memory deploy/demo/test

quick: ## vet and test what has changed since BASE (main), in under a minute; prints what it left out
	@go run ./testenv/cmd/quick -base "$(BASE)"

brokers: ## install mosquitto and swtpm for the tests if they are missing and this is root on Debian
	@deploy/demo/brokers

check: fmt-check vet staticcheck torrent tidy-check standalone vuln fuzz ## what must pass before a change lands
	$(MAKE) test

fmt-check:
	@out=$$(gofmt -l $(MODULES)); if [ -n "$$out" ]; then echo "not formatted:"; echo "$$out"; exit 1; fi

vet:
	go vet work

staticcheck:
	go run $(STATICCHECK) work

tidy: ## the same versions in every module as in the workspace, and go mod tidy
	@go work sync
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy); done

notice: ## write shared/docs/notice.md anew: the modules in the programs, and their licences
	go test ./testenv -run '^TestNotice$$' -update

tidy-check:
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy -diff) || { echo "$$m: run make tidy"; exit 1; }; done

standalone: ## every module builds without the workspace
	@for m in $(MODULES); do (cd $$m && GOWORK=off go build ./... && GOWORK=off go vet ./...) || exit 1; done

fuzz: ## every fuzz target for FUZZTIME
	@deploy/demo/fuzz $(FUZZTIME)

vuln: ## known vulnerabilities in what the programs call; says so where the database cannot be reached
	@deploy/demo/vuln $(GOVULNCHECK)

bench: ## speed and size, against a floor measured in the same run; figures also in bench.json
	@deploy/demo/brokers
	go run ./testenv/cmd/tandem-bench -json bench.json

soak: ## random faults, many more schedules than in the tests; 200,000 hostile connections, and 10 minutes of garbage
	go test ./testenv/proc -run 'TestHostileMany' -hostile 200000 -garbage 10m -timeout 1h -v
	go test ./testenv/env -run 'TestSchedules' -schedules 50000 -timeout 4h

packages: ## deb and rpm of each program, in bin/packages; OUT=DIR, ARCHES="amd64 arm64 armhf riscv64": shared/docs/packages.md
	@deploy/packages/build $(NFPM) "$(or $(OUT),$(BIN)/packages)" "$(VERSION)" $(ARCHES)

images: ## container images, as layouts in bin/images; OUT=DIR, ARCHES="amd64 arm64 armv7 riscv64": shared/docs/images.md
	@deploy/ship/images "$(or $(OUT),$(BIN)/images)" "$(VERSION)" $(ARCHES)

release: ## a release in the new folder OUT=DIR, signed with the publisher's key KEY=FILE: shared/docs/releases.md
	@VERSION="$(VERSION)" deploy/ship/release "$(or $(OUT),$(BIN)/release-$(VERSION))" "$(KEY)" "$(PASSWORD_FILE)"

ship-check: ## before a release, beside check: it is built twice the same and its programs run; packages on fresh machines (root on Debian); images of every architecture; the dashboard with 10,000 nodes; every bit of trusted files; 2,000 rollouts
	deploy/ship/check
	go test ./testenv/packages -ship -timeout 2h -v
	go test ./testenv/images -ship -timeout 1h -v
	deploy/demo/memory go test $$(grep -rl --include='*_test.go' 'filetest.EveryBit' $(MODULES) | xargs -n1 dirname | sort -u | sed 's|^|./|') \
		-run 'Damage|Every' -every-bit -timeout 4h
	go test ./testenv/browser -ship -timeout 1h -v
	deploy/demo/memory go test ./controller/internal/fleet -run '^TestRolloutSchedules$$' -rollout-schedules 2000 -timeout 1h -v

vm: ## systemd, its units and real control groups in a virtual machine; root on Debian
	@deploy/vm/run

clean:
	rm -rf bin run
