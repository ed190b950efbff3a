#include "loadtest/lab/stage/stage_servers.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lock/libetcd/etcd.h"

enum { OPTIONS_MAX = 32, WORDS_MAX = 16, VERSION_SIZE = 24, ANSWER_SIZE = 2048, REPLY_SIZE = 16384 };
enum { ASK_MS = 1000, COMMAND_MS = 1000, DOWN_AFTER_MS = 400, FAILOVER_TIMEOUT_MS = 2000 };

/* ---- of all kinds ---- */

static void server_end(void *part) {
    struct server *server = part;
    if (server->proc)
        proc_free(server->proc->record);
    if (server->clock.turned)
        munmap(server->clock.turned, sizeof *server->clock.turned);
    free(server);
}

struct server *server_new(struct stage *stage, const char *name, enum server_kind kind) {
    struct server *server = calloc(1, sizeof *server);
    if (!server)
        abort(); /* a scenario counts on it, and has no use for less */
    server->stage = stage;
    server->kind = kind;
    snprintf(server->name, sizeof server->name, "%s", name);
    stage_add(stage, server_end, server);
    return server;
}

void server_path(const struct server *server, char path[SERVER_PATH_SIZE]) {
    snprintf(path, SERVER_PATH_SIZE, "%s/%s", stage_options(server->stage)->directory, server->name);
}

void server_started(struct server *server, struct proc *proc, int port, const char *error) {
    server->proc = proc;
    server->port = port;
    if (error)
        stage_fail(server->stage, "%s: %s", server->name, error);
}

static void server_record(const struct server *server, struct event event) {
    event.who = event.server = server->name;
    stage_record(server->stage, &event);
}

void server_record_role(const struct server *server, const char *role) {
    if (!stage_failed(server->stage))
        server_record(server, (struct event){.kind = EVENT_SERVER_ROLE, .role = role});
}

void server_kill(struct server *server) {
    if (stage_failed(server->stage))
        return;
    const char *error = proc_end(server->proc, SIGKILL, STAGE_PATIENCE_MS);
    if (error)
        stage_fail(server->stage, "%s: %s", server->name, error);
    server_record(server, (struct event){.kind = EVENT_SERVER_DOWN});
}

void server_restart(struct server *server) {
    if (stage_failed(server->stage))
        return;
    bool seckilld = server->kind == SERVER_SECKILLD;
    const char *error =
        seckilld ? seckilld_server_restart(&server->seckilld) : redis_server_restart(&server->redis);
    if (!error && seckilld)
        error = seckilld_server_await_ready(&server->seckilld);
    if (error)
        stage_fail(server->stage, "%s: %s", server->name, error);
    else
        server_record(server, (struct event){.kind = EVENT_SERVER_UP});
}

static void link_end(void *link) {
    proxy_free(link);
}

struct proxy *stage_start_link(struct stage *stage, int port) {
    struct proxy *link = stage_failed(stage) ? NULL : proxy_open(port);
    if (link)
        stage_add(stage, link_end, link);
    else
        stage_fail(stage, "a link cannot be started");
    return link;
}

/* Reads the version behind `before` in an answer, up to one of the characters in `end`. */
static void server_add_version(struct stage *stage, const char *kind, const char *answer, const char *before,
                               const char *end) {
    char version[VERSION_SIZE] = "";
    const char *at = strstr(answer, before);
    if (at)
        snprintf(version, sizeof version, "%.*s", (int)strcspn(at + strlen(before), end),
                 at + strlen(before));
    stage_add_version(stage, kind, version);
}

/* ---- Redis ---- */

const char *server_command(const struct server *server, ...) {
    static char text[REPLY_SIZE];
    const char *argv[WORDS_MAX];
    int argc = 0;
    va_list args;
    if (stage_failed(server->stage))
        return "";
    va_start(args, server);
    for (const char *arg; argc < WORDS_MAX && (arg = va_arg(args, const char *));)
        argv[argc++] = arg;
    va_end(args);
    char *reply = redis_server_command(server->port, COMMAND_MS, argc, argv);
    snprintf(text, sizeof text, "%s", reply);
    free(reply);
    if (strncmp(text, "(error) ", 8) == 0)
        stage_fail(server->stage, "%s refused %s: %s", server->name, argv[0], text + 8);
    return text;
}

const char *server_info(const struct server *server, const char *field) {
    static char value[160];
    value[0] = '\0';
    if (!stage_failed(server->stage))
        redis_server_info(&server->redis, field, value, sizeof value);
    return value;
}

static void redis_launch(struct server *server, const char *const options[]) {
    const char *all[OPTIONS_MAX] = {"--repl-diskless-sync-delay", "0"};
    char path[SERVER_PATH_SIZE];
    if (stage_failed(server->stage))
        return;
    server_path(server, path);
    const char *error = options ? local_server_add_options(all, OPTIONS_MAX, options) : NULL;
    if (!error)
        error = redis_server_start(&server->redis, path, server->clock.turned ? &server->clock : NULL, all);
    server_started(server, &server->redis.proc, server->redis.port, error);
    if (!error)
        stage_add_version(server->stage, "redis", server_info(server, "redis_version"));
}

struct server *stage_start_redis(struct stage *stage, const char *name, const char *const options[]) {
    struct server *server = server_new(stage, name, SERVER_REDIS);
    redis_launch(server, options);
    return server;
}

struct server *stage_start_replica(struct stage *stage, const char *name, int master_port) {
    char port[16];
    snprintf(port, sizeof port, "%d", master_port);
    struct server *server =
        stage_start_redis(stage, name, (const char *const[]){"--replicaof", "127.0.0.1", port, NULL});
    const char *error = stage_failed(stage) ? NULL : redis_server_await_sync(&server->redis);
    if (error)
        stage_fail(stage, "%s does not copy from its master: %s", name, error);
    return server;
}

/* The library that moves its clock lies beside the programs, or where make install puts it. */
struct server *stage_start_redis_with_clock(struct stage *stage, const char *name) {
    struct server *server = server_new(stage, name, SERVER_REDIS);
    char file[SERVER_PATH_SIZE + 8], path[SERVER_PATH_SIZE], library[SERVER_PATH_SIZE];
    server_path(server, path);
    snprintf(file, sizeof file, "%s.clock", path);
    snprintf(library, sizeof library, "%.250s/turned-clock.so", stage_options(stage)->programs);
    if (access(library, R_OK) != 0)
        snprintf(library, sizeof library, "%.250s/../lib/seckill/turned-clock.so",
                 stage_options(stage)->programs);
    const char *error = redis_server_clock_open(&server->clock, library, file);
    if (error)
        stage_fail(stage, "%s has no clock that can be moved: %s", name, error);
    redis_launch(server, NULL);
    return server;
}

void server_move_clock(struct server *server, int64_t jump_ms) {
    if (stage_failed(server->stage))
        return;
    __atomic_fetch_add(&server->clock.turned->ahead_ms, jump_ms, __ATOMIC_SEQ_CST);
    server_record(server, (struct event){.kind = EVENT_SERVER_CLOCK, .jump_ms = jump_ms});
}

/* ---- Sentinel ---- */

/* It has asked the replica itself, which is in sync: so the replica may be promoted. */
static bool sentinel_knows_replica(void *arg) {
    const struct server *sentinel = arg;
    return stage_failed(sentinel->stage) ||
           strstr(server_command(sentinel, "SENTINEL", "REPLICAS", "lab", NULL), "master-link-status ok");
}

struct server *stage_start_sentinel(struct stage *stage, const char *name, int master_port) {
    struct server *sentinel = server_new(stage, name, SERVER_REDIS);
    const struct sentinel_watch watch = {.name = "lab",
                                         .master_port = master_port,
                                         .quorum = 1,
                                         .down_after_ms = DOWN_AFTER_MS,
                                         .failover_timeout_ms = FAILOVER_TIMEOUT_MS};
    char path[SERVER_PATH_SIZE];
    server_path(sentinel, path);
    if (stage_failed(stage))
        return sentinel;
    const char *error = sentinel_server_start(&sentinel->redis, path, &watch);
    if (!error)
        error = sentinel_server_await(&sentinel->redis);
    server_started(sentinel, &sentinel->redis.proc, sentinel->redis.port, error);
    /* By default Sentinel asks every ten seconds who the replicas are, and takes a timer that is two seconds
     * late for a broken clock, after which it does nothing for thirty. It promotes only a replica that has
     * answered within five ping periods: on a busy machine these must not be too short either. */
    server_command(sentinel, "SENTINEL", "DEBUG", "info-period", "200", "ping-period", "200", "ask-period",
                   "200", "publish-period", "200", NULL);
    server_command(sentinel, "SENTINEL", "DEBUG", "tilt-trigger", "10000", "tilt-period", "1000", NULL);
    if (!proc_poll(sentinel_knows_replica, sentinel, STAGE_PATIENCE_MS))
        stage_fail(stage, "%s does not know the replica", name);
    return sentinel;
}

void server_await_promotion(struct server *sentinel, int old_port, const struct server *promoted) {
    struct stage *stage = sentinel->stage;
    int64_t deadline_ns = stage_in_ms(STAGE_PATIENCE_MS);
    for (;;) {
        const char *address = server_command(sentinel, "SENTINEL", "get-master-addr-by-name", "lab", NULL);
        long named = strrchr(address, ' ') ? strtol(strrchr(address, ' '), NULL, 10) : 0;
        if (stage_failed(stage) ||
            (named && named != old_port && strcmp(server_info(promoted, "role"), "master") == 0))
            break;
        if (!stage_patience(stage, deadline_ns))
            stage_fail(stage, "%s promotes nobody%s", sentinel->name,
                       strcmp(server_info(sentinel, "sentinel_tilt"), "1") == 0 ? ": it is in TILT" : "");
    }
    server_record_role(promoted, "master");
}

/* ---- etcd ---- */

void stage_start_etcd(struct stage *stage, const char *name, int count, struct server *servers[]) {
    struct etcd_server members[ETCD_MEMBERS_MAX] = {0};
    const char *error = NULL;
    char path[SERVER_PATH_SIZE], answer[ANSWER_SIZE];
    for (int i = 0; i < count; i++) {
        char member[SERVER_NAME_SIZE];
        snprintf(member, sizeof member, count > 1 ? "%.20s-%d" : "%.20s", name, i + 1);
        servers[i] = server_new(stage, member, SERVER_ETCD);
        snprintf(members[i].name, sizeof members[i].name, "%s", member);
        server_path(servers[i], path);
        if (!error)
            error = etcd_server_prepare(&members[i], path);
    }
    if (stage_failed(stage))
        return;
    if (!error)
        error = etcd_servers_start(members, count);
    for (int i = 0; i < count; i++) {
        servers[i]->etcd = members[i];
        server_started(servers[i], &servers[i]->etcd.proc, members[i].port, error);
    }
    if (!error && local_server_ask("127.0.0.1", members[0].port, "GET /version HTTP/1.0\r\n\r\n", answer,
                                   sizeof answer, ASK_MS))
        server_add_version(stage, "etcd", answer, "\"etcdserver\":\"", "\"");
}

int server_etcd_leader(struct server *const servers[], int count) {
    struct etcd_server members[ETCD_MEMBERS_MAX];
    int leader = 0;
    if (stage_failed(servers[0]->stage))
        return 0;
    for (int i = 0; i < count; i++)
        members[i] = servers[i]->etcd;
    const char *error = etcd_servers_leader(members, count, &leader);
    if (error)
        stage_fail(servers[0]->stage, "%s", error);
    return leader;
}

void server_revoke_newest_lease(const struct server *server, const char *prefix) {
    const struct etcd_range range = {.key = etcd_text(prefix),
                                     .prefix = true,
                                     .limit = 1,
                                     .order = ETCD_DESCENDING,
                                     .sort_by = ETCD_CREATE_REVISION};
    char endpoint[32], error[ETCD_ERROR_SIZE];
    struct etcd *etcd;
    struct etcd_reply *reply = NULL;
    if (stage_failed(server->stage))
        return;
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", server->port);
    const struct etcd_config config = {.endpoints = endpoint};
    if (etcd_open(&config, &etcd, error, sizeof error) != ETCD_OK) {
        stage_fail(server->stage, "%s: %s", server->name, error);
        return;
    }
    if (etcd_range(etcd, &range, NULL, &reply) != ETCD_OK || reply->kv_count == 0 ||
        etcd_lease_revoke(etcd, reply->kvs[0].lease, NULL) != ETCD_OK)
        stage_fail(server->stage, "%s: no lease below %s could be ended", server->name, prefix);
    etcd_reply_free(reply);
    etcd_close(etcd);
}

/* ---- ZooKeeper ---- */

struct server *stage_start_zookeeper(struct stage *stage, const char *name) {
    static const struct zookeeper_options options = {.tick_ms = 100, .session_max_ms = 60000};
    struct server *server = server_new(stage, name, SERVER_ZOOKEEPER);
    char path[SERVER_PATH_SIZE], answer[ANSWER_SIZE];
    server_path(server, path);
    if (stage_failed(stage))
        return server;
    const char *error = zookeeper_servers_start(&server->zookeeper, 1, path, &options);
    server_started(server, &server->zookeeper.proc, server->zookeeper.port, error);
    if (!error && zookeeper_server_ask(&server->zookeeper, "srvr", answer, sizeof answer))
        server_add_version(stage, "zookeeper", answer, "version: ", "-,\n ");
    return server;
}
