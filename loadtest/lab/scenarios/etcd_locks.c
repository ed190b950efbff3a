/* Wrong locks on etcd: the lock service of etcd itself, up to 3.4, and one key that all waiters watch. */
#include "loadtest/lab/scenarios/cast.h"

/* A waiter of dead-lease asks anew every second. DEAD_QUEUE_MS and DEAD_TRY_MS are short, so that what
 * happens to it happens between two of its requests. */
enum { DEAD_WAIT_MS = 20000, DEAD_QUEUE_MS = 300, DEAD_TRY_MS = 300, DEAD_WORK_MS = 100 };
enum {
    HERD_WAITERS = 32,
    HERD_WAIT_MS = 30000,
    HERD_WORK_MS = 4,
    HERD_ARRIVAL_MS = 10,
    HERD_SETTLE_MS = 200
};

/* ---- dead-lease (variant rpc): the lock service grants to a waiter whose lease is gone ---- */

static void dead_lease_play(struct stage *stage, bool broken) {
    struct cast cast;
    cast_open(&cast, stage, "shop", !broken);
    cast_start_etcd(&cast, 1, broken ? "variant=rpc" : "");
    cast.etcd_prefix = broken ? "lock-rpc/" : "lock/";
    struct client *a = cast_client(&cast, "client-a"), *b = cast_client(&cast, "client-b"),
                  *c = cast_client(&cast, "client-c");
    cast_begin(&cast, 1);
    stage_until(stage, 50 + stage_random(stage, 0, 50));
    client_acquire(a, CAST_ITEM, DEAD_WAIT_MS);
    client_begin_acquire(b, CAST_ITEM, DEAD_WAIT_MS);
    stage_pause(stage, DEAD_QUEUE_MS);
    stage_fault(stage, "client-b", "its lease ends while it waits");
    server_revoke_newest_lease(cast.lock_servers[0], cast.etcd_prefix);
    client_release(a); /* at once, before B notices */
    client_done_within(b, DEAD_TRY_MS);
    cast_try(c, DEAD_WAIT_MS, DEAD_TRY_MS);
    bool both = client_holds(b) && client_holds(c);
    if (both) {
        client_read_stock(b, CAST_ITEM);
        client_read_stock(c, CAST_ITEM);
        stage_pause(stage, DEAD_WORK_MS);
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
    .text.title = "etcd's own lock service, up to 3.4, grants to a waiter whose lease has gone.",
    .text.question = "etcd has a lock service: one call, and the server does the waiting. A waiter's lease "
                     "ends while it waits, and its key goes with it. What does the server answer when the "
                     "lock is released?",
    .text.answers = {"It grants the lock to the next waiter whose lease is alive.",
                     "It grants the lock to the waiter whose key is gone.",
                     "It answers with an error: the lease does not exist any more."},
    .text.right = 1,
    .text.story = "The call Lock puts a key with the caller's lease, and waits until all older keys are "
                  "gone. Then it answers that the lock is held.\n\n"
                  "Client A holds the lock. Client B waits for it in the server. B's lease ends: its "
                  "keep-alives were lost. With the lease its key is deleted; B is not in the queue any "
                  "more.\n\n"
                  "A releases. The server sees that no older key is left, and answers B that it has the "
                  "lock. Up to version 3.4 it does not look whether B's own key still exists.\n\n"
                  "Client C asks, finds no key at all, and gets the lock beside B. Both sell the lamp.\n\n"
                  "The fix: after each wake-up a waiter verifies that its own key, with its create "
                  "revision, is still there. Here B finds that it is gone, and enters the queue anew.",
    .text.broken_code = "wait until all older keys are deleted\n"
                        "return OK                # is its own key still there?",
    .text.fixed_code = "wait until the key before is deleted\n"
                       "txn: if create_revision(own key) == own revision\n"
                       "     then return OK, fence = own revision\n"
                       "     else enter the queue anew",
    .text.broken_lines = {2},
    .text.fixed_lines = {2},
    .play = dead_lease_play,
};

/* ---- herd (variant fixed-key): all waiters wake for one lock ---- */

static void herd_play(struct stage *stage, bool broken) {
    struct cast cast;
    struct client *waiters[HERD_WAITERS];
    cast_open(&cast, stage, "shop", true);
    cast_start_etcd(&cast, 1, broken ? "variant=fixed-key" : "");
    struct client *holder = cast_client(&cast, "holder");
    cast_crowd(&cast, "waiter", HERD_WAITERS, waiters);
    cast_begin(&cast, HERD_WAITERS);
    client_acquire(holder, CAST_ITEM, HERD_WAIT_MS);
    for (int i = 0; i < HERD_WAITERS; i++) { /* one after the other, so that the order of service shows */
        client_begin_shop(waiters[i], CAST_ITEM, STOCK_COMPUTED, 1, HERD_WORK_MS);
        stage_pause(stage, HERD_ARRIVAL_MS);
    }
    stage_pause(stage, HERD_SETTLE_MS + stage_random(stage, 0, 50)); /* now all wait */
    client_release(holder);
    for (int i = 0; i < HERD_WAITERS; i++)
        client_wait(waiters[i]);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_herd = {
    .name = "herd",
    .ttl_ms = 20000,
    .text.title = "A lock that wakes all waiters at each release costs a request for each of them.",
    .text.question = "Thirty-two clients wait for one lock, one after the other gets it. How many requests "
                     "does the store get for each hand-over?",
    .text.answers = {"As many as still wait, or more: all wake up, and all ask.",
                     "One: the store knows who is next, and tells only that client.",
                     "Two: the release of the old holder, and the request of the new one."},
    .text.right = 0,
    .text.story = "The lock is right: one holder at a time, with a lease and a fence.\n\n"
                  "But there is one key, and all waiters watch it. At each release all of them wake, "
                  "all of them ask, one gets it, and the others have asked for nothing. That is the "
                  "herd. With 32 waiters it is some sixteen requests a hand-over on average; with a "
                  "thousand it is five hundred, and all of them at the same moment.\n\n"
                  "Nor is it fair: the longest waiter has no better chance than the newest.\n\n"
                  "Waiters that poll are the same, spread over time.\n\n"
                  "The fix is a queue: each waiter has a key of its own, and watches only the key "
                  "before it. A release wakes one. The requests for a hand-over do not depend on the "
                  "number of waiters, and the first that came is served first.",
    .text.broken_code = "if not create(lock/lamp):\n"
                        "    watch(lock/lamp)        # all watch one key\n"
                        "    try again               # all of them",
    .text.fixed_code = "own = create(lock/lamp + unique name)\n"
                       "before = newest key older than own\n"
                       "if before: watch(before)    # one waits for one",
    .text.broken_lines = {2},
    .text.fixed_lines = {3},
    .play = herd_play,
};
