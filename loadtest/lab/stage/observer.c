/* Observers: what the lock servers and the stock say themselves. */
#include <hiredis.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define THREADED /* which of its two libraries the header is for */
#include <zookeeper/zookeeper.h>

#include "loadtest/lab/stage/lab_client.h"
#include "loadtest/lab/stage/shop_stock.h"
#include "lock/libetcd/etcd.h"

enum { PERIOD_MS = 2, CALL_MS = 300, SESSION_MS = 5000 };
enum { OWNER_SIZE = 64, PATH_SIZE = 160, ADDRESS_SIZE = 24 * ETCD_MEMBERS_MAX };

struct observer {
    struct clients *clients;
    struct stage *stage;
    pthread_t thread;
    atomic_bool ending;
    char server[SERVER_NAME_SIZE], key[WIRE_NAME_SIZE], path[PATH_SIZE], address[ADDRESS_SIZE];
    int port;
    /* Reads the owner, "" nobody. False: no answer. */
    bool (*read)(struct observer *observer, char owner[OWNER_SIZE]);
    /* One of these; the others are NULL. Redis is connected when it is read. */
    redisContext *redis;
    struct etcd *etcd;
    zhandle_t *zookeeper;
    char last[OWNER_SIZE]; /* what was recorded */
    bool any;
};

/* ---- who holds the key, by the kind of server ---- */

static bool read_redis(struct observer *o, char owner[OWNER_SIZE]) {
    const struct timeval timeout = {.tv_usec = CALL_MS * 1000L};
    if (!o->redis || o->redis->err != 0) {
        redisFree(o->redis);
        o->redis = redisConnectWithTimeout("127.0.0.1", o->port, timeout);
        if (!o->redis || o->redis->err != 0 || redisSetTimeout(o->redis, timeout) != REDIS_OK)
            return false;
    }
    redisReply *reply = redisCommand(o->redis, "GET lock:{%s}", o->key);
    bool good = reply && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_NIL);
    if (good)
        snprintf(owner, OWNER_SIZE, "%s", reply->type == REDIS_REPLY_STRING ? reply->str : "");
    freeReplyObject(reply);
    return good;
}

/* The owner is the value of the oldest key; a key of the server's own lock has none, and its name ends with
 * its lease. */
static bool read_etcd(struct observer *o, char owner[OWNER_SIZE]) {
    const struct etcd_range range = {.key = etcd_text(o->path),
                                     .prefix = true,
                                     .limit = 1,
                                     .order = ETCD_ASCENDING,
                                     .sort_by = ETCD_CREATE_REVISION};
    const struct etcd_call call = {.deadline_ns = stage_in_ms(CALL_MS)};
    struct etcd_reply *reply;
    if (etcd_range(o->etcd, &range, &call, &reply) != ETCD_OK)
        return false;
    const struct etcd_kv *kv = reply->kv_count > 0 ? &reply->kvs[0] : NULL;
    owner[0] = '\0';
    if (kv && kv->value.size > 0)
        snprintf(owner, OWNER_SIZE, "%.*s", (int)kv->value.size, (const char *)kv->value.data);
    else if (kv)
        snprintf(owner, OWNER_SIZE, "lease %.*s", (int)(kv->key.size - strlen(o->path) - 1),
                 (const char *)kv->key.data + strlen(o->path) + 1);
    etcd_reply_free(reply);
    return true;
}

/* A node is OWNER-SEQUENCE; the lowest sequence, of ten digits, has the lock. */
static bool read_zookeeper(struct observer *o, char owner[OWNER_SIZE]) {
    struct String_vector names = {.count = 0};
    const char *lowest = NULL;
    int rc = zoo_get_children(o->zookeeper, o->path, 0, &names);
    if (rc != ZOK && rc != ZNONODE)
        return false;
    for (int i = 0; i < names.count; i++) {
        const char *sequence = strrchr(names.data[i], '-');
        if (sequence && (!lowest || strcmp(sequence, strrchr(lowest, '-')) < 0))
            lowest = names.data[i];
    }
    snprintf(owner, OWNER_SIZE, "%.*s", lowest ? (int)(strrchr(lowest, '-') - lowest) : 0,
             lowest ? lowest : "");
    deallocate_String_vector(&names);
    return true;
}

/* ---- the loop ---- */

static void observer_record(struct observer *o, const char *owner) {
    const char *name = owner[0] != '\0' ? client_of_owner(o->clients, owner) : "";
    if (o->any ? strcmp(owner, o->last) == 0 : owner[0] == '\0')
        return; /* no change, or free from the start */
    o->any = true;
    snprintf(o->last, sizeof o->last, "%s", owner);
    stage_record(o->stage, &(struct event){.kind = EVENT_STORE_KEY,
                                           .who = o->server,
                                           .server = o->server,
                                           .key = o->key,
                                           .owner = name ? name : owner});
}

static void *observer_run(void *arg) {
    struct observer *o = arg;
    const struct timespec period = {.tv_nsec = PERIOD_MS * 1000000L};
    char owner[OWNER_SIZE];
    while (!atomic_load(&o->ending)) {
        if (o->read(o, owner))
            observer_record(o, owner);
        nanosleep(&period, NULL);
    }
    return NULL;
}

static void observer_free(struct observer *o) {
    redisFree(o->redis);
    etcd_close(o->etcd);
    if (o->zookeeper)
        zookeeper_close(o->zookeeper);
    free(o);
}

static void observer_end(void *part) {
    struct observer *o = part;
    atomic_store(&o->ending, true);
    pthread_join(o->thread, NULL);
    observer_free(o);
}

/* ---- the start ---- */

static void log_nothing(const char *message) {
    (void)message;
}

static void observer_connect(struct observer *o, enum server_kind kind) {
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_config config = {.endpoints = o->address};
    if (kind == SERVER_ETCD && etcd_open(&config, &o->etcd, error, sizeof error) != ETCD_OK)
        stage_fail(o->stage, "cannot observe etcd: %s", error);
    if (kind == SERVER_ZOOKEEPER)
        o->zookeeper =
            zookeeper_init2(o->address, NULL, SESSION_MS, NULL, NULL, ZOO_NO_LOG_CLIENTENV, log_nothing);
    if (kind == SERVER_ZOOKEEPER && !o->zookeeper)
        stage_fail(o->stage, "cannot observe ZooKeeper");
}

/* Starts one observer of these servers. */
static void observer_start(struct clients *clients, struct server *const servers[], int count,
                           const char *prefix, const char *key) {
    static bool (*const readers[])(struct observer *, char[OWNER_SIZE]) = {
        [SERVER_REDIS] = read_redis, [SERVER_ETCD] = read_etcd, [SERVER_ZOOKEEPER] = read_zookeeper};
    const struct server *first = servers[0];
    struct observer *o = calloc(1, sizeof *o);
    if (!o)
        abort(); /* a scenario counts on it, and has no use for less */
    o->clients = clients;
    o->stage = first->stage;
    o->port = first->port;
    o->read = readers[first->kind];
    snprintf(o->server, sizeof o->server, "%s", first->kind == SERVER_ETCD ? "etcd" : first->name);
    snprintf(o->key, sizeof o->key, "%s", key);
    snprintf(o->path, sizeof o->path, "%s%s", first->kind == SERVER_ETCD ? prefix : "/lock/", key);
    for (int i = 0, length = 0; i < count; i++)
        length += snprintf(o->address + length, sizeof o->address - (size_t)length, "%s127.0.0.1:%d",
                           i > 0 ? "," : "", servers[i]->port);
    observer_connect(o, first->kind);
    if (!stage_failed(o->stage) && pthread_create(&o->thread, NULL, observer_run, o) == 0) {
        stage_add(o->stage, observer_end, o);
        return;
    }
    stage_fail(o->stage, "no thread to observe %s", o->server);
    observer_free(o);
}

void observer_watch(struct clients *clients, struct server *const servers[], int count, const char *prefix,
                    const char *key) {
    int step = count > 0 && servers[0]->kind == SERVER_ETCD ? count : 1;
    for (int i = 0; i < count && !stage_failed(servers[i]->stage); i += step)
        observer_start(clients, servers + i, step, prefix, key);
}

/* ---- the stock ---- */

static void read_stock(const struct server *server, struct stock *stock, const char *item) {
    struct stock_state state;
    if (stock_read(stock, item, 0, &state))
        stage_record_stock(server->stage, item, state.initial, state.available, state.sold);
    else
        stage_fail(server->stage, "%s does not say what is left of %s", server->name, item);
}

void observer_read_stock(const struct server *server, const char *item) {
    struct stock *stock = stage_failed(server->stage) ? NULL : stock_open(server->port);
    if (stock)
        read_stock(server, stock, item);
    else
        stage_fail(server->stage, "%s cannot be reached", server->name);
    stock_close(stock);
}

void observer_fill_stock(const struct server *server, const char *item, int64_t units) {
    struct stock *stock = stage_failed(server->stage) ? NULL : stock_open(server->port);
    if (!stock || !stock_put(stock, item, units))
        stage_fail(server->stage, "%s does not take the stock of %s", server->name, item);
    else
        read_stock(server, stock, item);
    stock_close(stock);
}
