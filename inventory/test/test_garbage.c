/* Somebody else wrote into the items in the store. */
#include <string.h>

#include "inventory/store/shared.h"
#include "inventory/test/fixture.h"

static struct redis_server redis;

static struct seller *open_seller(void) {
    CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
    return seller_open_up(shop_open(), &(struct seller_options){.port = redis.port});
}

/* No order is made without its units. */
static void test_garbage_count(void) {
    struct seller *seller = open_seller();
    item_put_as(seller, "phone", strategy, 100, 3, 0);
    redis_command(&redis, "HSET", stock_key("phone"), "@ann", "junk", NULL);
    CHECK(buy(seller, "phone", "ann", "a1", 1)->status != INVENTORY_OK);
    CHECK_INT(stock_orders(&redis, "phone"), 0);
    CHECK_INT(redis_integer(&redis, "HGET", stock_key("phone"), "available", NULL), 100);
    CHECK_STATUS(buy(seller, "phone", "bob", "b1", 3)->status, INVENTORY_OK);
}

/* What somebody else wrote into two items fails these, and not the others of the call. If an order was
 * written all the same, the buyer gets it. */
static void test_garbage_in_two_items(void) {
    static const struct {
        const char *command[3]; /* and its arguments after the key */
        const char *what;       /* the key, behind the item's */
        bool written;           /* the order is there all the same */
    } cases[] = {
        {{"HSET", "@odd", "junk"}, "", false}, {{"HSET", "available", "junk"}, "", false},
        {{"SET", "junk"}, "", false},          {{"SET", "junk"}, ":events", true},
        {{"SET", "junk"}, ":holds", true},
    };
    static const char *const names[] = {"first", "odd", "last", "odd-too"};
    enum { ITEMS = 4 };
    struct seller *seller = open_seller();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int count = 1; count <= 2; count++) {
            CHECK_STR(redis_command(&redis, "FLUSHALL", NULL), "OK");
            struct buy *buys[ITEMS][2];
            const char *const *command = cases[c].command;
            for (int i = 0; i < ITEMS; i++) {
                item_put_as(seller, names[i], INVENTORY_BATCH, 10, 5, 60000);
                CHECK_STATUS(buy(seller, names[i], "warm", "k", 1)->status, INVENTORY_OK);
                if (i % 2 == 1)
                    redis_command(&redis, command[0],
                                  stock_key(harness_format("%s%s", names[i], cases[c].what)), command[1],
                                  command[2], NULL);
            }
            uint64_t before = seller->inventory->shared.metrics->batches,
                     errors = seller->inventory->shared.metrics->store_errors;
            for (int n = 0; n < ITEMS; n++) {
                int i = (n + count - 1) % ITEMS; /* one at a time: an odd one is last; two: one is first */
                for (int b = 0; b < count; b++)
                    buys[i][b] = buy_begin(seller, names[i], "odd", b ? "b" : "a", 1 + b);
            }
            shop_settle(seller->shop);
            CHECK_INT(seller->inventory->shared.metrics->batches - before, 1);
            CHECK_INT(seller->inventory->shared.metrics->store_errors - errors, 2);
            for (int i = 0; i < ITEMS; i++) {
                bool good = i % 2 == 0 || cases[c].written;
                for (int b = 0; b < count; b++)
                    CHECK_STATUS(buys[i][b]->status, good ? INVENTORY_OK : INVENTORY_UNAVAILABLE);
            }
            CHECK_INT(redis_integer(&redis, "HGET", stock_key("last"), "held", NULL), count == 1 ? 2 : 4);
            if (!cases[c].written)
                CHECK(strstr(inventory_last_error(seller->inventory), "odd"));
        }
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    store_start(&redis, argc, argv);
    run_each("a count of units that is none", test_garbage_count, INVENTORY_LUA);
    harness_run("garbage in two items of a call", test_garbage_in_two_items);
    return harness_finish();
}
