/* Read, compare, write: without a lock two buyers get the last unit. */
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/scenarios/scenario.h"

enum { BUYERS = 64, UNITS = 100, EACH = 4, WORK_MS = 3 };

/* Two buyers step by step, and then the same by chance: 64 buyers, each of whom wants up to four. */
static void play(struct stage *stage, bool broken) {
    enum stock_way way = broken ? STOCK_COMPUTED : STOCK_DECIDED;
    struct client *buyers[BUYERS];
    struct cast cast;
    cast_open(&cast, stage, "redis", false);
    const struct client_options options = {.name = "buyer", .url = "none:", .stock = cast.shop};
    client_start_many(cast.clients, &options, BUYERS, buyers);
    cast_two_buyers(&cast, way);
    observer_fill_stock(cast.shop, "bottle", UNITS);
    for (int i = 0; i < BUYERS; i++)
        client_begin_shop(buyers[i], "bottle", way, EACH, WORK_MS);
    for (int i = 0; i < BUYERS; i++)
        client_wait(buyers[i]);
    observer_read_stock(cast.shop, "bottle");
}

const struct scenario scenario_no_lock = {
    .name = "no-lock",
    .ttl_ms = 1000,
    .shows_steps = true,
    .text =
        {
            .title = "Read, compare, write is not atomic: two buyers read the same last unit, and both get "
                     "it.",
            .question = "Two buyers want the last lamp. Each reads how many are left, sees one, and writes "
                        "back one less. How many lamps are sold?",
            .answers =
                {"One: Redis runs one command after the other, so the second write comes too late and fails.",
                 "Two: both have read one, and each writes what it has computed.",
                 "None: the two writes undo each other, and the lamp stays on the shelf."},
            .right = 1,
            .story = "The stock is a number in Redis. A sale reads it, compares it with the quantity, and "
                     "writes the new number.\n\n"
                     "Redis runs one command after the other, so neither the read nor the write can be "
                     "interrupted. But between them the commands of others are run.\n\n"
                     "Client A reads 1. Client B reads 1. A writes 0: sold. B writes 0: sold. Nothing in "
                     "the data shows that anything went wrong; the shelf says 0, as it should.\n\n"
                     "Then 64 buyers do the same with a hundred bottles. Each write forgets what was sold "
                     "since its read, so far more than a hundred are sold before the number reaches 0.\n\n"
                     "The fix needs no lock. One script reads, compares and subtracts, and Redis runs "
                     "nothing in between. The second buyer is told that the lamp is sold out.",
            .broken_code = "left = GET stock          # both read 1\n"
                           "if left < quantity: return sold_out\n"
                           "SET stock (left - quantity)   # both write 0\n"
                           "return sold                   # twice",
            .fixed_code = "-- one script: nothing runs in between\n"
                          "local left = redis.call('HGET', KEYS[1], 'available')\n"
                          "if tonumber(left) < quantity then\n"
                          "    return 'sold-out'\n"
                          "end\n"
                          "redis.call('HINCRBY', KEYS[1], 'available', -quantity)\n"
                          "redis.call('HINCRBY', KEYS[1], 'sold', quantity)",
            .broken_lines = {3},
            .fixed_lines = {6},
        },
    .play = play,
};
