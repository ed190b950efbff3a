/* redis: the master is killed before it has replicated the lock. */
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/scenarios/scenario.h"
#include "loadtest/lab/stage/stage_servers.h"

enum { WAIT_MS = 20000, WORK_MS = 300, MEMBERS = 3 };

/* The second client's lock is where Sentinel says that the master is. */
static void play_redis(struct cast *cast) {
    struct stage *stage = cast->stage;
    struct server *master = stage_start_redis(stage, "redis-1", NULL);
    struct proxy *link = stage_start_link(stage, master->port);
    struct server *replica = stage_start_replica(stage, "redis-2", proxy_port(link));
    struct server *sentinel = stage_start_sentinel(stage, "sentinel", master->port);
    cast_set_lock(cast, "redis://127.0.0.1:%d", master->port);
    struct client *a = cast_client(cast, "client-a");
    cast_set_lock(cast, "redis://127.0.0.1:%d", replica->port);
    struct client *b = cast_client(cast, "client-b");
    cast_begin(cast, 1);
    observer_watch_redis(cast->clients, master, CAST_ITEM);
    observer_watch_redis(cast->clients, replica, CAST_ITEM);
    stage_until(stage, 50 + stage_random(stage, 0, 50));
    proxy_silence(link);
    client_acquire(a, CAST_ITEM, WAIT_MS);
    client_read_stock(a, CAST_ITEM);
    stage_fault(stage, "redis-1", "killed before it has replicated the lock");
    server_kill(master);
    server_await_promotion(sentinel, master->port, replica);
    client_begin_acquire(b, CAST_ITEM, WAIT_MS);
    client_wait(b);
    client_read_stock(b, CAST_ITEM);
    stage_pause(stage, WORK_MS);
    client_sell(a, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_sell(b, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(b);
}

static void observe(struct cast *cast, struct server *const members[]) {
    observer_watch_etcd(cast->clients, members, MEMBERS, "lock/", CAST_ITEM);
}

static void play_etcd(struct cast *cast) {
    struct stage *stage = cast->stage;
    struct server *members[MEMBERS];
    char url[ETCD_URL_SIZE];
    stage_start_etcd(stage, "etcd", MEMBERS, members);
    server_etcd_url(url, members, MEMBERS);
    cast_set_lock(cast, "%s", url);
    struct client *a = cast_client(cast, "client-a"), *b = cast_client(cast, "client-b");
    cast_begin(cast, 1);
    observe(cast, members);
    stage_until(stage, 50 + stage_random(stage, 0, 50));
    client_acquire(a, CAST_ITEM, WAIT_MS);
    client_read_stock(a, CAST_ITEM);
    int leader = server_etcd_leader(members, MEMBERS);
    stage_fault(stage, members[leader]->name, "the leader is killed");
    server_kill(members[leader]);
    client_begin_acquire(b, CAST_ITEM, WAIT_MS);
    stage_pause(stage, INT64_C(3) * WORK_MS);
    client_sell(a, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(a);
    cast_sell(b);
}

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    cast_open(&cast, stage, "shop", !broken);
    if (broken)
        play_redis(&cast);
    else
        play_etcd(&cast);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_sentinel_failover = {
    .name = "sentinel-failover",
    .ttl_ms = 5000,
    .text =
        {
            .title = "A replica that is promoted does not know the lock that its master had not replicated "
                     "yet.",
            .question = "Redis has a replica, and Sentinel promotes it when the master dies. A client has "
                        "just taken the lock when the master is killed. Who has the lock after the failover?",
            .answers = {"The same client: the replica has a copy of all keys of the master.",
                        "Nobody, until the time to live of the old lock has passed.",
                        "Perhaps two: the replica has not heard of the lock, and grants it again."},
            .right = 2,
            .story = "Redis answers before it replicates. What a replica has is what it had a moment ago.\n\n"
                     "Client A takes the lock at the master, is told OK, and reads that one lamp is left. "
                     "Before the lock is replicated the master is killed.\n\n"
                     "Sentinel notices, and promotes the replica. It has never heard of A's lock. Client B "
                     "takes the lock there, at once.\n\n"
                     "A's deadline is far away: it is right to believe that it holds the lock. Both sell "
                     "the lamp. Only a stock that checks the fence could refuse A, and this one does not.\n\n"
                     "The fix is a lock in a store that answers only when a majority has it. In etcd the "
                     "leader is killed at the same moment: the next one knows the lock, and B waits until "
                     "A has released.",
            .broken_code = "# redis, asynchronous replication\n"
                           "SET lock owner NX PX ttl   # OK, and then: replicate\n"
                           "# the master dies here",
            .fixed_code = "# etcd: a majority has written the key\n"
                          "txn: if create_revision(lock/lamp) …\n"
                          "     then put lock/lamp owner, lease\n"
                          "# the leader dies here: the next one has the key",
            .broken_lines = {2},
            .fixed_lines = {2, 3},
        },
    .play = play,
};
