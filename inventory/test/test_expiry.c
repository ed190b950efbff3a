/* Holds that nobody reads expire on time, whichever process dies at whichever step, and items without holds
 * cost nothing. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inventory/test/fixture.h"
#include "inventory/transactions/transactions_internal.h"

enum { HOLD_MS = 30000 };

static struct redis_server redis;

static struct seller *open_seller(void (*at_failpoint)(void *ctx, const char *step), void *ctx) {
    struct seller *seller = seller_open_up(
        shop_open(),
        &(struct seller_options){.port = redis.port, .at_failpoint = at_failpoint, .at_failpoint_ctx = ctx});
    return seller;
}

static void put(struct seller *seller, const char *name, int64_t stock, int64_t hold_ms) {
    item_put_as(seller, name, strategy, stock, stock, hold_ms);
}

static struct seller *open_sale(void) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = open_seller(NULL, NULL);
    put(seller, "phone", 10, HOLD_MS);
    return seller;
}

static long long indexed(void) {
    return holds_indexed(&redis, "+inf");
}

/* ---- what has no holds costs nothing ---- */

/* Commands that Redis has carried out, also inside of scripts. */
static long long commands(void) {
    const char *at = redis_command(&redis, "INFO", "commandstats", NULL);
    long long sum = 0;
    while ((at = strstr(at, "calls=")))
        sum += strtoll(at += 6, NULL, 10);
    return sum;
}

static int cost_of_sweeps(struct seller *seller, int count) {
    long long from = commands();
    for (int i = 0; i < count; i++) {
        inventory_sweep(seller->inventory);
        shop_idle(seller->shop, 20);
    }
    return (int)(commands() - from);
}

static void test_idle(void) {
    enum { ITEMS = 60, SWEEPS = 10, A_SWEEP = 64 + 6 }; /* parts, and what is asked meanwhile */
    struct seller *seller = open_sale();
    for (int i = 0; i < ITEMS; i++) {
        const char *name = harness_format("item%d", i);
        put(seller, name, 1, HOLD_MS);
        struct buy *held = buy(seller, name, "ann", "k", 1);
        CHECK_STATUS(held->status, INVENTORY_OK);
        if (i % 3 > 0)
            CHECK_STATUS(order_step(seller, held->order.id, (enum inventory_step)(i % 3), NULL),
                         INVENTORY_OK);
    }
    CHECK_INT(indexed(), ITEMS);
    CHECK(cost_of_sweeps(seller, SWEEPS) <= SWEEPS * A_SWEEP);
    redis_clock()->ahead_ms = HOLD_MS + 1000;
    holds_sweep(seller, &redis);
    CHECK_INT(indexed(), 0);
    CHECK_INT(seller->inventory->shared.metrics->expired, ITEMS / 3);
    CHECK(cost_of_sweeps(seller, SWEEPS) <= SWEEPS * A_SWEEP);
    for (int i = 0; i < ITEMS; i++)
        check_books(seller, &redis, harness_format("item%d", i), i % 3 != 1, 0, i % 3 == 1);
}

static bool none_indexed(void *arg) {
    holds_sweep_on(arg);
    return indexed() == 0;
}

/* One sweep sees to all that is due, however much it is; and to items that are gone. */
static void test_many_due(void) {
    struct seller *seller = open_sale();
    struct sale_keys keys;
    for (int i = 0; i < 250; i++) {
        sale_keys_make(&keys, harness_format("gone%d", i));
        redis_command(&redis, "ZADD", keys.due, harness_format("%d", i), keys.item, NULL);
    }
    CHECK_INT(indexed(), 250);
    inventory_sweep(seller->inventory);
    shop_wait(seller->shop, none_indexed, seller, "the index is empty");
}

/* How many holds its item has. */
static long long holds_of(const char *item) {
    return redis_integer(&redis, "ZCARD", stock_key(harness_format("%s:holds", item)), NULL);
}

static bool late_are_over(void *arg) {
    holds_sweep_on(arg);
    return holds_of("late1") + holds_of("late2") + holds_of("late3") + holds_of("late4") == 0;
}

/* An item with many holds is seen to by and by: those of other items do not wait for the last of them. */
static void test_many_in_one(void) {
    enum { MANY = 5000 };
    struct seller *seller = open_sale();
    put(seller, "many", MANY, HOLD_MS);
    for (int i = 0; i < MANY; i++)
        buy_begin(seller, "many", "ann", harness_format("k%d", i), 1);
    shop_settle(seller->shop);
    for (int i = 1; i <= 4; i++) { /* in several parts of the index */
        put(seller, harness_format("late%d", i), 1, HOLD_MS);
        CHECK_STATUS(buy(seller, harness_format("late%d", i), "ann", "k", 1)->status, INVENTORY_OK);
    }
    redis_clock()->ahead_ms = HOLD_MS + 1000;
    inventory_sweep(seller->inventory);
    shop_wait(seller->shop, late_are_over, seller, "the holds of other items are over");
    CHECK(holds_of("many") > MANY - 1000);
    holds_sweep(seller, &redis);
    CHECK_INT(indexed(), 0);
    check_books(seller, &redis, "many", MANY, 0, 0);
}

/* Nobody swept for a while: a purchase that comes first does not put the entry off. */
static void test_late_entry(void) {
    struct seller *seller = open_sale();
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    redis_clock()->ahead_ms = HOLD_MS + 61000;
    CHECK_STATUS(buy(seller, "phone", "eve", "k", 1)->status, INVENTORY_OK);
    holds_sweep(seller, &redis);
    check_books(seller, &redis, "phone", 9, 1, 0);
}

/* An item that has left the index is entered again, though the store's clock has been set back meanwhile. */
static void test_clock_set_back(void) {
    struct seller *seller = open_sale();
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", 1)->status, INVENTORY_OK);
    redis_clock()->ahead_ms = HOLD_MS + 1000;
    holds_sweep(seller, &redis);
    CHECK_INT(indexed(), 0);
    redis_clock()->ahead_ms = 0;
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 1)->status, INVENTORY_OK);
    CHECK_INT(indexed(), 1);
    redis_clock()->ahead_ms = HOLD_MS + 1000;
    holds_sweep(seller, &redis);
    check_books(seller, &redis, "phone", 10, 0, 0);
}

/* ---- killed at each step ---- */

struct steps {
    int until, count;
};

static void die_at_failpoint(void *ctx, const char *step) {
    (void)step;
    struct steps *steps = ctx;
    if (steps->count++ == steps->until)
        raise(SIGKILL);
}

/* Holds two, one after the other, and expires them. Ends with the number of its steps. */
static void child(int until) {
    struct steps steps = {.until = until};
    struct seller *seller = open_seller(die_at_failpoint, &steps);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(buy(seller, "phone", "ann", harness_format("k%d", i), 1)->status, INVENTORY_OK);
        if (i == 0)
            redis_clock()->ahead_ms += HOLD_MS / 2;
    }
    redis_clock()->ahead_ms += HOLD_MS / 2 + INVENTORY_HOLD_GRACE_MS + 1000;
    holds_sweep(seller, &redis);
    redis_clock()->ahead_ms += HOLD_MS;
    holds_sweep(seller, &redis);
    _exit(steps.count);
}

static void kill_child(void *arg) {
    kill(*(pid_t *)arg, SIGKILL);
    waitpid(*(pid_t *)arg, NULL, 0);
}

/* Its wait status. */
static int child_run(int until) {
    pid_t *pid = harness_alloc(sizeof *pid);
    fflush(stdout);
    *pid = fork();
    if (*pid == 0)
        child(until);
    harness_defer(kill_child, pid);
    int status;
    CHECK_INT(waitpid(*pid, &status, 0), *pid);
    return status;
}

static void test_killed(void) {
    int steps = -1;
    for (int until = 0; steps < 0; until++) {
        struct seller *seller = open_sale();
        int status = child_run(until);
        if (WIFEXITED(status))
            steps = WEXITSTATUS(status);
        else
            CHECK_INT(WTERMSIG(status), SIGKILL);
        redis_clock()->ahead_ms = INT64_C(3) * HOLD_MS;
        holds_sweep(seller, &redis);
        CHECK_INT(indexed(), 0);
        CHECK_INT(redis_integer(&redis, "ZCARD", stock_key("phone:holds"), NULL), 0);
        check_books(seller, &redis, "phone", 10, 0, 0);
        shop_close(seller->shop);
    }
    CHECK(steps >= 2); /* to expire the first, and the last */
}

/* ---- a store that stood still ---- */

static bool is_over(void *arg) {
    return !((struct seller *)arg)->inventory->purchases->sweeping;
}

/* The hold is over by the time the store goes on, and a confirm that came in time may be behind the sweep. */
static void test_stood_still(void) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = seller_open_up(
        shop_open(), &(struct seller_options){.port = redis.port, .call_timeout_ms = 2 * HOLD_MS});
    put(seller, "phone", 10, HOLD_MS);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    holds_sweep(seller, &redis);
    redis_pause(&redis);
    inventory_sweep(seller->inventory);
    seller->shop->hurried_ms = redis_clock()->ahead_ms = HOLD_MS + 1000;
    redis_resume(&redis);
    shop_wait(seller->shop, is_over, seller, "the sweep is over");
    inventory_sweep(seller->inventory);
    shop_wait(seller->shop, is_over, seller, "another is over");
    CHECK_INT(seller->inventory->shared.metrics->expired, 0);
    seller->shop->hurried_ms += INVENTORY_HOLD_GRACE_MS + 1;
    inventory_sweep(seller->inventory);
    shop_wait(seller->shop, is_over, seller, "a third one is over");
    CHECK_INT(seller->inventory->shared.metrics->expired, 1);
    check_books(seller, &redis, "phone", 10, 0, 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    harness_run("what has no holds costs nothing", test_idle);
    harness_run("all that is due in one sweep", test_many_due);
    strategy = INVENTORY_BATCH;
    harness_run("many holds of one item do not hold up another's", test_many_in_one);
    harness_run("a purchase before the sweep", test_late_entry);
    harness_run("the store's clock is set back", test_clock_set_back);
    run_each_and_fenced("killed at each step", test_killed, INVENTORY_OPTIMISTIC);
    strategy = INVENTORY_BATCH;
    harness_run("a store that stood still hears first what came in time", test_stood_still);
    return harness_finish();
}
