/* What goes wrong between the seller and a store that is well: replies cut off, lost or late, requests lost.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inventory/test/fixture.h"
#include "inventory/transactions/transactions_internal.h"

static struct redis_server redis;
static struct proxy *proxy;

/* A seller that reaches the store through the proxy, and one that reaches it directly. */
static struct seller *direct;

static struct seller *open_seller(int call_timeout_ms, int resolve_ms) {
    redis_command(&redis, "FLUSHALL", NULL);
    redis_command(&redis, "SCRIPT", "FLUSH", NULL);
    proxy = proxy_start(redis.port);
    struct shop *shop = shop_open();
    direct = seller_open(shop, &redis);
    struct seller *seller = seller_open_up(shop, &(struct seller_options){.port = proxy_port(proxy),
                                                                          .call_timeout_ms = call_timeout_ms,
                                                                          .resolve_ms = resolve_ms});
    return seller;
}

/* The request that sells, by a text that is in no other. */
static const char *selling(void) {
    return strategy == INVENTORY_OPTIMISTIC ? "EXEC" : strategy == INVENTORY_DECR ? "HSETNX" : "EVALSHA";
}

/* The reply to a sale is cut after so many bytes: the buyer has bought, and hears that, and not that it was a
 * replay. */
static void test_reply_cut(void) {
    struct seller *seller = open_seller(0, 0);
    const struct inventory_metrics *metrics = seller->inventory->shared.metrics;
    static const int bytes[] = {0, 1, 3, 10};
    enum { ROUNDS = sizeof bytes / sizeof *bytes };
    item_sell(seller, "phone", strategy, 100);
    /* So that all connections are there, and the scripts loaded. */
    CHECK_STATUS(buy(seller, "phone", "first", "first", 1)->status, INVENTORY_OK);
    if (strategy == INVENTORY_OPTIMISTIC)
        shop_idle(seller->shop, 100);
    for (int i = 0; i < ROUNDS; i++) {
        proxy_set(proxy, PROXY_CUT, bytes[i], selling());
        struct buy *bought = buy(seller, "phone", "ann", harness_format("k%d", i), 2);
        CHECK_INT(proxy_faults(proxy), i + 1);
        CHECK_STATUS(bought->status, INVENTORY_OK);
        CHECK_STR(bought->order.id, bought->id);
        CHECK_STR(bought->order.item, "phone");
        CHECK_STR(bought->order.user, "ann");
        CHECK_INT(bought->order.quantity, 2);
        CHECK_INT(bought->order.state, INVENTORY_STATE_CONFIRMED);
        CHECK(bought->order.created_ms > 0);
        if (strategy != INVENTORY_DECR) { /* which asks anyway */
            CHECK_INT(metrics->unknown, i + 1);
            CHECK_INT(metrics->unknown_resolved, i + 1);
        }
        seller_wait_up(seller);
        if (strategy == INVENTORY_OPTIMISTIC)
            shop_idle(seller->shop, 100);
    }
    if (strategy == INVENTORY_DECR) /* the order stands, its entries were never written */
        CHECK_INT(redis_integer(&redis, "HGET", stock_key("phone"), "available", NULL), 99 - 2 * ROUNDS);
    else
        check_books(seller, &redis, "phone", 99 - 2 * ROUNDS, 0, 1 + 2 * ROUNDS);
}

/* One of the connections of `optimistic` breaks: those who wait for one are served by the others. */
static void test_one_connection_cut(void) {
    struct seller *seller = open_seller(0, 0);
    item_sell(seller, "phone", INVENTORY_OPTIMISTIC, 100);
    CHECK_STATUS(buy(seller, "phone", "first", "first", 1)->status, INVENTORY_OK);
    shop_idle(seller->shop, 100);
    for (int round = 0; round < 3; round++) {
        proxy_set(proxy, PROXY_CUT, round, "EXEC");
        for (int i = 0; i < 30; i++)
            buy_begin(seller, "phone", "ann", harness_format("k%d-%d", round, i), 1);
        shop_settle(seller->shop);
        CHECK_INT(proxy_faults(proxy), round + 1);
        /* Cut in a conflict, its purchase was not sold; cut in a sale, it was. */
        int unsold =
            buys_with(seller->shop, INVENTORY_UNAVAILABLE) + buys_with(seller->shop, INVENTORY_UNKNOWN);
        CHECK(unsold <= round + 1);
        check_books(direct, &redis, "phone", 100 - 31 - 30 * round + unsold, 0, 31 + 30 * round - unsold);
    }
}

/* All in one call, and its reply cut somewhere in the middle: the answers that came and those that did not.
 */
static void test_reply_of_many_cut(void) {
    struct seller *seller = open_seller(0, 0);
    item_put_as(seller, "phone", strategy, 50, 1, 60000);
    struct inventory_order early = buy(seller, "phone", "early", "early", 1)->order;
    redis_clock()->ahead_ms = 5000; /* so that it is told apart from what is sold now */
    struct buy *bought[61];
    proxy_set(proxy, PROXY_CUT, 60, "EVALSHA");
    for (int i = 0; i < 60; i++)
        bought[i] = buy_begin(seller, "phone", harness_format("user%d", i), harness_format("k%d", i), 1);
    bought[60] = buy_begin(seller, "phone", "early", "early", 1);
    shop_settle(seller->shop);
    CHECK_INT(proxy_faults(proxy), 1);
    for (int i = 0; i < 60; i++) {
        struct inventory_order order;
        if (bought[i]->status == INVENTORY_OK) {
            CHECK_INT(bought[i]->order.state, INVENTORY_STATE_HELD);
            CHECK_INT(bought[i]->order.expires_ms, bought[i]->order.created_ms + 60000);
            CHECK_STATUS(order_step(seller, bought[i]->id, INVENTORY_READ, &order), INVENTORY_OK);
            CHECK_INT(order.expires_ms, bought[i]->order.expires_ms);
        } else {
            CHECK(bought[i]->status == INVENTORY_UNKNOWN || bought[i]->status == INVENTORY_SOLD_OUT);
            CHECK_STATUS(order_step(seller, bought[i]->id, INVENTORY_READ, &order), INVENTORY_UNKNOWN_ORDER);
        }
    }
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), 50);
    CHECK_STATUS(bought[60]->status, INVENTORY_REPLAYED); /* it was bought before, and not by this call */
    CHECK_INT(bought[60]->order.created_ms, early.created_ms);
    check_books(seller, &redis, "phone", 0, 50, 0);
}

/* The check of a sold-out item is only a read. */
static void test_question_cut(void) {
    struct seller *seller = open_seller(0, 0);
    item_sell(seller, "phone", strategy, 1);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "phone", "bob", "l", 1)->status, INVENTORY_SOLD_OUT);
    for (int bytes = 0; bytes < 12; bytes += 4) { /* the first reply is 4 bytes */
        proxy_set(proxy, PROXY_CUT, bytes, "HMGET");
        struct buy *first = buy_begin(seller, "phone", "ann", "k", 1),
                   *second = buy_begin(seller, "phone", "bob", "l", 1);
        shop_settle(seller->shop);
        CHECK_STATUS(first->status, INVENTORY_UNAVAILABLE);
        CHECK_STATUS(second->status, INVENTORY_UNAVAILABLE);
        CHECK_INT(proxy_faults(proxy), bytes / 4 + 1);
        seller_wait_up(seller);
        CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_REPLAYED);
        CHECK_STATUS(buy(seller, "phone", "bob", "l", 1)->status, INVENTORY_SOLD_OUT);
    }
}

/* The other calls say UNKNOWN, and repeated tell what was done. */
static void test_other_replies_cut(void) {
    struct seller *seller = open_seller(0, 0);
    struct inventory_item item = terms("phone", INVENTORY_BATCH, 10), read;
    item.hold_ms = 60000;
    struct inventory_restock restock;
    struct inventory_audit audit;
    struct inventory_order order;
    struct inventory_health health;
    /* Once before, so that the scripts are loaded: the reply that is lost must be the one that follows work.
     */
    item_put_with(seller, "other", 10, 0, 0);
    CHECK_STATUS(item_restock(seller, "other", "r", 1, NULL), INVENTORY_OK);

    proxy_set(proxy, PROXY_CUT, 0, "EVALSHA");
    CHECK_STATUS(item_put(seller, &item), INVENTORY_UNKNOWN);
    seller_wait_up(seller);
    CHECK_STATUS(item_put(seller, &item), INVENTORY_REPLAYED);

    proxy_set(proxy, PROXY_CUT, 3, "EVALSHA");
    CHECK_STATUS(item_restock(seller, "phone", "r", 5, &restock), INVENTORY_UNKNOWN);
    seller_wait_up(seller);
    CHECK_STATUS(item_restock(seller, "phone", "r", 5, &restock), INVENTORY_REPLAYED);
    CHECK_INT(restock.available, 15);

    struct inventory_order held = buy(seller, "phone", "ann", "k", 1)->order;
    order_step(seller, held.id, INVENTORY_READ, NULL);
    proxy_set(proxy, PROXY_CUT, 3, "EVALSHA");
    CHECK_STATUS(order_step(seller, held.id, INVENTORY_CONFIRM, NULL), INVENTORY_UNKNOWN);
    seller_wait_up(seller);
    CHECK_STATUS(order_step(seller, held.id, INVENTORY_CANCEL, &order), INVENTORY_CONFIRMED);
    CHECK_STATUS(order_step(seller, held.id, INVENTORY_CONFIRM, &order), INVENTORY_OK);

    proxy_set(proxy, PROXY_CUT, 3, "HMGET");
    CHECK_STATUS(item_reader(seller, "phone", &read), INVENTORY_UNKNOWN);
    seller_wait_up(seller);
    /* It has a connection of its own, which alone is lost. */
    proxy_set(proxy, PROXY_CUT, 40, "EXEC");
    CHECK_STATUS(item_audit(seller, "phone", &audit), INVENTORY_UNAVAILABLE);
    CHECK(inventory_is_up(seller->inventory));
    audit = item_audited(seller, "phone");
    for (int bytes = 0; bytes < 1000; bytes += 499) {
        proxy_set(proxy, PROXY_CUT, bytes, "INFO");
        store_health(seller, &health);
        CHECK(!health.ready);
        CHECK_HAS(health.reason, "connection");
        seller_wait_up(seller);
    }
    store_health(seller, &health);
    CHECK(health.ready);
    proxy_set(proxy, PROXY_CUT, 2, "EVALSHA");
    inventory_sweep(seller->inventory);
    seller_wait_again(seller);
    redis_clock()->ahead_ms = 120000;
    struct inventory_order late = buy(seller, "phone", "bob", "late", 1)->order;
    redis_clock()->ahead_ms = 240000;
    holds_sweep(seller, &redis); /* it sweeps still */
    CHECK_INT(seller->inventory->shared.metrics->expired, 1);
    CHECK_STATUS(order_step(seller, late.id, INVENTORY_CANCEL, NULL), INVENTORY_EXPIRED);
    check_books(seller, &redis, "phone", 14, 0, 1);
}

/* The connection is gone, and nobody has noticed: what is written into it was never there. */
static void test_request_lost(void) {
    struct seller *seller = open_seller(500, 400);
    item_sell(seller, "phone", strategy, 10);
    CHECK_STATUS(buy(seller, "phone", "first", "first", 1)->status, INVENTORY_OK);
    proxy_set(proxy, PROXY_REFUSE, 0, NULL);
    struct buy *lost = buy_begin(seller, "phone", "ann", "k1", 1);
    inventory_flush(seller->inventory);
    seller_wait_down(seller);
    proxy_set(proxy, PROXY_PASS, 0, NULL);
    shop_settle(seller->shop);
    bool sells_at_once = strategy == INVENTORY_BATCH || strategy == INVENTORY_LUA;
    CHECK_STATUS(lost->status, sells_at_once ? INVENTORY_UNKNOWN : INVENTORY_UNAVAILABLE);
    seller_wait_up(seller);

    proxy_set(proxy, PROXY_REFUSE, 0, NULL);
    lost = buy_begin(seller, "phone", "ann", "k2", 1);
    inventory_flush(seller->inventory);
    shop_settle(seller->shop); /* nobody comes back before the deadline */
    if (sells_at_once)
        CHECK_STATUS(lost->status, INVENTORY_UNKNOWN);
    else
        CHECK(lost->status == INVENTORY_UNAVAILABLE || lost->status == INVENTORY_OVERLOADED);
    check_books(direct, &redis, "phone", 9, 0, 1);
    proxy_set(proxy, PROXY_PASS, 0, NULL);
    seller_wait_up(seller);
    for (int i = 0; i < 5; i++) { /* the connections that `optimistic` has besides may take a moment longer */
        lost = buy(seller, "phone", "ann", "k2", 1);
        if (lost->status != INVENTORY_OVERLOADED)
            break;
    }
    CHECK_STATUS(lost->status, INVENTORY_OK);
    check_books(seller, &redis, "phone", 8, 0, 2);
}

static bool has_orders(void *arg) {
    return stock_orders(&redis, "phone") == *(int *)arg;
}

/* The connection was given up, the store was asked for the order, which was not there; and then the sale
 * arrives after all. Its buyer was not told that nothing was done. */
static void test_delivered_late(void) {
    struct seller *seller = open_seller(600, 0);
    item_sell(seller, "phone", strategy, 10);
    for (int i = 0; i < 2; i++) /* together, so that it is known by now how the item is sold */
        buy_begin(seller, "phone", "first", harness_format("first%d", i), 1);
    shop_settle(seller->shop);
    if (strategy == INVENTORY_OPTIMISTIC)
        shop_idle(seller->shop, 100);
    proxy_set(proxy, PROXY_LATE, 0, selling());
    struct buy *late = buy(seller, "phone", "ann", "k", 1);
    int orders = 2;
    CHECK(has_orders(&orders));
    CHECK_STATUS(late->status, INVENTORY_UNKNOWN);
    proxy_set(proxy, PROXY_PASS, 0, NULL);
    orders = 3;
    CHECK(harness_wait(has_orders, &orders, 10000));
    seller_wait_up(seller);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_REPLAYED);
    if (strategy != INVENTORY_DECR)
        check_books(seller, &redis, "phone", 7, 0, 3);
}

/* ---- a store that takes calls and answers nothing ---- */

struct deaf {
    int listener, client;
    bool reset;
};

static void deaf_close(void *arg) {
    struct deaf *deaf = arg;
    close(deaf->listener);
    if (deaf->client >= 0)
        close(deaf->client);
}

static bool given_up(void *arg) {
    struct deaf *deaf = arg;
    char data[512];
    if (deaf->client < 0)
        deaf->client = accept4(deaf->listener, NULL, NULL, SOCK_NONBLOCK);
    if (deaf->client < 0)
        return false;
    ssize_t got = recv(deaf->client, data, sizeof data, 0);
    deaf->reset = got < 0 && errno == ECONNRESET;
    return got == 0 || deaf->reset;
}

/* It is reset, so that what has not arrived by then never does. */
static void test_given_up(void) {
    struct deaf *deaf = harness_alloc(sizeof *deaf);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)harness_free_port())};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    deaf->client = -1;
    deaf->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    harness_defer(deaf_close, deaf);
    setsockopt(deaf->listener, SOL_SOCKET, SO_REUSEADDR, &(int){1},
               sizeof(int)); /* others have used the port */
    CHECK(bind(deaf->listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(deaf->listener, 8) == 0);
    struct shop *shop = shop_open();
    seller_open_with(shop, &(struct seller_options){.port = ntohs(address.sin_port), .call_timeout_ms = 100});
    shop_wait(shop, given_up, deaf, "the connection is given up");
    CHECK(deaf->reset);
}

/* ---- reads of one item ---- */

static int times_read(void) {
    const char *name = "cmdstat_hmget:calls=";
    const char *at = strstr(redis_command(&redis, "INFO", "commandstats", NULL), name);
    return at ? (int)strtol(at + strlen(name), NULL, 10) : 0;
}

static bool has_read(void *arg) {
    return times_read() > *(int *)arg;
}

/* Those who come while the item is asked for share the next reply: the one that is in flight may be older
 * than their question. */
static void test_reads_are_shared(void) {
    enum { READS = 50 };
    struct seller *seller = open_seller(0, 0);
    struct answer *answers[READS];
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    int before = times_read() + 1;
    proxy_set(proxy, PROXY_DELAY, 200, "HMGET");
    struct answer *early = item_read_begin(seller, "phone");
    struct answer *other = item_read_begin(seller, "none");
    inventory_flush(seller->inventory);
    CHECK(harness_wait(has_read, &before, 10000));
    CHECK_STATUS(item_restock(direct, "phone", "r", 5, NULL), INVENTORY_OK);
    CHECK_INT(early->count, 0); /* its reply is on the way */
    for (int i = 0; i < READS; i++)
        answers[i] = item_read_begin(seller, "phone");
    before = times_read();
    shop_settle(seller->shop);
    CHECK_INT(times_read() - before, 1);
    CHECK_INT(early->item.available, 10);
    CHECK_STATUS(other->status, INVENTORY_UNKNOWN_ITEM);
    for (int i = 0; i < READS; i++) {
        CHECK_STATUS(answers[i]->status, INVENTORY_OK);
        CHECK_INT(answers[i]->item.available, 15);
        CHECK_STR(answers[i]->item.item, "phone");
    }
    CHECK_INT(seller->inventory->purchases->items.count, 1); /* a name that nobody sells is forgotten */
    proxy_set(proxy, PROXY_CUT, 3, "HMGET");
    for (int i = 0; i < READS; i++)
        answers[i] = item_read_begin(seller, "phone");
    shop_settle(seller->shop);
    CHECK_STATUS(answers[0]->status, INVENTORY_UNKNOWN);
    CHECK_STATUS(answers[READS - 1]->status, INVENTORY_UNAVAILABLE);
    seller_wait_up(seller);
    CHECK_STATUS(item_reader(seller, "phone", NULL), INVENTORY_OK);
}

struct asker {
    struct inventory *inventory;
    int left, answers;
};

static void ask_twice(void *ctx, enum inventory_status status, const struct inventory_item *item) {
    struct asker *asker = ctx;
    (void)item;
    asker->answers += status == INVENTORY_OK;
    for (int i = 0; i < 2 && asker->left > 0; i++) {
        asker->left--;
        inventory_item_get(asker->inventory, "phone", ask_twice, asker);
    }
}

/* A caller that asks again from within the callback is answered, too. */
static void test_reads_from_answers(void) {
    struct seller *seller = open_seller(0, 0);
    struct asker asker = {.inventory = seller->inventory, .left = 6};
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    inventory_item_get(seller->inventory, "phone", ask_twice, &asker);
    SHOP_UNTIL(seller->shop, asker.answers == 7, "seven answers");
}

static void test_slow(void) {
    struct seller *seller = open_seller(0, 0);
    item_sell(seller, "phone", strategy, 100);
    proxy_set(proxy, PROXY_DELAY, 15, NULL);
    for (int i = 0; i < 20; i++) {
        buy_begin(seller, "phone", "ann", harness_format("k%d", i), 1);
        inventory_flush(seller->inventory);
    }
    shop_settle(seller->shop);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), 20);
    CHECK_INT(seller->inventory->shared.metrics->reconnects, 1);
    check_books(seller, &redis, "phone", 80, 0, 20);
}

/* Cut off again and again under load, at random: everything is answered, and the books balance. */
static void test_cut_under_load(void) {
    struct seller *seller = open_seller(0, 0);
    struct shop *shop = seller->shop;
    uint64_t random = harness_seed();
    item_sell(seller, "phone", strategy, 1000000);
    int count = 0;
    while (proxy_faults(proxy) < 10) {
        seller_wait_up(seller);
        proxy_set(proxy, PROXY_CUT, (int)(harness_random(&random) % 300), NULL);
        for (int i = 0; i < 30; i++, count++)
            buy_begin(seller, "phone", harness_format("user%d", count), harness_format("k%d", count), 1);
        shop_turn(shop);
        for (int i = 0; i < 10 && shop->open; i++)
            shop_turn(shop);
    }
    shop_settle(shop);
    int sold = buys_with(shop, INVENTORY_OK);
    CHECK_INT(sold + buys_with(shop, INVENTORY_UNKNOWN) + buys_with(shop, INVENTORY_UNAVAILABLE), count);
    proxy_set(proxy, PROXY_PASS, 0, NULL);
    check_books(direct, &redis, "phone", 1000000 - sold, 0, sold);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    run_each("a reply cut off or lost", test_reply_cut, INVENTORY_OPTIMISTIC);
    harness_run("optimistic: one connection cut off", test_one_connection_cut);
    run_each("the reply to many cut off", test_reply_of_many_cut, INVENTORY_LUA);
    run_each("the check of a sold-out item cut off", test_question_cut, INVENTORY_LUA);
    harness_run("the replies to other calls cut off", test_other_replies_cut);
    run_each("a request lost", test_request_lost, INVENTORY_OPTIMISTIC);
    run_each("a sale that is delivered late", test_delivered_late, INVENTORY_OPTIMISTIC);
    harness_run("a connection that is given up is reset", test_given_up);
    harness_run("reads of one item share replies, none older than the call", test_reads_are_shared);
    harness_run("reads begun in the answers to reads", test_reads_from_answers);
    run_each("a slow store", test_slow, INVENTORY_OPTIMISTIC);
    run_each("cut off at random under load", test_cut_under_load, INVENTORY_LUA);
    return harness_finish();
}
