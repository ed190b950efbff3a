/* A failover of the store loses acknowledged orders: they are there again before anything is sold, or it is
 * told that they are not. */
#include <stdlib.h>
#include <string.h>

#include "inventory/model/keys.h"
#include "inventory/transactions.h"
#include "service/test/crowd.h"
#include "service/test/shop.h"
#include "test/harness.h"

enum { STOCK = 600, BUYERS = 1000, THREADS = 24 };

/* A proxy leads the service to the master. The replica stops to follow before it has got what comes next. */
struct setup {
    struct redis_server master, replica;
    struct proxy *front;
    struct seckilld service;
    int port;
};

static bool has_item(void *arg) {
    return strcmp(redis_command(arg, "EXISTS", stock_key("phone"), NULL), "1") == 0;
}

static void open_setup(struct setup *setup, const char *terms) {
    redis_start(&setup->master, NULL);
    redis_start_replica(&setup->replica, &setup->master);
    setup->front = proxy_start(setup->master.port);
    seckilld_start(&setup->service, proxy_port(setup->front), "--store-timeout", "500", NULL);
    setup->port = setup->service.port;
    seckilld_wait_ready(&setup->service, 200);
    shop_put(setup->port, "phone", terms);
    CHECK(harness_wait(has_item, &setup->replica, 20000));
    CHECK_STR(redis_command(&setup->replica, "REPLICAOF", "NO", "ONE", NULL), "OK");
}

static void fail_over(struct setup *setup) {
    proxy_point(setup->front, setup->replica.port);
    redis_kill(&setup->master);
    shop_wait_unready(setup->port, "");
    seckilld_wait_ready(&setup->service, 200);
}

static void a_crowds_orders(void) {
    struct setup setup;
    open_setup(&setup, "\"stock\":600");
    struct crowd_plan plan = {
        .ports = {setup.port}, .item = "phone", .prefix = "k", .threads = THREADS, .purchases = BUYERS};
    struct crowd *crowd = crowd_run(&plan);
    CHECK_INT(crowd_count(crowd, 201), STOCK);
    CHECK_STR(redis_command(&setup.replica, "HGET", stock_key("phone"), "sold", NULL), "0");
    fail_over(&setup);
    crowd_check_orders(crowd, setup.port);
    struct crowd *again = crowd_run(&plan);
    crowd_check_answers(again, "sold-out");
    for (int i = 0; i < BUYERS; i++) {
        CHECK_STR(crowd_receipt(again, i)->order, crowd_receipt(crowd, i)->order);
        CHECK_INT(crowd_receipt(again, i)->replayed, crowd_receipt(crowd, i)->status == 201);
    }
    CHECK_INT(shop_audit(setup.port, "phone", "sold"), STOCK);
    CHECK_INT(shop_audit(setup.port, "phone", "shortage"), 0);
    CHECK_INT((int)shop_metric(setup.port, "seckill_put_back_total"), STOCK);
    CHECK_INT((int)shop_metric(setup.port, "seckill_shortage_total"), 0);
    seckilld_wait_log(&setup.service, "that a failover of the store had lost");
}

struct questions {
    const struct redis_server *redis;
    long calls; /* of INFO, those of this test as well */
};

static long calls_of(const struct redis_server *redis, const char *command) {
    const char *stats = redis_command(redis, "INFO", "commandstats", NULL),
               *at = strstr(stats, harness_format("cmdstat_%s:calls=", command));
    return at ? strtol(strchr(at, '=') + 1, NULL, 10) : 0;
}

/* Each list of what is kept has asked for its server's settings, and twice what the server has. */
static bool have_asked(void *arg) {
    enum { LISTS = 3 }; /* of two workers and the background */
    struct questions *questions = arg;
    questions->calls += 2;
    return calls_of(questions->redis, "config|get") >= LISTS &&
           calls_of(questions->redis, "info") >= questions->calls + 3L * LISTS;
}

/* A replica is promoted that nobody has seen. What it lacks was on the master's disk, so it was not kept. */
static void an_unknown_replica(void) {
    struct setup setup;
    struct web_response response;
    redis_start(&setup.master, "--appendfsync", "always", NULL);
    redis_start_replica(&setup.replica, &setup.master);
    CHECK_STR(redis_command(&setup.replica, "REPLICAOF", "NO", "ONE", NULL), "OK");
    setup.front = proxy_start(setup.master.port);
    seckilld_start(&setup.service, proxy_port(setup.front), "--workers", "2", NULL);
    setup.port = setup.service.port;
    seckilld_wait_ready(&setup.service, 200);
    shop_put(setup.port, "phone", "\"stock\":9");
    CHECK_INT(shop_buy(setup.port, "phone", "ann", 1, "k", &response), 201);
    const char *order = shop_text(&response, "order");
    struct questions questions = {&setup.master, calls_of(&setup.master, "info")};
    CHECK(harness_wait(have_asked, &questions, 20000));
    CHECK_INT((int)shop_metric(setup.port, "seckill_unkept_total"), 0);
    fail_over(&setup);
    CHECK_INT(shop_order(setup.port, order, NULL, &response), 404);
    CHECK((int)shop_metric(setup.port, "seckill_unkept_total") >= 1);
    seckilld_wait_log(&setup.service, "may have lost more of what was acknowledged than was kept");
}

/* Another instance, which had acknowledged nothing, has sold the units at the new master by then. */
static void a_shortage(void) {
    struct setup setup;
    struct seckilld other;
    struct web_response response;
    open_setup(&setup, "\"stock\":10");
    seckilld_start_ready(&other, setup.replica.port, NULL);
    CHECK_INT(shop_buy(setup.port, "phone", "ann", 8, "a", &response), 201);
    const char *lost = shop_text(&response, "order");
    CHECK_INT(shop_buy(other.port, "phone", "bob", 5, "b", NULL), 201);
    fail_over(&setup);
    CHECK_INT(shop_audit(setup.port, "phone", "sold"), 5);
    CHECK_INT(shop_audit(setup.port, "phone", "shortage"), 8);
    CHECK_INT((int)shop_metric(setup.port, "seckill_shortage_total"), 1);
    CHECK_HAS(proc_output(&setup.service.proc),
              harness_format("error a failover of the store lost the order %s, and its units were sold again",
                             lost));
}

/* ---- --replicas 1 below Sentinels ---- */

static bool is_linked(void *replica) {
    return strstr(redis_command(replica, "INFO", "replication", NULL), "master_link_status:up");
}

static void buy_on(struct crowd *crowd, struct seckilld *service, struct redis_server *dies) {
    enum { MORE = 200 };
    crowd_wait(crowd, crowd_answered(crowd) + MORE);
    redis_kill(dies);
    crowd_wait(crowd, crowd_answered(crowd) + THREADS + MORE);
    seckilld_wait_ready(service, 200);
}

/* With two replicas, one is left for what is sold then, whichever server dies: first a replica, which nobody
 * notices, and once it is back, the master. */
static void two_replicas(void) {
    struct redis_sentinel sentinel;
    struct seckilld service;
    redis_sentinel_start_with(&sentinel, 2);
    seckilld_start_ready(&service, 0, "--redis", redis_sentinel_url(&sentinel), "--replicas", "1",
                         "--store-timeout", "500", NULL);
    shop_put(service.port, "phone", "\"stock\":1000000");
    struct crowd_plan plan = {.ports = {service.port},
                              .item = "phone",
                              .prefix = "k",
                              .threads = THREADS,
                              .purchases = 1000000,
                              .retries = true};
    struct crowd *crowd = crowd_start(&plan);
    buy_on(crowd, &service, &sentinel.server[1]);
    int unnoticed = crowd_answered(crowd);
    redis_restart(&sentinel.server[1]);
    CHECK(harness_wait(is_linked, &sentinel.server[1], 20000));
    buy_on(crowd, &service, &sentinel.server[0]);
    crowd_stop(crowd);
    crowd_join(crowd);
    crowd_check_answers(crowd, NULL);
    for (int i = 0; i < unnoticed - THREADS; i++)
        CHECK_INT(crowd_receipt(crowd, i)->tries, 1);
    crowd_check_orders(crowd, service.port);
    CHECK_INT(shop_audit(service.port, "phone", "sold"), crowd_count(crowd, 201));
    CHECK(redis_sentinel_master(&sentinel) != &sentinel.server[0]);
}

/* ---- a cluster that loses a part; the tests share it, and leave it whole ---- */

enum { MASTERS = 3 };
static struct redis_cluster cluster;
static const char *const items[MASTERS] = {"a", "b", "c"}; /* each on another master */

static struct redis_server *replica_of(const struct redis_server *master) {
    return &cluster.server[MASTERS + (master - cluster.server)];
}

/* Nothing takes its place. */
static void kill_for_good(struct redis_server *master) {
    redis_kill(replica_of(master));
    redis_kill(master);
}

static void revive(struct redis_server *master) {
    redis_restart(master);
    redis_restart(replica_of(master));
    CHECK(harness_wait(is_linked, replica_of(master), 20000));
}

static void start_at_cluster(struct seckilld *service, const char *replicas) {
    seckilld_start(service, 0, "--redis", redis_cluster_url(&cluster), "--store-timeout", "500", "--replicas",
                   replicas, "--lock-ttl", "1000", NULL);
}

struct looker {
    int port;
    const char *reason;
};

static bool reads_reason(void *arg) {
    const struct looker *looker = arg;
    struct web_response response;
    return shop_get(looker->port, "/readyz", &response) == 200 && strstr(response.body, looker->reason);
}

static void wait_reason(int port, const char *reason) {
    struct looker looker = {port, reason};
    if (!harness_wait(reads_reason, &looker, 20000))
        FAIL("/readyz does not say: %s", reason);
}

/* The masters that have enough go on, and the reason names the one that has not. */
static void a_master_lacks_one(void) {
    struct seckilld service;
    struct web_response response;
    redis_cluster_flush(&cluster);
    start_at_cluster(&service, "1");
    seckilld_wait_whole(&service);
    for (int i = 0; i < MASTERS; i++)
        shop_put(service.port, items[i], "\"stock\":100");
    struct redis_server *master = redis_cluster_of(&cluster, stock_key("a"));
    redis_kill(replica_of(master));
    const char *reason =
        harness_format("127.0.0.1:%d has 0 of the 1 replicas that --replicas 1 needs", master->port);
    wait_reason(service.port, reason);
    shop_buy(service.port, "a", "ann", 1, "k", &response);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    wait_reason(service.port, reason); /* after that master's connection has broken, too */
    CHECK_INT(shop_buy(service.port, "b", "ann", 1, "k", NULL), 201);
    CHECK_INT(shop_buy(service.port, "c", "ann", 1, "k", NULL), 201);
    CHECK_INT(seckilld_stop(&service), 0);
    redis_restart(replica_of(master));
    CHECK(harness_wait(is_linked, replica_of(master), 20000));
}

/* A master is gone. */
struct gone {
    struct redis_server *dies;
    const char *living[2], *dead; /* items, each on another master */
};

/* The next key of ann's whose basket the journal has at the master that is gone, or at another one. */
static const char *gone_key(bool dead) {
    static int next;
    for (;;) {
        char *key = harness_format("g%d", next++), id[INVENTORY_DIGEST_SIZE];
        inventory_key_digest("ann", key, strlen(key), id);
        if (!redis_cluster_of(&cluster, harness_format("{baskets:%u}", key_part(id))) == dead)
            return key;
    }
}

/* The basket is made and confirmed if all that it needs lives; otherwise the answer says what fails. */
static void gone_check_basket(int port, const char *lines, bool dead_journal, bool made) {
    struct web_response response;
    const char *key = gone_key(dead_journal);
    int status = shop_basket(port, "ann", lines, key, &response);
    if (!made) {
        CHECK_PROBLEM(&response, 503, "store-unavailable");
        CHECK_HAS(shop_text(&response, "detail"), "the store ");
        return;
    }
    CHECK_INT(status, 201);
    const char *id = shop_text(&response, "basket");
    CHECK_INT(shop_basket_step(port, id, "confirm", &response), 200);
    CHECK_STR(shop_text(&response, "state"), "confirmed");
    CHECK_INT(shop_basket(port, "ann", lines, key, &response), 201);
    CHECK(web_header(&response, "Idempotent-Replayed"));
}

/* The others sell, baskets too, and who looks is told. */
static void gone_check(struct gone *gone, const struct seckilld *service, const char *key,
                       bool dead_journal) {
    int port = service->port;
    struct web_response response;
    wait_reason(port, "a part of the store cannot be reached");
    shop_buy(port, gone->dead, "ann", 1, key, &response);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    for (int i = 0; i < 2; i++)
        CHECK_INT(shop_buy(port, gone->living[i], "ann", 1, key, NULL), 201);
    const char *living = harness_format("%s:1 %s:2", gone->living[0], gone->living[1]);
    gone_check_basket(port, living, false, true);
    const char *half = harness_format("%s:1 %s:1", gone->living[0], gone->dead);
    gone_check_basket(port, dead_journal ? living : half, dead_journal, false);
    gone_check_basket(port, living, false, true); /* whatever failed before */
}

/* Not the one with the record of the lock, without which there are no baskets. */
static void a_master_is_gone(void) {
    struct gone gone = {.dies = NULL};
    struct seckilld service, next;
    redis_cluster_flush(&cluster);
    start_at_cluster(&service, "0");
    seckilld_wait_whole(&service);
    gone.dies = redis_cluster_of(&cluster, "{baskets:0}");
    for (int part = 1; gone.dies == redis_cluster_of(&cluster, "{baskets}"); part++)
        gone.dies = redis_cluster_of(&cluster, harness_format("{baskets:%d}", part));
    for (int i = 0, living = 0; i < MASTERS; i++) {
        shop_put(service.port, items[i], "\"stock\":100,\"hold_seconds\":600");
        if (redis_cluster_of(&cluster, stock_key(items[i])) == gone.dies)
            gone.dead = items[i];
        else
            gone.living[living++] = items[i];
    }
    kill_for_good(gone.dies);
    gone_check(&gone, &service, "k", true);
    start_at_cluster(&next, "0");
    seckilld_wait_ready(&next, 200);
    gone_check(&gone, &next, "l", false);
    for (int i = 0; i < 2; i++) /* half of the baskets, which failed, left nothing that is sold */
        CHECK_INT(shop_audit(next.port, gone.living[i], "sold"), (i + 1) * 4);
    seckilld_kill(&service);
    seckilld_kill(&next);
    revive(gone.dies);
}

/* The one with the record of the lock. An instance that starts then learns the store's time from another one:
 * it is ready, sells, and confirms; baskets wait for a lock. */
static void the_lock_is_gone(void) {
    struct seckilld service;
    struct web_response response;
    struct redis_server *dies = redis_cluster_of(&cluster, "{baskets}");
    const char *item = "a";
    redis_cluster_flush(&cluster);
    while (redis_cluster_of(&cluster, stock_key(item)) == dies)
        item = harness_format("%sa", item);
    kill_for_good(dies);
    start_at_cluster(&service, "0");
    seckilld_wait_ready(&service, 200);
    shop_put(service.port, item, "\"stock\":100");
    CHECK_INT(shop_buy(service.port, item, "ann", 1, "k", &response), 201);
    CHECK_INT(shop_order(service.port, shop_text(&response, "order"), "confirm", NULL), 200);
    CHECK_INT(shop_basket(service.port, "ann", harness_format("%s:1", item), "k", NULL), 503);
    seckilld_kill(&service);
    revive(dies);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a crowd's orders are put back", a_crowds_orders);
    harness_run("a shortage is told", a_shortage);
    harness_run("an unknown replica is promoted", an_unknown_replica);
    harness_run("two replicas: the sale goes on without a replica, and without the master", two_replicas);
    if (*harness_dir())
        redis_cluster_start(&cluster, MASTERS, 1);
    harness_run("a cluster: a master that lacks a replica is named, and the others sell", a_master_lacks_one);
    harness_run("a cluster: a master is gone, and the others sell, baskets too", a_master_is_gone);
    harness_run("a cluster: the master of the lock is gone, and an instance starts", the_lock_is_gone);
    return harness_finish();
}
