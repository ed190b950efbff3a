/* After a failover nobody sells before all who lived have shown what they acknowledged, or had the time to;
 * and whoever lost something without a trace is told of. */
#include <string.h>

#include "inventory/purchases/putback.h"
#include "inventory/test/told.h"
#include "inventory/transactions/transactions_internal.h"

enum { NEVER_MS = 600000, SOON_MS = 500 };

static struct pair pair;
static struct told told, others;
static struct proxy *way; /* of the other seller */

static const char *through(const struct proxy *proxy) {
    return harness_format("redis://127.0.0.1:%d", proxy_port(proxy));
}

/* ---- who is waited for ---- */

/* Of instances that were silent for longer than one is waited for, and for longer than any is known. */
static void leave_heartbeats(struct shop *shop) {
    long long now_ms = clock_wall_ms(&shop->clock);
    CHECK_INT(redis_integer(&pair.master, "ZADD", TOLD_ALIVE, harness_format("%lld", now_ms - 7000), "silent",
                            harness_format("%lld", now_ms - 601000), "ancient", NULL),
              2);
    shop->hurried_ms += 2000; /* a heartbeat is due */
    SHOP_UNTIL(shop, strcmp(redis_command(&pair.master, "ZSCORE", TOLD_ALIVE, "ancient", NULL), "(nil)") == 0,
               "a heartbeat that is old is forgotten");
}

static void set_late(const struct redis_server *redis, const char *rule) {
    CHECK_STR(redis_command(redis, "ACL", "SETUSER", "late", "on", ">pw", "~*", "&*", rule, NULL), "OK");
}

/* Two sellers at a pair, the second as this user ("": none) by a way of its own. */
static struct seller *open_late(const char *user, int call_timeout_ms, struct seller **seller) {
    pair_start(&pair);
    set_late(&pair.master, "+@all");
    set_late(&pair.replica, "+@all");
    way = proxy_start(pair.master.port);
    *seller = told_seller_within(shop_open(), pair_url(&pair), call_timeout_ms, &told);
    return told_seller_within((*seller)->shop,
                              harness_format("redis://%s127.0.0.1:%d", user, proxy_port(way)),
                              call_timeout_ms, &others);
}

/* One seller finds the promoted server, which first refuses to be shown anything by it, later than the other.
 * Who has shown what he has waits for it, for as long as a call may take, and longer; but not for who had not
 * lived for long. */
static void test_one_comes_late(void) {
    struct seller *seller, *late = open_late("late:pw@", NEVER_MS, &seller);
    struct shop *shop = seller->shop;
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    leave_heartbeats(shop);
    pair_cut(&pair);
    CHECK_STATUS(buy(late, "phone", "eve", "k", 7)->status, INVENTORY_OK);
    proxy_set(way, PROXY_REFUSE, 0, NULL);
    set_late(&pair.replica, "-evalsha");
    pair_fail_over(&pair);
    seller_wait_down(seller);
    told_check_quarantine(seller);
    proxy_point(way, pair.replica.port);
    proxy_set(way, PROXY_PASS, 0, NULL);
    SHOP_UNTIL(shop, strstr(inventory_last_error(late->inventory), "NOPERM"), "it is refused");
    told_check_quarantine(seller);
    set_late(&pair.replica, "+evalsha");
    seller_wait_up(seller);
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 4)->status, INVENTORY_SOLD_OUT);
    CHECK_STATUS(buy(seller, "phone", "ann", "k3", 3)->status, INVENTORY_OK);
    seller_wait_up(late);
    told_check(&others, 1, 0);
    check_books(seller, &pair.replica, "phone", 0, 0, 10);
}

static bool in_quarantine(void *arg) {
    return strstr(inventory_last_error(((struct seller *)arg)->inventory), "is put back before it sells");
}

/* The store comes back empty: it does not tell any more who lived, so nobody is taken for all there are. */
static void test_comes_back_empty(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    struct shop *shop = shop_open();
    struct seller *seller = told_seller_on(shop, &redis, &told);
    way = proxy_start(redis.port);
    struct seller *late = told_seller_open(shop, through(way), &others);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    CHECK_STATUS(buy(late, "phone", "eve", "k", 7)->status, INVENTORY_OK);
    proxy_set(way, PROXY_REFUSE, 0, NULL);
    redis_stop(&redis);
    redis_wipe(&redis);
    redis_restart(&redis);
    shop_wait(shop, in_quarantine, seller, "it has shown what it has");
    told_check_quarantine(seller);
    proxy_set(way, PROXY_PASS, 0, NULL);
    seller_wait_up(seller);
    seller_wait_up(late);
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 4)->status, INVENTORY_SOLD_OUT);
    CHECK_STATUS(buy(seller, "phone", "eve", "k", 7)->status, INVENTORY_REPLAYED);
    check_books(seller, &redis, "phone", 3, 0, 7);
}

/* An order fits only once the other seller has put back a cancel. He does not sell before that has been tried
 * again: the unit would be gone, and until then nobody knows the order. */
static void test_fits_later(void) {
    struct seller *seller, *late = open_late("", NEVER_MS, &seller);
    item_put_with(seller, "seat", 1, 0, 600000);
    struct buy *first = buy(late, "seat", "ann", "first", 1);
    CHECK_STATUS(first->status, INVENTORY_OK);
    leave_heartbeats(seller->shop);
    pair_cut(&pair);
    CHECK_STATUS(order_step(late, first->id, INVENTORY_CANCEL, NULL), INVENTORY_OK);
    struct buy *second = buy(seller, "seat", "bob", "second", 1);
    CHECK_STATUS(second->status, INVENTORY_OK);
    proxy_set(way, PROXY_REFUSE, 0, NULL);
    pair_fail_over(&pair);
    seller_wait_down(seller);
    told_check_quarantine(seller);
    proxy_set(pair.front, PROXY_DELAY, 150, NULL); /* longer than it takes until the others are asked again */
    proxy_point(way, pair.replica.port);
    proxy_set(way, PROXY_PASS, 0, NULL);
    seller_wait_up(late);
    CHECK_STATUS(buy(late, "seat", "eve", "third", 1)->status, INVENTORY_SOLD_OUT);
    CHECK_STATUS(order_step(late, second->id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    seller_wait_up(seller);
    proxy_set(pair.front, PROXY_PASS, 0, NULL);
    told_check(&told, 1, 0);
    told_check(&others, 1, 0);
    CHECK_STATUS(order_step(seller, first->id, INVENTORY_CONFIRM, NULL), INVENTORY_CANCELLED);
    check_books(seller, &pair.replica, "seat", 0, 0, 1);
}

/* One lives that is to show something again: it is waited for, until it has; or if it died meanwhile, for as
 * long as it can take, and that is counted. */
static void test_another_shows(int dies) {
    pair_start(&pair);
    struct shop *shop = shop_open();
    struct seller *seller = told_seller_within(shop, pair_url(&pair), dies ? 500 : NEVER_MS, &told);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    leave_heartbeats(shop);
    proxy_set(pair.front, PROXY_REFUSE, 0, NULL);
    pair_cut(&pair);
    pair_fail_over(&pair);
    CHECK_INT(redis_integer(&pair.replica, "SADD", told_key_of(&pair.replica, "again"), "another", NULL), 1);
    proxy_set(pair.front, PROXY_PASS, 0, NULL);
    shop_wait(shop, in_quarantine, seller, "it has shown what it has");
    told_check_quarantine(seller);
    if (!dies)
        CHECK_INT(redis_integer(&pair.replica, "SREM", told_key_of(&pair.replica, "again"), "another", NULL),
                  1);
    if (dies)
        seller_hurry_up(seller);
    else
        seller_wait_up(seller);
    CHECK_INT((int)told.metrics.unkept, dies);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
}

/* ---- who has much to show ---- */

/* It takes a seller longer than the others rest until he has shown all that he sold: they wait for it. */
static void test_long_list(void) {
    enum { ORDERS = 4000, SLOW_MS = 300 };
    struct seller *seller, *late = open_late("", 4 * SLOW_MS, &seller);
    item_sell(seller, "phone", INVENTORY_BATCH, ORDERS + 1);
    leave_heartbeats(seller->shop);
    pair_cut(&pair);
    for (int i = 0; i < ORDERS; i++)
        buy_begin(late, "phone", "ann", harness_format("%d", i), 1);
    shop_settle(seller->shop);
    CHECK_INT(buys_with(seller->shop, INVENTORY_OK), ORDERS);
    proxy_point(way, pair.replica.port);
    proxy_set(way, PROXY_DELAY, SLOW_MS, NULL);
    pair_fail_over(&pair);
    seller_wait_again(seller);
    CHECK_STATUS(buy(seller, "phone", "eve", "k", 2)->status, INVENTORY_SOLD_OUT);
    proxy_set(way, PROXY_PASS, 0, NULL);
    seller_wait_up(late);
    told_check(&others, ORDERS, 0);
    CHECK_INT((int)told.metrics.unkept, 0);
    check_books(seller, &pair.replica, "phone", 1, 0, ORDERS);
}

/* Another one says for ever that it shows what it has: it is waited for a minute longer, and no more. */
static void test_endless_list(void) {
    enum { MOST_MS = 60000, CALL_MS = 4000, REST_MS = CALL_MS + 2000, LATE_MS = 4000 };
    pair_start(&pair);
    struct shop *shop = shop_open();
    struct seller *seller = told_seller_within(shop, pair_url(&pair), CALL_MS, &told);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    leave_heartbeats(shop);
    proxy_set(pair.front, PROXY_REFUSE, 0, NULL);
    pair_cut(&pair);
    pair_fail_over(&pair);
    CHECK_INT(redis_integer(&pair.replica, "ZADD", TOLD_ALIVE,
                            harness_format("%lld", (long long)clock_wall_ms(&shop->clock)), "another", NULL),
              1);
    CHECK_INT(
        redis_integer(&pair.replica, "ZADD", told_key_of(&pair.replica, "showing"), "+inf", "another", NULL),
        1);
    proxy_set(pair.front, PROXY_PASS, 0, NULL);
    shop_wait(shop, in_quarantine, seller, "it has shown what it has");
    seller_hurry_up(seller);
    const struct putback *putback = seller->inventory->purchases->putback;
    int64_t rested_ms =
        clock_mono_ms(&shop->clock) - putback->histories[putback->history_count - 1]->reached_ms;
    CHECK(rested_ms >= MOST_MS);
    CHECK(rested_ms < MOST_MS + REST_MS + LATE_MS);
    CHECK_INT((int)told.metrics.unkept, 1);
}

/* An order fits only once another seller has put its item back, in a store that came back empty. A third one
 * does not sell its unit meanwhile. */
static void test_fits_later_in_an_empty_store(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    struct proxy *road = proxy_start(redis.port);
    way = proxy_start(redis.port);
    struct told maker;
    struct seller *seller = told_seller_on(shop_open(), &redis, &told),
                  *second = told_seller_open(seller->shop, through(way), &others),
                  *late = told_seller_open(seller->shop, through(road), &maker);
    item_put_with(late, "seat", 1, 0, 0);
    CHECK_STATUS(buy(second, "seat", "ann", "k", 1)->status, INVENTORY_OK);
    proxy_set(way, PROXY_REFUSE, 0, NULL);
    proxy_set(road, PROXY_REFUSE, 0, NULL);
    redis_stop(&redis);
    redis_wipe(&redis);
    redis_restart(&redis);
    shop_wait(seller->shop, in_quarantine, seller, "it has shown what it has");
    shop_idle(seller->shop, 300);
    proxy_set(way, PROXY_PASS, 0, NULL);
    shop_wait(seller->shop, in_quarantine, second, "the second one has");
    proxy_set(road, PROXY_PASS, 0, NULL);
    seller_wait_up(seller);
    CHECK_STATUS(buy(seller, "seat", "eve", "n", 1)->status, INVENTORY_SOLD_OUT);
    seller_wait_up(second);
    seller_wait_up(late);
    told_check(&others, 1, 0);
    check_books(seller, &redis, "seat", 0, 0, 1);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("one comes late", test_one_comes_late);
    harness_run("the store comes back empty", test_comes_back_empty);
    harness_run("what fits later", test_fits_later);
    run_case("another one shows something again", test_another_shows, false);
    run_case("another one dies before it does", test_another_shows, true);
    harness_run("a long list", test_long_list);
    harness_run("a list without end", test_endless_list);
    harness_run("what fits later in an empty store", test_fits_later_in_an_empty_store);
    return harness_finish();
}
