/* seckilld: the same sale with every strategy. */
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/scenarios/scenario.h"
#include "loadtest/lab/stage/stage_sale.h"

static const char *const safe[] = {"decr", "optimistic", "lua", "batch", NULL};

/* How fast a way is that sells what it does not have is of no interest. */
static void note_speed(struct stage *stage, const char *item, const struct crowd_result *result,
                       const struct seckilld_audit *audit) {
    char text[120];
    int length = snprintf(text, sizeof text, "%s sold %lld of %lld", item, (long long)audit->sold,
                          (long long)audit->stock);
    if (audit->sold <= audit->stock)
        snprintf(text + length, sizeof text - (size_t)length, ", %.0f a second, p99 %.1f ms",
                 result->per_second, result->p99_ms);
    stage_record(stage, &(struct event){.kind = EVENT_NOTE, .who = "seckill-load", .text = text});
}

/* A hundred units, 64 connections, 2,000 buyers. */
static void sell(struct stage *stage, const struct server *service, const char *strategy, uint64_t op) {
    const struct crowd_options options = {
        .item = strategy, .connections = 64, .users = 2000, .requests = 2000};
    char terms[80];
    struct crowd crowd;
    struct crowd_result result;
    struct seckilld_audit audit;
    snprintf(terms, sizeof terms, "{\"stock\":100,\"strategy\":\"%s\"}", strategy);
    server_put_item(service, strategy, terms);
    crowd_start(&crowd, service, &options);
    if (crowd_finish(&crowd, &result) && crowd_record(&crowd, &result, op, &audit))
        note_speed(stage, strategy, &result, &audit);
}

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    uint64_t op = 1000;
    cast_open(&cast, stage, "redis", false);
    struct server *service = stage_start_seckilld(stage, "seckilld", cast.shop->port, "--teaching", NULL);
    cast_two_buyers(&cast, broken ? STOCK_COMPUTED : STOCK_DECIDED);
    if (broken)
        sell(stage, service, "naive", op);
    for (int i = 0; !broken && safe[i] != NULL; i++)
        sell(stage, service, safe[i], op++);
}

const struct scenario scenario_strategies = {
    .name = "strategies",
    .ttl_ms = 1000,
    .shows_steps = true,
    .text =
        {
            .title = "Read, compare, write oversells; a decrement, a transaction and a script do not, at "
                     "different prices.",
            .question = "A hundred units, 64 connections, 2,000 buyers, and five ways to sell in the same "
                        "Redis. Which of them oversell?",
            .answers = {"All five: Redis has no command that compares and writes in one step.",
                        "None of them: Redis runs one command after the other, so nobody comes between.",
                        "naive alone: the others let Redis decide whether there is enough."},
            .right = 2,
            .story = "naive reads the stock, compares, and writes. Between the read and the write others "
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
            .broken_code = "# naive\n"
                           "left = HGET item available\n"
                           "if left < quantity: return sold_out\n"
                           "HSET item available (left - quantity)",
            .fixed_code = "# decr\n"
                          "if HINCRBY item available -quantity < 0: give it back\n"
                          "# optimistic\n"
                          "WATCH item; left = HGET …; MULTI; HSET …; EXEC\n"
                          "# lua, batch\n"
                          "EVALSHA script   # compares and subtracts",
            .broken_lines = {4},
            .fixed_lines = {2, 4, 6},
        },
    .play = play,
};
