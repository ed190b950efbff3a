/* Baskets and transfers of a process that is killed, or stopped, at each of its steps. It is a child of this
 * one, which afterwards finishes what it left, and reads the books. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inventory/test/transactions.h"
#include "inventory/transactions.h"
#include "test/harness.h"

static struct redis_server redis;

/* What the child does, from the sale of three of each as it is opened. */
struct scene {
    const char *name, *key, *lines;
    int64_t hold_ms;  /* of the lamp */
    int64_t ahead_ms; /* the clock, then */
    enum txn_call call;
    bool first_held;    /* it was made before */
    bool sold_out;      /* the last lamps are gone between read and debit */
    bool without_fence; /* its lock numbers nothing */
};

static const struct scene scenes[] = {
    {.name = "a basket", .key = "k", .lines = "phone:1 lamp:2 phone:1 chair:3"},
    {.name = "a basket, without fences",
     .key = "k",
     .lines = "phone:2 lamp:2 chair:3",
     .without_fence = true},
    {.name = "a basket that is held", .key = "k", .lines = "phone:2 lamp:2 chair:3", .hold_ms = 60000},
    {.name = "a basket that is sold out on the way",
     .key = "k",
     .lines = "phone:2 lamp:2 chair:3",
     .sold_out = true},
    {.name = "a confirmation",
     .key = "k",
     .lines = "phone:2 lamp:2 chair:3",
     .call = TXN_CONFIRM,
     .hold_ms = 60000,
     .first_held = true},
    {.name = "a cancellation",
     .key = "k",
     .lines = "phone:2 lamp:2 chair:3",
     .call = TXN_CANCEL,
     .hold_ms = 60000,
     .first_held = true},
    {.name = "an expiry",
     .key = "k",
     .lines = "phone:2 lamp:2 chair:3",
     .call = TXN_FINISH,
     .hold_ms = 60000,
     .first_held = true,
     .ahead_ms = 61000},
    {.name = "a transfer", .key = "t", .lines = "phone:2 lamp:2"},
    {.name = "a transfer, without fences", .key = "t", .lines = "phone:2 lamp:2", .without_fence = true},
    {.name = "a transfer of what is sold out on the way",
     .key = "t",
     .lines = "lamp:2 phone:2",
     .sold_out = true},
};

enum { OWN_FENCE = 5, NEXT_FENCE = 6, LEASE_MS = 10000 };

static struct seller *open_sale(const struct scene *scene) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = seller_open(shop_open(), &redis);
    seller->fence = scene->without_fence ? 0 : OWN_FENCE;
    struct inventory_item lamp = terms("lamp", INVENTORY_BATCH, 3);
    lamp.hold_ms = scene->hold_ms;
    lamp.limit = 3;
    item_sell(seller, "phone", INVENTORY_BATCH, 3);
    CHECK_STATUS(item_put(seller, &lamp), INVENTORY_OK);
    item_sell(seller, "chair", INVENTORY_BATCH, 3);
    if (scene->first_held)
        CHECK_STATUS(txn_make(seller, scene->key, scene->lines), INVENTORY_OK);
    redis_clock()->ahead_ms = scene->ahead_ms;
    return seller;
}

/* ---- the child ---- */

struct steps {
    const struct scene *scene;
    int until, signal, count;
    char name[48];
};

static void at_failpoint(void *ctx, const char *step) {
    struct steps *steps = ctx;
    if (steps->scene->sold_out && strncmp(step, "before debit", 12) == 0 &&
        stock_initial(&redis, "lamp") == 3) {
        stock_add_initial(&redis, "lamp", -2);
        redis_integer(&redis, "HINCRBY", stock_key("lamp"), "available", "-2", NULL);
    }
    if (steps->count++ == steps->until)
        raise(steps->signal);
}

/* Ends with the status of the call. */
static void child(const struct scene *scene, int until, int signal) {
    struct steps steps = {.scene = scene, .until = until, .signal = signal};
    struct shop *shop = shop_open();
    struct seller *seller = seller_open_up(shop, &(struct seller_options){.port = redis.port,
                                                                          .at_failpoint = at_failpoint,
                                                                          .at_failpoint_ctx = &steps});
    seller->fence = scene->without_fence ? 0 : OWN_FENCE;
    redis_clock()->ahead_ms = scene->ahead_ms;
    struct txn *txn = txn_new(seller, scene->key, scene->lines);
    txn->transaction.lease_ms = LEASE_MS;
    _exit((int)txn_do(txn, scene->call));
}

static void kill_child(void *arg) {
    kill(*(pid_t *)arg, SIGKILL);
    waitpid(*(pid_t *)arg, NULL, 0);
}

static pid_t child_begin(const struct scene *scene, int until, int signal) {
    pid_t *pid = harness_alloc(sizeof *pid);
    fflush(stdout);
    *pid = fork();
    if (*pid == 0)
        child(scene, until, signal);
    harness_defer(kill_child, pid);
    return *pid;
}

/* ---- afterwards ---- */

static int64_t available(const char *item) {
    return redis_integer(&redis, "HGET", stock_key(item), "available", NULL);
}

/* All of it or nothing; true: all. */
static bool check_whole(struct seller *seller, const struct scene *scene, const struct txn *txn) {
    const struct inventory_transaction *transaction = &txn->transaction;
    const char *phase = txn_phase(&redis, txn);
    int64_t lamps = scene->sold_out && stock_initial(&redis, "lamp") == 1 ? 1 : 3;
    bool done = strcmp(phase, "none") != 0;
    bool transfer = transaction->kind == INVENTORY_TRANSFER;
    bool sold = done && strcmp(phase, "confirmed") == 0, held = done && strcmp(phase, "held") == 0;
    bool taken = sold || held;
    if (done && !taken && strcmp(phase, "cancelled") != 0 && strcmp(phase, "expired") != 0)
        FAIL("the journal has %s", phase);
    if (!held)
        CHECK_INT(journal_open(&redis), 0);
    if (transfer && strncmp(scene->lines, "lamp", 4) == 0) {
        check_books(seller, &redis, "phone", sold ? 5 : 3, 0, 0);
        check_books(seller, &redis, "lamp", sold ? 1 : lamps, 0, 0);
        return sold;
    }
    if (transfer) {
        check_books(seller, &redis, "phone", sold ? 1 : 3, 0, 0);
        check_books(seller, &redis, "lamp", sold ? 5 : lamps, 0, 0);
        return sold;
    }
    check_books(seller, &redis, "phone", taken ? 1 : 3, held ? 2 : 0, sold ? 2 : 0);
    check_books(seller, &redis, "lamp", taken ? 1 : lamps, held ? 2 : 0, sold ? 2 : 0);
    check_books(seller, &redis, "chair", taken ? 0 : 3, held ? 3 : 0, sold ? 3 : 0);
    return done;
}

/* Whoever died left everything conserved: no unit is nowhere, but those that are on their way. */
static void check_conserved(struct seller *seller, const struct scene *scene) {
    static const char *const items[] = {"phone", "lamp", "chair"};
    for (size_t i = 0; i < 3; i++) {
        struct inventory_audit audit = item_audited(seller, items[i]);
        CHECK(audit.conserved);
        CHECK_STR(ledger_audit(&redis, items[i]), "balanced");
    }
    int64_t most = scene->key[0] == 't' ? 5 : 3;
    CHECK(available("phone") <= most && available("lamp") <= most);
}

/* Some of its items are written, and some are not. */
static bool is_torn(void) {
    return redis_integer(&redis, "XLEN", stock_key("phone:events"), NULL) !=
           redis_integer(&redis, "XLEN", stock_key("lamp:events"), NULL);
}

static int torn;

/* The child is killed before step `until`. False: it had fewer steps. */
static bool killed_at(const struct scene *scene, int until, bool by_retry) {
    struct seller *seller = open_sale(scene);
    int status;
    CHECK(waitpid(child_begin(scene, until, SIGKILL), &status, 0) > 0);
    if (WIFEXITED(status)) {
        CHECK_STATUS((enum inventory_status)WEXITSTATUS(status),
                     scene->sold_out ? INVENTORY_SOLD_OUT : INVENTORY_OK);
        return false;
    }
    CHECK_INT(WTERMSIG(status), SIGKILL);
    torn += is_torn();
    check_conserved(seller, scene);
    seller->fence = scene->without_fence ? 0 : NEXT_FENCE;
    struct txn *again = txn_new(seller, scene->key, scene->lines);
    if (!by_retry) {
        /* As long as its locks last it is let alone. */
        if (!scene->ahead_ms)
            CHECK_INT(txns_recover(seller), 0);
        redis_clock()->ahead_ms += LEASE_MS + 1;
        txns_recover(seller);
        check_whole(seller, scene, again);
    }
    /* The same call again ends as if nothing had been. */
    enum inventory_status want = scene->first_held || !scene->sold_out ? INVENTORY_OK : INVENTORY_SOLD_OUT;
    if (scene->sold_out && stock_initial(&redis, "lamp") == 3)
        want = INVENTORY_OK; /* it died before the lamps were gone */
    bool before = strcmp(txn_phase(&redis, again), "none") != 0;
    enum inventory_status got = txn_do(again, scene->call);
    if (scene->call == TXN_MAKE && want == INVENTORY_OK && got == INVENTORY_REPLAYED)
        CHECK(before);
    else
        CHECK_STATUS(got, want);
    bool whole = check_whole(seller, scene, again);
    CHECK(whole || want != INVENTORY_OK);
    if (want == INVENTORY_OK)
        CHECK_STR(txn_phase(&redis, again), scene->call == TXN_CANCEL                   ? "cancelled"
                                            : scene->call == TXN_FINISH                 ? "expired"
                                            : scene->call == TXN_MAKE && scene->hold_ms ? "held"
                                                                                        : "confirmed");
    shop_close(seller->shop);
    return true;
}

static const struct scene *scene;

static void test_killed(void) {
    int steps = 0;
    torn = 0;
    while (killed_at(scene, steps, steps % 2 == 0))
        steps++;
    for (int i = 0; i < steps; i++)
        killed_at(scene, i, i % 2 != 0);
    bool writes_one = scene->key[0] == 't' && scene->sold_out;
    CHECK(steps >= 8 && (torn > 0 || writes_one));
    printf("     killed at each of %d steps, twice; %d times some items were written and some not\n", steps,
           torn);
}

/* ---- stopped: others do it meanwhile, and it goes on afterwards ---- */

static bool stopped_at(int until) {
    struct seller *seller = open_sale(scene);
    int status;
    pid_t pid = child_begin(scene, until, SIGSTOP);
    CHECK(waitpid(pid, &status, WUNTRACED) > 0);
    if (WIFEXITED(status))
        return false;
    seller->fence = scene->without_fence ? 0 : NEXT_FENCE;
    struct txn *again = txn_new(seller, scene->key, scene->lines);
    redis_clock()->ahead_ms += LEASE_MS + 1;
    if (until % 2)
        txns_recover(seller);
    else
        txn_do(again, scene->call);
    check_conserved(seller, scene);
    kill(pid, SIGCONT);
    CHECK(waitpid(pid, &status, 0) > 0);
    CHECK(WIFEXITED(status));
    enum inventory_status its = (enum inventory_status)WEXITSTATUS(status);
    check_conserved(seller, scene);
    /* What it left, having been overtaken, is finished by others. */
    redis_clock()->ahead_ms += LEASE_MS + 1;
    txns_recover(seller);
    bool done = check_whole(seller, scene, again);
    if (its == INVENTORY_OK || its == INVENTORY_REPLAYED)
        CHECK(done);
    /* Another has made it meanwhile, and that is what is told. */
    if (until % 2 == 0 && !scene->sold_out && scene->call == TXN_MAKE)
        CHECK(its == INVENTORY_OK || its == INVENTORY_REPLAYED);
    shop_close(seller->shop);
    return true;
}

static void test_stopped(void) {
    int steps = 0;
    while (stopped_at(steps))
        steps++;
    printf("     stopped at each of %d steps\n", steps);
}

/* A newer holder of its locks buys something else meanwhile, of which there is enough: what comes after that
 * with the older token is refused, from the read on; without fences it is not. The first step is before any
 * read. */
static enum inventory_status overtaken_at(int until, bool without_fence) {
    const struct scene plain = {.key = "k", .lines = "phone:1 lamp:1", .without_fence = without_fence};
    struct seller *seller = open_sale(&plain);
    int status;
    pid_t pid = child_begin(&plain, until, SIGSTOP);
    CHECK(waitpid(pid, &status, WUNTRACED) > 0);
    if (WIFEXITED(status))
        return INVENTORY_UNAVAILABLE;
    seller->fence = without_fence ? 0 : NEXT_FENCE;
    struct txn *other = txn_new(seller, "other", "lamp:1 phone:1");
    CHECK_STATUS(txn_do(other, TXN_MAKE), INVENTORY_OK);
    kill(pid, SIGCONT);
    CHECK(waitpid(pid, &status, 0) > 0);
    CHECK(WIFEXITED(status));
    redis_clock()->ahead_ms = LEASE_MS + 1;
    txns_recover(seller);
    bool done = strcmp(txn_phase(&redis, txn_new(seller, "k", "")), "none") != 0;
    enum inventory_status its = (enum inventory_status)WEXITSTATUS(status);
    if (its != INVENTORY_UNKNOWN) /* decided, but not to the end: that was others' to do */
        CHECK_INT(done, its == INVENTORY_OK);
    int sold = done ? 2 : 1;
    check_books(seller, &redis, "phone", 3 - sold, 0, sold);
    check_books(seller, &redis, "lamp", 3 - sold, 0, sold);
    shop_close(seller->shop);
    return its;
}

static void test_overtaken(void) {
    int counts[INVENTORY_UNKNOWN + 1] = {0};
    enum inventory_status status;
    for (int i = 0; (status = overtaken_at(i, false)) != INVENTORY_UNAVAILABLE; i++)
        counts[status]++;
    /* before read 0 to before debit 1: 9 steps; then until it is decided; then until it is written; and the
     * rest. */
    printf("     %d times stale, %d times decided and left, %d times whole\n", counts[INVENTORY_STALE],
           counts[INVENTORY_UNKNOWN], counts[INVENTORY_OK]);
    CHECK(counts[INVENTORY_STALE] >= 8 && counts[INVENTORY_UNKNOWN] >= 3 && counts[INVENTORY_OK] >= 1);
    for (int i = 0; (status = overtaken_at(i, true)) != INVENTORY_UNAVAILABLE; i++)
        CHECK_STATUS(status, INVENTORY_OK);
}

/* The same of one that fails on the way: it is told so only when all that it had is back. What it must leave
 * to others they may finish at once. */
static void test_overtaken_failing(void) {
    const struct scene failing = {.key = "k", .lines = "phone:2 lamp:2 chair:3", .sold_out = true};
    int counts[INVENTORY_UNKNOWN + 1] = {0}, left = 0;
    for (int until = 0;; until++) {
        struct seller *seller = open_sale(&failing);
        int status;
        pid_t pid = child_begin(&failing, until, SIGSTOP);
        CHECK(waitpid(pid, &status, WUNTRACED) > 0);
        if (WIFEXITED(status))
            break;
        seller->fence = NEXT_FENCE;
        struct txn *other = txn_new(seller, "other", "phone:1");
        CHECK_STATUS(txn_do(other, TXN_MAKE), INVENTORY_OK);
        kill(pid, SIGCONT);
        CHECK(waitpid(pid, &status, 0) > 0);
        CHECK(WIFEXITED(status));
        counts[WEXITSTATUS(status)]++;
        int open = (int)journal_open(&redis);
        if (WEXITSTATUS(status) == INVENTORY_SOLD_OUT)
            CHECK_INT(open, 0);
        left += open;
        CHECK_INT(txns_recover(seller), open);
        check_books(seller, &redis, "phone", 2, 0, 1);
        check_books(seller, &redis, "chair", 3, 0, 0);
        shop_close(seller->shop);
    }
    printf("     %d times stale, of which %d left to others; %d times sold out\n", counts[INVENTORY_STALE],
           left, counts[INVENTORY_SOLD_OUT]);
    CHECK(left > 0 && counts[INVENTORY_STALE] >= left && counts[INVENTORY_SOLD_OUT] > 0);
}

/* Another lock has come in force since: who had the old one begins nothing and decides nothing, whatever the
 * items have seen. */
static void test_old_epoch(void) {
    struct seller *seller = open_sale(&(struct scene){.key = "k"});
    CHECK_STATUS(txn_make(seller, "k1", "phone:1 lamp:1"), INVENTORY_OK);
    journal_set_epoch(&redis, "3");
    seller->epoch = 2;
    CHECK_STATUS(txn_make(seller, "k2", "phone:1 lamp:1"), INVENTORY_STALE);
    CHECK_STATUS(txn_make(seller, "t2", "phone:1 lamp:1"), INVENTORY_STALE);
    check_books(seller, &redis, "phone", 2, 0, 1);
    CHECK_INT(journal_count(&redis), 1);
    /* It comes between the taking and the decision. */
    for (int step = 9; step < 12; step++) {
        struct scene plain = {.key = "k", .lines = "phone:1 lamp:1"};
        int status;
        seller = open_sale(&plain);
        pid_t pid = child_begin(&plain, step, SIGSTOP);
        CHECK(waitpid(pid, &status, WUNTRACED) > 0);
        journal_set_epoch(&redis, "3");
        kill(pid, SIGCONT);
        CHECK(waitpid(pid, &status, 0) > 0);
        CHECK(WIFEXITED(status));
        CHECK_STATUS((enum inventory_status)WEXITSTATUS(status), step < 11 ? INVENTORY_STALE : INVENTORY_OK);
        redis_clock()->ahead_ms = LEASE_MS + 1;
        seller->epoch = 3;
        txns_recover(seller);
        check_books(seller, &redis, "phone", step < 11 ? 3 : 2, 0, step < 11 ? 0 : 1);
        shop_close(seller->shop);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        scene = &scenes[i];
        harness_run(harness_format("killed: %s", scene->name), test_killed);
        harness_run(harness_format("stopped: %s", scene->name), test_stopped);
    }
    harness_run("overtaken by a newer holder of its locks", test_overtaken);
    harness_run("overtaken while it fails", test_overtaken_failing);
    harness_run("another lock has come in force", test_old_epoch);
    return harness_finish();
}
