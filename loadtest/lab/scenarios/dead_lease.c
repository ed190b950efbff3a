/* etcd, variant rpc: the server's own lock service grants on a lease that is gone. */
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/scenarios/scenario.h"
#include "loadtest/lab/stage/stage_servers.h"

/* A waiter asks anew every second: what happens to it happens between two of its requests. */
enum { WAIT_MS = 20000, QUEUE_MS = 300, TRY_MS = 300, WORK_MS = 100 };

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    struct server *etcd;
    char url[ETCD_URL_SIZE];
    const char *prefix = broken ? "lock-rpc/" : "lock/";
    cast_open(&cast, stage, "shop", !broken);
    stage_start_etcd(stage, "etcd", 1, &etcd);
    server_etcd_url(url, &etcd, 1);
    cast_set_lock(&cast, "%s%s", url, broken ? "?variant=rpc" : "");
    struct client *a = cast_client(&cast, "client-a"), *b = cast_client(&cast, "client-b"),
                  *c = cast_client(&cast, "client-c");
    cast_begin(&cast, 1);
    observer_watch_etcd(cast.clients, &etcd, 1, prefix, CAST_ITEM);
    stage_until(stage, 50 + stage_random(stage, 0, 50));
    client_acquire(a, CAST_ITEM, WAIT_MS);
    client_begin_acquire(b, CAST_ITEM, WAIT_MS);
    stage_pause(stage, QUEUE_MS);
    stage_fault(stage, "client-b", "its lease ends while it waits");
    server_revoke_newest_lease(etcd, prefix);
    client_release(a); /* at once: soon B would notice */
    client_done_within(b, TRY_MS);
    client_begin_acquire(c, CAST_ITEM, WAIT_MS);
    client_done_within(c, TRY_MS);
    bool both = client_holds(b) && client_holds(c);
    if (both) {
        client_read_stock(b, CAST_ITEM);
        client_read_stock(c, CAST_ITEM);
        stage_pause(stage, WORK_MS);
        client_sell(b, CAST_ITEM, STOCK_COMPUTED, NULL);
        client_sell(c, CAST_ITEM, STOCK_COMPUTED, NULL);
        client_release(c);
        client_release(b);
    } else {
        struct client *first = client_holds(b) ? b : c;
        cast_sell(first);
        cast_sell(first == b ? c : b);
    }
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_dead_lease = {
    .name = "dead-lease",
    .ttl_ms = 3000,
    .text =
        {
            .title = "etcd's own lock service, up to 3.4, grants to a waiter whose lease has gone.",
            .question =
                "etcd has a lock service: one call, and the server does the waiting. A waiter's lease "
                "ends while it waits, and its key goes with it. What does the server answer when the "
                "lock is released?",
            .answers = {"It grants the lock to the next waiter whose lease is alive.",
                        "It grants the lock to the waiter whose key is gone.",
                        "It answers with an error: the lease does not exist any more."},
            .right = 1,
            .story = "The call Lock puts a key with the caller's lease, and waits until all older keys are "
                     "gone. Then it answers that the lock is held.\n\n"
                     "Client A holds the lock. Client B waits for it in the server. B's lease ends: its "
                     "keep-alives were lost. With the lease its key is deleted; B is not in the queue any "
                     "more.\n\n"
                     "A releases. The server sees that no older key is left, and answers B that it has the "
                     "lock. Up to version 3.4 it does not look whether B's own key still exists.\n\n"
                     "Client C asks, finds no key at all, and gets the lock beside B. Both sell the lamp.\n\n"
                     "The fix: after each wake-up a waiter verifies that its own key, with its create "
                     "revision, is still there. Here B finds that it is gone, and enters the queue anew.",
            .broken_code = "wait until all older keys are deleted\n"
                           "return OK                # is its own key still there?",
            .fixed_code = "wait until the key before is deleted\n"
                          "txn: if create_revision(own key) == own revision\n"
                          "     then return OK, fence = own revision\n"
                          "     else enter the queue anew",
            .broken_lines = {2},
            .fixed_lines = {2},
        },
    .play = play,
};
