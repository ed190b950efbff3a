/* What each strategy promises a buyer, one purchase after the other. */
#include <stdio.h>
#include <string.h>

#include "inventory/test/fixture.h"

static struct redis_server redis;

/* A shop with one seller that holds the item's lock where one is needed. */
static struct seller *open_seller(void) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    struct seller *seller = seller_open(shop_open(), &redis);
    seller->locked = strategy == INVENTORY_LOCKED;
    return seller;
}

static const char *name_of(const char *what, int i) {
    return harness_format("%s-%d", what, i);
}

static void test_exactly_the_stock(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "phone", strategy, 20);
    for (int i = 0; i < 20; i++) {
        struct buy *sold = buy(seller, "phone", name_of("user", i), name_of("key", i), 1);
        CHECK_STATUS(sold->status, INVENTORY_OK);
        CHECK_STR(sold->order.item, "phone");
        CHECK_STR(sold->order.user, name_of("user", i));
        CHECK_INT(sold->order.quantity, 1);
        CHECK_INT(sold->order.state, INVENTORY_STATE_CONFIRMED);
        CHECK_INT(sold->order.expires_ms, 0);
        CHECK(sold->order.created_ms > clock_wall_ms(&clock_system) - 60000);
        char digest[INVENTORY_DIGEST_SIZE];
        inventory_key_digest(name_of("user", i), name_of("key", i), strlen(name_of("key", i)), digest);
        CHECK_STR(sold->order.id, harness_format("phone:%s", digest));
        struct inventory_order order;
        CHECK_STATUS(order_step(seller, sold->order.id, INVENTORY_READ, &order), INVENTORY_OK);
        CHECK_STR(order.id, sold->order.id);
        CHECK_STR(order.user, sold->order.user);
        CHECK_INT(order.created_ms, sold->order.created_ms);
    }
    for (int i = 0; i < 3; i++) {
        struct buy *late = buy(seller, "phone", "late", name_of("late", i), 1);
        CHECK_STATUS(late->status, INVENTORY_SOLD_OUT);
        CHECK_INT(late->available, 0);
    }
    check_books(seller, &redis, "phone", 0, 0, 20);
}

/* The order as it was made, but for its state. */
static void check_replay_as(struct seller *seller, const char *item, const char *user, const char *key,
                            int64_t quantity, const struct inventory_order *first,
                            enum inventory_state state) {
    struct buy *again = buy(seller, item, user, key, quantity);
    CHECK_STATUS(again->status, INVENTORY_REPLAYED);
    CHECK_STR(again->order.id, first->id);
    CHECK_STR(again->order.item, first->item);
    CHECK_STR(again->order.user, first->user);
    CHECK_INT(again->order.quantity, first->quantity);
    CHECK_STR(inventory_state_name(again->order.state), inventory_state_name(state));
    CHECK_INT(again->order.created_ms, first->created_ms);
    CHECK_INT(again->order.expires_ms, first->expires_ms);
}

static void check_replay(struct seller *seller, const char *item, const char *user, const char *key,
                         int64_t quantity, const struct inventory_order *first) {
    check_replay_as(seller, item, user, key, quantity, first, first->state);
}

static void test_replay(void) {
    struct seller *seller = open_seller();
    struct seller *other = seller_open(seller->shop, &redis);
    other->locked = seller->locked;
    item_sell(seller, "phone", strategy, 5);
    struct inventory_order first = buy(seller, "phone", "ann", "k", 2)->order;
    check_replay(seller, "phone", "ann", "k", 2, &first);
    CHECK_STATUS(buy(seller, "phone", "bob", "k2", 3)->status, INVENTORY_OK);
    check_replay(seller, "phone", "ann", "k", 2, &first); /* not yet known to be sold out */
    CHECK_STATUS(buy(seller, "phone", "eve", "k3", 1)->status, INVENTORY_SOLD_OUT);
    for (int i = 0; i < 3; i++)
        check_replay(seller, "phone", "ann", "k", 2, &first);
    check_replay(other, "phone", "ann", "k", 2, &first);
    check_books(seller, &redis, "phone", 0, 0, 5);
}

static void test_replay_of_settled(void) {
    static const enum inventory_state states[] = {INVENTORY_STATE_CANCELLED, INVENTORY_STATE_CONFIRMED,
                                                  INVENTORY_STATE_EXPIRED, INVENTORY_STATE_HELD};
    struct seller *seller = open_seller();
    item_put_as(seller, "phone", strategy, 4, 0, 60000);
    struct inventory_order held[4];
    for (int i = 0; i < 4; i++)
        held[i] = buy(seller, "phone", "ann", name_of("k", i), 1)->order;
    CHECK_STATUS(order_step(seller, held[0].id, INVENTORY_CANCEL, NULL), INVENTORY_OK);
    CHECK_STATUS(order_step(seller, held[1].id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    redis_clock()->ahead_ms = 61000;
    CHECK_STATUS(order_step(seller, held[2].id, INVENTORY_READ, NULL), INVENTORY_OK);
    for (int i = 0; i < 4; i++)
        check_replay_as(seller, "phone", "ann", name_of("k", i), 1, &held[i], states[i]);
    check_books(seller, &redis, "phone", 2, 1, 1);
}

static void test_key_reused(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "phone", strategy, 5);
    item_sell(seller, "other", strategy, 5);
    struct inventory_order first = buy(seller, "phone", "ann", "k", 1)->order;
    for (int round = 0; round < 2; round++) {
        CHECK_STATUS(buy(seller, "phone", "ann", "k", 2)->status, INVENTORY_KEY_REUSED);
        CHECK_STATUS(buy(seller, "phone", "ann", "k", 4)->status, INVENTORY_KEY_REUSED);
        /* Once more when it is sold out. */
        buy(seller, "phone", "eve", "rest", 4);
        buy(seller, "phone", "eve", "none", 1);
    }
    check_replay(seller, "phone", "ann", "k", 1, &first);
    CHECK_STATUS(buy(seller, "other", "ann", "k", 1)->status, INVENTORY_OK); /* keys are an item's own */
    check_books(seller, &redis, "phone", 0, 0, 5);
    check_books(seller, &redis, "other", 4, 0, 1);
}

/* Whoever guesses ann's key first, and whatever they buy with it, she buys with it all the same. */
static void test_keys_of_others(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "phone", strategy, 6);
    struct inventory_order bobs = buy(seller, "phone", "bob", "k", 1)->order;
    struct buy *anns = buy(seller, "phone", "ann", "k", 2);
    CHECK_STATUS(anns->status, INVENTORY_OK);
    struct inventory_order annes = buy(seller, "phone", "anne", "k", 2)->order;
    CHECK(strcmp(bobs.id, anns->order.id) != 0 && strcmp(annes.id, anns->order.id) != 0);
    check_books(seller, &redis, "phone", 1, 0, 5);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_KEY_REUSED);
    check_replay(seller, "phone", "bob", "k", 1, &bobs);
    check_replay(seller, "phone", "ann", "k", 2, &anns->order);
    check_replay(seller, "phone", "anne", "k", 2, &annes);
    check_books(seller, &redis, "phone", 1, 0, 5);
}

static void test_user_limit(void) {
    struct seller *seller = open_seller();
    item_put_as(seller, "phone", strategy, 100, 3, 0);
    CHECK_STATUS(buy(seller, "phone", "ann", "a1", 4)->status, INVENTORY_LIMIT);
    CHECK_INT(redis_integer(&redis, "HEXISTS", stock_key("phone"), "@ann", NULL), 0);
    CHECK_STATUS(buy(seller, "phone", "ann", "a2", 2)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "phone", "ann", "a3", 2)->status, INVENTORY_LIMIT);
    CHECK_STATUS(buy(seller, "phone", "ann", "a4", 1)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "phone", "ann", "a5", 1)->status, INVENTORY_LIMIT);
    CHECK_STATUS(buy(seller, "phone", "ann", "a2", 2)->status, INVENTORY_REPLAYED);
    CHECK_STATUS(buy(seller, "phone", "bob", "b1", 3)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "phone", "bob", "b2", 1)->status, INVENTORY_LIMIT);
    check_books(seller, &redis, "phone", 94, 0, 6);
}

static void test_quantities(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "phone", strategy, 1010);
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", INVENTORY_QUANTITY_MAX)->status, INVENTORY_OK);
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 7)->status, INVENTORY_OK);
    struct buy *much = buy(seller, "phone", "bob", "k3", 5);
    CHECK_STATUS(much->status, INVENTORY_SOLD_OUT);
    CHECK_INT(much->available, 3);
    check_books(seller, &redis, "phone", 3, 0, 1007);
    CHECK_STATUS(buy(seller, "phone", "bob", "k3", 3)->status,
                 INVENTORY_OK); /* a rejection is not remembered */
    much = buy(seller, "phone", "bob", "k4", 5);
    CHECK_STATUS(much->status, INVENTORY_SOLD_OUT);
    CHECK_INT(much->available, 0);
    check_books(seller, &redis, "phone", 0, 0, 1010);
}

/* Whatever is made of names and keys has room for the longest. */
static void test_longest_names(void) {
    struct seller *seller = open_seller();
    char item_name[INVENTORY_NAME_MAX + 1], user[INVENTORY_USER_MAX + 1], key[INVENTORY_KEY_MAX + 1];
    snprintf(item_name, sizeof item_name, "%0*d", INVENTORY_NAME_MAX, 1);
    snprintf(user, sizeof user, "@:|+=~%0*d", INVENTORY_USER_MAX - 6, 2);
    snprintf(key, sizeof key, "%0*d", INVENTORY_KEY_MAX, 3);
    struct inventory_item item = terms(item_name, strategy, INVENTORY_STOCK_MAX);
    item.limit = INVENTORY_STOCK_MAX;
    item.ends_ms = 9999999999999;
    item.hold_ms = 1000000000000;
    CHECK_STATUS(item_put(seller, &item), INVENTORY_OK);
    struct inventory_order first = buy(seller, item_name, user, key, INVENTORY_QUANTITY_MAX)->order, order;
    CHECK_INT(strlen(first.id), INVENTORY_ORDER_SIZE - 1);
    check_replay(seller, item_name, user, key, INVENTORY_QUANTITY_MAX, &first);
    CHECK_STATUS(order_step(seller, first.id, INVENTORY_CONFIRM, &order), INVENTORY_OK);
    CHECK_STR(order.user, user);
    CHECK_INT(order.expires_ms, first.created_ms + item.hold_ms);
    check_books(seller, &redis, item_name, INVENTORY_STOCK_MAX - INVENTORY_QUANTITY_MAX, 0,
                INVENTORY_QUANTITY_MAX);
}

static void test_window(void) {
    struct seller *seller = open_seller();
    struct inventory_item item = terms("phone", strategy, 10);
    item.starts_ms = 1800000000000;
    item.ends_ms = 1800000010000;
    CHECK_STATUS(item_put(seller, &item), INVENTORY_OK);
    redis_clock()->stopped_ms = item.starts_ms - 1;
    CHECK_STATUS(buy(seller, "phone", "ann", "early", 1)->status, INVENTORY_NOT_STARTED);
    redis_clock()->stopped_ms = item.starts_ms;
    struct inventory_order first = buy(seller, "phone", "ann", "early", 1)->order;
    CHECK_INT(first.created_ms, item.starts_ms);
    redis_clock()->stopped_ms = item.ends_ms - 1;
    CHECK_STATUS(buy(seller, "phone", "ann", "late", 1)->status, INVENTORY_OK);
    redis_clock()->stopped_ms = item.ends_ms;
    CHECK_STATUS(buy(seller, "phone", "ann", "over", 1)->status, INVENTORY_ENDED);
    check_replay(seller, "phone", "ann", "early", 1, &first);
    CHECK_STATUS(buy(seller, "phone", "ann", "early", 2)->status, INVENTORY_KEY_REUSED);
    redis_clock()->stopped_ms = item.starts_ms - 1; /* a clock that goes back */
    check_replay(seller, "phone", "ann", "early", 1, &first);
    check_books(seller, &redis, "phone", 8, 0, 2);
}

/* Two whose clocks are hours apart, and one moment at which a sale begins and ends: the store's clock tells.
 */
static void test_clocks_apart(void) {
    enum { HOLD_MS = 5000, APART_MS = 3600000 };
    struct seller *sellers[] = {open_seller(), NULL};
    sellers[1] = seller_open(shop_open(), &redis);
    sellers[1]->locked = sellers[0]->locked;
    sellers[0]->shop->ahead_ms = APART_MS;
    sellers[1]->shop->ahead_ms = -APART_MS;
    struct inventory_item item = terms("phone", strategy, 4);
    item.starts_ms = 1800000000000;
    item.ends_ms = item.starts_ms + 2 * INT64_C(5000);
    item.hold_ms = HOLD_MS;
    CHECK_STATUS(item_put(sellers[0], &item), INVENTORY_OK);
    struct inventory_order orders[2];
    for (int i = 0; i < 2; i++) {
        redis_clock()->stopped_ms = item.starts_ms - 1;
        CHECK_STATUS(buy(sellers[i], "phone", "ann", name_of("k", i), 1)->status, INVENTORY_NOT_STARTED);
        redis_clock()->stopped_ms = item.starts_ms;
        struct buy *first = buy(sellers[i], "phone", "ann", name_of("k", i), 1);
        CHECK_STATUS(first->status, INVENTORY_OK);
        CHECK_INT(first->order.created_ms, item.starts_ms);
        CHECK_INT(first->order.expires_ms, item.starts_ms + HOLD_MS);
        orders[i] = first->order;
    }
    /* What one of them holds the other settles: until its end, and not after it. */
    redis_clock()->stopped_ms = item.starts_ms + HOLD_MS - 1;
    holds_sweep(sellers[0], &redis);
    CHECK_STATUS(order_step(sellers[0], orders[1].id, INVENTORY_CONFIRM, NULL), INVENTORY_OK);
    redis_clock()->stopped_ms++;
    CHECK_STATUS(order_step(sellers[1], orders[0].id, INVENTORY_CANCEL, NULL), INVENTORY_EXPIRED);
    redis_clock()->stopped_ms = item.ends_ms - 1;
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(buy(sellers[i % 2], "phone", "bob", name_of("l", i), 1)->status, INVENTORY_OK);
    for (int ended = 0; ended < 2; ended++, redis_clock()->stopped_ms++) {
        for (int i = 0; i < 4; i++)
            CHECK_STATUS(buy(sellers[i % 2], "phone", "eve", name_of("m", i), 1)->status,
                         ended ? INVENTORY_ENDED : INVENTORY_SOLD_OUT);
    }
    check_books(sellers[0], &redis, "phone", 0, 3, 1);
}

static void test_unknown_item(void) {
    struct seller *seller = open_seller();
    struct inventory_item item;
    struct inventory_audit audit;
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_UNKNOWN_ITEM);
        CHECK_STATUS(item_reader(seller, "phone", &item), INVENTORY_UNKNOWN_ITEM);
        CHECK_STATUS(item_audit(seller, "phone", &audit), INVENTORY_UNKNOWN_ITEM);
        CHECK_STATUS(item_restock(seller, "phone", "r", 1, NULL), INVENTORY_UNKNOWN_ITEM);
    }
    CHECK_STR(store_dump(&redis, true), ""); /* and nothing is left of it */
    item_sell(seller, "phone", strategy, 1);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    check_books(seller, &redis, "phone", 0, 0, 1);
}

static void test_holds(void) {
    struct seller *seller = open_seller();
    item_put_as(seller, "phone", strategy, 3, 2, 30000);
    redis_clock()->stopped_ms = 1800000000000;
    struct buy *held = buy(seller, "phone", "ann", "k", 2);
    CHECK_STATUS(held->status, INVENTORY_OK);
    CHECK_INT(held->order.state, INVENTORY_STATE_HELD);
    CHECK_INT(held->order.created_ms, 1800000000000);
    CHECK_INT(held->order.expires_ms, 1800000030000);
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 1)->status, INVENTORY_LIMIT);
    struct buy *late = buy(seller, "phone", "bob", "k3", 2);
    CHECK_STATUS(late->status, INVENTORY_SOLD_OUT);
    CHECK_INT(late->available, 1);
    check_books(seller, &redis, "phone", 1, 2, 0);
    CHECK_STATUS(order_step(seller, held->order.id, INVENTORY_CANCEL, NULL), INVENTORY_OK);
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 2)->status, INVENTORY_OK);
    check_books(seller, &redis, "phone", 1, 2, 0);
}

static void test_restock(void) {
    struct seller *seller = open_seller();
    struct inventory_restock restock;
    item_sell(seller, "phone", strategy, 1);
    buy(seller, "phone", "ann", "k1", 1);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(buy(seller, "phone", "bob", "k2", 1)->status, INVENTORY_SOLD_OUT);
    CHECK_STATUS(item_restock(seller, "phone", "r1", 2, &restock), INVENTORY_OK);
    CHECK_INT(restock.quantity, 2);
    CHECK_INT(restock.stock, 3);
    CHECK_INT(restock.available, 2);
    CHECK_STATUS(buy(seller, "phone", "bob", "k2", 1)->status, INVENTORY_OK); /* the same key may win later */
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(item_restock(seller, "phone", "r1", 2, &restock), INVENTORY_REPLAYED);
        CHECK_INT(restock.quantity, 2);
        CHECK_INT(restock.stock, 3);
        CHECK_INT(restock.available, 2); /* as it was */
        CHECK_STATUS(item_restock(seller, "phone", "r1", 3, &restock), INVENTORY_KEY_REUSED);
    }
    CHECK_STATUS(item_restock(seller, "phone", "r2", INVENTORY_STOCK_MAX - 3, &restock), INVENTORY_OK);
    CHECK_INT(restock.stock, INVENTORY_STOCK_MAX);
    check_books(seller, &redis, "phone", INVENTORY_STOCK_MAX - 2, 0, 2);
}

/* To the last unit, in one call or several, and not one beyond; what was answered once stays so. */
static void test_largest_stock(void) {
    struct seller *seller = open_seller();
    struct inventory_restock restock;
    item_sell(seller, "phone", strategy, 0);
    CHECK_STATUS(item_restock(seller, "phone", "all", INVENTORY_STOCK_MAX, &restock), INVENTORY_OK);
    CHECK_INT(restock.stock, INVENTORY_STOCK_MAX);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", INVENTORY_QUANTITY_MAX)->status, INVENTORY_OK);
    CHECK_STATUS(item_restock(seller, "phone", "r1", 1, &restock), INVENTORY_TOO_MANY);
    CHECK_INT(restock.room, 0);
    CHECK_STATUS(item_restock(seller, "phone", "all", INVENTORY_STOCK_MAX, &restock), INVENTORY_REPLAYED);
    CHECK_INT(restock.quantity, INVENTORY_STOCK_MAX);
    CHECK_INT(restock.available, INVENTORY_STOCK_MAX);
    check_books(seller, &redis, "phone", INVENTORY_STOCK_MAX - INVENTORY_QUANTITY_MAX, 0,
                INVENTORY_QUANTITY_MAX);

    item_sell(seller, "lamp", strategy, 999999987);
    CHECK_STATUS(item_restock(seller, "lamp", "r1", 14, &restock), INVENTORY_TOO_MANY);
    CHECK_INT(restock.room, 13);
    CHECK_STATUS(item_restock(seller, "lamp", "r1", 12, &restock), INVENTORY_OK); /* it was not remembered */
    CHECK_INT(restock.stock, 999999999);
    CHECK_STATUS(item_restock(seller, "lamp", "r2", INVENTORY_STOCK_MAX, &restock), INVENTORY_TOO_MANY);
    CHECK_INT(restock.room, 1);
    check_books(seller, &redis, "lamp", 999999999, 0, 0);
}

static void test_create(void) {
    struct seller *seller = open_seller();
    struct inventory_item item = {.item = "phone",
                                  .initial = 7,
                                  .limit = 2,
                                  .starts_ms = 1000,
                                  .ends_ms = 4102444800000,
                                  .hold_ms = 5000,
                                  .strategy = strategy};
    struct inventory_item read;
    CHECK_STATUS(item_put(seller, &item), INVENTORY_OK);
    buy(seller, "phone", "ann", "k", 2);
    CHECK_STATUS(item_restock(seller, "phone", "r", 3, NULL), INVENTORY_OK);
    CHECK_STATUS(item_put(seller, &item), INVENTORY_REPLAYED);
    CHECK_STATUS(item_reader(seller, "phone", &read), INVENTORY_OK);
    CHECK_STR(read.item, "phone");
    CHECK_INT(read.initial, 7);
    CHECK_INT(read.restocked, 3);
    CHECK_INT(read.available, 8);
    CHECK_INT(read.held, 2);
    CHECK_INT(read.sold, 0);
    CHECK_INT(read.limit, 2);
    CHECK_INT(read.starts_ms, 1000);
    CHECK_INT(read.ends_ms, 4102444800000);
    CHECK_INT(read.hold_ms, 5000);
    CHECK_INT(read.strategy, strategy);
    int64_t *const fields[] = {&item.initial, &item.limit, &item.starts_ms, &item.ends_ms, &item.hold_ms};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        ++*fields[i];
        CHECK_STATUS(item_put(seller, &item), INVENTORY_EXISTS);
        --*fields[i];
    }
    item.strategy = strategy == INVENTORY_BATCH ? INVENTORY_LUA : INVENTORY_BATCH;
    CHECK_STATUS(item_put(seller, &item), INVENTORY_EXISTS);
    item.strategy = strategy;
    CHECK_STATUS(item_put(seller, &item), INVENTORY_REPLAYED);
    check_books(seller, &redis, "phone", 8, 2, 0);
}

/* Buys as a good caller does: takes the lock where it is wanted, and comes again when told to. */
static struct buy *buy_patiently(struct seller *seller, const char *user, const char *key) {
    struct buy *bought = NULL;
    for (int i = 0; i < 3; i++) {
        bought = buy(seller, "phone", user, key, 1);
        if (bought->status != INVENTORY_UNAVAILABLE && bought->status != INVENTORY_WANTS_LOCK)
            break;
        seller->locked = bought->status == INVENTORY_WANTS_LOCK;
    }
    return bought;
}

static void test_made_anew(void) {
    for (int other = 0; other < INVENTORY_STRATEGIES; other++) {
        struct seller *seller = open_seller();
        item_sell(seller, "phone", strategy, 1);
        CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
        CHECK_STATUS(buy(seller, "phone", "ann", "k2", 1)->status, INVENTORY_SOLD_OUT);
        redis_command(&redis, "FLUSHALL", NULL);
        CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_UNKNOWN_ITEM);
        item_sell(seller, "phone", strategy, 1);
        CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
        redis_command(&redis, "FLUSHALL", NULL);
        item_sell(seller, "phone", (enum inventory_strategy)other, 2);
        seller->locked = false;
        CHECK_STATUS(buy_patiently(seller, "ann", "k")->status, INVENTORY_OK);
        CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_REPLAYED);
        CHECK_STATUS(buy(seller, "phone", "bob", "k2", 1)->status, INVENTORY_OK);
        CHECK_STATUS(buy(seller, "phone", "eve", "k3", 1)->status, INVENTORY_SOLD_OUT);
        check_books(seller, &redis, "phone", 0, 0, 2);
        shop_close(seller->shop);
    }
}

static void test_without_teaching(void) {
    struct seller *teacher = open_seller();
    struct seller *seller =
        seller_open_up(teacher->shop, &(struct seller_options){.port = redis.port, .without_teaching = true});
    seller->locked = teacher->locked;
    bool teaches = inventory_strategy_teaches(strategy);
    struct inventory_item item = terms("phone", strategy, 2);
    CHECK_STATUS(item_put(seller, &item), teaches ? INVENTORY_REFUSED : INVENTORY_OK);
    CHECK_STATUS(item_put(teacher, &item), teaches ? INVENTORY_OK : INVENTORY_REPLAYED);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(buy(seller, "phone", "ann", name_of("k", i), 1)->status,
                     teaches ? INVENTORY_REFUSED : INVENTORY_OK);
    check_books(seller, &redis, "phone", teaches ? 2 : 0, 0, teaches ? 0 : 2);
    if (teaches) { /* a crowd is refused by few calls */
        uint64_t calls = seller->inventory->shared.metrics->batches;
        for (int i = 0; i < 1000; i++)
            buy_begin(seller, "phone", "ann", name_of("many", i), 1);
        shop_settle(seller->shop);
        CHECK_INT(buys_with(seller->shop, INVENTORY_REFUSED), 1002);
        CHECK(seller->inventory->shared.metrics->batches - calls < 20);
    }
    /* It is the item that is refused, not its name for ever. */
    redis_command(&redis, "FLUSHALL", NULL);
    item_sell(seller, "phone", INVENTORY_BATCH, 1);
    CHECK_STATUS(buy_patiently(seller, "ann", "k")->status, INVENTORY_OK);
}

static void test_wants_lock(void) {
    struct seller *seller = open_seller();
    item_sell(seller, "phone", strategy, 2);
    seller->locked = false;
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, strategy != INVENTORY_LOCKED
                                                                      ? i ? INVENTORY_REPLAYED : INVENTORY_OK
                                                                      : INVENTORY_WANTS_LOCK);
    seller->locked = true;
    CHECK_STATUS(buy(seller, "phone", "bob", "k2", 1)->status, INVENTORY_OK);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*test)(void);
    } tests[] = {{"sells exactly the stock", test_exactly_the_stock},
                 {"a retry gets the original answer, sold out or not", test_replay},
                 {"a retry gets the order as it is now", test_replay_of_settled},
                 {"a key belongs to one request", test_key_reused},
                 {"a key belongs to its user", test_keys_of_others},
                 {"no user has more than the limit", test_user_limit},
                 {"wants five, three are left", test_quantities},
                 {"the longest names", test_longest_names},
                 {"sells from its start to its end, and replays outside of it", test_window},
                 {"clocks that are apart agree on when a sale begins and ends", test_clocks_apart},
                 {"an unknown item is unknown, not sold out", test_unknown_item},
                 {"holds are born held, with an end", test_holds},
                 {"restocks once a key", test_restock},
                 {"the largest stock", test_largest_stock},
                 {"put on sale twice, and otherwise", test_create},
                 {"made anew with another strategy behind the seller's back", test_made_anew},
                 {"what teaches is refused without teaching", test_without_teaching},
                 {"locked, and only locked, wants the lock", test_wants_lock}};
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        run_each(tests[i].name, tests[i].test, INVENTORY_LOCKED);
    return harness_finish();
}
