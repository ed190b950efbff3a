/* A store whose master is named by Sentinels: it is found, and after a failover its successor is. */
#include <string.h>

#include "inventory/test/fixture.h"
#include "inventory/transactions/transactions_internal.h"

enum { NEVER_MS = 600000 };

static struct redis_sentinel sentinel, own; /* the master of `own` does not start as a replica */

static struct seller *open_seller(const char *url) {
    struct shop *shop = shop_open();
    struct seller *seller =
        seller_open_with(shop, &(struct seller_options){.url = url, .call_timeout_ms = 1000});
    seller->locked = true;
    return seller;
}

static void check_error(const char *url, const char *error) {
    struct seller *seller = open_seller(url);
    while (!*inventory_last_error(seller->inventory))
        shop_turn(seller->shop);
    CHECK_HAS(inventory_last_error(seller->inventory), error);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_UNAVAILABLE);
}

static void test_sells(void) {
    struct seller *seller = open_seller(redis_sentinel_url(&sentinel));
    seller_hurry_up(seller);
    CHECK_STR(redis_command(redis_sentinel_master(&sentinel), "FLUSHALL", NULL), "OK");
    item_sell(seller, "phone", strategy, 10);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 2)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 2)->status, INVENTORY_REPLAYED);
    check_books(seller, redis_sentinel_master(&sentinel), "phone", 8, 0, 2);
}

static void test_unknown_name(void) {
    const char *url = redis_sentinel_url(&sentinel), *end = strrchr(url, '/');
    check_error(harness_format("%.*s/nobody", (int)(end - url), url), "No such master with that name");
}

static void resume(void *server) {
    redis_resume(server);
}

/* Of several Sentinels one is enough, and one that answers nothing is passed over. */
static void test_one_is_enough(void) {
    redis_pause(&sentinel.sentinel[1]);
    struct seller *seller =
        open_seller(harness_format("redis-sentinel://127.0.0.1:1,127.0.0.1:%d,127.0.0.1:%d/shop",
                                   sentinel.sentinel[1].port, sentinel.sentinel[0].port));
    seller_hurry_up(seller);
    redis_resume(&sentinel.sentinel[1]);
}

static bool is_in_quarantine(void *arg) {
    return strstr(inventory_last_error(((struct seller *)arg)->inventory), "or is back") != NULL;
}

/* They are asked once a second, and each is waited for half a second: then it is known that one hangs. */
static void let_one_hang(struct shop *shop) {
    shop->hurried_ms += 1000;
    shop_idle(shop, 300);
    shop->hurried_ms += 500;
    shop_idle(shop, 100);
}

/* Whether the connection was broken, and its server was left alone for a while, before it was up again. */
static bool quarantine_after_a_break(struct seller *seller) {
    struct redis_server *master = redis_sentinel_master(&sentinel);
    bool any = false;
    redis_command(master, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes", NULL);
    seller_wait_down(seller);
    while (!inventory_is_up(seller->inventory)) {
        shop_turn(seller->shop);
        any |= is_in_quarantine(seller);
    }
    return any;
}

/* One that hangs is waited for once, and not by each search: so the search takes no longer than an outage
 * would that is none. Audits and `optimistic` have connections of their own, and search nothing. Awake again
 * it counts again. */
static void test_one_hangs(void) {
    struct redis_server *hangs = &sentinel.sentinel[1];
    struct seller *seller = open_seller(redis_sentinel_url(&sentinel));
    seller_hurry_up(seller);
    item_sell(seller, "sofa", INVENTORY_OPTIMISTIC, 10);
    redis_pause(hangs);
    harness_defer(resume, hangs);
    item_audited(seller, "sofa");
    CHECK_STATUS(buy(seller, "sofa", "ann", "k", 1)->status, INVENTORY_OK);
    let_one_hang(seller->shop);
    int breaks = 0;
    while (quarantine_after_a_break(seller))
        CHECK(++breaks < 5);
    redis_resume(hangs);
}

static void test_no_sentinel(void) {
    check_error("redis-sentinel://127.0.0.1:1,127.0.0.1:2/shop", "Connection refused");
}

/* The Sentinel still names a server that has become a replica: it is not taken for the master. */
static void test_not_a_master(void) {
    struct seller *seller =
        open_seller(harness_format("redis-sentinel://127.0.0.1:%d/shop", sentinel.sentinel[0].port));
    seller_hurry_up(seller);
    struct redis_server *master = redis_sentinel_master(&sentinel);
    CHECK_STR(redis_command(master, "REPLICAOF", "127.0.0.1", "1", NULL), "OK");
    struct inventory_item item = terms("lamp", INVENTORY_BATCH, 5);
    CHECK(item_put(seller, &item) != INVENTORY_OK);
    while (strcmp(inventory_last_error(seller->inventory), "it is a replica") != 0)
        shop_turn(seller->shop);
    CHECK(!inventory_is_up(seller->inventory));
    CHECK_STR(redis_command(master, "REPLICAOF", "NO", "ONE", NULL), "OK");
    seller_wait_up(seller);
    CHECK_STATUS(item_put(seller, &item), INVENTORY_OK);
    CHECK_STATUS(buy(seller, "lamp", "ann", "k", 1)->status, INVENTORY_OK);
}

/* One that would wait for the others for ten minutes. */
static struct seller *open_newcomer(const struct redis_sentinel *all) {
    return seller_open_with(
        shop_open(), &(struct seller_options){.url = redis_sentinel_url(all), .call_timeout_ms = NEVER_MS});
}

/* One that starts at a master that was promoted cannot know what others sold, and that they live: it waits
 * for as long as anybody might need. */
static void check_newcomer(void) {
    struct seller *newcomer = open_newcomer(&sentinel);
    shop_wait(newcomer->shop, is_in_quarantine, newcomer, "the master is reached");
    shop_idle(newcomer->shop, 300); /* others have shown what they have, or are none */
    CHECK(!inventory_is_up(newcomer->inventory));
    for (int i = 0; i < 100 && !inventory_is_up(newcomer->inventory);
         i++) { /* it may have been left meanwhile */
        newcomer->shop->hurried_ms += NEVER_MS + 2000;
        shop_idle(newcomer->shop, 100);
    }
    CHECK(inventory_is_up(newcomer->inventory));
}

static void test_failover(void) {
    struct seller *seller = open_seller(redis_sentinel_url(&sentinel));
    seller_hurry_up(seller);
    struct redis_server *master = redis_sentinel_master(&sentinel);
    item_sell(seller, "chair", INVENTORY_BATCH, 1000);
    CHECK_STATUS(buy(seller, "chair", "ann", "k", 1)->status, INVENTORY_OK);
    redis_wait_copied(master, &sentinel.server[master == sentinel.server]);
    redis_kill(master);
    seller_wait_again(seller);
    CHECK(redis_sentinel_master(&sentinel) != master);
    CHECK_STATUS(buy(seller, "chair", "ann", "k", 1)->status, INVENTORY_REPLAYED);
    CHECK_STATUS(buy(seller, "chair", "ann", "k2", 1)->status, INVENTORY_OK);
    check_books(seller, redis_sentinel_master(&sentinel), "chair", 998, 0, 2);
    check_newcomer();
    /* The Sentinels would tell it after some seconds. */
    int port = redis_sentinel_master(&sentinel)->port;
    redis_restart(master);
    CHECK_STR(redis_command(master, "REPLICAOF", "127.0.0.1", harness_format("%d", port), NULL), "OK");
}

/* All Sentinels do so from now on. */
static void name_master(const struct redis_sentinel *all, const struct redis_server *master) {
    for (int i = 0; i < REDIS_SENTINELS; i++) {
        CHECK_STR(redis_command(&all->sentinel[i], "SENTINEL", "REMOVE", "shop", NULL), "OK");
        CHECK_STR(redis_command(&all->sentinel[i], "SENTINEL", "MONITOR", "shop", "127.0.0.1",
                                harness_format("%d", master->port), "2", NULL),
                  "OK");
    }
}

/* The master is back while it is being replaced: the Sentinels still name it, and it takes writes. */
static void come_back(struct redis_sentinel *all, const char *item, bool killed) {
    struct seller *seller = open_seller(redis_sentinel_url(all));
    seller_hurry_up(seller);
    struct redis_server *master = redis_sentinel_master(all);
    struct redis_server *other = &all->server[master == all->server];
    name_master(all, master); /* and for half a minute no other one */
    item_sell(seller, item, INVENTORY_BATCH, 10);
    CHECK_STATUS(buy(seller, item, "ann", "k", 1)->status, INVENTORY_OK);
    redis_wait_copied(master, other);
    if (killed)
        redis_kill(master);
    else
        redis_pause(master);
    seller_wait_down(seller);
    shop_idle(seller->shop, 500);
    if (killed)
        redis_restart(master);
    else
        redis_resume(master);
    shop_wait(seller->shop, is_in_quarantine, seller, "the master is reached, and is not sold from");
    CHECK_STR(redis_command(other, "REPLICAOF", "NO", "ONE", NULL), "OK");
    name_master(all, other);
    seller_wait_up(seller);
    CHECK_STATUS(buy(seller, item, "ann", "k", 1)->status, INVENTORY_REPLAYED);
    CHECK_STATUS(buy(seller, item, "ann", "k2", 1)->status, INVENTORY_OK);
    check_books(seller, other, item, 8, 0, 2);
    CHECK_STR(redis_command(master, "HGET", stock_key(item), "sold", NULL), "1");
    CHECK_STR(redis_command(master, "REPLICAOF", "127.0.0.1", harness_format("%d", other->port), NULL), "OK");
}

/* One that starts at a master that was restarted sells at once, also if a Sentinel hangs; but not if it was
 * not there when it looked for it first: then Sentinels may be replacing it. */
static void test_newcomer(void) {
    name_master(&own, &own.server[0]);
    redis_kill(&own.server[0]);
    redis_restart(&own.server[0]);
    redis_pause(&own.sentinel[0]);
    struct seller *newcomer = open_newcomer(&own);
    seller_wait_up(newcomer);
    shop_close(newcomer->shop);
    redis_resume(&own.sentinel[0]);
    redis_kill(&own.server[0]);
    newcomer = open_newcomer(&own);
    SHOP_UNTIL(newcomer->shop, strstr(inventory_last_error(newcomer->inventory), "refused") != NULL,
               "the master is not there");
    newcomer->shop->hurried_ms += 300;
    redis_restart(&own.server[0]);
    shop_wait(newcomer->shop, is_in_quarantine, newcomer, "the master is reached, and is not sold from");
    CHECK(!inventory_is_up(newcomer->inventory));
}

static void test_restarted(void) {
    come_back(&own, "shelf", true);
}

static void test_resumed(void) {
    come_back(&sentinel, "stool", false);
}

/* Nobody replaces it: it is sold from again. */
static void test_stays(void) {
    struct seller *seller = open_seller(redis_sentinel_url(&sentinel));
    seller_hurry_up(seller);
    struct redis_server *master = redis_sentinel_master(&sentinel);
    item_sell(seller, "bench", INVENTORY_BATCH, 10);
    redis_pause(master);
    seller_wait_down(seller);
    shop_idle(seller->shop, 500);
    redis_resume(master);
    shop_wait(seller->shop, is_in_quarantine, seller, "the master is reached, and is not sold from");
    seller_hurry_up(seller);
    CHECK_STATUS(buy(seller, "bench", "ann", "k", 1)->status, INVENTORY_OK);
    check_books(seller, master, "bench", 9, 0, 1);
}

/* A Sentinel is about to promote the replica, which does not take the order; then it gives up. It alone
 * knows, and was not waited for while it hung. A connection that is up stays, and none is made. */
static void test_before_the_promotion(void) {
    struct seller *seller = open_seller(redis_sentinel_url(&own));
    seller_hurry_up(seller);
    redis_pause(&own.sentinel[0]);
    let_one_hang(seller->shop);
    redis_resume(&own.sentinel[0]);
    seller->shop->hurried_ms += 1000;
    shop_idle(seller->shop, 300); /* it is known to be awake */
    CHECK_STR(redis_command(&own.server[1], "ACL", "SETUSER", "default", "-slaveof", NULL), "OK");
    CHECK_STR(redis_command(&own.sentinel[0], "SENTINEL", "FAILOVER", "shop", NULL), "OK");
    const struct redis *connection = router_server(seller->inventory->shared.store, 0);
    int64_t reached_ms = redis_reached_ms(connection);
    seller->shop->hurried_ms += 1000; /* they are asked again */
    shop_idle(seller->shop, 200);
    CHECK(inventory_is_up(seller->inventory) && redis_reached_ms(connection) == reached_ms);
    redis_command(&own.server[0], "CLIENT", "KILL", "TYPE", "normal", NULL);
    SHOP_UNTIL(seller->shop, strstr(inventory_last_error(seller->inventory), "are replacing") != NULL,
               "no master is found");
    seller_wait_up(seller);
    item_sell(seller, "chest", INVENTORY_BATCH, 10);
    check_books(seller, &own.server[0], "chest", 10, 0, 0);
    CHECK_STR(redis_command(&own.server[1], "ACL", "SETUSER", "default", "+slaveof", NULL), "OK");
}

/* The master was cut off from the Sentinels, not from the seller: it is left when they name another one. */
static void test_left_behind(void) {
    struct seller *seller = open_seller(redis_sentinel_url(&sentinel));
    seller_hurry_up(seller);
    struct redis_server *master = redis_sentinel_master(&sentinel);
    struct redis_server *other = &sentinel.server[master == sentinel.server];
    item_sell(seller, "table", INVENTORY_BATCH, 10);
    redis_wait_copied(master, other);
    CHECK_STR(redis_command(other, "REPLICAOF", "NO", "ONE", NULL), "OK");
    CHECK_STATUS(buy(seller, "table", "ann", "k", 1)->status, INVENTORY_OK);
    name_master(&sentinel, other);
    SHOP_UNTIL(seller->shop, !inventory_is_up(seller->inventory), "the old master is left");
    seller_wait_up(seller);
    CHECK_STATUS(buy(seller, "table", "ann", "k", 1)->status, INVENTORY_REPLAYED); /* it was put back */
    check_books(seller, other, "table", 9, 0, 1);
}

/* With --replicas 1 the replica is not there for a while. The master was never away, and there is no
 * quarantine. */
static void test_lacks_replica(void) {
    const struct redis_server *master = redis_sentinel_master(&sentinel);
    struct redis_server *replica = &sentinel.server[master == sentinel.server];
    replica_wait(master);
    struct seller *seller = seller_open_with(
        shop_open(),
        &(struct seller_options){
            .url = redis_sentinel_url(&sentinel), .call_timeout_ms = 1000, .resolve_ms = 500, .replicas = 1});
    seller_hurry_up(seller);
    item_sell(seller, "couch", INVENTORY_BATCH, 10);
    redis_pause(replica);
    CHECK_STATUS(buy(seller, "couch", "ann", "k", 1)->status, INVENTORY_UNKNOWN);
    SHOP_UNTIL(seller->shop, strstr(inventory_last_error(seller->inventory), "fewer than 1 replicas") != NULL,
               "it is not sold from without a replica");
    shop_idle(seller->shop, 4000); /* on a slow machine to break the connection was an outage */
    for (int i = 0; i < 25; i++) {
        shop_idle(seller->shop, 100);
        CHECK(!is_in_quarantine(seller));
    }
    redis_resume(replica);
    seller_wait_up(seller);
    CHECK_STATUS(buy(seller, "couch", "ann", "k2", 1)->status, INVENTORY_OK);
}

/* A Sentinel that demands a password is told the URL's; the servers, which demand none, take any. One that
 * demands none is not told: it does not know the user. */
static void test_password(void) {
    for (int i = 0; i < sentinel.count; i++)
        CHECK_STR(redis_command(&sentinel.server[i], "ACL", "SETUSER", "shopper", "on", ">pw", "~*", "&*",
                                "+@all", NULL),
                  "OK");
    seller_hurry_up(open_seller(
        harness_format("redis-sentinel://shopper:pw@127.0.0.1:%d/shop", sentinel.sentinel[0].port)));
    const struct redis_server *last = &sentinel.sentinel[REDIS_SENTINELS - 1];
    CHECK_STR(redis_command(last, "ACL", "SETUSER", "default", "resetpass", ">hunter2", NULL), "OK");
    CHECK_HAS(redis_command(last, "PING", NULL), "NOAUTH");
    struct seller *seller =
        open_seller(harness_format("redis-sentinel://default:hunter2@127.0.0.1:%d/shop", last->port));
    seller_hurry_up(seller);
    check_error(harness_format("redis-sentinel://127.0.0.1:%d/shop", last->port), "NOAUTH");
    check_error(harness_format("redis-sentinel://default:wrong@127.0.0.1:%d/shop", last->port), "WRONGPASS");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    if (*harness_dir()) {
        redis_clock();
        redis_sentinel_start(&sentinel);
        redis_sentinel_start(&own);
    }
    run_each("by the name of the master", test_sells, INVENTORY_LOCKED);
    harness_run("a name that nobody knows", test_unknown_name);
    harness_run("one Sentinel is enough", test_one_is_enough);
    harness_run("one Sentinel hangs", test_one_hangs);
    harness_run("no Sentinel answers", test_no_sentinel);
    harness_run("a master that has become a replica", test_not_a_master);
    harness_run("a failover", test_failover);
    harness_run("a replica that is not there for a while", test_lacks_replica);
    harness_run("before the promotion", test_before_the_promotion);
    harness_run("one that starts at a master that was restarted", test_newcomer);
    harness_run("a master that comes back", test_restarted);
    harness_run("a master that stood still", test_resumed);
    harness_run("a master that stood still, and stays", test_stays);
    harness_run("a master that is left behind", test_left_behind);
    harness_run("a Sentinel's password", test_password); /* the last: it stays */
    return harness_finish();
}
