/* The record of the lock that numbers the tokens: one for all, and nobody overlooked who may have old grants.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/test/fixture.h"
#include "inventory/transactions.h"

#define RECORD    "seckill:{baskets}:lock"
#define INSTANCES "seckill:{baskets}:instances"

enum { QUIET_MS = 60000, FRESH_MS = 30000, REWRITE_MS = 20000 };

static struct redis_server redis;

struct told {
    int count;
    enum inventory_status status;
    uint64_t epoch;
    char lock[64], laggard[64];
    int live, behind;
    bool in_force;
};

static void on_told(void *ctx, enum inventory_status status, const struct inventory_lock_epoch *epoch) {
    struct told *told = ctx;
    told->count++;
    told->status = status;
    CHECK_INT(epoch != NULL, status == INVENTORY_OK);
    if (!epoch)
        return;
    told->epoch = epoch->epoch;
    told->live = epoch->live;
    told->behind = epoch->behind;
    told->in_force = epoch->in_force;
    snprintf(told->lock, sizeof told->lock, "%s", epoch->lock);
    snprintf(told->laggard, sizeof told->laggard, "%s", epoch->laggard);
}

static struct told *finish(struct seller *seller, struct told *told) {
    SHOP_UNTIL(seller->shop, told->count > 0, "a heartbeat is answered");
    CHECK_INT(told->count, 1);
    return told;
}

static struct told *heartbeat(struct seller *seller, const char *instance, uint64_t epoch, const char *lock) {
    struct told *told = harness_alloc(sizeof *told);
    struct inventory_heartbeat heartbeat = {.instance = instance,
                                            .epoch = epoch,
                                            .lock = lock,
                                            .quiet_ms = QUIET_MS,
                                            .fresh_ms = FRESH_MS,
                                            .rewrite_ms = REWRITE_MS};
    inventory_lock_epoch_heartbeat(seller->inventory, &heartbeat, on_told, told);
    return finish(seller, told);
}

static struct told *change(struct seller *seller, const char *lock) {
    struct told *told = harness_alloc(sizeof *told);
    inventory_lock_epoch_switch(seller->inventory, lock, on_told, told);
    return finish(seller, told);
}

static void leave(struct seller *seller, const char *instance) {
    struct told *told = harness_alloc(sizeof *told);
    inventory_lock_epoch_leave(seller->inventory, instance, on_told, told);
    CHECK_STATUS(finish(seller, told)->status, INVENTORY_OK);
}

static void check(const struct told *told, uint64_t epoch, const char *lock, int live, int behind) {
    CHECK_STATUS(told->status, INVENTORY_OK);
    CHECK_INT(told->epoch, epoch);
    CHECK_STR(told->lock, lock);
    CHECK_INT(told->live, live);
    CHECK_INT(told->behind, behind);
    CHECK_INT(told->laggard[0] != '\0', behind > 0);
}

static const char *row(const char *instance) {
    return harness_format("%s", redis_command(&redis, "HGET", INSTANCES, instance, NULL));
}

/* As if its last heartbeat had been so long ago. */
static void age(const char *instance, long long ms) {
    char *at;
    long long epoch = strtoll(row(instance), &at, 10), seen = strtoll(at, &at, 10),
              quiet = strtoll(at, &at, 10);
    CHECK(epoch > 0 && seen > ms && quiet > 0 && *at == '\0');
    redis_command(&redis, "HSET", INSTANCES, instance,
                  harness_format("%lld %lld %lld", epoch, seen - ms, quiet), NULL);
}

static struct seller *open_seller(void) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    return seller_open(shop_open(), &redis);
}

static void the_first_chooses(void) {
    struct seller *seller = open_seller();
    check(heartbeat(seller, "a", 0, "etcd:"), 1, "etcd:", 1, 0);
    CHECK_STR(redis_command(&redis, "HGETALL", RECORD, NULL), "[epoch 1 lock etcd:]");
    check(heartbeat(seller, "b", 0, "redis:"), 1, "etcd:", 2, 0);
    check(heartbeat(seller, "b", 1, "etcd:"), 1, "etcd:", 2, 0);
    check(heartbeat(seller, "a", 1, "etcd:"), 1, "etcd:", 2, 0);
}

/* An instance that comes alone gets the lock it wants. So does one that comes after another was not seen for
 * a while; but that other may still have grants. */
static void alone(void) {
    struct seller *seller = open_seller();
    heartbeat(seller, "a", 0, "etcd:");
    leave(seller, "a");
    CHECK_STR(redis_command(&redis, "HLEN", INSTANCES, NULL), "0");
    check(heartbeat(seller, "b", 0, "etcd:"), 1, "etcd:", 1, 0);
    leave(seller, "b");
    check(heartbeat(seller, "c", 0, "redis:"), 2, "redis:", 1, 0);
    age("c", FRESH_MS - 5000);
    check(heartbeat(seller, "d", 0, "local:"), 2, "redis:", 2, 0);
    leave(seller, "d");
    age("c", 6000);
    struct told *told = heartbeat(seller, "d", 0, "local:");
    check(told, 3, "local:", 1, 1);
    CHECK_STR(told->laggard, "c");
    check(heartbeat(seller, "d", 0, "local:"), 3, "local:", 1, 1); /* as when its reply was lost */
}

static void who_is_behind(void) {
    struct seller *seller = open_seller();
    heartbeat(seller, "a", 0, "x:");
    heartbeat(seller, "b", 0, "x:");
    heartbeat(seller, "c", 0, "x:");
    struct told *told = change(seller, "y:");
    CHECK_INT(told->epoch, 2);
    CHECK_INT(told->behind, 3);
    check(heartbeat(seller, "a", 1, "x:"), 2, "y:", 3, 2);
    check(heartbeat(seller, "a", 2, "y:"), 2, "y:", 3, 2);
    check(heartbeat(seller, "b", 2, "y:"), 2, "y:", 3, 1);
    told = heartbeat(seller, "a", 2, "y:");
    check(told, 2, "y:", 3, 1);
    CHECK_STR(told->laggard, "c");
    check(heartbeat(seller, "d", 0, "x:"), 2, "y:", 4, 1); /* comes in the middle */
    check(heartbeat(seller, "c", 2, "y:"), 2, "y:", 4, 0);
    CHECK_INT(change(seller, "y:")->epoch, 3); /* the same lock, which has lost its data */
    check(heartbeat(seller, "a", 2, "y:"), 3, "y:", 4, 3);
}

/* The dead are waited for until their grants have run out, by their own account. */
static void check_in_force(const char *epoch) {
    for (int part = 0; part < 8; part++)
        CHECK_STR(redis_command(&redis, "GET", harness_format("seckill:{baskets:%d}:epoch", part), NULL),
                  epoch);
}

/* An epoch is in force once one has it, nobody is behind, and the whole journal knows of it: that instance
 * hears so only with its next heartbeat. */
static void in_force(void) {
    struct seller *seller = open_seller();
    heartbeat(seller, "a", 0, "x:");
    heartbeat(seller, "b", 0, "x:");
    check_in_force("(nil)");
    CHECK(!heartbeat(seller, "a", 1, "x:")->in_force);
    CHECK(heartbeat(seller, "a", 1, "x:")->in_force);
    check_in_force("1");
    change(seller, "y:");
    CHECK(!heartbeat(seller, "a", 2, "y:")->in_force);
    CHECK(!heartbeat(seller, "a", 2, "y:")->in_force);
    check_in_force("1");
    CHECK(!heartbeat(seller, "b", 2, "y:")->in_force);
    CHECK(heartbeat(seller, "b", 2, "y:")->in_force);
    check_in_force("2");
    change(seller, "z:");
    heartbeat(seller, "a", 3, "z:");
    age("b", QUIET_MS + 1);
    check_in_force("2");
    CHECK(!heartbeat(seller, "a", 3, "z:")->in_force);
    CHECK(heartbeat(seller, "a", 3, "z:")->in_force);
    check_in_force("3");
}

/* The whole journal must know of an epoch before it is in force. */
static void part_of_the_journal_fails(void) {
    struct seller *seller = open_seller();
    heartbeat(seller, "a", 0, "x:");
    CHECK_INT(redis_integer(&redis, "RPUSH", "seckill:{baskets:5}:epoch", "odd", NULL), 1);
    redis_command(&redis, "SET", "seckill:{baskets:3}:epoch", "9", NULL);
    for (int i = 0; i < 5; i++)
        CHECK(!heartbeat(seller, "a", 1, "x:")->in_force);
    CHECK_INT(redis_integer(&redis, "DEL", "seckill:{baskets:5}:epoch", NULL), 1);
    while (!heartbeat(seller, "a", 1, "x:")->in_force) {
    }
    CHECK_STR(redis_command(&redis, "GET", "seckill:{baskets:5}:epoch", NULL), "1");
    CHECK_STR(redis_command(&redis, "GET", "seckill:{baskets:3}:epoch", NULL), "9"); /* it never goes back */
}

/* As after a failover: each heartbeat tells one part again. */
static void a_part_forgets(void) {
    struct seller *seller = open_seller();
    heartbeat(seller, "a", 0, "x:");
    while (!heartbeat(seller, "a", 1, "x:")->in_force) {
    }
    for (int part = 0; part < 8; part++)
        redis_command(&redis, "DEL", harness_format("seckill:{baskets:%d}:epoch", part), NULL);
    for (int i = 0; i < 100; i++) /* some of them tell a part */
        CHECK(heartbeat(seller, "a", 1, "x:")->in_force);
    check_in_force("1");
}

static void silence(void) {
    struct seller *seller = open_seller();
    heartbeat(seller, "a", 0, "x:");
    heartbeat(seller, "b", 0, "x:");
    change(seller, "y:");
    heartbeat(seller, "a", 2, "y:");
    age("b", FRESH_MS + 1);
    check(heartbeat(seller, "a", 2, "y:"), 2, "y:", 1, 1);
    age("b", QUIET_MS - FRESH_MS - 5000);
    check(heartbeat(seller, "a", 2, "y:"), 2, "y:", 1, 1);
    age("b", 5000);
    check(heartbeat(seller, "a", 2, "y:"), 2, "y:", 1, 0);
    CHECK_STR(row("b"), "(nil)");
    /* It was only asleep. */
    check(heartbeat(seller, "b", 1, "x:"), 2, "y:", 2, 0);
    check(heartbeat(seller, "a", 2, "y:"), 2, "y:", 2, 1);
    /* Oneself is never gone. */
    age("a", QUIET_MS + 1);
    check(heartbeat(seller, "a", 2, "y:"), 2, "y:", 2, 1);
}

/* A heartbeat that tells nothing new costs no write. */
static void few_writes(void) {
    struct seller *seller = open_seller();
    heartbeat(seller, "a", 0, "x:");
    const char *before = row("a");
    harness_pause_ms(3);
    heartbeat(seller, "a", 1, "x:");
    CHECK_STR(row("a"), before);
    age("a", REWRITE_MS - 10000);
    before = row("a");
    heartbeat(seller, "a", 1, "x:");
    CHECK_STR(row("a"), before);
    age("a", 10000);
    before = row("a");
    heartbeat(seller, "a", 1, "x:");
    CHECK(strcmp(row("a"), before) != 0);
    before = row("a");
    change(seller, "y:");
    heartbeat(seller, "a", 2, "y:");
    CHECK(strcmp(row("a"), before) != 0);
    CHECK_INT(strncmp(row("a"), "2 ", 2), 0);
}

/* The store comes back without its last moments. */
static void a_store_that_forgot(void) {
    struct seller *seller = open_seller();
    heartbeat(seller, "a", 0, "x:");
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    check(heartbeat(seller, "a", 7, "y:"), 7, "y:", 1, 0);
    CHECK_STR(redis_command(&redis, "HSET", RECORD, "epoch", "6", "lock", "x:", NULL), "0");
    CHECK_INT(change(seller, "z:")->epoch, 8); /* "a" has told of 7 */
    CHECK_STR(redis_command(&redis, "HSET", RECORD, "epoch", "7", "lock", "z:", NULL), "0");
    check(heartbeat(seller, "a", 7, "y:"), 8, "z:", 1, 0); /* two of one epoch */
    check(heartbeat(seller, "a", 8, "z:"), 8, "z:", 1, 0);
    CHECK_STR(redis_command(&redis, "HSET", INSTANCES, "odd", "junk", NULL), "1");
    check(heartbeat(seller, "a", 8, "z:"), 8, "z:", 1, 0);
    CHECK_STR(row("odd"), "(nil)");
    /* Beyond what a double prints in full. */
    CHECK_STR(redis_command(&redis, "HSET", RECORD, "epoch", "4503599627370496", NULL), "0");
    CHECK(change(seller, "z:")->epoch == UINT64_C(4503599627370497));
    CHECK_STR(redis_command(&redis, "HGET", RECORD, "epoch", NULL), "4503599627370497");
}

static void no_store(void) {
    struct seller *seller = open_seller();
    CHECK_STR(redis_command(&redis, "SET", RECORD, "text", NULL), "OK");
    CHECK_STATUS(heartbeat(seller, "a", 0, "x:")->status, INVENTORY_UNAVAILABLE);
    CHECK_STATUS(change(seller, "x:")->status, INVENTORY_UNAVAILABLE);
    CHECK_STR(redis_command(&redis, "GET", RECORD, NULL), "text");
    struct proxy *proxy = proxy_start(redis.port);
    seller = seller_open_with(seller->shop, &(struct seller_options){.port = proxy_port(proxy)});
    CHECK_STATUS(heartbeat(seller, "a", 0, "x:")->status, INVENTORY_UNAVAILABLE); /* not connected yet */
    seller_wait_up(seller);
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    proxy_set(proxy, PROXY_CUT, 0, "switch");
    CHECK_STATUS(change(seller, "x:")->status, INVENTORY_UNKNOWN);
    CHECK_STR(redis_command(&redis, "HGET", RECORD, "epoch", NULL), "1");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    harness_run("the first chooses", the_first_chooses);
    harness_run("alone", alone);
    harness_run("who is behind", who_is_behind);
    harness_run("which is in force", in_force);
    harness_run("a part of the journal fails", part_of_the_journal_fails);
    harness_run("a part of the journal forgets", a_part_forgets);
    harness_run("silence", silence);
    harness_run("few writes", few_writes);
    harness_run("a store that forgot", a_store_that_forgot);
    harness_run("no store", no_store);
    return harness_finish();
}
