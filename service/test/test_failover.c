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

static bool is_expired(void *arg) {
    struct web_response response;
    const char *const *order = arg;
    return shop_order((int)strtol(order[0], NULL, 10), order[1], NULL, &response) == 200 &&
           strcmp(shop_text(&response, "state"), "expired") == 0;
}

/* The replica has the hold, and neither its end nor who bought the unit after it. */
static void a_hold_that_ended(void) {
    struct setup setup;
    struct web_response response;
    open_setup(&setup, "\"stock\":1,\"hold_seconds\":1");
    CHECK_STR(redis_command(&setup.replica, "REPLICAOF", "127.0.0.1", harness_format("%d", setup.master.port),
                            NULL),
              "OK");
    CHECK_INT(shop_buy(setup.port, "phone", "ann", 1, "a", &response), 201);
    const char *order[] = {harness_format("%d", setup.port), shop_text(&response, "order")};
    redis_wait_copied(&setup.master, &setup.replica);
    CHECK_STR(redis_command(&setup.replica, "REPLICAOF", "NO", "ONE", NULL), "OK");
    CHECK(harness_wait(is_expired, order, 20000));
    CHECK_INT(shop_buy(setup.port, "phone", "bob", 1, "b", &response), 201);
    const char *bobs = shop_text(&response, "order");
    CHECK_INT(shop_order(setup.port, bobs, "confirm", NULL), 200);
    fail_over(&setup);
    CHECK_INT(shop_order(setup.port, bobs, NULL, &response), 200);
    CHECK_STR(shop_text(&response, "state"), "confirmed");
    CHECK_INT(shop_audit(setup.port, "phone", "shortage"), 0);
}

static bool is_basket_expired(void *arg) {
    struct web_response response;
    const char *const *basket = arg;
    return shop_basket_step((int)strtol(basket[0], NULL, 10), basket[1], NULL, &response) == 200 &&
           strcmp(shop_text(&response, "state"), "expired") == 0;
}

/* A basket is confirmed, and a failover loses that. Before the instance shows what it knows, another one
 * finds the basket as the replica has it, held, and expires it. */
static void a_basket_taken_for_expired(void) {
    struct setup setup;
    struct seckilld other;
    struct redis_server locks;
    struct web_response response;
    redis_start(&locks, NULL);
    redis_start(&setup.master, NULL);
    redis_start_replica(&setup.replica, &setup.master);
    setup.front = proxy_start(setup.master.port);
    const char *lock = harness_format("redis://127.0.0.1:%d", locks.port);
    seckilld_start(&setup.service, proxy_port(setup.front), "--store-timeout", "500", "--lock", lock, NULL);
    setup.port = setup.service.port;
    seckilld_wait_ready(&setup.service, 200);
    shop_put(setup.port, "phone", "\"stock\":10,\"hold_seconds\":2");
    shop_put(setup.port, "lamp", "\"stock\":10,\"hold_seconds\":2");
    CHECK_INT(shop_basket(setup.port, "ann", "phone:1 lamp:2", "k", &response), 201);
    const char *id = shop_text(&response, "basket");
    redis_wait_copied(&setup.master, &setup.replica);
    CHECK_STR(redis_command(&setup.replica, "REPLICAOF", "NO", "ONE", NULL), "OK");
    CHECK_INT(shop_basket_step(setup.port, id, "confirm", NULL), 200);
    seckilld_start(&other, setup.replica.port, "--lock", lock, NULL);
    seckilld_wait_ready(&other, 200);
    const char *basket[] = {harness_format("%d", other.port), id};
    CHECK(harness_wait(is_basket_expired, basket, 20000));
    fail_over(&setup);
    CHECK_INT(shop_basket_step(setup.port, id, NULL, &response), 200);
    CHECK_STR(shop_text(&response, "state"), "confirmed");
    CHECK_INT(shop_audit(setup.port, "phone", "sold"), 1);
    CHECK_INT(shop_audit(setup.port, "lamp", "sold"), 2);
    CHECK_INT((int)shop_metric(setup.port, "seckill_shortage_total"), 0);
}

/* Another instance, which had acknowledged nothing, has sold the units at the new master by then. */
static void a_shortage(void) {
    struct setup setup;
    struct seckilld other;
    struct web_response response;
    open_setup(&setup, "\"stock\":10");
    seckilld_start(&other, setup.replica.port, NULL);
    seckilld_wait_ready(&other, 200);
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

struct safe_shop {
    struct redis_sentinel sentinel;
    struct seckilld service;
};

static void open_safe(struct safe_shop *safe, int replicas) {
    redis_sentinel_start_with(&safe->sentinel, replicas);
    seckilld_start(&safe->service, 0, "--redis", redis_sentinel_url(&safe->sentinel), "--replicas", "1",
                   "--store-timeout", "500", NULL);
    seckilld_wait_ready(&safe->service, 200);
    shop_put(safe->service.port, "phone", "\"stock\":1000000");
}

/* Without a replica nothing is safe, so nothing is sold; who looks is told which server lacks what. */
static void one_replica(void) {
    struct safe_shop safe;
    struct redis_server replica;
    struct web_response response;
    open_safe(&safe, 1);
    int port = safe.service.port;
    redis_kill(&safe.sentinel.server[0]);
    shop_wait_unready(port, harness_format("127.0.0.1:%d has 0 of the 1 replicas that --replicas 1 needs",
                                           safe.sentinel.server[1].port));
    shop_buy(port, "phone", "ann", 1, "k", &response);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    redis_start_replica(&replica, &safe.sentinel.server[1]);
    seckilld_wait_ready(&safe.service, 200);
    CHECK_INT(shop_buy(port, "phone", "ann", 1, "k", NULL), 201);
}

/* With two, one is left for what is sold then, whichever server dies. */
static void two_replicas(bool master_dies) {
    enum { MORE = 200 };
    struct safe_shop safe;
    open_safe(&safe, 2);
    struct crowd_plan plan = {.ports = {safe.service.port},
                              .item = "phone",
                              .prefix = "k",
                              .threads = THREADS,
                              .purchases = 1000000,
                              .retries = true};
    struct crowd *crowd = crowd_start(&plan);
    crowd_wait(crowd, MORE);
    redis_kill(&safe.sentinel.server[master_dies ? 0 : 1]);
    crowd_wait(crowd, crowd_answered(crowd) + THREADS + MORE);
    seckilld_wait_ready(&safe.service, 200);
    crowd_stop(crowd);
    crowd_join(crowd);
    crowd_check_answers(crowd, NULL);
    for (int i = 0; i < crowd_answered(crowd) && !master_dies; i++)
        CHECK_INT(crowd_receipt(crowd, i)->tries, 1); /* nobody has noticed */
    crowd_check_orders(crowd, safe.service.port);
    CHECK_INT(shop_audit(safe.service.port, "phone", "sold"), crowd_count(crowd, 201));
    CHECK(redis_sentinel_master(&safe.sentinel) != (master_dies ? &safe.sentinel.server[0] : NULL));
}

static void a_replica_dies(void) {
    two_replicas(false);
}

static void the_master_dies(void) {
    two_replicas(true);
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

/* Of a cluster the masters that have enough go on, and the reason names the one that has not. */
static void a_master_lacks_one(void) {
    enum { MASTERS = 3 };
    struct redis_cluster cluster;
    struct seckilld service;
    struct web_response response;
    redis_cluster_start(&cluster, MASTERS, 1);
    seckilld_start(&service, 0, "--redis", redis_cluster_url(&cluster), "--replicas", "1", "--store-timeout",
                   "500", NULL);
    seckilld_wait_whole(&service);
    static const char *const items[] = {"a", "b", "c"}; /* each on another master */
    for (int i = 0; i < 3; i++)
        shop_put(service.port, items[i], "\"stock\":100");
    struct redis_server *master = redis_cluster_of(&cluster, stock_key("a"));
    redis_kill(&cluster.server[MASTERS + (master - cluster.server)]);
    struct looker looker = {
        service.port,
        harness_format("127.0.0.1:%d has 0 of the 1 replicas that --replicas 1 needs", master->port)};
    if (!harness_wait(reads_reason, &looker, 20000))
        FAIL("/readyz does not say: %s", looker.reason);
    shop_buy(service.port, "a", "ann", 1, "k", &response);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    CHECK(harness_wait(reads_reason, &looker, 20000)); /* after that master's connection has broken, too */
    CHECK_INT(shop_buy(service.port, "b", "ann", 1, "k", NULL), 201);
    CHECK_INT(shop_buy(service.port, "c", "ann", 1, "k", NULL), 201);
}

/* A master is gone, and nothing takes its place. */
struct gone {
    struct redis_cluster cluster;
    struct redis_server *dies;
    const char *living[2], *dead; /* items, each on another master */
};

/* The next key of ann's whose basket the journal has at the master that is gone, or at another one. */
static const char *gone_key(struct gone *gone, bool dead) {
    static int next;
    for (;;) {
        char *key = harness_format("g%d", next++), id[INVENTORY_DIGEST_SIZE];
        inventory_key_digest("ann", key, strlen(key), id);
        if (!redis_cluster_of(&gone->cluster, harness_format("{baskets:%u}", key_part(id))) == dead)
            return key;
    }
}

/* The basket is made and confirmed if all that it needs lives; otherwise the answer says what fails. */
static void gone_check_basket(struct gone *gone, int port, const char *lines, bool dead_journal, bool made) {
    struct web_response response;
    const char *key = gone_key(gone, dead_journal);
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
    struct looker looker = {port, "a part of the store cannot be reached"};
    if (!harness_wait(reads_reason, &looker, 20000))
        FAIL("/readyz does not say: %s", looker.reason);
    shop_buy(port, gone->dead, "ann", 1, key, &response);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    for (int i = 0; i < 2; i++)
        CHECK_INT(shop_buy(port, gone->living[i], "ann", 1, key, NULL), 201);
    const char *living = harness_format("%s:1 %s:2", gone->living[0], gone->living[1]);
    gone_check_basket(gone, port, living, false, true);
    const char *half = harness_format("%s:1 %s:1", gone->living[0], gone->dead);
    gone_check_basket(gone, port, dead_journal ? living : half, dead_journal, false);
    gone_check_basket(gone, port, living, false, true); /* whatever failed before */
}

/* Not the one with the record of the lock, without which there are no baskets. */
static void a_master_is_gone(void) {
    enum { MASTERS = 3 };
    static const char *const items[] = {"a", "b", "c"}; /* each on another master */
    struct gone gone;
    struct seckilld service, next;
    redis_cluster_start(&gone.cluster, MASTERS, 0);
    const char *url = redis_cluster_url(&gone.cluster);
    seckilld_start(&service, 0, "--redis", url, "--store-timeout", "500", NULL);
    seckilld_wait_whole(&service);
    gone.dies = redis_cluster_of(&gone.cluster, "{baskets:0}");
    for (int part = 1; gone.dies == redis_cluster_of(&gone.cluster, "{baskets}"); part++)
        gone.dies = redis_cluster_of(&gone.cluster, harness_format("{baskets:%d}", part));
    for (int i = 0, living = 0; i < MASTERS; i++) {
        shop_put(service.port, items[i], "\"stock\":100,\"hold_seconds\":600");
        if (redis_cluster_of(&gone.cluster, stock_key(items[i])) == gone.dies)
            gone.dead = items[i];
        else
            gone.living[living++] = items[i];
    }
    redis_kill(gone.dies);
    gone_check(&gone, &service, "k", true);
    seckilld_start(&next, 0, "--redis", url, "--store-timeout", "500", NULL);
    seckilld_wait_ready(&next, 200);
    gone_check(&gone, &next, "l", false);
    for (int i = 0; i < 2; i++) /* half of the baskets, which failed, left nothing that is sold */
        CHECK_INT(shop_audit(next.port, gone.living[i], "sold"), (i + 1) * 4);
}

/* The one with the record of the lock. An instance that starts then learns the store's time from another one:
 * it is ready, sells, and confirms; baskets wait for a lock. */
static void the_lock_is_gone(void) {
    struct redis_cluster cluster;
    struct seckilld service;
    struct web_response response;
    redis_cluster_start(&cluster, 3, 0);
    struct redis_server *dies = redis_cluster_of(&cluster, "{baskets}");
    const char *url = redis_cluster_url(&cluster), *item = "a";
    while (redis_cluster_of(&cluster, stock_key(item)) == dies)
        item = harness_format("%sa", item);
    redis_kill(dies);
    seckilld_start(&service, 0, "--redis", url, "--store-timeout", "500", "--lock-ttl", "1000", NULL);
    seckilld_wait_ready(&service, 200);
    shop_put(service.port, item, "\"stock\":100");
    CHECK_INT(shop_buy(service.port, item, "ann", 1, "k", &response), 201);
    const char *order = harness_format("/v1/orders/%s/confirm", shop_text(&response, "order"));
    CHECK_INT(web_call(service.port, "POST", order, NULL, "", NULL), 200);
    CHECK_INT(shop_basket(service.port, "ann", harness_format("%s:1", item), "k", &response), 503);
}

enum { ONE_MASTER_SOLD = 20 };

static bool has_all_back(void *arg) {
    return (int)shop_metric(*(const int *)arg, "seckill_put_back_total") >= ONE_MASTER_SOLD;
}

/* One master of a cluster is replaced: the store as a whole never goes, and the log still tells. */
static void of_one_master(void) {
    enum { MASTERS = 3, SOLD = ONE_MASTER_SOLD };
    struct redis_cluster cluster;
    struct seckilld service;
    redis_cluster_start(&cluster, MASTERS, 1);
    seckilld_start(&service, 0, "--redis", redis_cluster_url(&cluster), "--store-timeout", "500", NULL);
    seckilld_wait_ready(&service, 200);
    shop_put(service.port, "phone", "\"stock\":100");
    struct redis_server *master = redis_cluster_of(&cluster, stock_key("phone"));
    replica_cut(master, master + MASTERS);
    for (int i = 0; i < SOLD; i++)
        CHECK_INT(shop_buy(service.port, "phone", "ann", 1, harness_format("k%d", i), NULL), 201);
    redis_kill(master);
    seckilld_wait_log(&service, "that a failover of the store had lost");
    CHECK(harness_wait(has_all_back, &service.port, 20000)); /* also of the other worker */
    CHECK_INT((int)shop_metric(service.port, "seckill_put_back_total"), SOLD);
    CHECK_INT(shop_audit(service.port, "phone", "sold"), SOLD);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a crowd's orders are put back", a_crowds_orders);
    harness_run("of one master of a cluster", of_one_master);
    harness_run("a shortage is told", a_shortage);
    harness_run("an unknown replica is promoted", an_unknown_replica);
    harness_run("a hold that ended", a_hold_that_ended);
    harness_run("a basket that was taken for expired", a_basket_taken_for_expired);
    harness_run("one replica: a death stops the sale, and it is told why", one_replica);
    harness_run("two replicas: the sale goes on without a replica", a_replica_dies);
    harness_run("two replicas: the sale goes on without the master", the_master_dies);
    harness_run("a cluster: a master that lacks a replica is named, and the others sell", a_master_lacks_one);
    harness_run("a cluster: a master is gone, and the others sell, baskets too", a_master_is_gone);
    harness_run("a cluster: the master of the lock is gone, and an instance starts", the_lock_is_gone);
    return harness_finish();
}
