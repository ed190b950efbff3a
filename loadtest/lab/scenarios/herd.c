/* etcd, variant fixed-key: all waiters wake for one lock. */
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/scenarios/scenario.h"
#include "loadtest/lab/stage/stage_servers.h"

enum { WAITERS = 32, WAIT_MS = 30000, WORK_MS = 4, ARRIVAL_MS = 10, SETTLE_MS = 200 };

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    struct server *etcd;
    struct client *waiters[WAITERS];
    char url[ETCD_URL_SIZE];
    cast_open(&cast, stage, "shop", true);
    stage_start_etcd(stage, "etcd", 1, &etcd);
    server_etcd_url(url, &etcd, 1);
    cast_set_lock(&cast, "%s%s", url, broken ? "?variant=fixed-key" : "");
    struct client *holder = cast_client(&cast, "holder");
    const struct client_options options = {
        .name = "waiter", .url = cast.url, .stock = cast.shop, .fencing = true};
    client_start_many(cast.clients, &options, WAITERS, waiters);
    cast_begin(&cast, WAITERS);
    observer_watch_etcd(cast.clients, &etcd, 1, "lock/", CAST_ITEM);
    client_acquire(holder, CAST_ITEM, WAIT_MS);
    for (int i = 0; i < WAITERS; i++) { /* one after the other: so one sees who is served first */
        client_begin_shop(waiters[i], CAST_ITEM, STOCK_COMPUTED, 1, WORK_MS);
        stage_pause(stage, ARRIVAL_MS);
    }
    stage_pause(stage, SETTLE_MS + stage_random(stage, 0, 50)); /* all wait */
    client_release(holder);
    for (int i = 0; i < WAITERS; i++)
        client_wait(waiters[i]);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_herd = {
    .name = "herd",
    .ttl_ms = 20000,
    .text =
        {
            .title = "A lock that wakes all waiters at each release costs a request for each of them.",
            .question =
                "Thirty-two clients wait for one lock, one after the other gets it. How many requests "
                "does the store get for each hand-over?",
            .answers = {"As many as still wait, or more: all wake up, and all ask.",
                        "One: the store knows who is next, and tells only that client.",
                        "Two: the release of the old holder, and the request of the new one."},
            .right = 0,
            .story = "The lock is right: one holder at a time, with a lease and a fence.\n\n"
                     "But there is one key, and all waiters watch it. At each release all of them wake, "
                     "all of them ask, one gets it, and the others have asked for nothing. That is the "
                     "herd. With 32 waiters it is some sixteen requests a hand-over on average; with a "
                     "thousand it is five hundred, and all of them at the same moment.\n\n"
                     "Nor is it fair: the longest waiter has no better chance than the newest.\n\n"
                     "Waiters that poll are the same, spread over time.\n\n"
                     "The fix is a queue: each waiter has a key of its own, and watches only the key "
                     "before it. A release wakes one. The requests for a hand-over do not depend on the "
                     "number of waiters, and the first that came is served first.",
            .broken_code = "if not create(lock/lamp):\n"
                           "    watch(lock/lamp)        # all watch one key\n"
                           "    try again               # all of them",
            .fixed_code = "own = create(lock/lamp + unique name)\n"
                          "before = newest key older than own\n"
                          "if before: watch(before)    # one waits for one",
            .broken_lines = {2},
            .fixed_lines = {3},
        },
    .play = play,
};
