/* Failovers of Redis below Sentinel: a master that dies before it has replicated a lock, and a master that is
 * cut off and goes on. The fix is a lock in etcd, where a majority decides. */
#include <string.h>

#include "loadtest/lab/scenarios/cast.h"

/* The old master notices after a second that its replica is gone. LAG_MS is more than that, and more than a
 * failover takes. */
enum { WAIT_MS = 20000, WORK_MS = 300, MEMBERS = 3, LAG_MS = 3000 };

/* ---- sentinel-failover: the master is killed before it has replicated the lock ---- */

/* The lock of client B is at the replica, which Sentinel names as the master after the failover. */
static void sentinel_failover_play_redis(struct cast *cast) {
    struct stage *stage = cast->stage;
    struct server *master = cast_add_lock_server(cast, stage_start_redis(stage, "redis-1", NULL));
    struct proxy *link = stage_start_link(stage, master->port);
    struct server *replica =
        cast_add_lock_server(cast, stage_start_replica(stage, "redis-2", proxy_port(link)));
    struct server *sentinel = stage_start_sentinel(stage, "sentinel", master->port);
    cast_set_lock(cast, "redis", &master->port, 1, "");
    struct client *a = cast_client(cast, "client-a");
    cast_set_lock(cast, "redis", &replica->port, 1, "");
    struct client *b = cast_client(cast, "client-b");
    cast_begin(cast, 1);
    stage_until(stage, 50 + stage_random(stage, 0, 50));
    proxy_silence(link);
    client_acquire(a, CAST_ITEM, WAIT_MS);
    client_read_stock(a, CAST_ITEM);
    stage_fault(stage, "redis-1", "killed before it has replicated the lock");
    server_kill(master);
    server_await_promotion(sentinel, master->port, replica);
    client_acquire(b, CAST_ITEM, WAIT_MS);
    client_read_stock(b, CAST_ITEM);
    stage_pause(stage, WORK_MS);
    client_sell(a, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_sell(b, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(b);
}

static void sentinel_failover_play_etcd(struct cast *cast) {
    struct stage *stage = cast->stage;
    cast_start_etcd(cast, MEMBERS, "");
    struct client *a = cast_client(cast, "client-a"), *b = cast_client(cast, "client-b");
    cast_begin(cast, 1);
    stage_until(stage, 50 + stage_random(stage, 0, 50));
    client_acquire(a, CAST_ITEM, WAIT_MS);
    client_read_stock(a, CAST_ITEM);
    struct server *leader = cast->lock_servers[server_etcd_leader(cast->lock_servers, MEMBERS)];
    stage_fault(stage, leader->name, "the leader is killed");
    server_kill(leader);
    client_begin_acquire(b, CAST_ITEM, WAIT_MS);
    stage_pause(stage, INT64_C(3) * WORK_MS);
    client_sell(a, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(a);
    cast_sell(b);
}

static void sentinel_failover_play(struct stage *stage, bool broken) {
    struct cast cast;
    cast_open(&cast, stage, "shop", !broken);
    if (broken)
        sentinel_failover_play_redis(&cast);
    else
        sentinel_failover_play_etcd(&cast);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_sentinel_failover = {
    .name = "sentinel-failover",
    .ttl_ms = 5000,
    .text.title = "A replica that is promoted does not know the lock that its master had not replicated "
                  "yet.",
    .text.question = "Redis has a replica, and Sentinel promotes it when the master dies. A client has "
                     "just taken the lock when the master is killed. Who has the lock after the failover?",
    .text.answers = {"The same client: the replica has a copy of all keys of the master.",
                     "Nobody, until the time to live of the old lock has passed.",
                     "Perhaps two: the replica has not heard of the lock, and grants it again."},
    .text.right = 2,
    .text.story = "Redis answers before it replicates. What a replica has is what it had a moment ago.\n\n"
                  "Client A takes the lock at the master, is told OK, and reads that one lamp is left. "
                  "Before the lock is replicated the master is killed.\n\n"
                  "Sentinel notices, and promotes the replica. It has never heard of A's lock. Client B "
                  "takes the lock there, at once.\n\n"
                  "A's deadline is far away: it is right to believe that it holds the lock. Both sell "
                  "the lamp. Only a stock that checks the fence could refuse A, and this one does not.\n\n"
                  "The fix is a lock in a store that answers only when a majority has it. In etcd the "
                  "leader is killed at the same moment: the next one knows the lock, and B waits until "
                  "A has released.",
    .text.broken_code = "# redis, asynchronous replication\n"
                        "SET lock owner NX PX ttl   # OK, and then: replicate\n"
                        "# the master dies here",
    .text.fixed_code = "# etcd: a majority has written the key\n"
                       "txn: if create_revision(lock/lamp) …\n"
                       "     then put lock/lamp owner, lease\n"
                       "# the leader dies here: the next one has the key",
    .text.broken_lines = {2},
    .text.fixed_lines = {2, 3},
    .play = sentinel_failover_play,
};

/* ---- split-brain: the old master is cut off with one client, and Sentinel promotes the replica ---- */

static const char split_brain_cut[] = "cut off, with client A";

/* Two Redis servers, and the network between them. */
struct pair {
    struct server *old, *new, *sentinel;
    struct proxy *to_replica, *to_sentinel;
};

static void pair_start(struct pair *pair, struct cast *cast) {
    struct stage *stage = cast->stage;
    pair->old = cast->shop;
    pair->to_replica = stage_start_link(stage, pair->old->port);
    pair->to_sentinel = stage_start_link(stage, pair->old->port);
    pair->new = stage_start_replica(stage, "redis-2", proxy_port(pair->to_replica));
    pair->sentinel = stage_start_sentinel(stage, "sentinel", proxy_port(pair->to_sentinel));
}

/* Waits until the server answers with `answer`: to INFO for the field `argument`, to another command for the
 * field `available` of the hash `argument`. */
static void pair_await(const struct server *server, const char *command, const char *argument,
                       const char *answer) {
    struct stage *stage = server->stage;
    int64_t deadline_ns = stage_in_ms(STAGE_PATIENCE_MS);
    while (!stage_failed(stage) &&
           strcmp(strcmp(command, "INFO") == 0 ? server_info(server, argument)
                                               : server_command(server, command, argument, "available", NULL),
                  answer) != 0) {
        if (!stage_patience(stage, deadline_ns))
            stage_fail(stage, "%s %s of %s is not %s", command, argument, server->name, answer);
    }
}

static void pair_cut(const struct pair *pair) {
    stage_fault(pair->old->stage, pair->old->name, split_brain_cut);
    proxy_silence(pair->to_replica);
    proxy_silence(pair->to_sentinel);
}

/* The old master becomes a replica of the new one, and forgets what only it had. */
static void pair_heal(const struct pair *pair) {
    proxy_heal(pair->to_sentinel);
    proxy_heal(pair->to_replica);
    stage_fault_over(pair->old->stage, pair->old->name, split_brain_cut);
    pair_await(pair->old, "INFO", "master_link_status", "up");
    server_record_role(pair->old, "replica");
}

/* From now on both masters refuse writes that no replica will get. */
static void pair_demand_replicas(const struct pair *pair) {
    const struct server *const both[] = {pair->old, pair->new};
    for (int i = 0; i < 2; i++)
        server_command(both[i], "CONFIG", "SET", "min-replicas-to-write", "1", "min-replicas-max-lag", "1",
                       NULL);
}

static void split_brain_play_broken(struct cast *cast, struct pair *pair) {
    struct stage *stage = cast->stage;
    cast_add_lock_server(cast, pair->old);
    cast_add_lock_server(cast, pair->new);
    cast_set_lock(cast, "redis", &pair->old->port, 1, "");
    struct client *a = cast_client(cast, "client-a");
    cast_set_lock(cast, "redis", &pair->new->port, 1, "");
    cast->options.stock = pair->new; /* B sells at the server that will be promoted */
    struct client *b = cast_client(cast, "client-b");
    cast_begin(cast, 1);
    pair_await(pair->new, "HGET", "stock:{" CAST_ITEM "}", "1");
    int64_t cut_ms = stage_now_ms(stage);
    pair_cut(pair);
    client_acquire(a, CAST_ITEM, WAIT_MS);
    client_read_stock(a, CAST_ITEM);
    server_await_promotion(pair->sentinel, proxy_port(pair->to_sentinel), pair->new);
    client_acquire(b, CAST_ITEM, WAIT_MS);
    client_read_stock(b, CAST_ITEM);
    stage_until(stage, cut_ms + LAG_MS);
    client_sell(a, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_sell(b, CAST_ITEM, STOCK_COMPUTED, NULL);
    pair_heal(pair);
    stage_note(stage, "A's sale was acknowledged, and is gone");
    client_release(b);
}

static void split_brain_play_fixed(struct cast *cast, struct pair *pair) {
    struct stage *stage = cast->stage;
    cast_start_etcd(cast, 1, "");
    struct client *a = cast_client(cast, "client-a");
    cast->options.stock = pair->new; /* B sells at the server that will be promoted */
    struct client *b = cast_client(cast, "client-b");
    cast_begin(cast, 1);
    pair_await(pair->new, "HGET", "stock:{" CAST_ITEM "}", "1");
    pair_demand_replicas(pair);
    int64_t cut_ms = stage_now_ms(stage);
    pair_cut(pair);
    client_acquire(a, CAST_ITEM, WAIT_MS);
    client_read_stock(a, CAST_ITEM);
    client_begin_acquire(b, CAST_ITEM, WAIT_MS);
    server_await_promotion(pair->sentinel, proxy_port(pair->to_sentinel), pair->new);
    stage_until(stage, cut_ms + LAG_MS);
    client_sell(a, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(a);
    pair_heal(pair);
    pair_await(pair->new, "INFO", "min_slaves_good_slaves", "1");
    cast_sell(b);
}

static void split_brain_play(struct stage *stage, bool broken) {
    struct cast cast;
    struct pair pair;
    cast_open(&cast, stage, "redis-1", false);
    pair_start(&pair, &cast);
    if (broken)
        split_brain_play_broken(&cast, &pair);
    else
        split_brain_play_fixed(&cast, &pair);
    observer_read_stock(pair.new, CAST_ITEM);
}

const struct scenario scenario_split_brain = {
    .name = "split-brain",
    .ttl_ms = 8000,
    .text.title = "A master that is cut off goes on selling, and what it acknowledged is forgotten.",
    .text.question = "The network cuts the master off, together with one client. Sentinel promotes the "
                     "replica. Both masters answer their clients. What remains of what the old one "
                     "acknowledges from now on?",
    .text.answers = {"All of it: the two masters merge what they have once they meet.",
                     "Nothing: it becomes a replica, and takes over the new master's data.",
                     "All of it: a master that is cut off stops answering, so there is nothing to lose."},
    .text.right = 1,
    .text.story = "The network splits. On one side the old master and client A; on the other the "
                  "replica, Sentinel, and client B.\n\n"
                  "A takes the lock at the old master, which answers as ever. Sentinel cannot reach it, "
                  "and promotes the replica. B takes the lock there. Now there are two masters and two "
                  "holders.\n\n"
                  "Both sell the last lamp, and both sales are acknowledged.\n\n"
                  "The network heals. The old master is told to be a replica, copies what the new one "
                  "has, and forgets A's sale. The buyer has a confirmation of an order that nobody has.\n\n"
                  "The fix has two parts. min-replicas-to-write lets a master refuse a write when no "
                  "replica has answered for a second: A's sale is refused, not forgotten. And the lock "
                  "is in etcd, where only a majority can grant it: B waits until A has released. (The play "
                  "starts one member of etcd. Run three, so that one may die.)",
    .text.broken_code = "# redis-1, cut off:\n"
                        "SET lock A NX PX ttl       # OK\n"
                        "HINCRBY lamp sold 1        # OK, and forgotten\n"
                        "# redis-2, promoted:\n"
                        "SET lock B NX PX ttl       # OK",
    .text.fixed_code = "# redis.conf, on both:\n"
                       "min-replicas-to-write 1\n"
                       "min-replicas-max-lag 1\n"
                       "# the lock: etcd://h1,h2,h3\n"
                       "HINCRBY lamp sold 1        # NOREPLICAS: refused",
    .text.broken_lines = {3},
    .text.fixed_lines = {2},
    .play = split_brain_play,
};
