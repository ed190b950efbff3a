# One non-recursive build. It calls itself only where something must be finished before the build
# starts (the dependencies) or where the whole is built another way (SAN=asan, tsan, fuzz).
CC          = gcc
PREFIX      = /usr/local
SYSCONFDIR  = $(if $(filter /usr /usr/local,$(PREFIX)),/etc,$(PREFIX)/etc)
FUZZ_SECONDS = 60
SAN         =
STORE       =
BUILD      := build$(SAN:%=/%)
O          := $(BUILD)/obj

# A module is a directory, with folders in it (ARROWS says which may use which). Its tests lie in MODULE/test.
sources     = $(filter-out $(foreach d,test bench libetcd lab preload,$(1)/$d/%),$(wildcard $(1)/*.c $(1)/*/*.c $(1)/*/*/*.c))
objects     = $(patsubst %.c,$(O)/%.o,$(call sources,$(1)))
LIB        := $(BUILD)/libinventory.a
LIB_PARTS  := $(call objects,base) $(call objects,inventory)
LIBLOCK    := $(BUILD)/liblock.a
LIBLOCK_SO := $(BUILD)/liblock.so
LIBLOCK_PARTS := $(call objects,lock) $(addprefix $(O)/base/,url_parts.o waiter.o) $(patsubst %.c,$(O)/%.o,$(wildcard base/redis/*.c base/redis/blocking/*.c))
LIBETCD    := $(BUILD)/libetcd.a
LIBETCD_SO := $(BUILD)/libetcd.so
LIBETCD_PARTS := $(call objects,lock/libetcd) $(addprefix $(O)/base/,url_parts.o waiter.o) $(O)/gen/etcd.pb-c.o
# liblock stands on libetcd; so do all that are linked with it.
LOCKS      := $(LIBLOCK) $(LIBETCD)
SERVICE    := $(filter-out %/main.o,$(call objects,service))
LOADTEST   := $(filter-out %/main.o,$(call objects,loadtest))
LAB        := $(filter-out %/main.o,$(call objects,loadtest/lab))
LOCK_BENCH := $(filter-out %/main.o,$(call objects,lock/bench))
# The harness brings the launcher of servers along: not all tests are linked with libinventory.a, which has it, too.
HARNESS    := $(filter-out %/fuzz_main.o %/stops.o,$(call objects,test)) \
              $(filter $(O)/base/servers/%,$(call objects,base)) $(O)/base/redis/info.o
MODULES    := base inventory lock lock/libetcd service loadtest loadtest/lab test
PROGRAMS   := $(BUILD)/seckilld $(BUILD)/seckill-load $(BUILD)/lock-bench $(BUILD)/seckill-lab
# A clock for servers, which tests and the lab turn; never sanitized, since it is preloaded into others' programs.
TURNED_CLOCK := $(BUILD)/turned-clock.so
VERSION    := $(shell sed -n 's/.*SECKILL_VERSION "\(.*\)"/\1/p' base/version.h)
comma      := ,
# libX.so: the file with the code, and the name that programs linked with it ask for.
so_file     = $(1).$(VERSION)
so_name     = $(1).$(firstword $(subst ., ,$(VERSION)))

# What else lies in MODULE/test is linked into all of that module's tests.
helpers     = $(patsubst %.c,$(O)/%.o,$(filter-out $(1)/test/test_%.c $(1)/test/fuzz_%.c,$(wildcard $(1)/test/*.c)))

# MODULE/test/test_NAME.c is the program build/test/MODULE_NAME (of lock/libetcd: etcd_NAME); fuzz_NAME.c is
# build/test/MODULE_fuzz_NAME, which replays the corpus, and build/fuzz/MODULE_NAME, which is libFuzzer.
named       = $(foreach f,$(wildcard $(MODULES:%=%/test/$(1)_*.c)),\
                  $(patsubst lib%,%,$(lastword $(subst /, ,$(f:/test/$(notdir $f)=))))_$(2)$(patsubst $(1)_%.c,%,$(notdir $f)))
TESTS      := $(addprefix $(BUILD)/test/,$(call named,test,) $(call named,fuzz,fuzz_))
# What the documents print, and a browser, run the programs as users build them.
$(if $(SAN),$(eval TESTS := $(filter-out %/test_docs %/lab_page %/lab_page_live %/lab_page_rules,$(TESTS))))
FUZZERS    := $(addprefix build/fuzz/,$(call named,fuzz,))

# MODULE/bench/NAME.c is the program build/bench-NAME: a ceiling that make bench measures against. But all of
# lock/bench is one program, build/lock-bench.
BENCHES    := $(patsubst %.c,$(BUILD)/bench-%,$(notdir $(wildcard $(patsubst %,%/bench/*.c,$(filter-out lock,$(MODULES))))))

# Text that programs carry with them: X.lua becomes X_lua in X.lua.h. Scripts that move stock begin with stock.lua, those of orders with
# order.lua, too.
STOCK_SCRIPTS := restock settle putback purchase fenced basket line
ORDER_SCRIPTS := settle putback
TEXTS      := $(filter-out %/stock.lua %/order.lua,$(foreach d,inventory lock loadtest,$(wildcard $d/*/*.lua $d/*/*/*.lua))) $(wildcard service/*/*.json loadtest/lab/page/* loadtest/lab/draw/*.css)
GEN        := $(addprefix $(BUILD)/gen/,$(addsuffix .h,$(notdir $(TEXTS)))) $(BUILD)/gen/etcd.pb-c.h
# A header whose text is gone must not satisfy an include any more.
stale      := $(filter-out $(GEN),$(wildcard $(BUILD)/gen/*.h))
$(if $(stale),$(shell rm -f $(stale)))
vpath %.lua  $(sort $(dir $(TEXTS)))
vpath %.json $(sort $(dir $(TEXTS)))
vpath %.html loadtest/lab/page
vpath %.css  loadtest/lab/page loadtest/lab/draw
vpath %.mjs  loadtest/lab/page
vpath %.svg  loadtest/lab/page

WARN       := -Wall -Wextra -Werror -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
              -Wold-style-definition -Wpointer-arith -Wwrite-strings -Wvla -Wundef -Wformat=2
# Asked once, and only when something is compiled or linked: make deps may have to install pkg-config first.
PKGS       := libmicrohttpd hiredis jansson libjwt libuv libsodium grpc libprotobuf-c
pkg_cflags  = $(eval pkg_cflags := $$(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(PKGS))))$(pkg_cflags)
pkg_libs    = $(eval pkg_libs := $(shell pkg-config --libs $(PKGS)) $(ZOOKEEPER) -lm)$(pkg_libs)
# Its C client comes without a file for pkg-config.
ZOOKEEPER  := -lzookeeper_mt

MODE_       = -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE
# Sanitized, gcc sees uninitialised variables and cut-off texts where there are none.
sanitize    = -O1 -fno-omit-frame-pointer -Wno-maybe-uninitialized -Wno-format-truncation
MODE_asan   = $(sanitize) -fsanitize=address,undefined -fno-sanitize-recover=all
MODE_tsan   = $(sanitize) -fsanitize=thread
MODE_fuzz   = $(sanitize) -w -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
LINK_       = -pie -Wl,-z,relro,-z,now
LINK_fuzz   = -fsanitize=fuzzer
CFLAGS      = -std=c17 -g -pthread $(WARN) $(MODE_$(SAN))
CPPFLAGS    = -D_GNU_SOURCE -I. -I$(BUILD)/gen $(pkg_cflags)
LDFLAGS     = -Wl,--as-needed $(LINK_$(SAN))
LINK        = @mkdir -p $(@D) && echo '  LD $@' && $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(pkg_libs)

link_so     = @echo '  LD $@' && $(CC) $(CFLAGS) $(filter-out -pie,$(LDFLAGS)) -shared \
                  -Wl,-soname,$(notdir $(call so_name,$@)) -Wl,-z,defs -o $(call so_file,$@) $(filter %.o,$^) $(1) && \
                  ln -sf $(notdir $(call so_file,$@)) $(call so_name,$@) && ln -sf $(notdir $(call so_file,$@)) $@

# A build started by a target that first had to do something else: as parallel as the caller asked, or one job a core.
remake      = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$$(nproc))

.PHONY: all deps run reset test check bench masters deaths torture oversell baskets lab demo lint fmt fuzz install clean help tests fuzzers benches
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all

all: $(PROGRAMS) $(TURNED_CLOCK) $(LIB) $(LOCKS) $(LIBLOCK_SO) $(LIBETCD_SO) ## use: build everything into build/
	@:

# A target is listed if its line ends with "## GROUP: what it does".
help: ## use: list what there is to make
	@for group in use measure test maintain; do \
	    echo "$$group:" && sed -n "s/^\([a-z]*\):.*## $$group: \(.*\)/\1\t\2/p" Makefile | \
	        awk -F '\t' '{ printf "  make %-9s %s\n", $$1, $$2 }'; done

deps: ## use: install what is needed to build, run, measure and test (Debian; elsewhere: say what is missing)
	@deploy/deps.sh build run measure test

run: ## use: build; start a private Redis and etcd, and the service on http://127.0.0.1:8080, until Ctrl-C (ARGS: its flags)
	@deploy/deps.sh build run
	@+$(remake) all
	@deploy/run.sh $(ARGS)

reset: ## use: remove what make run keeps in var/: data, logs, admin token
	@deploy/reset.sh

test: deps $(STORE:%=build/%/bin) ## test: build and run every test (SAN=asan or SAN=tsan: under that sanitizer; STORE=valkey or STORE=redis8: on that store)
	@+$(remake) all tests
	@$(on_store) SECKILL_BUILD=$(BUILD) test/run.sh $(filter $(LONGEST),$(TESTS)) $(filter-out $(LONGEST),$(TESTS))

# What starts a Redis starts another store by its name.
on_store    = $(STORE:%=PATH="$(CURDIR)/build/%/bin:$$PATH")

build/valkey/bin build/redis8/bin: build/%/bin: test/store.sh
	@test/store.sh $* build/$*

# These begin first, so that none of them is left over at the end.
LONGEST    := %/lab_scenarios %/inventory_sentinel %/inventory_replicas %/lock_processes %/service_failover %/inventory_silent \
              %/inventory_cluster_moves %/lock_contract_losses %/lab_page %/lock_holders %/inventory_disown %/inventory_kept %/test_deploy \
              %/inventory_cluster_lost %/lock_contract %/service_haproxy

# A seckilld for tests, which is killed or stopped at one of its steps.
STOPS      := $(BUILD)/test/seckilld-stops

# What lints openapi.json, and what checks the page of the lab (axe-core): as the lock file has them, and kept between
# builds. Without them these two tests fail.
NPM        := build/npm/node_modules/.package-lock.json
$(NPM): test/npm/package.json test/npm/package-lock.json
	@mkdir -p build/npm && cp $^ build/npm && echo '  NPM build/npm' && cd build/npm && \
	    { npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >npm.log 2>&1 && touch node_modules/.package-lock.json || \
	    cat npm.log; }

tests: $(TESTS) $(STOPS) $(TURNED_CLOCK) $(NPM) ; @:

check: ## test: run everything: test, test under ASan+UBSan, test under TSan, lint
	+$(MAKE) --no-print-directory test
	+$(MAKE) --no-print-directory test SAN=asan
	+$(MAKE) --no-print-directory test SAN=tsan
	+$(MAKE) --no-print-directory lint

bench: ## measure: measure orders/s, latency and CPU beside the ceilings of the HTTP library and the store
	@deploy/deps.sh build run measure
	@+$(remake) all benches
	@SECKILL_BUILD=$(BUILD) loadtest/bench.sh

masters: ## measure: measure the cost of a purchase with one Redis, and with a cluster of one, three and six masters
	@deploy/deps.sh build run measure
	@+$(remake) all
	@SECKILL_BUILD=$(BUILD) loadtest/masters.sh

deaths: ## measure: measure for how long nothing is sold after a master dies, below Sentinels and in a cluster
	@deploy/deps.sh build run measure
	@+$(remake) all
	@SECKILL_BUILD=$(BUILD) loadtest/deaths.sh

oversell: ## measure: sell a hundred units with every strategy and print which oversold
	@deploy/deps.sh build run measure
	@+$(remake) all
	@SECKILL_BUILD=$(BUILD) loadtest/oversell.sh

baskets: ## measure: sell baskets in every way and print which oversold, and what purchases beside them lose
	@deploy/deps.sh build run measure
	@+$(remake) all
	@SECKILL_BUILD=$(BUILD) loadtest/baskets.sh

lab: ## use: play every way in which a sale goes wrong, and its fix, with real servers; report in build/lab (ARGS: flags of seckill-lab run)
	@deploy/deps.sh build run lab
	@+$(remake) all
	@$(BUILD)/seckill-lab run all --out $(BUILD)/lab $(ARGS)

demo: ## use: serve a page on which you break a lock and watch the sale oversell, until Ctrl-C (ARGS: flags of seckill-lab serve)
	@deploy/deps.sh build run lab
	@+$(remake) all
	@$(BUILD)/seckill-lab serve $(ARGS)

torture: deps $(STORE:%=build/%/bin) ## test: kill servers under load, for hours; write docs/evidence.md (SECKILL_TORTURE_ROUNDS, STORE)
	@+$(remake) all tests
	@$(on_store) SECKILL_BUILD=$(BUILD) test/torture.sh

SOURCES    := $(foreach m,$(MODULES),$(call sources,$m)) $(wildcard base/preload/*.c $(foreach m,$(MODULES),$m/test/*.c $m/bench/*.c))
HEADERS    := $(wildcard $(sort $(SOURCES:.c=.h) $(addsuffix *.h,$(dir $(SOURCES)))))
SCRIPTS    := $(wildcard */*.sh .ci/run)

lint: ## maintain: check format, clang-tidy, cppcheck, shellcheck, the arrows between files, deploy/, and that the docs name every option
	@deploy/deps.sh build measure check test
	@+$(remake) all $(NPM)
	@echo '  LINT clang-format' && clang-format --dry-run -Werror $(SOURCES) $(HEADERS)
	@echo '  LINT clang-tidy' && printf '%s\n' $(SOURCES) | \
	    xargs -P $$(nproc) -n 1 sh -c 'clang-tidy --quiet "$$1" -- -std=c17 $(CPPFLAGS)' clang-tidy
	@echo '  LINT cppcheck' && cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability \
	    --inline-suppr --suppress=varFuncNullUB --suppress=ctuuninitvar --std=c11 -D_GNU_SOURCE -I. $(SOURCES)
	@echo '  LINT shellcheck' && shellcheck -x $(SCRIPTS)
	@echo '  LINT arrows' && python3 test/arrows.py
	@echo '  LINT deploy' && test/deploy.sh $(BUILD)
	@echo '  LINT options' && test/options.sh $(BUILD)/seckilld docs/sell.md && test/options.sh $(BUILD)/lock-bench docs/measure.md

fmt: ## maintain: format all C sources
	@deploy/deps.sh check
	clang-format -i $(SOURCES) $(HEADERS)

fuzz: ## test: fuzz each parser for FUZZ_SECONDS (60), starting from the corpus in the tree
	@deploy/deps.sh build fuzz
	@+$(remake) fuzzers SAN=fuzz CC=clang
	@test/fuzz.sh $(FUZZ_SECONDS) $(FUZZERS)

fuzzers: $(FUZZERS) ; @:

benches: $(BENCHES) ; @:

# put FLAGS,FILES,DIRECTORY; put_filled FILE,DIRECTORY below PREFIX: its @NAMES@ are replaced, and it loses its .in.
put         = @echo '  INSTALL $(DESTDIR)$(3): $(notdir $(2))' && install -d $(DESTDIR)$(3) && install $(1) $(2) $(DESTDIR)$(3)
put_filled  = @echo '  INSTALL $(DESTDIR)$(PREFIX)/$(2): $(notdir $(1:.in=))' && install -d $(DESTDIR)$(PREFIX)/$(2) && \
                  sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@BINDIR@|$(PREFIX)/bin|; s|@SYSCONFDIR@|$(SYSCONFDIR)|' $(1) | \
                  install -m 644 /dev/stdin $(DESTDIR)$(PREFIX)/$(2)/$(notdir $(1:.in=))

install: all ## use: install into PREFIX (/usr/local) below DESTDIR; keep settings that are already in SYSCONFDIR (/etc)
	$(call put,-m 755,$(PROGRAMS),$(PREFIX)/bin)
	$(call put,-m 644,$(TURNED_CLOCK),$(PREFIX)/lib/seckill)
	$(if $(wildcard $(DESTDIR)$(SYSCONFDIR)/seckill/seckilld.conf),,$(call put,-m 644,deploy/seckilld.conf,$(SYSCONFDIR)/seckill))
	$(call put_filled,deploy/seckilld.service,lib/systemd/system)
	$(call put,-m 644,LICENSE deploy/seckilld.conf deploy/redis.conf,$(PREFIX)/share/doc/seckill)
	$(call put,-m 755,deploy/mend-aof.sh,$(PREFIX)/share/doc/seckill)
	$(call put,-m 644,lock/lock.h,$(PREFIX)/include/lock)
	$(call put,-m 644,lock/libetcd/etcd.h,$(PREFIX)/include/etcd)
	$(call put,-m 644,$(LOCKS),$(PREFIX)/lib)
	$(call put,-m 644,$(foreach so,$(LIBLOCK_SO) $(LIBETCD_SO),$(call so_file,$(so))),$(PREFIX)/lib)
	@cp -Pf $(foreach so,$(LIBLOCK_SO) $(LIBETCD_SO),$(call so_name,$(so)) $(so)) $(DESTDIR)$(PREFIX)/lib
	$(call put_filled,lock/liblock.pc.in,lib/pkgconfig)
	$(call put_filled,lock/libetcd/libetcd.pc.in,lib/pkgconfig)

clean: ## maintain: remove build/ (var/, the data of make run, stays)
	rm -rf build

$(BUILD)/seckilld:     $(O)/service/main.o $(SERVICE) $(LOCKS) $(LIB)          ; $(LINK)
$(BUILD)/seckill-load: $(O)/loadtest/main.o $(LOADTEST) $(LIB)                   ; $(LINK)
$(STOPS): $(O)/service/main.o $(O)/test/stops.o $(SERVICE) $(LOCKS) $(LIB) ; $(LINK)
$(TESTS): | $(TURNED_CLOCK)
$(TURNED_CLOCK): base/preload/turned_clock.c base/preload/turned_clock.h
	@mkdir -p $(@D) && echo '  LD $@' && $(CC) -std=c17 -O1 $(WARN) -D_GNU_SOURCE -I. -fPIC -shared -o $@ $<
$(BUILD)/seckill-lab:  $(O)/loadtest/lab/main.o $(LAB) $(LOCKS) $(LIB)          ; $(LINK)
$(BUILD)/lock-bench:   $(O)/lock/bench/main.o $(LOCK_BENCH) $(LOCKS) $(LIB) ; $(LINK)

$(BUILD)/bench-%: $(O)/inventory/bench/%.o $(LIB)                                ; $(LINK)
$(BUILD)/bench-%: $(O)/service/bench/%.o $(SERVICE) $(LOCKS) $(LIB)            ; $(LINK)
$(BUILD)/bench-%: $(O)/loadtest/bench/%.o $(LOADTEST) $(LIB)                     ; $(LINK)

BASE_TEST      := $(call helpers,base) $(HARNESS) $(LIB)
INVENTORY_TEST := $(call helpers,inventory) $(HARNESS) $(LIB)
# Tests of the two libraries call what their archives hide.
LOCK_PARTS     := $(LIBLOCK_PARTS) $(LIBETCD_PARTS)
LOCK_TEST      := $(call helpers,lock) $(LOCK_BENCH) $(HARNESS) $(LOCK_PARTS) $(LIB)
ETCD_TEST      := $(call helpers,lock/libetcd) $(HARNESS) $(LIBETCD_PARTS)
SERVICE_TEST   := $(call helpers,service) $(SERVICE) $(HARNESS) $(LOCKS) $(LIB)
LAB_TEST       := $(call helpers,loadtest/lab) $(LAB) $(HARNESS) $(LOCKS) $(LIB)
LOADTEST_TEST  := $(call helpers,loadtest) $(LOADTEST) $(HARNESS) $(LIB)
REPLAY         := $(O)/test/fuzz_main.o

$(BUILD)/test/base_%:      $(O)/base/test/test_%.o $(BASE_TEST)                  ; $(LINK)
$(BUILD)/test/test_%:      $(O)/test/test/test_%.o $(HARNESS) $(LIB)             ; $(LINK)
$(BUILD)/test/inventory_%: $(O)/inventory/test/test_%.o $(INVENTORY_TEST)        ; $(LINK)
$(BUILD)/test/lock_%:      $(O)/lock/test/test_%.o $(LOCK_TEST)                  ; $(LINK)
# Without the module's helpers: it has a lock_open() of its own, and the like.
$(BUILD)/test/lock_bench_run: $(O)/lock/test/test_bench_run.o $(O)/lock/core/backend.o $(LOCK_BENCH) $(HARNESS) $(LIB) ; $(LINK)
$(BUILD)/test/etcd_%:      $(O)/lock/libetcd/test/test_%.o $(ETCD_TEST)             ; $(LINK)
$(BUILD)/test/service_%:   $(O)/service/test/test_%.o $(SERVICE_TEST)            ; $(LINK)
$(BUILD)/test/lab_%:       $(O)/loadtest/lab/test/test_%.o $(LAB_TEST)                ; $(LINK)
$(BUILD)/test/loadtest_%:  $(O)/loadtest/test/test_%.o $(LOADTEST_TEST)          ; $(LINK)

$(BUILD)/test/base_fuzz_%:      $(O)/base/test/fuzz_%.o $(REPLAY) $(BASE_TEST)           ; $(LINK)
$(BUILD)/test/inventory_fuzz_%: $(O)/inventory/test/fuzz_%.o $(REPLAY) $(INVENTORY_TEST) ; $(LINK)
$(BUILD)/test/lock_fuzz_%:      $(O)/lock/test/fuzz_%.o $(REPLAY) $(LOCK_TEST)           ; $(LINK)
$(BUILD)/test/etcd_fuzz_%:      $(O)/lock/libetcd/test/fuzz_%.o $(REPLAY) $(ETCD_TEST)      ; $(LINK)
$(BUILD)/test/service_fuzz_%:   $(O)/service/test/fuzz_%.o $(REPLAY) $(SERVICE_TEST)     ; $(LINK)
$(BUILD)/test/lab_fuzz_%:       $(O)/loadtest/lab/test/fuzz_%.o $(REPLAY) $(LAB_TEST)     ; $(LINK)
$(BUILD)/test/loadtest_fuzz_%:  $(O)/loadtest/test/fuzz_%.o $(REPLAY) $(LOADTEST_TEST)   ; $(LINK)

build/fuzz/base_%:      $(O)/base/test/fuzz_%.o $(LIB)                           ; $(LINK)
build/fuzz/inventory_%: $(O)/inventory/test/fuzz_%.o $(LIB)                      ; $(LINK)
build/fuzz/lock_%:      $(O)/lock/test/fuzz_%.o $(LOCK_PARTS) $(LIB)             ; $(LINK)
build/fuzz/etcd_%:      $(O)/lock/libetcd/test/fuzz_%.o $(LIBETCD_PARTS)            ; $(LINK)
build/fuzz/service_%:   $(O)/service/test/fuzz_%.o $(SERVICE) $(LOCKS) $(LIB)  ; $(LINK)
build/fuzz/lab_%:       $(O)/loadtest/lab/test/fuzz_%.o $(LAB) $(LOCKS) $(LIB)       ; $(LINK)
build/fuzz/loadtest_%:  $(O)/loadtest/test/fuzz_%.o $(LOADTEST) $(LIB)           ; $(LINK)

$(LIB): $(LIB_PARTS)
	@echo '  AR $@' && rm -f $@ && ar rcs $@ $^

# One object each, in which only what the public headers declare is global: nothing else can collide with the names of a
# program that links the archive.
$(LIBLOCK): $(LIBLOCK_PARTS)
$(LIBETCD): $(LIBETCD_PARTS)
$(LOCKS):
	@echo '  AR $@' && rm -f $@ && ld -r -o $(@:.a=.o) $^ && objcopy --localize-hidden $(@:.a=.o) && ar rcs $@ $(@:.a=.o)

# Static and shared libraries are made of the same objects. What their headers declare is exported, by a pragma there,
# and nothing else.
$(LIBLOCK_PARTS) $(LIBETCD_PARTS): CFLAGS += -fPIC -fvisibility=hidden

# Their libraries are those that their .pc.in name: what needs another does not link. liblock.so finds libetcd.so
# beside it, wherever that is.
$(LIBLOCK_SO): $(LIBLOCK_PARTS) $(LIBETCD_SO) base/version.h
	$(call link_so,-Wl$(comma)-rpath$(comma)'$$ORIGIN' -L$(BUILD) -letcd $$(pkg-config --libs hiredis) $(ZOOKEEPER))
$(LIBETCD_SO): $(LIBETCD_PARTS) base/version.h
	$(call link_so,$$(pkg-config --libs grpc libprotobuf-c))

$(O)/%.o: %.c Makefile | $(GEN)
	@mkdir -p $(@D) && echo '  CC $<' && $(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/gen/etcd.pb-c.c: lock/libetcd/etcd.proto
	@mkdir -p $(@D) && echo '  PROTOC $<' && cd lock/libetcd && protoc-c --c_out=$(CURDIR)/$(@D) etcd.proto
$(BUILD)/gen/etcd.pb-c.h: $(BUILD)/gen/etcd.pb-c.c ;
$(O)/gen/%.o: $(BUILD)/gen/%.c
	@mkdir -p $(@D) && echo '  CC $<' && $(CC) $(CPPFLAGS) $(CFLAGS) -w -c -o $@ $<

$(addprefix $(BUILD)/gen/,$(addsuffix .lua.h,$(STOCK_SCRIPTS))): STOCK := inventory/store/stock.lua
$(addprefix $(BUILD)/gen/,$(addsuffix .lua.h,$(STOCK_SCRIPTS))): inventory/store/stock.lua
$(addprefix $(BUILD)/gen/,$(addsuffix .lua.h,$(ORDER_SCRIPTS))): STOCK := inventory/store/stock.lua inventory/purchases/order.lua
$(addprefix $(BUILD)/gen/,$(addsuffix .lua.h,$(ORDER_SCRIPTS))): inventory/purchases/order.lua
$(BUILD)/gen/%.h: % base/embed.sh ; @mkdir -p $(@D) && echo '  EMBED $<' && base/embed.sh $(subst .,_,$*) $(STOCK) $< > $@

-include $(patsubst %.c,$(O)/%.d,$(SOURCES))
