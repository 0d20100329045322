# Everything a newcomer types. Each target first sees to it that what it needs is installed (dist/setup, idempotent).

CARGO ?= cargo
# Where real tables and captures lie; what needs them is skipped by name when they are not there.
export SLUICE_SHARED ?= $(abspath ../shared)
# The build profile that benchmarks measure; PROFILE=dist measures what packages contain.
PROFILE ?= release

.PHONY: help setup build dist package test-package demo quick test test-long test-extending test-hostile lint fuzz fuzz-guided bench bench-xrl bench-tables bench-fib bench-latency bench-failover bench-forward bench-xia bench-xia-short bench-multistage bench-bgp bench-policy bench-scaling bench-sim bench-config bench-cache figures install uninstall clean-lab

help:
	@echo "make demo       a router between real neighbors takes the Internet's table and forwards packets"
	@echo "                TABLE=FILE a table of your own (MRT dump or prefix list); KEEP=1 leaves it running"
	@echo "make quick      after an edit: rustfmt, tidy, and the tests of cores and simulators that the change may break (SINCE=REV)"
	@echo "make test       all tests (labs need root or user namespaces; what is missing is skipped by name and counted)"
	@echo "make test-extending, make test-hostile  parts of make test: a protocol of your own; packages that do evil"
	@echo "make test-long  all campaigns of long tests, for many hours (cargo xtask long lists them; --minutes 30 runs the oldest)"
	@echo "make dist       the executable that is installed: optimized as a whole, stripped (some minutes more than make build)"
	@echo "make package    a tar file, a Debian package, a container image and the symbols: target/package (make test-package tries them)"
	@echo "make bench      all benchmarks, beside a peer in the same run: target/bench/*.json and *.svg"
	@echo "make bench-bgp  BGP beside every other BGP daemon of this machine (an hour; BGP='--only S1 --scale 0.1' for less)"
	@echo "make bench-forward  packets forwarded by XDP beside the kernel (FORWARD='--figures' for the figures alone)"
	@echo "make bench-xia  XIP forwarded beside IPv4, figure 5 of the Linux XIA paper (XIA='--scale 0.1 --rounds 1' for less)"
	@echo "make bench-multistage  a router of many machines, figures 5 and 6 of the multistage paper (MULTISTAGE='--only capped' for less)"
	@echo "make bench-policy  policies beside BIRD 2's filters of the same meaning (POLICY='--scale 0.1' for less)"
	@echo "                PROFILE=dist measures the executable that is installed, with every benchmark"
	@echo "make figures    the figures of the multicore BGP thesis, of Uppsala's router, of Linux XIA and of the multistage router, their numbers beside ours"
	@echo "make install    the executable, manual pages and completions into PREFIX (/usr/local), below DESTDIR"
	@echo "make uninstall  removes what make install put there, with the same PREFIX and DESTDIR"
	@echo "make fuzz-guided  all fuzz targets under libFuzzer, SECONDS each (600)"
	@echo "make lint       rustfmt, clippy, the rules of the house and of interfaces (cargo xtask interfaces), licenses, advisories"

setup:
	@dist/setup

build: setup
	$(CARGO) build --release --locked -p sluice -p sluice-demo

# The executable for packages and hosts: link-time optimization over the whole program; needs no library but glibc's.
dist: setup
	dist/static $(abspath target/static)
	RUSTFLAGS="-L native=$(abspath target/static) --remap-path-prefix=$(CURDIR)=sluice --remap-path-prefix=$(HOME)/.cargo=cargo" \
	    $(CARGO) build --profile dist --locked -p sluice

# Tar file, symbols, Debian package, container image: target/package.
package: dist
	dist/package target/dist/sluice target/package
	dist/image target/dist/sluice target/package

# Installs the packages in a fresh Debian, routes beside BIRD there, and removes them again. Runs the image as container runtimes do.
test-package: package
	dist/test-package target/package
	dist/test-image target/package

demo: build
	@target/release/sluice-demo $(if $(TABLE),--table $(TABLE)) $(if $(KEEP),--keep)

# Between a test by hand and all tests: rustfmt, tidy, and the core and simulator tests of crates that differ from origin/main (or from SINCE)
# and of their dependents. Processes, labs and benchmarks are left to make test.
quick:
	$(CARGO) xtask quick $(if $(SINCE),--since $(SINCE))

# The executable under test is built once, in the profile of the tests, with checks of overflow. The last line counts tests. Options in TEST:
# "-p sluice" for a package, "--no-skips" as CI.
test: setup
	$(CARGO) xtask test $(TEST)

# The walk through an own protocol, and components that packages bring; part of make test.
test-extending: setup
	$(CARGO) test --locked -p sluice --test sluice guide::own_protocol
	$(CARGO) test --locked -p sluice --test sluice third_party::

# Packages that try everything they may not, and texts of others with control characters; part of make test.
test-hostile: setup
	$(CARGO) test --locked -p sluice --test sluice third_party::hostile third_party::sandbox third_party::guard third_party::floods third_party::output third_party::bomb hostile_texts:: cli_package:: packages::

# All campaigns of long tests, the oldest result first; docs/long-runs.json has the results. An interrupted run continues at the next call.
test-long: setup
	$(CARGO) xtask long --all

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) xtask tidy
	$(CARGO) xtask features
	$(CARGO) xtask licenses
	$(CARGO) xtask advisories

bench: bench-xrl bench-tables bench-fib bench-latency bench-failover bench-forward bench-xia-short bench-multistage bench-sim bench-config bench-policy

bench-xrl: setup
	$(CARGO) run --profile $(PROFILE) --locked -p bench-xrl

# A full table into the kernel beside BIRD 2, routes beside a bare netlink loop, a changed next hop; in namespaces of its own.
bench-fib: setup
	$(CARGO) build --profile $(PROFILE) --locked -p sluice -p bench-fib
	target/$(PROFILE)/bench-fib

# Single routes to the kernel and to another peer at full table, beside BIRD 2 and FRR (the paper's figures 10 to 13).
bench-latency: setup
	$(CARGO) build --profile $(PROFILE) --locked -p sluice -p bench-latency
	target/$(PROFILE)/bench-latency

# Two feeds of the full table, and the better one fails, beside BIRD 2: for how long packets are lost.
bench-failover: setup
	$(CARGO) build --profile $(PROFILE) --locked -p sluice -p bench-failover
	target/$(PROFILE)/bench-failover

# Packets forwarded by XDP beside the kernel, with the figures of Uppsala's appendix A; options in FORWARD.
bench-forward: setup
	$(CARGO) build --profile $(PROFILE) --locked -p bench-forward
	target/$(PROFILE)/bench-forward $(FORWARD)

# XIP forwarded beside IPv4: figure 5 of the Linux XIA paper; options in XIA.
bench-xia: setup
	$(CARGO) build --profile $(PROFILE) --locked -p bench-xia
	target/$(PROFILE)/bench-xia $(XIA)

# The same on a tenth of the domains, once.
bench-xia-short:
	$(MAKE) bench-xia XIA='--scale 0.1 --rounds 1 $(XIA)'

# A balancer beside a router, and a router of up to four balancers and four routers, with capped elements; then whole routers: a million
# routes to a new one, churn, and one that dies. Options in MULTISTAGE.
bench-multistage: setup
	$(CARGO) build --profile $(PROFILE) --locked -p sluice -p bench-multistage
	target/$(PROFILE)/bench-multistage $(MULTISTAGE)
	$(CARGO) xtask long --only 'cluster rates'

# Sluice beside BIRD, FRR, OpenBGPD and GoBGP (those that are installed) with the same feeds; options in BGP.
bench-bgp: setup
	$(CARGO) build --profile $(PROFILE) --locked -p sluice -p bench-bgp
	target/$(PROFILE)/bench-bgp --threads 2 $(BGP)

# Policies beside BIRD 2's filters of the same meaning; options in POLICY (POLICY='--scale 0.1' for less).
bench-policy: setup
	$(CARGO) build --profile $(PROFILE) --locked -p sluice -p bench-policy
	target/$(PROFILE)/bench-policy $(POLICY)

# BGP's stages by themselves, and how long scenarios take at least with more threads; with measurements as far as there are cores.
bench-scaling: setup
	$(CARGO) build --profile $(PROFILE) --locked -p sluice -p bench-bgp
	target/$(PROFILE)/bench-bgp --scaling $(BGP)

# The multicore BGP thesis's figures 4.3 to 4.9 and its tables 2.1, 4.2 and 5.1, as far as they are software; appendix A of Uppsala's paper;
# figure 5 of the Linux XIA paper.
figures: setup
	$(CARGO) build --profile $(PROFILE) --locked -p sluice -p bench-bgp -p bench-forward -p bench-xia -p bench-multistage
	mkdir -p target/bench
	target/$(PROFILE)/sluice simulate thesis --mrt target/bench/thesis.mrt --vantage 0
	target/$(PROFILE)/bench-bgp --figures --trace target/bench/thesis.mrt $(BGP)
	target/$(PROFILE)/bench-bgp --transactions $(BGP)
	target/$(PROFILE)/sluice bench bgp-profile
	target/$(PROFILE)/bench-forward --figures
	target/$(PROFILE)/bench-xia --figures
	target/$(PROFILE)/bench-multistage

# Cache misses of a route in BGP's core, by cachegrind, with last-level caches of several sizes (the thesis's figure 5.1).
bench-cache: setup
	$(CARGO) xtask working-set

# A configuration of 100,000 lines, and a line more, beside BIRD 2 and FRR; `show` while a full table comes in.
bench-config: setup
	$(CARGO) build --profile $(PROFILE) --locked -p sluice -p bench-config
	target/$(PROFILE)/bench-config

# Prefix tables on the Internet's routes, beside the best crates.
bench-tables: setup
	$(CARGO) run --profile $(PROFILE) --locked -p bench-tables

# 1,000 simulated routers from the first OPEN until they rest, 10,000 stubs, and campaigns.
bench-sim: setup
	$(CARGO) run --profile $(PROFILE) --locked -p bench-sim

# Random mutations of real messages against every decoder, SECONDS for each; with the checks of overflow that tests have.
fuzz: setup
	$(CARGO) run --locked -p sluice-fuzz -- all $(or $(SECONDS),10)

# The same targets under libFuzzer, which follows coverage, SECONDS for each; KEEP=1 keeps small inputs in fuzz/corpus.
fuzz-guided: setup
	$(CARGO) xtask fuzz-guided --seconds $(or $(SECONDS),600) $(if $(KEEP),--keep)

# What was built; `make dist` first, as an ordinary user.
install:
	@dist/install target/dist/sluice

# Removes exactly what `make install` put there; configuration and state stay.
uninstall:
	@dist/install --remove

# Removes what a killed demo, test or benchmark may have left behind.
clean-lab:
	target/release/sluice lab down --all
