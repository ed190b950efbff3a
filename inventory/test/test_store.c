/* A store that answers, but not as one would like: scripts gone, memory full, read-only, loading. */
#include <stdlib.h>
#include <string.h>

#include "inventory/test/fixture.h"

static struct redis_server redis;

static struct seller *open_seller(void) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = seller_open_with(shop_open(), &(struct seller_options){.port = redis.port});
    seller_hurry_up(seller); /* another test may have promoted the server */
    seller->locked = true;
    return seller;
}

static void set(const struct redis_server *store, const char *name, const char *value) {
    CHECK_STR(redis_command(store, "CONFIG", "SET", name, value, NULL), "OK");
}

/* ---- scripts ---- */

/* The scripts vanish while calls are in flight, again and again: nobody hears of it. */
static void test_scripts_flushed(void) {
    enum { ROUNDS = 20, EACH = 600 };
    struct seller *seller = open_seller();
    struct shop *shop = seller->shop;
    item_put_as(seller, "phone", strategy, (int64_t)ROUNDS * EACH + 1, 0, 60000);
    struct inventory_order held = buy(seller, "phone", "ann", "first", 1)->order;
    for (int round = 0; round < ROUNDS; round++) {
        CHECK_STR(redis_command(&redis, "SCRIPT", "FLUSH", NULL), "OK");
        for (int i = 0; i < EACH; i++)
            buy_begin(seller, "phone", "ann", harness_format("k%d-%d", round, i), 1);
        struct answer *step =
            order_step_begin(seller, held.id, round == 10 ? INVENTORY_CONFIRM : INVENTORY_READ);
        struct answer *restock = item_restock_begin(seller, "phone", harness_format("r%d", round), 1);
        shop_turn(shop); /* now they are on their way */
        CHECK_STR(redis_command(&redis, "SCRIPT", "FLUSH", NULL), "OK");
        shop_settle(shop);
        CHECK_STATUS(step->status, INVENTORY_OK);
        CHECK_STATUS(restock->status, INVENTORY_OK);
    }
    CHECK_INT(buys_with(shop, INVENTORY_OK), ROUNDS * EACH + 1);
    CHECK(seller->inventory->shared.metrics->scripts_loaded >= ROUNDS);
    CHECK_INT(seller->inventory->shared.metrics->store_errors, 0);
    CHECK_INT(seller->inventory->shared.metrics->reconnects, 1);
    check_books(seller, &redis, "phone", ROUNDS, (int64_t)ROUNDS * EACH, 1);
}

/* ---- memory ---- */

static const char *everything(void) {
    return harness_format(
        "%s %s %s %s %s %s", redis_command(&redis, "DBSIZE", NULL),
        redis_command(&redis, "HGETALL", stock_key("phone"), NULL),
        redis_command(&redis, "HGETALL", stock_key("phone"), NULL),
        redis_command(&redis, "HGETALL", stock_key("phone"), NULL),
        redis_command(&redis, "ZRANGE", stock_key("phone:holds"), "0", "-1", "WITHSCORES", NULL),
        redis_command(&redis, "XRANGE", stock_key("phone:events"), "-", "+", NULL));
}

/* A read-only store is left at its first refusal: the calls behind that one are not answered any more. */
static void check_not_sold(const struct buy *refused) {
    CHECK(refused->status == INVENTORY_UNAVAILABLE || refused->status == INVENTORY_UNKNOWN);
}

/* A store that refuses to write: each call that would is UNAVAILABLE and leaves nothing, each that would not
 * is answered as ever. */
static void check_refuses_writes(struct seller *seller, const struct inventory_order *first) {
    struct inventory_item item;
    struct inventory_item put = terms("new", strategy, 1);
    struct inventory_order order;
    const char *before = everything();
    for (int i = 0; i < 3; i++) {
        check_not_sold(buy(seller, "phone", "bob", "refused", 2));
        seller_wait_up(seller); /* a read-only store is left for a moment */
    }
    buy_begin(seller, "phone", "bob", "refused", 2);
    for (int i = 0; i < 5; i++)
        buy_begin(seller, "phone", "bob", harness_format("refused%d", i), 1);
    shop_settle(seller->shop);
    CHECK_INT(buys_with(seller->shop, INVENTORY_UNAVAILABLE) + buys_with(seller->shop, INVENTORY_UNKNOWN), 9);
    seller_wait_up(seller);
    CHECK_STATUS(item_put(seller, &put), INVENTORY_UNAVAILABLE);
    seller_wait_up(seller);
    CHECK_STATUS(item_restock(seller, "phone", "refused", 1, NULL), INVENTORY_UNAVAILABLE);
    seller_wait_up(seller);
    CHECK_STATUS(order_step(seller, first->id, INVENTORY_CONFIRM, NULL), INVENTORY_UNAVAILABLE);
    seller_wait_up(seller);
    CHECK_STATUS(order_step(seller, first->id, INVENTORY_CANCEL, NULL), INVENTORY_UNAVAILABLE);
    seller_wait_up(seller);
    CHECK_STATUS(item_reader(seller, "phone", &item), INVENTORY_OK);
    CHECK_STATUS(order_step(seller, first->id, INVENTORY_READ, &order), INVENTORY_OK);
    CHECK_STATUS(buy(seller, "phone", "ann", "first", 1)->status, INVENTORY_REPLAYED);
    CHECK_STATUS(buy(seller, "gone", "ann", "k", 1)->status, INVENTORY_REPLAYED);
    if (strategy != INVENTORY_DECR) /* which finds out by writing */
        CHECK_STATUS(buy(seller, "gone", "bob", "l", 1)->status, INVENTORY_SOLD_OUT);
    CHECK_STR(everything(), before);
    CHECK(inventory_last_error(seller->inventory)[0]);
}

static struct seller *open_for_refusal(struct inventory_order *first) {
    struct seller *seller = open_seller();
    item_put_as(seller, "phone", strategy, 10, 20, 600000);
    *first = buy(seller, "phone", "ann", "first", 1)->order;
    item_sell(seller, "plain", strategy, 1);
    item_sell(seller, "gone", strategy, 1);
    CHECK_STATUS(buy(seller, "gone", "ann", "k", 1)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "gone", "bob", "l", 1)->status, INVENTORY_SOLD_OUT);
    return seller;
}

static void check_sells_again(struct seller *seller, const struct inventory_order *first) {
    seller_wait_up(seller);
    CHECK_STATUS(buy(seller, "phone", "bob", "refused", 2)->status, INVENTORY_OK);
    CHECK_STATUS(item_restock(seller, "phone", "refused", 1, NULL), INVENTORY_OK);
    CHECK_STATUS(order_step(seller, first->id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    check_books(seller, &redis, "phone", 8, 2, 1);
}

static void memory_again(void *arg) {
    (void)arg;
    set(&redis, "maxmemory", "0");
}

static void test_out_of_memory(void) {
    struct inventory_order first;
    struct seller *seller = open_for_refusal(&first);
    harness_defer(memory_again, NULL);
    set(&redis, "maxmemory", "1");
    check_refuses_writes(seller, &first);
    CHECK_HAS(inventory_last_error(seller->inventory), "OOM");
    CHECK_INT(seller->inventory->shared.metrics->reconnects, 1);
    memory_again(NULL);
    check_sells_again(seller, &first);
}

/* ---- read-only ---- */

static void master_again(void *arg) {
    (void)arg;
    redis_command(&redis, "REPLICAOF", "NO", "ONE", NULL);
}

/* The id of a connection that last called EXEC; 0: there is none. */
static long long executing_client(void) {
    char *list = harness_format("%s", redis_command(&redis, "CLIENT", "LIST", NULL)), *rest = list;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strstr(line, "cmd=exec"))
            return strtoll(strstr(line, "id=") + 3, NULL, 10);
    }
    return 0;
}

static void test_read_only(void) {
    struct inventory_order first;
    struct seller *seller = open_for_refusal(&first);
    harness_defer(master_again, NULL);
    CHECK_STR(redis_command(&redis, "REPLICAOF", "127.0.0.1", "1", NULL), "OK");
    uint64_t before = seller->inventory->shared.metrics->reconnects;
    check_not_sold(buy(seller, "phone", "bob", "refused", 2));
    /* The store is left for this one refusal; `optimistic` leaves only the connection of the transaction. */
    CHECK(strategy == INVENTORY_OPTIMISTIC || !inventory_is_up(seller->inventory) ||
          seller->inventory->shared.metrics->reconnects > before);
    seller_wait_up(seller);
    buys_forget(seller->shop);
    check_refuses_writes(seller, &first);
    CHECK(seller->inventory->shared.metrics->reconnects >= 4); /* it was left, for its name may have moved */
    if (strategy == INVENTORY_OPTIMISTIC) {
        check_not_sold(
            buy(seller, "plain", "bob", "refused", 1)); /* within MULTI: it has no holds to be indexed */
        long long client = executing_client();
        for (int i = 0; i < 200 && client; i++) {
            shop_idle(seller->shop, 10);
            client = executing_client();
        }
        CHECK_INT(client, 0);
    }
    struct inventory_health health;
    seller_wait_up(seller);
    store_health(seller, &health);
    CHECK(!health.ready);
    CHECK_STR(health.role, "slave");
    CHECK_HAS(health.reason, "replica");
    master_again(NULL);
    seller_wait_down(seller); /* its history is a new one */
    seller_hurry_up(seller);
    check_sells_again(seller, &first);
}

/* ---- passwords ---- */

static struct seller *open_url(struct shop *shop, const char *url) {
    return seller_open_with(shop, &(struct seller_options){.url = url});
}

static void check_not_let_in(struct shop *shop, const char *url, const char *error) {
    struct seller *seller = open_url(shop, url);
    SHOP_UNTIL(shop, inventory_last_error(seller->inventory)[0] != '\0', "the store's refusal");
    shop_idle(shop, 150);
    CHECK(!inventory_is_up(seller->inventory));
    CHECK_HAS(inventory_last_error(seller->inventory), error);
    CHECK(!strstr(inventory_last_error(seller->inventory), "hunter2"));
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_UNAVAILABLE);
    struct inventory_health health;
    store_health(seller, &health);
    CHECK(!health.ready);
    CHECK_HAS(health.reason, error);
    seller_close(seller);
}

static void test_passwords(void) {
    struct redis_server store;
    redis_start(&store, "--requirepass", "hunter2@/:%", NULL);
    struct shop *shop = shop_open();
    int port = store.port;
    check_not_let_in(shop, harness_format("redis://127.0.0.1:%d", port), "NOAUTH");
    check_not_let_in(shop, harness_format("redis://:hunter2@127.0.0.1:%d", port), "WRONGPASS");
    check_not_let_in(shop, harness_format("redis://no:hunter2%%40%%2f:%%25@127.0.0.1:%d", port), "WRONGPASS");
    check_not_let_in(shop, harness_format("redis://:hunter2%%40%%2f:%%25@127.0.0.1:%d/99", port),
                     "out of range");
    for (int i = 0; i < 2; i++) {
        const char *url = i ? harness_format("redis://default:hunter2%%40%%2f%%3a%%25@127.0.0.1:%d/5", port)
                            : harness_format("redis://:hunter2@%%2f:%%25@127.0.0.1:%d", port);
        struct seller *seller = open_url(shop, url);
        seller_wait_up(seller);
        item_sell(seller, "phone", INVENTORY_OPTIMISTIC, 5); /* two databases, so twice */
        CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    }
}

static void test_addresses(void) {
    struct redis_server store;
    const char *path = harness_format("%s/a socket.sock", harness_dir());
    redis_start(&store, "--unixsocket", path, "--requirepass", "hunter2", NULL);
    struct shop *shop = shop_open();
    const char *const urls[] = {harness_format("redis://:hunter2@localhost:%d/3", store.port),
                                harness_format("unix://:hunter2@%s/a%%20socket.sock?db=4", harness_dir())};
    for (int i = 0; i < 2; i++) {
        struct seller *seller = open_url(shop, urls[i]);
        seller_wait_up(seller);
        item_sell(seller, "phone", INVENTORY_OPTIMISTIC, 1); /* each in a database of its own */
        CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    }
    check_not_let_in(shop, harness_format("unix://%s/none.sock", harness_dir()), "No such file");
    check_not_let_in(shop, harness_format("unix://%s/a%%20socket.sock", harness_dir()), "NOAUTH");
}

static void test_acl_user(void) {
    struct redis_server store;
    redis_start(&store, NULL);
    CHECK_STR(redis_command(&store, "ACL", "SETUSER", "shop", "on", ">s3cret", "~seckill:*", "+@all",
                            "-config", NULL),
              "OK");
    struct shop *shop = shop_open();
    check_not_let_in(shop, harness_format("redis://shop:wrong@127.0.0.1:%d", store.port), "WRONGPASS");
    struct seller *seller = open_url(shop, harness_format("redis://shop:s3cret@127.0.0.1:%d", store.port));
    seller_wait_up(seller);
    item_sell(seller, "phone", INVENTORY_BATCH, 5);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    struct inventory_health health;
    store_health(seller, &health);
    CHECK(health.ready);
    CHECK_STR(health.appendonly, "yes");
    CHECK_STR(health.appendfsync, "unknown");
    CHECK_STR(health.eviction, "noeviction");
    CHECK_STR(health.role, "master");
    /* thrown out, and let in again */
    CHECK_STR(redis_command(&store, "ACL", "DELUSER", "shop", NULL), "1");
    seller_wait_down(seller);
    SHOP_UNTIL(shop, strstr(inventory_last_error(seller->inventory), "WRONGPASS") != NULL,
               "the user is refused");
    CHECK_STR(redis_command(&store, "ACL", "SETUSER", "shop", "on", ">s3cret", "~seckill:*", "+@all",
                            "-evalsha", NULL),
              "OK");
    seller_wait_up(seller);
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 1)->status, INVENTORY_UNAVAILABLE);
    CHECK_HAS(inventory_last_error(seller->inventory), "NOPERM");
    /* A script that the store has forgotten comes with its call: nobody can flush it in between. */
    CHECK_STR(redis_command(&store, "ACL", "SETUSER", "shop", "+evalsha", "-script", "-info", NULL), "OK");
    CHECK_STR(redis_command(&store, "SCRIPT", "FLUSH", NULL), "OK");
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 1)->status, INVENTORY_OK);
    store_health(seller, &health);
    CHECK(!health.ready);
    CHECK_HAS(health.reason, "NOPERM");
}

static void test_loading(void) {
    struct redis_server store;
    redis_start(&store, "--key-load-delay", "300", NULL); /* microseconds a command */
    struct shop *shop = shop_open();
    struct seller *seller = seller_open(shop, &store);
    item_sell(seller, "phone", INVENTORY_BATCH, 5000);
    for (int i = 0; i < 8; i++) {
        for (int j = 0; j < 100; j++)
            item_restock_begin(seller, "phone", harness_format("r%d-%d", i, j), 1);
        shop_settle(shop);
    }
    for (int i = 0; i < 100; i++)
        buy_begin(seller, "phone", "ann", harness_format("k%d", i), 1);
    inventory_flush(seller->inventory);
    redis_kill(&store);
    proc_respawn(&store.proc);
    SHOP_UNTIL(shop, strstr(inventory_last_error(seller->inventory), "LOADING") != NULL,
               "the store loads its data");
    struct inventory_health health;
    store_health(seller, &health);
    CHECK(!health.ready);
    CHECK_HAS(health.reason, "LOADING");
    int open = shop->open;
    struct buy *early = buy(seller, "phone", "bob", "early", 1);
    CHECK_STATUS(early->status, INVENTORY_UNAVAILABLE);
    CHECK_HAS(inventory_last_error(seller->inventory), "LOADING");
    CHECK_INT(shop->open, open); /* whose reply was lost waits on */
    shop_settle(shop);
    store_health(seller, &health);
    CHECK(health.ready);
    int sold = buys_with(shop, INVENTORY_OK);
    CHECK_INT(sold + buys_with(shop, INVENTORY_UNKNOWN) + buys_with(shop, INVENTORY_UNAVAILABLE), 101);
    check_books(seller, &store, "phone", 5800 - sold, 0, sold);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    run_each_and_fenced("scripts flushed with calls in flight", test_scripts_flushed, INVENTORY_LUA);
    run_each("out of memory", test_out_of_memory, INVENTORY_LOCKED);
    run_each("read-only", test_read_only, INVENTORY_LOCKED);
    harness_run("passwords, and none in the errors", test_passwords);
    harness_run("a host's name and a socket's path", test_addresses);
    harness_run("a user of the access list", test_acl_user);
    harness_run("loading", test_loading);
    return harness_finish();
}
