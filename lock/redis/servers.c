#include "lock/redis/servers.h"

#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/redis/backoff.h"
#include "base/redis/slots.h"
#include "lock/redis/dial.h"
#include "lock/redis/sentinel_watch.h"
#include "lock/redis/subscriber.h"

enum { SERVERS_MAX = REDIS_MASTERS_MAX };
/* Of the servers of a cluster. An operation may take three calls, and the map is read once meanwhile, for
 * half as long: together less than the second of lock.h. */
enum { CLUSTER_TIMEOUT_MAX_MS = LOCK_TIMEOUT_MAX_MS * 3 / 5 };
/* After a reading that failed the next one waits for so many times as long, which is longer than two calls.
 */
enum { MAP_RESTS = 5 };

struct server {
    struct redis_url url; /* of this server; of one Redis, or of a Sentinel, as the user has it */
    struct redis_address address;
    struct redis_connection *connection;
    /* For ASK, which concerns the next command of a connection alone; NULL until it is needed. One thread
     * uses it at a time. */
    pthread_mutex_t asking_mutex;
    struct redis_connection *asking;
    struct redis_subscriber *subscriber; /* NULL until the first waiter needs it */
    _Atomic bool was_replica;            /* the server's last answer said so */
    bool is_in_url;                      /* it stays, whoever has the slots */
    bool has_left;
    _Atomic int users; /* it must stay: threads that were given it by find() or is_redirected() */
};

struct redis_servers {
    struct redis_url url;
    const struct lock_env *env;
    int timeout_ms;
    struct redis_sentinel_watch *watch; /* NULL: there are no Sentinels */
    pthread_mutex_t mutex;              /* for all that follows */
    int count;
    struct server *server[SERVERS_MAX];
    int left_count; /* masters of nothing, to be freed when nobody uses them */
    struct server *left[SERVERS_MAX];
    /* Of a cluster: */
    struct redis_slots *slots; /* as read last */
    /* And as redirections told since. NULL: nobody, as far as is known. */
    struct server *of_slot[REDIS_SLOTS];
    bool outdated;         /* the map is, and is to be read again */
    bool reading;          /* a thread reads it */
    int64_t read_at_ns;    /* not before */
    int64_t rest_until_ns; /* nor before that, for a slot whose server is known */
    int next;              /* to be asked */
};

static bool is_cluster(const struct redis_servers *servers) {
    return servers->url.kind == REDIS_URL_CLUSTER;
}

/* ---- servers: with the mutex held ---- */

/* NULL when out of memory, or when there are too many. */
static struct server *add(struct redis_servers *servers, const struct redis_url *url) {
    struct server *server = servers->count < SERVERS_MAX ? calloc(1, sizeof *server) : NULL;
    if (!server)
        return NULL;
    server->url = *url;
    snprintf(server->address.host, sizeof server->address.host, "%s", url->servers[0].host);
    server->address.port = url->servers[0].port;
    server->connection = redis_connection_open(url, servers->timeout_ms, servers->env);
    if (!server->connection) {
        free(server);
        return NULL;
    }
    pthread_mutex_init(&server->asking_mutex, NULL);
    servers->server[servers->count++] = server;
    return server;
}

static struct server *server_at(struct redis_servers *servers, const struct redis_address *address) {
    for (int i = 0; i < servers->count; i++) {
        if (redis_address_is_same(&servers->server[i]->address, address))
            return servers->server[i];
    }
    struct redis_url url = {.kind = REDIS_URL_ONE, .count = 1, .servers = {servers->url.servers[0]}};
    snprintf(url.servers[0].host, sizeof url.servers[0].host, "%s", address->host);
    url.servers[0].port = address->port;
    return add(servers, &url);
}

static void free_server(struct server *server) {
    redis_subscriber_close(server->subscriber);
    redis_connection_close(server->asking);
    redis_connection_close(server->connection);
    pthread_mutex_destroy(&server->asking_mutex);
    free(server);
}

static bool has_slots(const struct redis_servers *servers, const struct server *server) {
    for (int i = 0; i < servers->slots->masters; i++) {
        if (redis_address_is_same(&servers->slots->master[i], &server->address))
            return true;
    }
    return false;
}

/* Servers that have left the cluster, or are replicas now. Their subscribers' threads end by themselves. */
static void forget_others(struct redis_servers *servers) {
    int kept = 0;
    for (int i = 0; i < servers->count; i++) {
        struct server *server = servers->server[i];
        if (server->is_in_url || has_slots(servers, server) || servers->left_count == SERVERS_MAX) {
            servers->server[kept++] = server;
        } else {
            server->has_left = true;
            redis_subscriber_stop(server->subscriber);
            servers->left[servers->left_count++] = server;
        }
    }
    servers->count = kept;
}

static void free_left(struct redis_servers *servers) {
    int kept = 0;
    for (int i = 0; i < servers->left_count; i++) {
        struct server *server = servers->left[i];
        if (atomic_load(&server->users) > 0 || !redis_subscriber_has_ended(server->subscriber))
            servers->left[kept++] = server;
        else
            free_server(server);
    }
    servers->left_count = kept;
}

/* True: the slot was another server's, or nobody's: what was granted there may be gone. */
static bool set_slot(struct redis_servers *servers, int slot, struct server *server) {
    struct server *before = servers->of_slot[slot];
    servers->of_slot[slot] = server;
    return before != server;
}

/* `is_first`: there was no map before it, and so no grant. */
static void install(struct redis_servers *servers, bool is_first) {
    bool moved = false;
    struct server *masters[REDIS_MASTERS_MAX] = {NULL};
    forget_others(servers); /* first: this makes room */
    for (int i = 0; i < servers->slots->masters; i++)
        masters[i] = server_at(servers, &servers->slots->master[i]);
    for (int slot = 0; slot < REDIS_SLOTS; slot++) {
        int16_t master = servers->slots->of_slot[slot];
        moved |= set_slot(servers, slot, master == REDIS_SLOT_NOBODY ? NULL : masters[master]);
    }
    if (moved && !is_first)
        lock_env_moved(servers->env);
}

/* ---- the map of a cluster ---- */

/* Asks one server on a connection of its own. */
static bool ask_map(const struct redis_servers *servers, const struct redis_url *url,
                    struct redis_slots *slots) {
    const struct redis_target *server = &url->servers[0];
    char why[128];
    redisContext *hiredis = redis_dial(server, servers->timeout_ms / 2, why, sizeof why);
    redisReply *reply = hiredis ? redisCommand(hiredis, "CLUSTER SLOTS") : NULL;
    bool good = reply && redis_slots_read(slots, redis_value_of(reply), server->host);
    if (hiredis && !good) {
        char name[sizeof server->host + 16];
        snprintf(name, sizeof name, "%s:%d", server->host, server->port);
        lock_env_failed(servers->env, name,
                        reply && reply->type == REDIS_REPLY_ERROR ? reply->str : "it knows of no slots");
    }
    freeReplyObject(reply);
    redisFree(hiredis);
    return good;
}

/* Called, and returns, with the mutex held, which is not held meanwhile: other threads use the map that there
 * is. Asks the next server; if it fails, another will be asked at the next time. */
static void read_map(struct redis_servers *servers) {
    if (servers->reading || lock_mono_ns() < servers->read_at_ns)
        return;
    struct redis_slots *slots = malloc(sizeof *slots);
    struct redis_url url = servers->server[servers->next++ % servers->count]->url;
    if (!slots)
        return;
    servers->reading = true;
    servers->outdated = false;
    pthread_mutex_unlock(&servers->mutex);
    int64_t since_ns = lock_mono_ns();
    bool good = ask_map(servers, &url, slots);
    int64_t now_ns = lock_mono_ns();
    pthread_mutex_lock(&servers->mutex);
    servers->reading = false;
    servers->rest_until_ns = good ? 0 : now_ns + MAP_RESTS * (now_ns - since_ns);
    if (good) {
        bool is_first = servers->slots->masters == 0;
        *servers->slots = *slots;
        servers->read_at_ns = now_ns + (int64_t)REDIS_MAP_AGE_MS * 1000000;
        install(servers, is_first);
    }
    free(slots);
}

/* With the mutex held. */
static struct server *use(struct server *server) {
    if (server)
        atomic_fetch_add(&server->users, 1);
    return server;
}

/* Without the mutex; NULL does nothing. */
static void drop(struct server *server) {
    if (server)
        atomic_fetch_sub(&server->users, 1);
}

/* `outdated`: the map is. NULL: nobody has the key, as far as is known; otherwise to be given back by drop().
 */
static struct server *find(struct redis_servers *servers, const char *key, bool outdated) {
    pthread_mutex_lock(&servers->mutex);
    free_left(servers);
    struct server **of =
        is_cluster(servers) ? &servers->of_slot[redis_slot(key, strlen(key))] : &servers->server[0];
    servers->outdated |= outdated || !*of;
    if (is_cluster(servers) && servers->outdated && (!*of || lock_mono_ns() >= servers->rest_until_ns))
        read_map(servers);
    struct server *server = use(*of);
    pthread_mutex_unlock(&servers->mutex);
    return server;
}

/* ---- calls ---- */

/* Once another server answers, the subscriber must connect to it too: the old one publishes nothing, or too
 * late. */
static void follow_name(struct redis_servers *servers, struct server *server, bool is_replica) {
    if (is_replica) {
        atomic_store(&server->was_replica, true);
    } else if (atomic_load_explicit(&server->was_replica, memory_order_relaxed) &&
               atomic_exchange(&server->was_replica, false)) {
        pthread_mutex_lock(&servers->mutex);
        redis_subscriber_reconnect(server->subscriber);
        pthread_mutex_unlock(&servers->mutex);
    }
}

/* The command after ASKING, with nothing in between. */
static enum lock_status call_asking(struct redis_servers *servers, struct server *server, int argc,
                                    const char *const argv[], struct redis_answer *answer,
                                    struct lock_cancel *cancel) {
    const char *const asking[] = {"ASKING"};
    pthread_mutex_lock(&server->asking_mutex);
    if (!server->asking)
        server->asking = redis_connection_open(&server->url, servers->timeout_ms, servers->env);
    enum lock_status status =
        server->asking ? redis_connection_call(server->asking, 1, asking, answer, cancel) : LOCK_NOMEM;
    if (status == LOCK_OK)
        status = redis_connection_call(server->asking, argc, argv, answer, cancel);
    else if (status == LOCK_UNKNOWN)
        status = LOCK_UNAVAILABLE; /* only ASKING was sent */
    pthread_mutex_unlock(&server->asking_mutex);
    return status;
}

/* Notes the server that a redirection names. REDIS_ASK: returns it, for this call alone. */
static struct server *note_redirect(struct redis_servers *servers, enum redis_meaning meaning,
                                    const struct redis_redirect *redirect) {
    pthread_mutex_lock(&servers->mutex);
    struct server *server = server_at(servers, &redirect->to);
    if (server && meaning == REDIS_MOVED && set_slot(servers, redirect->slot, server))
        lock_env_moved(servers->env);
    struct server *ask = meaning == REDIS_ASK ? use(server) : NULL;
    pthread_mutex_unlock(&servers->mutex);
    return ask;
}

/* False: it was cancelled, or the time is up. */
static bool pause_call(const struct redis_servers *servers, int *pause_ms, int64_t until_ns,
                       const struct lock_cancel *cancel) {
    *pause_ms = redis_backoff_next(&redis_backoff_call, *pause_ms);
    uint32_t random = (uint32_t)lock_env_random(servers->env, UINT32_MAX);
    int64_t end_ns = lock_mono_ns() + redis_backoff_jitter(*pause_ms, random) * INT64_C(1000000);
    for (int64_t now_ns; !lock_cancel_called(cancel) && end_ns < until_ns;) {
        if ((now_ns = lock_mono_ns()) >= end_ns)
            return true;
        struct timespec slice = {.tv_nsec = lock_cancel_poll_ns(cancel, now_ns, end_ns) - now_ns};
        nanosleep(&slice, NULL);
    }
    return false;
}

enum lock_status redis_servers_call(struct redis_servers *servers, const char *key, int argc,
                                    const char *const argv[], struct redis_answer *answer,
                                    struct lock_cancel *cancel) {
    int64_t until_ns = lock_mono_ns() + (int64_t)servers->timeout_ms * 1000000;
    int pause_ms = 0, redirects = 0;
    struct server *ask = NULL; /* by ASK: the server for the next attempt alone */
    bool outdated = false;
    for (;;) {
        bool asks = ask != NULL;
        struct server *server = asks ? ask : find(servers, key, outdated);
        ask = NULL;
        if (!server) {
            if (pause_call(servers, &pause_ms, until_ns, cancel))
                continue;
            return LOCK_UNAVAILABLE;
        }
        enum lock_status status = asks
                                      ? call_asking(servers, server, argc, argv, answer, cancel)
                                      : redis_connection_call(server->connection, argc, argv, answer, cancel);
        struct redis_redirect redirect;
        enum redis_meaning meaning = REDIS_REFUSED;
        if (status == LOCK_OK && answer->type == REDIS_ANSWER_ERROR)
            meaning = redis_error_read(answer->text, server->address.host, &redirect);
        if (status == LOCK_OK)
            follow_name(servers, server, meaning == REDIS_IS_REPLICA);
        drop(server);
        if (!is_cluster(servers))
            return status;
        if (status != LOCK_OK)
            drop(find(servers, key, true)); /* for the next call */
        if (meaning == REDIS_REFUSED || meaning == REDIS_NO_SCRIPT)
            return status;
        if (meaning == REDIS_MOVED || meaning == REDIS_ASK)
            ask = note_redirect(servers, meaning, &redirect);
        outdated = meaning == REDIS_MOVED;
        if ((outdated || ask) && ++redirects % REDIS_REDIRECTS_AT_ONCE != 0)
            continue;
        drop(ask);
        ask = NULL;
        if (!pause_call(servers, &pause_ms, until_ns, cancel))
            return status;
    }
}

bool redis_servers_are_subscribed(struct redis_servers *servers, const char *key, bool subscribe) {
    struct server *server = find(servers, key, false);
    if (!server)
        return false;
    pthread_mutex_lock(&servers->mutex);
    if (subscribe && !server->subscriber && !server->has_left)
        server->subscriber = redis_subscriber_open(&server->url, servers->env);
    bool is_subscribed = redis_subscriber_is_subscribed(server->subscriber);
    pthread_mutex_unlock(&servers->mutex);
    drop(server);
    return is_subscribed;
}

/* ---- opening and closing ---- */

/* The subscriber must connect to the new master too. */
static void follow_sentinels(void *ctx) {
    struct redis_servers *servers = ctx;
    pthread_mutex_lock(&servers->mutex);
    redis_subscriber_reconnect(servers->server[0]->subscriber);
    pthread_mutex_unlock(&servers->mutex);
}

struct redis_servers *redis_servers_open(const struct redis_url *url, int timeout_ms,
                                         const struct lock_env *env) {
    struct redis_servers *servers = calloc(1, sizeof *servers);
    if (!servers)
        return NULL;
    servers->url = *url;
    servers->env = env;
    servers->timeout_ms =
        is_cluster(servers) && timeout_ms > CLUSTER_TIMEOUT_MAX_MS ? CLUSTER_TIMEOUT_MAX_MS : timeout_ms;
    pthread_mutex_init(&servers->mutex, NULL);
    bool good = !is_cluster(servers) || (servers->slots = calloc(1, sizeof *servers->slots));
    for (int i = 0; good && is_cluster(servers) && i < url->count; i++) {
        struct redis_address address = {.port = url->servers[i].port};
        snprintf(address.host, sizeof address.host, "%s", url->servers[i].host);
        struct server *server = server_at(servers, &address);
        good = server != NULL;
        if (good)
            server->is_in_url = true;
    }
    if (good && !is_cluster(servers))
        good = add(servers, url) != NULL;
    if (good && url->kind == REDIS_URL_SENTINEL)
        servers->watch = redis_sentinel_watch_start(url, timeout_ms, servers->server[0]->connection,
                                                    follow_sentinels, servers);
    if (good && (servers->watch || url->kind != REDIS_URL_SENTINEL))
        return servers;
    redis_servers_close(servers);
    return NULL;
}

void redis_servers_close(struct redis_servers *servers) {
    if (!servers)
        return;
    redis_sentinel_watch_stop(servers->watch);
    for (int i = 0; i < servers->count; i++) /* first: each may take a second to end */
        redis_subscriber_stop(servers->server[i]->subscriber);
    for (int i = 0; i < servers->count; i++)
        free_server(servers->server[i]);
    for (int i = 0; i < servers->left_count; i++)
        free_server(servers->left[i]);
    free(servers->slots);
    pthread_mutex_destroy(&servers->mutex);
    free(servers);
}
