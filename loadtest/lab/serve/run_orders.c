/* Run orders as JSON: the catalogue, and the strict reading of what the page sends. */
#include "loadtest/lab/serve/run_control.h"

#include <string.h>

#define SEED_MAX INT64_C(1000000000000000)

static const char *const kinds[] = {[RUN_SCENARIO] = "scenario", [RUN_SALE] = "sale", [RUN_LOCK] = "lock"};

/* ---- the catalogue ---- */

/* A 0 ends the lines. */
static json_t *catalogue_lines(const int *lines) {
    json_t *list = json_array();
    for (int i = 0; i < REPORT_LINES && lines[i] != 0; i++)
        json_array_append_new(list, json_integer(lines[i]));
    return list;
}

_Static_assert(REPORT_ANSWERS == 3, "as many as the catalogue lists");

static json_t *catalogue_scenarios(void) {
    json_t *list = json_array();
    for (int i = 0; scenarios[i]; i++) {
        const struct report_text *text = &scenarios[i]->text;
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:[s, s, s], s:i, s:s, s:s, s:s, s:o, s:o}", "name",
                            scenarios[i]->name, "title", text->title, "question", text->question, "answers",
                            text->answers[0], text->answers[1], text->answers[2], "right", text->right,
                            "story", text->story, "broken_code", text->broken_code, "fixed_code",
                            text->fixed_code, "broken_lines", catalogue_lines(text->broken_lines),
                            "fixed_lines", catalogue_lines(text->fixed_lines)));
    }
    return list;
}

static json_t *catalogue_ways(void) {
    json_t *list = json_array();
    for (const struct live_way *way = live_ways; way->id; way++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b}", "id", way->id, "name", way->name,
                                              "about", way->about, "safe", way->safe));
    return list;
}

static void catalogue_add_fault(json_t *list, enum run_fault fault, const char *target) {
    json_array_append_new(list, json_pack("{s:s, s:s}", "fault", run_fault_names[fault], "target", target));
}

static json_t *catalogue_faults(const struct live_lock *lock) {
    json_t *list = json_array();
    for (int i = 0; live_clients[i]; i++) {
        for (int fault = RUN_FAULT_PAUSE; fault <= RUN_FAULT_REVIVE; fault++)
            catalogue_add_fault(list, (enum run_fault)fault, live_clients[i]);
    }
    for (int i = 0; lock->servers[i]; i++) {
        catalogue_add_fault(list, RUN_FAULT_CUT, lock->servers[i]);
        catalogue_add_fault(list, RUN_FAULT_HEAL, lock->servers[i]);
        if (lock->clock)
            catalogue_add_fault(list, RUN_FAULT_JUMP, lock->servers[i]);
    }
    if (lock->master)
        catalogue_add_fault(list, RUN_FAULT_KILL_MASTER, lock->master);
    return list;
}

static json_t *catalogue_locks(void) {
    json_t *list = json_array();
    for (const struct live_lock *lock = live_locks; lock->id; lock++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b, s:o}", "id", lock->id, "name", lock->name,
                                              "about", lock->about, "fence", lock->fence, "faults",
                                              catalogue_faults(lock)));
    return list;
}

json_t *run_orders_catalogue(void) {
    return json_pack("{s:o, s:o, s:o, s:{s:i, s:i, s:i}}", "scenarios", catalogue_scenarios(), "ways",
                     catalogue_ways(), "locks", catalogue_locks(), "limits", "stock", LIVE_STOCK_MAX,
                     "buyers", LIVE_BUYERS_MAX, "seconds", LIVE_SECONDS_MAX);
}

/* ---- reading orders ---- */

static bool order_fail(char error[RUN_ORDER_ERROR_SIZE], const char *what) {
    snprintf(error, RUN_ORDER_ERROR_SIZE, "%s", what);
    return false;
}

static bool is_in(int64_t number, int64_t least, int64_t most) {
    return number >= least && number <= most;
}

static bool read_scenario(json_t *json, struct run_order *order, char error[RUN_ORDER_ERROR_SIZE]) {
    const char *kind, *name, *play;
    json_int_t seed = order->seed;
    if (json_unpack(json, "{s:s, s:s, s:s, s?:I !}", "kind", &kind, "name", &name, "play", &play, "seed",
                    &seed) != 0)
        return order_fail(error,
                          "A scenario has a name, a play (broken or fixed), perhaps a seed, and no more.");
    order->scenario = scenario_find(name);
    order->broken = strcmp(play, "broken") == 0;
    order->seed = seed;
    if (!order->scenario)
        return order_fail(error, "There is no such scenario: GET /api/lab lists them.");
    if (!order->broken && strcmp(play, "fixed") != 0)
        return order_fail(error, "The play is broken or fixed.");
    return is_in(seed, 0, SEED_MAX) || order_fail(error, "The seed is a number from 0 to 10^15.");
}

static const struct live_way *find_way(const char *id) {
    const struct live_way *way = live_ways;
    while (way->id && strcmp(way->id, id) != 0)
        way++;
    return way->id ? way : NULL;
}

static bool read_ways(json_t *list, struct run_order *order, char error[RUN_ORDER_ERROR_SIZE]) {
    size_t count = json_array_size(list);
    if (count < 1 || count > RUN_WAYS)
        return order_fail(error, "A sale has a list of one or two ways.");
    for (size_t i = 0; i < count; i++) {
        const char *id = json_string_value(json_array_get(list, i));
        order->ways[i] = id ? find_way(id) : NULL;
        if (!order->ways[i])
            return order_fail(error, "There is no such way to sell: GET /api/lab lists them.");
        order->broken = order->broken || !order->ways[i]->safe;
    }
    return order->ways[0] != order->ways[1] || order_fail(error, "Choose two different ways.");
}

static bool read_sale(json_t *json, struct run_order *order, char error[RUN_ORDER_ERROR_SIZE]) {
    const char *kind;
    json_t *ways;
    json_int_t stock, buyers, seconds;
    if (json_unpack(json, "{s:s, s:o, s:I, s:I, s:I !}", "kind", &kind, "ways", &ways, "stock", &stock,
                    "buyers", &buyers, "seconds", &seconds) != 0)
        return order_fail(error, "A sale has ways, stock, buyers and seconds, and no more.");
    if (!is_in(stock, 1, LIVE_STOCK_MAX) || !is_in(buyers, 1, LIVE_BUYERS_MAX) ||
        !is_in(seconds, 1, LIVE_SECONDS_MAX))
        return order_fail(error, "Stock, buyers and seconds are at least 1; GET /api/lab has their limits.");
    order->scenario = &live_sale;
    order->stock = stock;
    order->buyers = buyers;
    order->seconds = seconds;
    return read_ways(ways, order, error);
}

static bool read_lock(json_t *json, struct run_order *order, char error[RUN_ORDER_ERROR_SIZE]) {
    const char *kind, *id;
    int fencing;
    if (json_unpack(json, "{s:s, s:s, s:b !}", "kind", &kind, "lock", &id, "fencing", &fencing) != 0)
        return order_fail(error, "A lock run has a lock, and fencing (true or false), and no more.");
    for (order->lock = live_locks; order->lock->id && strcmp(order->lock->id, id) != 0;)
        order->lock++;
    if (!order->lock->id)
        return order_fail(error, "There is no such lock: GET /api/lab lists them.");
    if (fencing && !order->lock->fence)
        return order_fail(error, "This lock has no fencing token.");
    order->scenario = &live_lock_scenario;
    order->fencing = fencing != 0;
    order->broken = !order->fencing;
    return true;
}

bool run_order_read(json_t *json, int64_t seed, struct run_order *order, char error[RUN_ORDER_ERROR_SIZE]) {
    static bool (*const readers[])(json_t *, struct run_order *, char[RUN_ORDER_ERROR_SIZE]) = {
        [RUN_SCENARIO] = read_scenario, [RUN_SALE] = read_sale, [RUN_LOCK] = read_lock};
    const char *kind = json_string_value(json_object_get(json, "kind"));
    for (int i = 0; kind && i <= RUN_LOCK; i++) {
        *order = (struct run_order){.kind = (enum run_kind)i, .seed = seed};
        if (strcmp(kind, kinds[i]) == 0)
            return readers[i](json, order, error);
    }
    return order_fail(error, "The kind of a run is scenario, sale or lock.");
}

bool run_order_read_injection(json_t *json, struct run_injection *what, char error[RUN_ORDER_ERROR_SIZE]) {
    const char *fault, *target;
    if (json_unpack(json, "{s:s, s:s !}", "fault", &fault, "target", &target) != 0)
        return order_fail(error, "It has a fault and a target, and no more.");
    snprintf(what->target, sizeof what->target, "%s", target);
    for (int i = 0; i < RUN_FAULTS; i++) {
        what->fault = (enum run_fault)i;
        if (strcmp(run_fault_names[i], fault) == 0)
            return true;
    }
    return order_fail(error, "There is no such fault: GET /api/lab lists them.");
}

/* ---- writing orders ---- */

static json_t *write_ways(const struct run_order *order) {
    json_t *ways = json_array();
    for (int i = 0; i < RUN_WAYS && order->ways[i]; i++)
        json_array_append_new(ways, json_string(order->ways[i]->id));
    return ways;
}

json_t *run_order_write(const struct run_order *order) {
    const char *kind = kinds[order->kind];
    switch (order->kind) {
    case RUN_SALE:
        return json_pack("{s:s, s:o, s:I, s:I, s:I}", "kind", kind, "ways", write_ways(order), "stock",
                         (json_int_t)order->stock, "buyers", (json_int_t)order->buyers, "seconds",
                         (json_int_t)order->seconds);
    case RUN_LOCK:
        return json_pack("{s:s, s:s, s:b}", "kind", kind, "lock", order->lock->id, "fencing", order->fencing);
    default:
        return json_pack("{s:s, s:s, s:s, s:I}", "kind", kind, "name", order->scenario->name, "play",
                         order->broken ? "broken" : "fixed", "seed", (json_int_t)order->seed);
    }
}

const char *run_order_kind_name(enum run_kind kind) {
    return kinds[kind];
}

const char *run_order_name(const struct run_order *order) {
    return order->kind == RUN_SCENARIO ? order->scenario->name
           : order->kind == RUN_LOCK   ? order->lock->id
                                       : "";
}
