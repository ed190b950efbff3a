/* The lock is switched thirty times from etcd to Redis and back while two services sell under it: purchases
 * of strategy `locked`, baskets, and transfers. Never are grants of two locks in force. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"

enum { SWITCHES = 30, ENDLESS = 100000, PATIENCE_MS = 20000 };

/* ---- a witness: reads along, in the order of the store, with which tokens it is asked to look and write
 * ---- */

struct witness {
    const struct redis_server *store;
    struct web_conn conn;
    pthread_t thread;
    bool ended;
    atomic_bool stop;
    uint64_t newest; /* the rest is read when the thread has ended */
    int tokens, epochs;
    char wrong[128];
};

/* What is heard last. */
#define WITNESS_END "\"ECHO\" \"the end\""

static void witness_hear_token(struct witness *witness, uint64_t epoch) {
    witness->tokens++;
    if (epoch < witness->newest && !witness->wrong[0])
        snprintf(witness->wrong, sizeof witness->wrong, "a grant of epoch %llu after one of %llu",
                 (unsigned long long)epoch, (unsigned long long)witness->newest);
    if (epoch > witness->newest) {
        witness->newest = epoch;
        witness->epochs++;
    }
}

/* A token is an argument of twenty digits, a colon, and twenty digits. */
static void witness_hear_line(struct witness *witness, const char *line) {
    if (strstr(line, WITNESS_END))
        atomic_store(&witness->stop, true);
    for (const char *at = line; (at = strchr(at, '"')); at++) {
        if (strspn(at + 1, "0123456789") == 20 && at[21] == ':' && strspn(at + 22, "0123456789") == 20 &&
            at[42] == '"')
            witness_hear_token(witness, strtoull(at + 1, NULL, 10));
    }
}

static void *witness_hear(void *arg) {
    struct witness *witness = arg;
    static char line[65536];
    size_t length = 0;
    while (!atomic_load(&witness->stop)) {
        char bytes[16384];
        ssize_t got = recv(witness->conn.fd, bytes, sizeof bytes, 0);
        if (got <= 0)
            break;
        for (ssize_t i = 0; i < got; i++) {
            if (bytes[i] == '\n') {
                line[length] = '\0';
                witness_hear_line(witness, line);
                length = 0;
            } else if (length < sizeof line - 1) {
                line[length++] = bytes[i];
            }
        }
    }
    return NULL;
}

static void witness_stop(void *arg) {
    struct witness *witness = arg;
    if (witness->ended)
        return;
    witness->ended = true;
    redis_command(witness->store, "ECHO", "the end", NULL);
    pthread_join(witness->thread, NULL);
    web_close(&witness->conn);
}

static struct witness *witness_call(const struct redis_server *store) {
    struct witness *witness = harness_alloc(sizeof *witness);
    witness->store = store;
    CHECK(web_open(&witness->conn, store->port));
    web_send_text(&witness->conn, "MONITOR\r\n");
    CHECK_INT(pthread_create(&witness->thread, NULL, witness_hear, witness), 0);
    harness_defer(witness_stop, witness);
    return witness;
}

/* When all that was said so far has been heard: there were so many epochs, and no token of one came after a
 * newer one. Returns how many tokens there were. */
static int witness_end(struct witness *witness, int epochs) {
    witness_stop(witness);
    CHECK_STR(witness->wrong, "");
    CHECK_INT(witness->epochs, epochs);
    return witness->tokens;
}

/* ---- the switches ---- */

static struct redis_server redis;
static struct seckilld services[2];

struct wanted {
    int service, epoch;
};

static bool is_in_force(void *arg) {
    const struct wanted *wanted = arg;
    struct web_response response;
    CHECK_INT(shop_admin(services[wanted->service].port, "GET", "/v1/lock", NULL, &response), 200);
    return strcmp(shop_text(&response, "state"), "in-force") == 0 &&
           shop_number(&response, "epoch") == wanted->epoch;
}

/* By one service; the other has it, too, when this returns: otherwise it may miss an epoch. */
static void switch_to(const char *url, int by, int epoch) {
    struct web_response response;
    if (shop_admin(services[by].port, "PUT", "/v1/lock", harness_format("{\"lock\":\"%s\"}", url),
                   &response) != 200)
        FAIL("switch to epoch %d: %s", epoch, response.body);
    CHECK_STR(shop_text(&response, "lock"), url);
    CHECK_STR(shop_text(&response, "state"), "in-force");
    CHECK_INT(shop_number(&response, "epoch"), epoch);
    CHECK_INT(shop_number(&response, "instances"), 2);
    CHECK_INT(shop_number(&response, "behind"), 0);
    CHECK(shop_number(&response, "waited_ms") >= 0);
    struct wanted wanted = {1 - by, epoch};
    CHECK(harness_wait(is_in_force, &wanted, PATIENCE_MS));
}

static void check_counters(double acquired[2]) {
    for (int i = 0; i < 2; i++) { /* they only grow */
        double now = shop_metric(services[i].port, "seckill_lock_acquired_total");
        CHECK(now >= acquired[i]);
        acquired[i] = now;
    }
}

/* Of each kind of request one crowd: purchases, baskets, transfers. */
static void start_crowds(struct crowd *crowds[3], struct goods *goods) {
    static const int threads[] = {8, 12, 4};
    for (int i = 0; i < 3; i++) {
        struct crowd_plan plan = {.ports = {services[0].port, services[1].port},
                                  .item = "x",
                                  .prefix = "k",
                                  .path = i == 0   ? NULL
                                          : i == 1 ? "/v1/baskets"
                                                   : "/v1/transfers",
                                  .write_body = i == 1 ? goods_write_basket : goods_write_transfer,
                                  .ctx = goods,
                                  .threads = threads[i],
                                  .purchases = ENDLESS,
                                  .retries = i > 0};
        crowds[i] = crowd_start(&plan);
    }
}

/* Nobody noticed but by waiting. */
static void check_crowds(struct crowd *crowds[3], struct goods *goods) {
    CHECK_INT(crowd_count(crowds[0], 201), crowd_answered(crowds[0]));
    CHECK_INT(shop_audit(services[1].port, "x", "sold"), crowd_answered(crowds[0]));
    CHECK_INT(crowd_count(crowds[1], 201), crowd_answered(crowds[1]));
    CHECK_INT(crowd_count(crowds[2], 200), crowd_answered(crowds[2]));
    goods_note_baskets(goods, crowds[1]);
    goods_note_transfers(goods, crowds[2]);
    goods_check_books(goods, services[0].port);
    printf("     %d purchases, %d baskets and %d transfers\n", crowd_answered(crowds[0]),
           crowd_answered(crowds[1]), crowd_answered(crowds[2]));
}

static void switched(void) {
    struct goods goods = {.seed = harness_seed(),
                          .items = 6,
                          .lines_least = 2,
                          .lines_most = 2,
                          .quantity_most = 3,
                          .stock = 1000000};
    struct crowd *crowds[3];
    double acquired[2] = {0, 0};
    redis_start(&redis, "--appendfsync", "no", NULL);
    const char *urls[] = {shop_lock_start("etcd"), shop_lock_start("redis")};
    for (int i = 0; i < 2; i++) {
        seckilld_start_ready(&services[i], redis.port, "--lock", urls[0], "--teaching", NULL);
        struct wanted wanted = {i, 1};
        CHECK(harness_wait(is_in_force, &wanted, PATIENCE_MS)); /* otherwise one may miss the first switch */
    }
    goods_put(&goods, services[0].port);
    shop_put(services[0].port, "x", "\"stock\":1000000,\"strategy\":\"locked\"");
    struct witness *witness = witness_call(&redis);
    start_crowds(crowds, &goods);
    for (int i = 0; i < SWITCHES; i++) {
        for (int k = 0; k < 3; k++)
            crowd_wait(crowds[k], crowd_answered(crowds[k]) + (k == 2 ? 1 : 5));
        switch_to(urls[(i + 1) % 2], i % 2, i + 2);
        check_counters(acquired);
    }
    crowd_wait(crowds[1], crowd_answered(crowds[1]) + 5);
    for (int i = 0; i < 3; i++)
        crowd_stop(crowds[i]);
    for (int i = 0; i < 3; i++)
        crowd_join(crowds[i]);
    CHECK(witness_end(witness, SWITCHES + 1) >=
          2 * crowd_answered(crowds[0]) + 4 * crowd_answered(crowds[1]));
    check_crowds(crowds, &goods);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(shop_metric(services[i].port, "seckill_purchases_total{outcome=\"stale\"}"), 0);
        CHECK_INT(shop_metric(services[i].port, "seckill_baskets_total{outcome=\"stale\"}"), 0);
        CHECK_INT(shop_metric(services[i].port, "seckill_lock_switches_total"), SWITCHES);
        CHECK_INT(shop_metric(services[i].port, "seckill_lock_epoch"), SWITCHES + 1);
        CHECK_INT(seckilld_stop(&services[i]), 0);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("the lock is switched thirty times under load", switched);
    return harness_finish();
}
