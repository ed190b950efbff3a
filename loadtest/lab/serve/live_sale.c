/* The live sale: one or two ways to sell, each with a Redis, a seckilld and a crowd of its own, at the same
 * time. */
#include <string.h>

#include "loadtest/lab/serve/run_control.h"
#include "loadtest/lab/stage/stage_sale.h"

enum {
    TICK_MS = 100,
    USERS = 10000000, /* so many that nobody buys twice */
    COUNT_MS = 60000, /* the crowd may take so long to resolve its unknown requests and count */
    URL_SIZE = 64
};

const struct live_way live_ways[] = {
    {"naive", "naive", "Reads the stock, compares, writes what is left: three steps.", false, "naive", NULL},
    {"decr", "decrement", "Subtracts, looks at the sign, and gives back what was too much.", true, "decr",
     NULL},
    {"optimistic", "optimistic", "WATCH, MULTI, EXEC: tries again when another was faster.", true,
     "optimistic", NULL},
    {"lua", "one script", "Reads, compares and subtracts in one script; a call for each buyer.", true, "lua",
     NULL},
    {"batch", "one script for many", "The same script, and one call for all who wait.", true, "batch", NULL},
    {"locked-redis", "naive, under a Redis lock", "The naive three steps, one buyer at a time.", true,
     "locked", "redis"},
    {"locked-etcd", "naive, under an etcd lock", "The naive three steps, one buyer at a time.", true,
     "locked", "etcd"},
    {"locked-zookeeper", "naive, under a ZooKeeper lock", "The naive three steps, one buyer at a time.", true,
     "locked", "zookeeper"},
    {.id = NULL},
};

/* One way to sell, with its own servers and buyers. */
struct side {
    const struct live_way *way;
    struct server *service;
    struct crowd crowd;
    struct crowd_progress last;
    bool ended;
};

/* ---- before the sale ---- */

/* Starts the servers of a way to sell. */
static void open_side(struct side *side, struct stage *stage, const struct live_way *way) {
    char name[SERVER_NAME_SIZE], url[URL_SIZE] = "local:";
    *side = (struct side){.way = way};
    snprintf(name, sizeof name, "redis-%s", way->id);
    struct server *redis = stage_start_redis(stage, name, NULL), *lock_server = redis;
    if (way->lock && strcmp(way->lock, "etcd") == 0)
        stage_start_etcd(stage, "etcd", 1, &lock_server);
    else if (way->lock && strcmp(way->lock, "zookeeper") == 0)
        lock_server = stage_start_zookeeper(stage, "zookeeper");
    if (way->lock)
        snprintf(url, sizeof url, "%s://127.0.0.1:%d", way->lock, lock_server->port);
    snprintf(name, sizeof name, "seckilld-%s", way->id);
    side->service = stage_start_seckilld(stage, name, redis->port,
                                         (const char *const[]){"--teaching", "--lock", url, NULL});
}

static void begin_side(struct side *side, const struct run_order *order) {
    struct stage *stage = side->service->stage;
    const char *item = side->way->id;
    char terms[100];
    const struct crowd_options options = {
        .item = item, .connections = order->buyers, .users = USERS, .seconds = order->seconds};
    snprintf(terms, sizeof terms, "{\"stock\":%lld,\"strategy\":\"%s\"}", (long long)order->stock,
             side->way->strategy);
    server_put_item(side->service, item, terms);
    stage_record_stock(stage, item, order->stock, order->stock, 0);
    crowd_start(&side->crowd, side->service, &options);
}

/* ---- while it goes on ---- */

static void record_progress(struct side *side, const struct crowd_progress *now) {
    double seconds = now->seconds - side->last.seconds;
    long long accepted = now->accepted - side->last.accepted;
    stage_record(side->service->stage,
                 &(struct event){.kind = EVENT_SALE_CROWD,
                                 .who = "seckill-load",
                                 .item = side->way->id,
                                 .accepted = now->accepted,
                                 .rejected = now->rejected,
                                 .unknown = now->unknown,
                                 .per_second = seconds > 0 ? (int64_t)((double)accepted / seconds) : 0,
                                 .p50_us = now->p50_us,
                                 .p99_us = now->p99_us});
    side->last = *now;
}

/* Polls a side. A side that has ended is not polled any more, so that the other one has the processor. */
static void watch_side(struct side *side) {
    struct seckilld_audit stock;
    struct crowd_progress progress;
    struct stage *stage = side->service->stage;
    if (side->ended || stage_failed(stage))
        return;
    side->ended = crowd_has_ended(&side->crowd);
    if (!crowd_read_progress(&side->crowd, &progress))
        return;
    record_progress(side, &progress);
    if (server_read_item(side->service, side->way->id, &stock))
        stage_record_stock(stage, side->way->id, stock.stock, stock.available, stock.sold);
}

static void watch_sides(struct run_control *control, struct stage *stage, struct side *sides, int count,
                        int64_t until_ms) {
    bool stopped = false, ended = false;
    while (!ended && !stage_failed(stage) && stage_now_ms(stage) < until_ms) {
        stage_pause(stage, TICK_MS);
        ended = true;
        for (int i = 0; i < count; i++) {
            watch_side(&sides[i]);
            ended = ended && sides[i].ended;
        }
        if (!stopped && run_control_stopping(control)) {
            stopped = true;
            for (int i = 0; i < count; i++)
                crowd_stop(&sides[i].crowd);
        }
    }
}

/* ---- the play ---- */

static void live_sale_play(struct stage *stage, bool broken) {
    const struct live *live = stage_options(stage)->ctx;
    const struct run_order *order = live->order;
    struct side sides[RUN_WAYS] = {{.way = NULL}};
    int count = 0;
    (void)broken;
    for (; count < RUN_WAYS && order->ways[count]; count++)
        open_side(&sides[count], stage, order->ways[count]);
    stage_begin(stage);
    for (int i = 0; i < count; i++)
        begin_side(&sides[i], order);
    watch_sides(live->control, stage, sides, count, order->seconds * 1000 + COUNT_MS);
    for (int i = 0; i < count; i++) {
        struct crowd_result result;
        crowd_finish(&sides[i].crowd, (uint64_t)i + 1, &result);
    }
}

const struct scenario live_sale = {.name = "live-sale", .ttl_ms = 1000, .play = live_sale_play};
