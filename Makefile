# workbench: `make help` lists what there is to make.

SHELL := /bin/bash
.DEFAULT_GOAL := build
.PHONY: build solve pictures tables test test-go test-quick torch test-torch torch-tables bench quick nightly vet staticcheck dead-code format-check shell-check python-check lint licenses \
	format setup env clean soak site release wheel help

# Arguments for `make solve`, `make test`, `make test-quick` and `make bench`, as in
#   make solve ARGS='--memory 50% --time-limit 10s'
#   make test ARGS='-run Verify ./model/...'
ARGS :=
BACKEND := highs
PACKAGES := ./...
TIMEOUT := 25m

# Everything that compiles Go runs where cgo finds HiGHS and the program finds lp_solve.
WITH_SOLVERS = eval "$$(scripts/setup.sh --env)" &&
# Half of the time to link a hundred tests goes into symbols for debuggers, a fifth of the rest
# into trying what the C++ linker understands; gold is the quicker one of GNU's two.
GOLD := $(if $(shell command -v ld.gold),-extldflags=-fuse-ld=gold)
LINK_TESTS := -ldflags='-s -compressdwarf=false $(GOLD)'
TOOL := go tool -modfile=tools/go.mod

build: setup ## build bin/workbench (the default)
	@$(WITH_SOLVERS) go build -trimpath -buildvcs=auto $(LINK_TESTS) -o bin/workbench ./cmd/workbench

solve: build ## build, then solve the default instance; BACKEND=lpsolve, ARGS='…'
	@$(WITH_SOLVERS) bin/workbench solve --backend $(BACKEND) $(ARGS)

# PyTorch's tests run beside Go's, of which some mostly wait, and are printed behind them.
test: setup ## run all tests; PACKAGES=./model/..., ARGS='-run X -count=1'
ifeq ($(PACKAGES)$(findstring -run,$(ARGS)),./...)
	@if ! scripts/torch.sh --find >/dev/null; then \
		$(MAKE) -s test-go && echo "pytorch/ is not tested: no Python with torch here; make torch gets one"; exit; fi; \
	$(MAKE) -s build || exit; said=$$(mktemp); $(MAKE) -s test-torch >$$said 2>&1 & \
	$(MAKE) -s test-go; go=$$?; wait $$!; torch=$$?; cat $$said; rm $$said; exit $$((go + torch))
else
	@$(MAKE) -s test-go
endif

# Memory for time: a heap may grow to three times what is live before it is swept, in the
# short tests to five times.
test-go:
	@$(WITH_SOLVERS) GOGC=200 go test -trimpath $(LINK_TESTS) -timeout $(TIMEOUT) $(ARGS) $(PACKAGES)

# Some packages mostly wait: four at once leave no core idle. make vet looks for what vet finds.
test-quick: setup ## the short tests, for the inner loop; PACKAGES and ARGS as for test
	@$(WITH_SOLVERS) GOGC=400 go test -short -vet=off -trimpath -p 4 $(LINK_TESTS) -timeout $(TIMEOUT) $(ARGS) $(PACKAGES)

torch: ## make a Python with PyTorch in the cache unless one is active; TORCH=2.11
	@scripts/torch.sh

# One thread, and products that do not depend on where a tensor lies: sums have one order. The counter measures peaks.
export TORCH ?=
RUN_TORCH = cd pytorch && python=$$(../scripts/torch.sh --find) && counter=$$($$python -m workbench_torch counter) && \
	OMP_NUM_THREADS=1 MKL_CBWR=AUTO,STRICT LD_PRELOAD="$$counter $$LD_PRELOAD" $$python
test-torch: build torch ## test pytorch/ with real networks and bin/workbench; PYTEST='-k gpt', TORCH=2.11
	@$(RUN_TORCH) -m pytest $$($$python -c 'import xdist' 2>/dev/null && printf -- '-n 2') $(PYTEST)

TABLES := methods
torch-tables: build torch ## the tables of docs/pytorch.md, minutes each; TABLES='methods|share|chains|times [NETWORK ...]'
	@$(RUN_TORCH) tests/tables.py $(TABLES)

bench: setup ## run the Go benchmarks
	@$(WITH_SOLVERS) go test -run '^$$' -bench . -benchmem -timeout $(TIMEOUT) $(ARGS) $(PACKAGES)

# Each sweep has a folder of its own; bench resume goes on with one that was cut off.
NOW := $(shell date +%F-%H%M%S)
SWEEP = $(WITH_SOLVERS) bin/workbench bench run $@ --into sweeps/$@-$(NOW) $(ARGS) && \
	bin/workbench bench report sweeps/$@-$(NOW)

quick: build ## a sweep over every problem in less than two minutes, and its report
	@$(SWEEP)

nightly: build ## the sweep of every night, in less than two hours on two cores, and its report
	@$(SWEEP)

release: setup ## pack one self-contained binary with its licences into dist/
	@scripts/release.sh

wheel: setup torch ## pack the Python package with the program inside into dist/, and try it without Go and gcc
	@scripts/wheel.sh

tables: setup ## write tables of the documents again, by their names; ARGS='chains growth'
	@names="$(strip $(ARGS))"; [ -n "$$names" ] || \
		{ echo "which? ARGS='NAME ...' of" $$(grep -rhoE '^<!-- (table|measured) [a-z0-9-]+' docs | cut -d' ' -f3); exit 1; }; \
		$(WITH_SOLVERS) go test -count=1 -timeout 6h -run "^TestTablesInDocuments$$/^($${names// /|})$$" ./cmd/workbench -update

# Readers of formats that others define, each fuzzed for as long as FUZZ says; FUZZ= leaves them out.
FUZZ := 10s
READERS := milp:ReadMPS milp:ReadLP vipr:Check importer/dsasolver:Read importer/dsasolver:ReadSolution \
	importer/torchsnapshot:Read instance/lifetimes:Read instance/lifetimes:ReadCSV
soak: setup ## random instances of every problem against exhaustive search, and random files; ARGS='--for 30m --seed 7', FUZZ=1m
	@$(WITH_SOLVERS) go run -trimpath ./bench/soak $(ARGS)
	@$(WITH_SOLVERS) for reader in $(if $(FUZZ),$(READERS)); do echo "fuzz: $$reader" && go test -vet=off -run '^$$' \
		-fuzz "^Fuzz$${reader#*:}$$" -fuzztime $(FUZZ) -fuzzminimizetime 1x "./model/$${reader%:*}" || exit; done

lint: vet staticcheck dead-code format-check shell-check python-check ## everything that can be said without running

vet: setup
	@$(WITH_SOLVERS) go vet $(PACKAGES)

staticcheck: setup
	@$(WITH_SOLVERS) $(TOOL) staticcheck $(PACKAGES)

dead-code: setup
	@$(WITH_SOLVERS) go test -run '^TestEverythingIsCalled$$' ./cmd/workbench

format-check:
	@unformatted=$$($(TOOL) gofumpt -l .) && if [ -n "$$unformatted" ]; then \
		echo "not formatted, run make format:"; echo "$$unformatted"; exit 1; fi

# Only where shellcheck happens to be installed.
shell-check:
	@! command -v shellcheck >/dev/null || shellcheck scripts/*.sh .ci/run

# The pinned versions, whatever Python is active.
python-check:
	@TORCH=2.15 scripts/torch.sh && python=$$(TORCH=2.15 scripts/torch.sh --find) && cd pytorch && $$python -m ruff check -q . && $$python -m mypy

format: ## format the Go files
	@$(TOOL) gofumpt -w .

pictures: build ## draw the pictures of the documents again; ARGS='--check remat-resnet50'
	@scripts/pictures.sh $(ARGS)

site: ## build the site of the documents into dist/site, checking spelling and every link
	@scripts/site.sh

licenses: setup ## list the licences of what is linked in, fail on one not allowed
	@$(WITH_SOLVERS) scripts/licenses.sh

setup: ## get the solvers: quiet and quick when they are there
	@scripts/setup.sh

env: setup ## print what plain go commands need: eval "$(make -s env)"
	@scripts/setup.sh --env

clean: ## remove what was built here; the solvers stay in the user's cache
	@rm -rf bin dist

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
