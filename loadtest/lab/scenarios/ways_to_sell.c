/* Ways to sell without a lock: read, compare, write oversells; a command or a script that decides in the
 * store does not. */
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/stage/stage_sale.h"

enum { STEP_MS = 10, BUYERS = 64, BUYER_UNITS = 100, BUYER_MOST = 4, BUYER_WORK_MS = 3 };

/* The play begins. Two buyers without a lock act step by step: both read that one unit is left, and both sell
 * it in this way. */
static void two_buyers(struct cast *cast, enum stock_way way) {
    snprintf(cast->url, sizeof cast->url, "none:");
    struct client *a = cast_client(cast, "client-a"), *b = cast_client(cast, "client-b");
    cast_begin(cast, 1);
    stage_until(cast->stage, STEP_MS + stage_random(cast->stage, 0, STEP_MS));
    client_read_stock(a, CAST_ITEM);
    stage_pause(cast->stage, STEP_MS);
    client_read_stock(b, CAST_ITEM);
    stage_pause(cast->stage, STEP_MS);
    client_sell(a, CAST_ITEM, way, NULL);
    stage_pause(cast->stage, STEP_MS);
    client_sell(b, CAST_ITEM, way, NULL);
    stage_pause(cast->stage, STEP_MS);
}

/* ---- no-lock: two buyers get the last unit ---- */

/* First two buyers step by step. Then 64 buyers do the same by chance, and each wants up to four units. */
static void no_lock_play(struct stage *stage, bool broken) {
    enum stock_way way = broken ? STOCK_COMPUTED : STOCK_DECIDED;
    struct client *buyers[BUYERS];
    struct cast cast;
    cast_open(&cast, stage, "redis", false);
    snprintf(cast.url, sizeof cast.url, "none:");
    cast_crowd(&cast, "buyer", BUYERS, buyers);
    two_buyers(&cast, way);
    observer_fill_stock(cast.shop, "bottle", BUYER_UNITS);
    for (int i = 0; i < BUYERS; i++)
        client_begin_shop(buyers[i], "bottle", way, BUYER_MOST, BUYER_WORK_MS);
    for (int i = 0; i < BUYERS; i++)
        client_wait(buyers[i]);
    observer_read_stock(cast.shop, "bottle");
}

const struct scenario scenario_no_lock = {
    .name = "no-lock",
    .ttl_ms = 1000,
    .shows_steps = true,
    .text.title = "Read, compare, write is not atomic: two buyers read the same last unit, and both get "
                  "it.",
    .text.question = "Two buyers want the last lamp. Each reads how many are left, sees one, and writes "
                     "back one less. How many lamps are sold?",
    .text.answers =
        {"One: Redis runs one command after the other, so the second write comes too late and fails.",
         "Two: both have read one, and each writes what it has computed.",
         "None: the two writes undo each other, and the lamp stays on the shelf."},
    .text.right = 1,
    .text.story = "The stock is a number in Redis. A sale reads it, compares it with the quantity, and "
                  "writes the new number.\n\n"
                  "Redis runs one command after the other, so neither the read nor the write can be "
                  "interrupted. But between them the commands of others are run.\n\n"
                  "Client A reads 1. Client B reads 1. A writes 0: sold. B writes 0: sold. Nothing in "
                  "the data shows that anything went wrong; the shelf says 0, as it should.\n\n"
                  "Then 64 buyers do the same with a hundred bottles. Each write forgets what was sold "
                  "since its read, so far more than a hundred are sold before the number reaches 0.\n\n"
                  "The fix needs no lock. One script reads, compares and subtracts, and Redis runs "
                  "nothing in between. The second buyer is told that the lamp is sold out.",
    .text.broken_code = "left = GET stock          # both read 1\n"
                        "if left < quantity: return sold_out\n"
                        "SET stock (left - quantity)   # both write 0\n"
                        "return sold                   # twice",
    .text.fixed_code = "-- one script: nothing runs in between\n"
                       "local left = redis.call('HGET', KEYS[1], 'available')\n"
                       "if tonumber(left) < quantity then\n"
                       "    return 'sold-out'\n"
                       "end\n"
                       "redis.call('HINCRBY', KEYS[1], 'available', -quantity)\n"
                       "redis.call('HINCRBY', KEYS[1], 'sold', quantity)",
    .text.broken_lines = {3},
    .text.fixed_lines = {6},
    .play = no_lock_play,
};

/* ---- strategies: the same sale with every strategy of seckilld ---- */

static const char *const safe_strategies[] = {"decr", "optimistic", "lua", "batch", NULL};

/* Notes the speed too, unless the strategy oversold. */
static void note_speed(struct stage *stage, const char *item, const struct crowd_result *result) {
    const struct seckilld_audit *audit = &result->audit;
    char text[120];
    int length = snprintf(text, sizeof text, "%s sold %lld of %lld", item, (long long)audit->sold,
                          (long long)audit->stock);
    if (audit->sold <= audit->stock)
        snprintf(text + length, sizeof text - (size_t)length, ", %.0f a second, p99 %.1f ms",
                 result->per_second, result->p99_ms);
    stage_record(stage, &(struct event){.kind = EVENT_NOTE, .who = "seckill-load", .text = text});
}

/* Sells a hundred units over 64 connections to 2,000 buyers. */
static void strategies_sell(struct stage *stage, const struct server *service, const char *strategy,
                            uint64_t op) {
    const struct crowd_options options = {
        .item = strategy, .connections = 64, .users = 2000, .requests = 2000};
    char terms[80];
    struct crowd crowd;
    struct crowd_result result;
    snprintf(terms, sizeof terms, "{\"stock\":100,\"strategy\":\"%s\"}", strategy);
    server_put_item(service, strategy, terms);
    crowd_start(&crowd, service, &options);
    if (crowd_finish(&crowd, op, &result))
        note_speed(stage, strategy, &result);
}

static void strategies_play(struct stage *stage, bool broken) {
    struct cast cast;
    uint64_t op = 1000;
    cast_open(&cast, stage, "redis", false);
    struct server *service =
        stage_start_seckilld(stage, "seckilld", cast.shop->port, (const char *const[]){"--teaching", NULL});
    two_buyers(&cast, broken ? STOCK_COMPUTED : STOCK_DECIDED);
    if (broken)
        strategies_sell(stage, service, "naive", op);
    for (int i = 0; !broken && safe_strategies[i]; i++)
        strategies_sell(stage, service, safe_strategies[i], op++);
}

const struct scenario scenario_strategies = {
    .name = "strategies",
    .ttl_ms = 1000,
    .shows_steps = true,
    .text.title = "Read, compare, write oversells; a decrement, a transaction and a script do not, at "
                  "different prices.",
    .text.question = "A hundred units, 64 connections, 2,000 buyers, and five ways to sell in the same "
                     "Redis. Which of them oversell?",
    .text.answers = {"All five: Redis has no command that compares and writes in one step.",
                     "None of them: Redis runs one command after the other, so nobody comes between.",
                     "naive alone: the others let Redis decide whether there is enough."},
    .text.right = 2,
    .text.story = "naive reads the stock, compares, and writes. Between the read and the write others "
                  "sell, and their sales are forgotten.\n\n"
                  "decr subtracts first, looks at the sign, and gives back what it should not have "
                  "taken. DECRBY is one command, so it is right.\n\n"
                  "optimistic reads under WATCH, and writes by MULTI and EXEC: EXEC does nothing if the "
                  "item has changed since, and the buyer tries again. It is right, and slow when many "
                  "want the same item.\n\n"
                  "lua reads, compares and writes in one script: right, and one round trip.\n\n"
                  "batch gathers all buyers that wait while a script call is in flight, and sells to "
                  "them in one call. It is right as lua is, and costs one call for many buyers.\n\n"
                  "How fast naive is does not matter: it sells what it does not have.",
    .text.broken_code = "# naive\n"
                        "left = HGET item available\n"
                        "if left < quantity: return sold_out\n"
                        "HSET item available (left - quantity)",
    .text.fixed_code = "# decr\n"
                       "if HINCRBY item available -quantity < 0: give it back\n"
                       "# optimistic\n"
                       "WATCH item; left = HGET …; MULTI; HSET …; EXEC\n"
                       "# lua, batch\n"
                       "EVALSHA script   # compares and subtracts",
    .text.broken_lines = {4},
    .text.fixed_lines = {2, 4, 6},
    .play = strategies_play,
};
