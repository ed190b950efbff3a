/* seckilld: the same sale with every strategy. */
#include <jansson.h>
#include <string.h>

#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/scenarios/scenario.h"
#include "loadtest/lab/stage/seckilld_server.h"

enum { LOAD_PATIENCE_MS = 60000 };

static const char *const safe[] = {"decr", "optimistic", "lua", "batch", NULL};

/* What seckill-load has seen. */
struct load {
    int64_t accepted;
    double per_second, p99_ms;
};

static bool read_load(const char *file, struct load *load) {
    json_t *json = json_load_file(file, 0, NULL);
    json_int_t accepted;
    bool good = json_unpack(json, "{s:I, s:F, s:{s:F}}", "accepted", &accepted, "accepted_per_second",
                            &load->per_second, "latency_ms", "p99", &load->p99_ms) == 0;
    load->accepted = accepted;
    json_decref(json);
    return good;
}

/* A status of its own says that it oversold; that is what the books are asked for. */
static bool run_load(struct stage *stage, const struct server *service, const char *item, struct load *load) {
    char program[SERVER_PATH_SIZE], url[64], file[SERVER_PATH_SIZE], log[SERVER_PATH_SIZE];
    struct process process = {.pid = 0};
    int status;
    snprintf(program, sizeof program, "%s/seckill-load", stage_programs(stage));
    snprintf(url, sizeof url, "http://127.0.0.1:%d", service->port);
    snprintf(file, sizeof file, "%s/%s.json", stage_directory(stage), item);
    snprintf(log, sizeof log, "%s/load.log", stage_directory(stage));
    const char *argv[] = {program, "--url",         url,  "--item", item, "--users", "2000", "--requests",
                          "2000",  "--connections", "64", "--json", file, NULL};
    const char *env[] = {"SECKILL_ADMIN_TOKEN=lab", NULL};
    return process_start(&process, argv, env, log, -1, -1) &&
           process_wait(&process, stage_in_ms(LOAD_PATIENCE_MS), &status) && read_load(file, load);
}

/* How fast a way is that sells what it does not have is of no interest. */
static void note_speed(struct stage *stage, const char *item, const struct load *load,
                       const struct seckilld_audit *audit) {
    char text[120];
    int length = snprintf(text, sizeof text, "%s sold %lld of %lld", item, (long long)audit->sold,
                          (long long)audit->stock);
    if (audit->sold <= audit->stock)
        snprintf(text + length, sizeof text - (size_t)length, ", %.0f a second, p99 %.1f ms",
                 load->per_second, load->p99_ms);
    stage_record(stage, &(struct event){.kind = EVENT_NOTE, .who = "seckill-load", .text = text});
}

static void record_sale(struct stage *stage, const char *item, const struct load *load,
                        const struct seckilld_audit *audit, uint64_t op) {
    struct event event = {
        .kind = EVENT_WRITE_SENT, .who = "seckill-load", .op = op, .item = item, .quantity = load->accepted};
    stage_record(stage, &event);
    event.kind = EVENT_WRITE_ACCEPTED;
    stage_record(stage, &event);
    stage_record_stock(stage, item, audit->stock, audit->available, audit->sold);
    note_speed(stage, item, load, audit);
}

/* A hundred units, 64 connections, 2,000 buyers. */
static void sell(struct stage *stage, const struct server *service, const char *strategy, uint64_t op) {
    char terms[80];
    struct load load;
    struct seckilld_audit audit;
    snprintf(terms, sizeof terms, "{\"stock\":100,\"strategy\":\"%s\"}", strategy);
    seckilld_server_put_item(service, strategy, terms);
    if (stage_failed(stage))
        return;
    if (run_load(stage, service, strategy, &load) && seckilld_server_audit(service, strategy, &audit))
        record_sale(stage, strategy, &load, &audit, op);
    else
        stage_fail(stage, "the sale by strategy %s has no result: see load.log", strategy);
}

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    uint64_t op = 1000;
    cast_open(&cast, stage, "redis", false);
    struct server *service = seckilld_server_start(stage, "seckilld", cast.shop->port, "--teaching", NULL);
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
                        "Redis. Which of them oversell, and which is the fastest of those that do not?",
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
        },
    .play = play,
};
