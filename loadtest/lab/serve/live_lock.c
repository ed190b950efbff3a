/* The live lock: three clients take turns for as long as the user watches, and the user breaks things. */
#include <string.h>

#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/serve/run_control.h"

enum {
    CLIENTS = 3,
    TTL_MS = 2000,
    WORK_MS = 700,
    UNITS = 1000,
    PLAY_MS = 180000, /* the play ends then, since nobody may be watching any more */
    REVIVALS = 40,    /* since a play can have only so many clients */
    POLL_MS = 100,
    JUMP_MS = 60000,
    UNREPLICATED_MS = 1500, /* long enough that a client takes the lock, which the replica does not learn */
    STAGGER_MS = 150,
};

enum client_state { RUNS, PAUSED, DEAD };

struct lock_play {
    const struct live_lock *lock;
    struct cast cast;
    struct client *clients[CLIENTS];
    enum client_state states[CLIENTS];
    int revivals;
    struct proxy *links[LIVE_SERVERS]; /* between the servers, which the cast has, and the clients */
    /* Only below Sentinel. `sentinel` is NULL without it, and once the master was killed. */
    struct server *sentinel, *replica;
    struct proxy *to_replica;
};

const char *const live_clients[CLIENTS + 1] = {"client-a", "client-b", "client-c", NULL};

/* ---- the locks ---- */

static struct server *start_etcd(struct stage *stage, const char *name) {
    struct server *member;
    stage_start_etcd(stage, name, 1, &member);
    return member;
}

/* Starts the servers of the lock, with a link between each and the clients. */
static void start_lock(struct lock_play *p) {
    const struct live_lock *lock = p->lock;
    struct stage *stage = p->cast.stage;
    int ports[LIVE_SERVERS], count = 0;
    for (; lock->servers[count]; count++) {
        struct server *server = cast_add_lock_server(&p->cast, lock->start(stage, lock->servers[count]));
        p->links[count] = stage_start_link(stage, server->port);
        ports[count] = proxy_port(p->links[count]);
    }
    cast_set_lock(&p->cast, lock->scheme, ports, count, lock->options ? lock->options : "");
    if (!lock->master)
        return;
    int master_port = p->cast.lock_servers[0]->port;
    p->to_replica = stage_start_link(stage, master_port);
    p->replica =
        cast_add_lock_server(&p->cast, stage_start_replica(stage, "redis-2", proxy_port(p->to_replica)));
    p->sentinel = stage_start_sentinel(stage, "sentinel", master_port);
}

const struct live_lock live_locks[] = {
    {"redis", "Redis, unique owner",
     "SET NX PX with a unique owner, released by a script that compares; it can give a fencing token.",
     .fence = true, .clock = true, .servers = {"redis"}, .scheme = "redis",
     .start = stage_start_redis_with_clock},
    {"set-del", "Redis, SET and DEL (V2.0)",
     "SET NX PX takes the lock, DEL releases it, whoever has it by then.", .clock = true,
     .servers = {"redis"}, .scheme = "redis", .options = "variant=set-del",
     .start = stage_start_redis_with_clock},
    {"watchdog", "Redis, watchdog",
     "As Redisson: a lease that the client renews for as long as its process lives.", .clock = true,
     .servers = {"redis"}, .scheme = "redis", .options = "variant=watchdog",
     .start = stage_start_redis_with_clock},
    {"sentinel", "Redis, master and replica with Sentinel",
     "The lock of the unique owner, on a master that may die before its replica knows the lock.",
     .fence = true, .servers = {"redis-1"}, .master = "redis-1", .scheme = "redis",
     .start = cast_start_redis},
    {"redlock", "Redlock, three nodes",
     "A majority of three independent Redis servers grants the lock; there is no fencing token.",
     .clock = true, .servers = {"node-1", "node-2", "node-3"}, .scheme = "redlock",
     .start = stage_start_redis_with_clock},
    {"etcd", "etcd",
     "A key with a lease, and each waiter watches the one before it; its revision is a fencing token.",
     .fence = true, .servers = {"etcd"}, .scheme = "etcd", .start = start_etcd},
    {"zookeeper", "ZooKeeper", "An ephemeral node of a session, in sequence; its zxid is a fencing token.",
     .fence = true, .servers = {"zookeeper"}, .scheme = "zookeeper", .start = stage_start_zookeeper},
    {.id = NULL},
};

/* ---- faults: each returns NULL, or why it cannot be injected ---- */

static void begin_shop(struct client *client) {
    client_begin_shop(client, CAST_ITEM, STOCK_COMPUTED, UNITS, WORK_MS);
}

static const char *revive_client(struct lock_play *p, int i) {
    if (p->revivals++ >= REVIVALS)
        return "it was started too often: begin a new run";
    p->clients[i] = cast_client(&p->cast, live_clients[i]);
    stage_fault_over(p->cast.stage, live_clients[i], "killed");
    begin_shop(p->clients[i]);
    return NULL;
}

static const char *inject_into_client(struct lock_play *p, int i, enum run_fault fault) {
    static const struct {
        const char *refused[DEAD + 1]; /* why not, in this state; NULL: it can be injected */
        enum client_state then;
    } faults[] = {
        [RUN_FAULT_PAUSE] = {{NULL, "it is paused already", "it is dead"}, PAUSED},
        [RUN_FAULT_RESUME] = {{"it is not paused", NULL, "it is not paused"}, RUNS},
        [RUN_FAULT_KILL] = {{NULL, NULL, "it is dead already"}, DEAD},
        [RUN_FAULT_REVIVE] = {{"it is alive", "it is alive", NULL}, RUNS},
    };
    if (fault > RUN_FAULT_REVIVE)
        return "this is for a server, not for a client";
    const char *why = faults[fault].refused[p->states[i]];
    if (!why && fault == RUN_FAULT_REVIVE)
        why = revive_client(p, i);
    if (why)
        return why;
    if (fault == RUN_FAULT_PAUSE)
        client_pause(p->clients[i], "paused by hand");
    else if (fault == RUN_FAULT_RESUME)
        client_resume(p->clients[i]);
    else if (fault == RUN_FAULT_KILL)
        client_kill(p->clients[i]);
    p->states[i] = faults[fault].then;
    return NULL;
}

/* The replica does not know what the master granted last. Clients reach the new master at the address of the
 * old one, since their link moves. */
static const char *kill_master(struct lock_play *p) {
    struct server *master = p->cast.lock_servers[0];
    if (!p->sentinel)
        return "there is no other server that could become master";
    proxy_silence(p->to_replica);
    stage_pause(p->cast.stage, UNREPLICATED_MS);
    stage_fault(p->cast.stage, master->name, "killed before it has replicated the lock");
    server_kill(master);
    server_await_promotion(p->sentinel, master->port, p->replica);
    proxy_point(p->links[0], p->replica->port);
    proxy_heal(p->links[0]);
    p->sentinel = NULL;
    return NULL;
}

static const char *inject_into_server(struct lock_play *p, int i, enum run_fault fault) {
    struct proxy *link = p->links[i];
    struct server *server = p->cast.lock_servers[i];
    switch (fault) {
    case RUN_FAULT_CUT:
        if (proxy_is_silent(link))
            return "it is cut off already";
        proxy_silence(link);
        stage_fault(p->cast.stage, server->name, "cut off");
        return NULL;
    case RUN_FAULT_HEAL:
        if (!proxy_is_silent(link))
            return "it is not cut off";
        proxy_heal(link);
        stage_fault_over(p->cast.stage, server->name, "cut off");
        return NULL;
    case RUN_FAULT_JUMP:
        if (!p->lock->clock)
            return "its clock cannot be moved";
        server_move_clock(server, JUMP_MS);
        return NULL;
    case RUN_FAULT_KILL_MASTER: return p->lock->master ? kill_master(p) : "this lock has no master to kill";
    default: return "this is for a client, not for a server";
    }
}

static const char *inject(struct lock_play *p, const struct run_injection *what) {
    for (int i = 0; i < CLIENTS; i++) {
        if (strcmp(what->target, live_clients[i]) == 0)
            return inject_into_client(p, i, what->fault);
    }
    for (int i = 0; p->lock->servers[i]; i++) {
        if (strcmp(what->target, p->lock->servers[i]) == 0)
            return inject_into_server(p, i, what->fault);
    }
    return "there is no such client or server";
}

/* ---- the play ---- */

static void live_lock_play(struct stage *stage, bool broken) {
    const struct live *live = stage_options(stage)->ctx;
    struct lock_play p = {.lock = live->order->lock};
    struct run_injection what;
    (void)broken;
    cast_open(&p.cast, stage, "shop", live->order->fencing);
    start_lock(&p);
    for (int i = 0; i < CLIENTS; i++)
        p.clients[i] = cast_client(&p.cast, live_clients[i]);
    cast_begin(&p.cast, UNITS);
    for (int i = 0; i < CLIENTS; i++) {
        begin_shop(p.clients[i]);
        stage_pause(stage, STAGGER_MS);
    }
    while (!stage_failed(stage) && !run_control_stopping(live->control) && stage_now_ms(stage) < PLAY_MS) {
        if (run_control_next_injection(live->control, POLL_MS, &what))
            run_control_answer(live->control, inject(&p, &what));
    }
    observer_read_stock(p.cast.shop, CAST_ITEM);
}

const struct scenario live_lock_scenario = {.name = "live-lock", .ttl_ms = TTL_MS, .play = live_lock_play};
