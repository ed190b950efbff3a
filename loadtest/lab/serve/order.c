#include "loadtest/lab/serve/order.h"

#include <string.h>

#include "loadtest/lab/serve/live.h"

#define SEED_MAX INT64_C(1000000000000000)

static const char *const kinds[] = {[DESK_SCENARIO] = "scenario", [DESK_SALE] = "sale", [DESK_LOCK] = "lock"};

static bool fail(char error[ORDER_ERROR_SIZE], const char *what) {
    snprintf(error, ORDER_ERROR_SIZE, "%s", what);
    return false;
}

static bool is_in(int64_t number, int64_t least, int64_t most) {
    return number >= least && number <= most;
}

/* ---- each kind ---- */

static bool read_scenario(json_t *json, struct desk_order *order, char error[ORDER_ERROR_SIZE]) {
    const char *kind, *name, *play;
    json_int_t seed = order->seed;
    if (json_unpack(json, "{s:s, s:s, s:s, s?:I !}", "kind", &kind, "name", &name, "play", &play, "seed",
                    &seed) != 0)
        return fail(error, "A scenario has a name, a play (broken or fixed), perhaps a seed, and no more.");
    order->scenario = scenario_find(name);
    order->broken = strcmp(play, "broken") == 0;
    order->seed = seed;
    if (order->scenario == NULL)
        return fail(error, "There is no such scenario: GET /api/lab lists them.");
    if (!order->broken && strcmp(play, "fixed") != 0)
        return fail(error, "The play is broken or fixed.");
    return is_in(seed, 0, SEED_MAX) || fail(error, "The seed is a number from 0 to 10^15.");
}

static const struct live_way *find_way(const char *id) {
    const struct live_way *way = live_ways;
    while (way->id != NULL && strcmp(way->id, id) != 0)
        way++;
    return way->id != NULL ? way : NULL;
}

static bool read_ways(json_t *list, struct desk_order *order, char error[ORDER_ERROR_SIZE]) {
    size_t count = json_array_size(list);
    if (count < 1 || count > DESK_WAYS)
        return fail(error, "A sale has a list of one or two ways.");
    for (size_t i = 0; i < count; i++) {
        const char *id = json_string_value(json_array_get(list, i));
        order->ways[i] = id != NULL ? find_way(id) : NULL;
        if (order->ways[i] == NULL)
            return fail(error, "There is no such way to sell: GET /api/lab lists them.");
        order->broken = order->broken || !order->ways[i]->safe;
    }
    return order->ways[0] != order->ways[1] || fail(error, "Choose two different ways.");
}

static bool read_sale(json_t *json, struct desk_order *order, char error[ORDER_ERROR_SIZE]) {
    const char *kind;
    json_t *ways;
    json_int_t stock, buyers, seconds;
    if (json_unpack(json, "{s:s, s:o, s:I, s:I, s:I !}", "kind", &kind, "ways", &ways, "stock", &stock,
                    "buyers", &buyers, "seconds", &seconds) != 0)
        return fail(error, "A sale has ways, stock, buyers and seconds, and no more.");
    if (!is_in(stock, 1, LIVE_STOCK_MAX) || !is_in(buyers, 1, LIVE_BUYERS_MAX) ||
        !is_in(seconds, 1, LIVE_SECONDS_MAX))
        return fail(error, "Stock, buyers and seconds are at least 1; GET /api/lab has their limits.");
    order->scenario = &live_sale;
    order->stock = stock;
    order->buyers = buyers;
    order->seconds = seconds;
    return read_ways(ways, order, error);
}

static bool read_lock(json_t *json, struct desk_order *order, char error[ORDER_ERROR_SIZE]) {
    const char *kind, *id;
    int fencing;
    if (json_unpack(json, "{s:s, s:s, s:b !}", "kind", &kind, "lock", &id, "fencing", &fencing) != 0)
        return fail(error, "A lock run has a lock, and fencing (true or false), and no more.");
    for (order->lock = live_locks; order->lock->id != NULL && strcmp(order->lock->id, id) != 0;)
        order->lock++;
    if (order->lock->id == NULL)
        return fail(error, "There is no such lock: GET /api/lab lists them.");
    if (fencing && !order->lock->fence)
        return fail(error, "This lock has no fencing token.");
    order->scenario = &live_lock_scenario;
    order->fencing = fencing != 0;
    order->broken = !order->fencing;
    return true;
}

bool order_read(json_t *json, int64_t seed, struct desk_order *order, char error[ORDER_ERROR_SIZE]) {
    static bool (*const readers[])(json_t *, struct desk_order *, char[ORDER_ERROR_SIZE]) = {
        [DESK_SCENARIO] = read_scenario, [DESK_SALE] = read_sale, [DESK_LOCK] = read_lock};
    const char *kind = json_string_value(json_object_get(json, "kind"));
    for (int i = 0; kind != NULL && i <= DESK_LOCK; i++) {
        *order = (struct desk_order){.kind = (enum desk_kind)i, .seed = seed};
        if (strcmp(kind, kinds[i]) == 0)
            return readers[i](json, order, error);
    }
    return fail(error, "The kind of a run is scenario, sale or lock.");
}

bool order_read_break(json_t *json, struct desk_break *what, char error[ORDER_ERROR_SIZE]) {
    const char *fault, *target;
    if (json_unpack(json, "{s:s, s:s !}", "fault", &fault, "target", &target) != 0)
        return fail(error, "It has a fault and a target, and no more.");
    snprintf(what->target, sizeof what->target, "%s", target);
    for (int i = 0; i < DESK_FAULTS; i++) {
        what->fault = (enum desk_fault)i;
        if (strcmp(desk_fault_names[i], fault) == 0)
            return true;
    }
    return fail(error, "There is no such fault: GET /api/lab lists them.");
}

/* ---- writing ---- */

static json_t *write_ways(const struct desk_order *order) {
    json_t *ways = json_array();
    for (int i = 0; i < DESK_WAYS && order->ways[i] != NULL; i++)
        json_array_append_new(ways, json_string(order->ways[i]->id));
    return ways;
}

json_t *order_write(const struct desk_order *order) {
    const char *kind = kinds[order->kind];
    switch (order->kind) {
    case DESK_SALE:
        return json_pack("{s:s, s:o, s:I, s:I, s:I}", "kind", kind, "ways", write_ways(order), "stock",
                         (json_int_t)order->stock, "buyers", (json_int_t)order->buyers, "seconds",
                         (json_int_t)order->seconds);
    case DESK_LOCK:
        return json_pack("{s:s, s:s, s:b}", "kind", kind, "lock", order->lock->id, "fencing", order->fencing);
    default:
        return json_pack("{s:s, s:s, s:s, s:I}", "kind", kind, "name", order->scenario->name, "play",
                         order->broken ? "broken" : "fixed", "seed", (json_int_t)order->seed);
    }
}

const char *order_kind_name(enum desk_kind kind) {
    return kinds[kind];
}

const char *order_name(const struct desk_order *order) {
    return order->kind == DESK_SCENARIO ? order->scenario->name
           : order->kind == DESK_LOCK   ? order->lock->id
                                        : "";
}
