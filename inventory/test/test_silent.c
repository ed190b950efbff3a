/* Who lived before a failover, and whether he has shown what he acknowledged: who has not, died or stands
 * still, and that is told. */
#include <stdlib.h>
#include <string.h>

#include "inventory/purchases/putback.h"
#include "inventory/test/told.h"
#include "inventory/transactions/transactions_internal.h"

enum { NEVER_MS = 600000, SOON_MS = 500 };

static struct pair pair;
static struct told told, others;

static const struct history *newest_of(const struct seller *seller) {
    const struct putback *putback = seller->inventory->purchases->putback;
    return putback->histories[putback->history_count - 1];
}

/* ---- who lived ---- */

static void wait_heartbeat(struct seller *seller, const struct redis_server *redis) {
    const char *id = seller->inventory->purchases->id;
    SHOP_UNTIL(seller->shop, strcmp(redis_command(redis, "ZSCORE", TOLD_ALIVE, id, NULL), "(nil)") != 0,
               "it has a heartbeat");
}

static bool is_lifted(const struct seller *seller, const struct redis_server *redis) {
    const char *beat = redis_command(redis, "ZSCORE", TOLD_ALIVE, seller->inventory->purchases->id, NULL);
    return strtoll(beat, NULL, 10) >= strtoll(redis_command(redis, "TIME", NULL) + 1, NULL, 10) * 1000 - 2000;
}

/* After the store's clock has gone on. */
static void wait_new_heartbeat(struct seller *seller, const struct redis_server *redis) {
    seller->shop->hurried_ms += 2000; /* a heartbeat is due */
    SHOP_UNTIL(seller->shop, is_lifted(seller, redis), "it has a new one");
}

/* As if another one had a heartbeat, so long ago. */
static void add_heartbeat(const struct seller *seller, const struct redis_server *redis, int ago_ms) {
    redis_integer(redis, "ZADD", TOLD_ALIVE,
                  harness_format("%lld", (long long)clock_wall_ms(&seller->shop->clock) - ago_ms), "another",
                  NULL);
}

/* The store could not be reached for some seconds. Who comes back first does not take the others for dead,
 * and the next failover waits for them. */
static void test_silent(int outage_ms) {
    redis_clock(); /* of servers that start after this */
    pair_start(&pair);
    struct seller *seller = told_seller_open(shop_open(), pair_url(&pair), &told);
    add_heartbeat(seller, &pair.master, 2000);
    wait_heartbeat(seller, &pair.master);
    redis_clock()->ahead_ms += outage_ms;
    wait_new_heartbeat(seller, &pair.master);
    redis_wait_copied(&pair.master, &pair.replica);
    told_fail_over(&pair, seller, NULL);
    CHECK_INT(
        redis_integer(&pair.replica, "SISMEMBER", told_key_of(&pair.replica, "waited"), "another", NULL), 1);
    CHECK_INT((int)told.metrics.unkept, 1);
}

/* One starts at a Redis that was restarted before those notice who sold there. He has nothing to show: they
 * do not wait for him, and do not take him for dead. */
static void test_starts_at_a_restarted(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    struct proxy *way = proxy_start(redis.port);
    struct seller *seller = told_seller_within(
        shop_open(), harness_format("redis://127.0.0.1:%d", proxy_port(way)), NEVER_MS, &told);
    wait_heartbeat(seller, &redis);
    proxy_set(way, PROXY_REFUSE, 0, NULL);
    redis_kill(&redis);
    redis_restart(&redis);
    struct seller *new = told_seller_on(seller->shop, &redis, &others);
    wait_heartbeat(new, &redis);
    proxy_set(way, PROXY_PASS, 0, NULL);
    seller_wait_up(seller);
    CHECK_INT((int)told.metrics.unkept, 0);
}

static const char *id_of(const struct redis_server *server) {
    return strrchr(told_key_of(server, ""), ':') + 1;
}

static bool has_other_id(void *before) {
    return strcmp(id_of(&pair.master), before) != 0;
}

static struct proxy *way; /* of the late one */

/* Two at a pair, the second by a way of its own. Both have heartbeats. */
static void open_two(struct seller **seller, struct seller **late) {
    pair_start(&pair);
    way = proxy_start(pair.master.port);
    *seller = told_seller_within(shop_open(), pair_url(&pair), NEVER_MS, &told);
    *late = told_seller_within((*seller)->shop, harness_format("redis://127.0.0.1:%d", proxy_port(way)),
                               NEVER_MS, &others);
    wait_heartbeat(*seller, &pair.master);
    wait_heartbeat(*late, &pair.master);
}

/* A master that is restarted changes its id when its replica comes back: between two sellers. They are of one
 * history all the same, and do not take each other for dead. */
static void test_restarted_in_place(void) {
    struct seller *seller, *late;
    open_two(&seller, &late);
    proxy_set(pair.link, PROXY_REFUSE, 0, NULL);
    proxy_set(way, PROXY_REFUSE, 0, NULL);
    redis_kill(&pair.master);
    redis_restart(&pair.master);
    const char *before = id_of(&pair.master);
    seller_wait_down(seller);
    told_check_quarantine(seller);
    proxy_set(pair.link, PROXY_PASS, 0, NULL);
    CHECK(harness_wait(has_other_id, (void *)before, 10000));
    proxy_set(way, PROXY_PASS, 0, NULL);
    seller_wait_up(late);
    seller_wait_up(seller);
    CHECK_INT((int)told.metrics.unkept, 0);
    CHECK_INT((int)others.metrics.unkept, 0);
}

/* The first replica of a master comes while a seller is away: it finds another id. The one that has sold on
 * tells again that it has nothing to show. */
static void test_first_replica_comes(void) {
    struct seller *seller, *late;
    open_two(&seller, &late);
    proxy_set(pair.link, PROXY_REFUSE, 0, NULL);
    redis_kill(&pair.master);
    redis_restart(&pair.master);
    seller_wait_again(seller);
    seller_wait_up(late);
    const char *before = id_of(&pair.master);
    proxy_set(way, PROXY_REFUSE, 0, NULL);
    proxy_set(pair.link, PROXY_PASS, 0, NULL);
    CHECK(harness_wait(has_other_id, (void *)before, 10000));
    SHOP_UNTIL(seller->shop, strcmp(newest_of(seller)->id, id_of(&pair.master)) == 0,
               "it knows the other id");
    proxy_set(way, PROXY_PASS, 0, NULL);
    seller_wait_up(late);
    CHECK_INT((int)told.metrics.unkept, 0);
    CHECK_INT((int)others.metrics.unkept, 0);
}

static struct redis_cluster cluster;
static struct redis_server *heartbeats; /* the cluster's master that has them */

/* At the cluster, which it finds by this server. */
static struct seller *open_at(struct shop *shop, const struct redis_server *server, struct told *by) {
    const char *url = harness_format("redis-cluster://127.0.0.1:%d", server->port);
    struct seller *seller = told_seller_open_with(
        shop, &(struct seller_options){.url = url, .call_timeout_ms = SOON_MS, .resolve_ms = SOON_MS}, by);
    seller_wait_whole(seller);
    return seller;
}

/* At three masters with a replica each. */
static struct seller *open_cluster(void) {
    redis_cluster_start(&cluster, 3, 1);
    struct seller *seller = open_at(shop_open(), &cluster.server[0], &told);
    heartbeats = redis_cluster_of(&cluster, "{sellers}");
    wait_heartbeat(seller, heartbeats);
    return seller;
}

/* One starts in a cluster long after failovers. He does not take those who live for dead, whether or not they
 * were noted where the heartbeats are, or he has a heartbeat there yet. */
static void test_starts_later(void) {
    struct seller *seller = open_cluster();
    struct redis_server *promoted = heartbeats + cluster.masters,
                        *other = &cluster.server[heartbeats == cluster.server];
    redis_wait_copied(heartbeats, promoted);
    struct redis_server *const masters[] = {heartbeats, other};
    for (int i = 0; i < 2; i++) {
        master_replace(&cluster, masters[i]);
        seller_wait_replaced(seller);
        redis_integer(promoted, "DEL", told_key_of(masters[i] + cluster.masters, "waited"), NULL);
    }
    open_at(seller->shop, promoted, &others);
    CHECK_INT((int)told.metrics.unkept, 0);
    CHECK_INT((int)others.metrics.unkept, 0);
}

static void on_silent(void *ctx, const struct redis_value *value) {
    *(int64_t *)ctx = redis_value_integer(redis_value_at(value, 0), -1);
}

/* One that starts has nothing to show, and says so before those who sold there come, however long before. */
static void test_starts_long_before(void) {
    struct redis_server redis;
    int64_t silent = -1;
    redis_clock(); /* of servers that start after this */
    struct seller *new = told_seller_at(&redis, &told);
    wait_heartbeat(new, &redis);
    membership_tell(new->inventory->purchases, NULL, "h", false, MEMBER_DONE, NULL, NULL);
    shop_idle(new->shop, 50);
    redis_clock()->ahead_ms += 700000;
    wait_new_heartbeat(new, &redis);
    struct seller *seller = told_seller_on(new->shop, &redis, &others);
    wait_heartbeat(seller, &redis);
    membership_tell(seller->inventory->purchases, NULL, "h", true, MEMBER_DONE, on_silent, &silent);
    SHOP_UNTIL(new->shop, silent >= 0, "it is told who is silent");
    CHECK_INT((int)silent, 0);
}

/* ---- a store that refuses writes ---- */

static bool has_asked(void *arg) {
    struct seller *seller = arg;
    seller->shop->hurried_ms += 100;
    return !newest_of(seller)->unsure;
}

static void set_writes(const char *replicas_needed) {
    CHECK_STR(redis_command(&pair.replica, "CONFIG", "SET", "min-replicas-to-write", replicas_needed, NULL),
              "OK");
}

/* The promoted master takes no writes while it has no replica. `dies`: another one lived before. */
static struct seller *fail_over_refusing(bool dies) {
    pair_start(&pair);
    struct seller *seller = told_seller_open(shop_open(), pair_url(&pair), &told);
    wait_heartbeat(seller, &pair.replica);
    if (dies)
        add_heartbeat(seller, &pair.master, 0);
    redis_wait_copied(&pair.master, &pair.replica);
    set_writes("1");
    told_fail_over(&pair, seller, NULL);
    return seller;
}

/* Whether all had shown theirs is asked when it takes writes, and counts then. */
static void test_refuses_writes(void) {
    struct seller *seller = fail_over_refusing(true);
    shop_idle(seller->shop, 300);
    CHECK_INT((int)told.metrics.unkept, 0);
    set_writes("0");
    shop_wait(seller->shop, has_asked, seller, "it is known who has shown what he has");
    CHECK_INT((int)told.metrics.unkept, 1);
}

/* One that starts cannot tell that it has nothing to show. It tells later, and nobody takes it for dead. */
static void test_refused_newcomer(void) {
    struct seller *seller = fail_over_refusing(false);
    struct seller *new = told_seller_on(seller->shop, &pair.replica, &others);
    shop_idle(seller->shop, 100); /* it has tried to tell */
    set_writes("0");
    CHECK_INT(redis_integer(&pair.replica, "ZADD", TOLD_ALIVE,
                            harness_format("%lld", (long long)clock_wall_ms(&seller->shop->clock)),
                            new->inventory->purchases->id, NULL),
              1);
    shop_wait(seller->shop, has_asked, seller, "it is known who has shown what he has");
    CHECK_INT((int)told.metrics.unkept, 0);
}

/* It is replaced by another one before it was told who has shown what he has. It is not asked for any more:
 * those that live now tell the new one. */
static void test_refused_and_replaced(void) {
    struct seller *seller = fail_over_refusing(false);
    const char *waited = told_key_of(&pair.replica, "waited");
    proxy_set(pair.front, PROXY_REFUSE, 0, NULL);
    seller_wait_down(seller);
    CHECK_STR(redis_command(&pair.replica, "REPLICAOF", "127.0.0.1", "1", NULL), "OK");
    set_writes("0");
    CHECK_STR(redis_command(&pair.replica, "REPLICAOF", "NO", "ONE", NULL), "OK");
    CHECK(strcmp(waited, told_key_of(&pair.replica, "waited")) != 0);
    proxy_set(pair.front, PROXY_PASS, 0, NULL);
    seller_wait_up(seller);
    seller->shop->hurried_ms += 2000;
    shop_idle(seller->shop, 300);
    CHECK_INT(redis_integer(&pair.replica, "EXISTS", waited, NULL), 0);
    CHECK_INT((int)told.metrics.unkept, 0);
}

/* Two masters of a cluster die, one of them that with the heartbeats. Nobody can be asked who lived, so the
 * replica of the other one is not sold from for the whole time. */
static void test_cannot_be_asked(void) {
    struct seller *seller = open_cluster();
    struct redis_server *dies = &cluster.server[heartbeats == cluster.server];
    redis_kill(heartbeats + cluster.masters);
    redis_kill(heartbeats);
    redis_kill(dies);
    int before = seller->inventory->purchases->putback->history_count;
    CHECK_STR(redis_command(dies + cluster.masters, "CLUSTER", "FAILOVER", "TAKEOVER", NULL), "OK");
    SHOP_UNTIL(seller->shop,
               seller->inventory->purchases->putback->history_count > before &&
                   newest_of(seller)->state == HISTORY_DONE,
               "it sells there");
    int64_t rested_ms = clock_mono_ms(&seller->shop->clock) - newest_of(seller)->reached_ms;
    CHECK(rested_ms >= SOON_MS + 2000);
}

/* A master of a cluster refuses what a seller has to show it, and the others are told so elsewhere. */
static void test_refuses_what_is_shown(void) {
    struct seller *seller = open_cluster(), *other = open_at(seller->shop, &cluster.server[0], &others);
    struct redis_server *dies = &cluster.server[heartbeats == cluster.server];
    struct redis_server *promoted = dies + cluster.masters;
    wait_heartbeat(other, heartbeats);
    const char *item = item_at(&cluster, dies);
    item_sell(seller, item, INVENTORY_BATCH, 10);
    replica_cut(dies, promoted);
    CHECK_STATUS(buy(seller, item, "ann", "k", 1)->status, INVENTORY_OK);
    CHECK_STR(redis_command(promoted, "CONFIG", "SET", "min-replicas-to-write", "1", NULL), "OK");
    master_replace(&cluster, dies);
    seller_wait_not_whole(other);
    SHOP_UNTIL(seller->shop, newest_of(seller)->state == HISTORY_NEW && newest_of(seller)->failed,
               "its replica refuses what it is shown");
    for (int i = 0; i < 30; i++) { /* no call is late for that */
        seller->shop->hurried_ms += 150;
        shop_idle(seller->shop, 60);
    }
    CHECK_INT((int)others.metrics.unkept, 0);
    CHECK_STR(redis_command(promoted, "CONFIG", "SET", "min-replicas-to-write", "0", NULL), "OK");
    seller_wait_whole(seller);
    seller_wait_whole(other);
    told_check(&told, 1, 0);
    CHECK_INT((int)told.metrics.unkept, 0);
    CHECK_INT((int)others.metrics.unkept, 0);
}

/* It says that it still shows what it has, and the answer comes after it has done so. That is none to whether
 * all others have. */
static bool is_asked_anew(void *arg) {
    const struct history *newest = newest_of(arg);
    return newest->state == HISTORY_QUARANTINE && newest->asking && newest->asked_ms >= newest->ended_ms;
}

static void test_late_answer(void) {
    pair_start(&pair);
    struct seller *seller = told_seller_within(shop_open(), pair_url(&pair), NEVER_MS, &told);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    wait_heartbeat(seller, &pair.replica);
    pair_cut(&pair);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    pair_fail_over(&pair);
    seller_wait_down(seller);
    proxy_set(pair.front, PROXY_DELAY, SOON_MS, NULL);
    SHOP_UNTIL(seller->shop, newest_of(seller)->state == HISTORY_SHOWING, "it shows what it has");
    seller->shop->hurried_ms += 1000; /* it is to say so */
    shop_wait(seller->shop, is_asked_anew, seller, "it has, and asks for the others");
    seller->shop->hurried_ms += NEVER_MS + 2000; /* the quarantine is over */
    shop_idle(seller->shop, 50);
    CHECK_INT((int)told.metrics.unkept, 0);
    proxy_set(pair.front, PROXY_PASS, 0, NULL);
    seller_wait_up(seller);
    shop_wait(seller->shop, has_asked, seller, "it is known who has shown what he has");
    CHECK_INT((int)told.metrics.unkept, 0);
    told_check(&told, 1, 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    run_case("silent in an outage", test_silent, 8000);
    run_case("silent in a short outage", test_silent, 5000);
    harness_run("one starts at a Redis that was restarted", test_starts_at_a_restarted);
    harness_run("a master that is restarted gets another id", test_restarted_in_place);
    harness_run("the first replica of a master comes", test_first_replica_comes);
    harness_run("one starts later", test_starts_later);
    harness_run("one starts long before those who sold there come", test_starts_long_before);
    harness_run("a store that refuses writes, and one dies", test_refuses_writes);
    harness_run("a store that refuses writes, and one starts", test_refused_newcomer);
    harness_run("a store that refuses writes, and is replaced", test_refused_and_replaced);
    harness_run("a master that refuses what is shown", test_refuses_what_is_shown);
    harness_run("nobody can be asked", test_cannot_be_asked);
    harness_run("an answer that comes late", test_late_answer);
    return harness_finish();
}
