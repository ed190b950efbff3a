#include "base/redis/blocking/servers.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/redis/blocking/driver.h"
#include "base/redis/redirect.h"

/* There may be more than the masters: a server that a redirection names is added, and forgotten when idle. */
enum { SERVERS_MAX = 2 * REDIS_MASTERS_MAX };
/* The pause between two searches for servers to forget. */
enum { TIDY_MS = 250 };
/* After a reading of the map that failed the next one waits for so many times as long, which is longer than
 * two calls. */
enum { MAP_RESTS = 5 };
/* The longest pause between an answer of the Sentinels and the next question; it is the timeout if that is
 * less. */
enum { WATCH_MS = 250 };

struct server {
    struct redis_url url; /* of this server; of one Redis, or below Sentinels, as the user has it */
    struct redis_address address;
    struct redis_connection *connection;
    /* For ASK, which concerns the next command of a connection alone; NULL until it is needed. One thread
     * uses it at a time. */
    pthread_mutex_t asking_mutex;
    struct redis_connection *asking;
    struct redis_subscriber *subscriber; /* NULL until a caller asks for it */
    _Atomic bool was_replica;            /* the server's last answer said so */
    bool is_in_url;                      /* it stays, whoever has the slots */
    bool is_master;                      /* by the map */
    _Atomic int users;                   /* threads that use it (server_use()): it must stay */
    int64_t idle_since_ms;               /* by redis_server_is_over() */
};

struct redis_servers {
    struct redis_url url;
    const struct redis_hooks *hooks;
    int timeout_ms;
    pthread_t watch; /* asks the Sentinels */
    bool watches;
    struct waiter watch_end; /* woken: the thread shall end */
    pthread_mutex_t mutex;   /* of all that follows */
    int count;
    struct server *server[SERVERS_MAX];
    int left_count; /* servers that are forgotten, and are freed when their subscribers' threads have ended */
    struct server *left[SERVERS_MAX];
    /* Of a cluster: */
    struct redis_slots *slots; /* as read last */
    struct redis_owners owners;
    bool outdated;         /* the map is to be read again */
    bool reading;          /* a thread reads it */
    int64_t read_at_ns;    /* not before */
    int64_t rest_until_ns; /* nor before that, for a slot whose server is known */
    int next;              /* the server to be asked next */
    int64_t tidy_at_ms;    /* not before */
};

static bool is_cluster(const struct redis_servers *servers) {
    return servers->url.kind == REDIS_URL_CLUSTER;
}

/* ---- servers: with the mutex held ---- */

/* NULL when out of memory, or when there are too many. */
static struct server *server_add(struct redis_servers *servers, const struct redis_url *url) {
    struct server *server = servers->count < SERVERS_MAX ? calloc(1, sizeof *server) : NULL;
    if (!server)
        return NULL;
    server->url = *url;
    server->address = redis_target_address(&url->servers[0]);
    server->connection = redis_connection_open(url, servers->timeout_ms, servers->hooks);
    if (!server->connection) {
        free(server);
        return NULL;
    }
    pthread_mutex_init(&server->asking_mutex, NULL);
    servers->server[servers->count++] = server;
    return server;
}

/* The server at an address of a cluster; it is added if it is new. NULL as of server_add(). */
static struct server *server_at(struct redis_servers *servers, const struct redis_address *address) {
    for (int i = 0; i < servers->count; i++) {
        if (redis_address_is_same(&servers->server[i]->address, address))
            return servers->server[i];
    }
    return server_add(servers, &(struct redis_url){.kind = REDIS_URL_ONE,
                                                   .count = 1,
                                                   .servers = {redis_url_target(&servers->url, address)}});
}

/* With the mutex held: the server stays until server_release(). NULL for NULL. */
static struct server *server_use(struct server *server) {
    if (server) {
        atomic_fetch_add(&server->users, 1);
        server->idle_since_ms = 0;
    }
    return server;
}

/* Without the mutex. NULL does nothing. */
static void server_release(struct server *server) {
    if (server)
        atomic_fetch_sub(&server->users, 1);
}

static void server_free(struct server *server) {
    redis_subscriber_close(server->subscriber);
    redis_connection_close(server->asking);
    redis_connection_close(server->connection);
    pthread_mutex_destroy(&server->asking_mutex);
    free(server);
}

/* Forgets the servers of a cluster that are not needed any more. Their subscribers' threads end by
 * themselves. */
static void servers_tidy(struct redis_servers *servers) {
    int64_t now_ms = clock_now_ms();
    int kept = 0, left = 0;
    if (servers->outdated || servers->reading || now_ms < servers->tidy_at_ms)
        return;
    servers->tidy_at_ms = now_ms + TIDY_MS;
    for (int i = 0; i < servers->left_count; i++) {
        struct server *server = servers->left[i];
        if (redis_subscriber_has_ended(server->subscriber))
            server_free(server);
        else
            servers->left[left++] = server;
    }
    for (int i = 0; i < servers->count; i++) {
        struct server *server = servers->server[i];
        bool is_idle = !server->is_master && !server->is_in_url && atomic_load(&server->users) == 0;
        if (!redis_server_is_over(&server->idle_since_ms, is_idle, now_ms) || left == SERVERS_MAX) {
            servers->server[kept++] = server;
            continue;
        }
        redis_owners_forget(&servers->owners, server);
        redis_subscriber_stop(server->subscriber);
        servers->left[left++] = server;
    }
    servers->count = kept;
    servers->left_count = left;
}

/* ---- the map of a cluster: with the mutex held ---- */

/* A slot that gets another owner, or its first, is a move: the new owner may lack what was written before.
 * But before the first map there were no writes. */
static void servers_install(struct redis_servers *servers, bool is_first) {
    void *masters[REDIS_MASTERS_MAX] = {NULL};
    unsigned moves = servers->owners.moves;
    for (int i = 0; i < servers->count; i++)
        servers->server[i]->is_master = false;
    for (int i = 0; i < servers->slots->masters; i++) {
        struct server *master = masters[i] = server_at(servers, &servers->slots->master[i]);
        if (master)
            master->is_master = true;
    }
    redis_owners_install(&servers->owners, servers->slots, masters);
    if (servers->owners.moves != moves && !is_first)
        redis_report_move(servers->hooks);
}

/* Asks one server on a connection of its own; if it fails, the next reading asks another one. Releases the
 * mutex meanwhile: other threads use the map that there is. */
static void servers_read_map(struct redis_servers *servers) {
    const char *info[] = {"CLUSTER", "INFO"}, *slots[] = {"CLUSTER", "SLOTS"};
    if (servers->reading || clock_now_ns() < servers->read_at_ns)
        return;
    assert(servers->count > 0); /* those of the URL stay */
    struct redis_target server = servers->server[servers->next++ % servers->count]->url.servers[0];
    int timeout_ms = servers->timeout_ms / 2;
    servers->reading = true;
    servers->outdated = false;
    pthread_mutex_unlock(&servers->mutex);
    int64_t since_ns = clock_now_ns();
    int64_t until_ns = since_ns + (int64_t)timeout_ms * 1000000;
    redisContext *hiredis = redis_dial(&server, timeout_ms, NULL, 0);
    redisReply *told = hiredis ? redis_dial_ask(hiredis, until_ns, 2, info) : NULL;
    redisReply *map = told ? redis_dial_ask(hiredis, until_ns, 2, slots) : NULL;
    int64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&servers->mutex);
    int64_t epoch = redis_slots_epoch(redis_value_of(told));
    bool is_first = servers->slots->masters == 0, is_older = epoch != 0 && epoch < servers->slots->epoch;
    bool good =
        map && redis_slots_read(servers->slots, redis_value_of(map), server.host, epoch, now_ns / 1000000);
    servers->reading = false;
    servers->outdated |= !good; /* another server may know more */
    servers->rest_until_ns = good ? 0 : now_ns + MAP_RESTS * (now_ns - since_ns);
    if (good) {
        servers->read_at_ns = now_ns + (int64_t)REDIS_MAP_AGE_MS * 1000000;
        servers_install(servers, is_first);
    } else if (hiredis) {
        const char *error = redis_value_error(redis_value_of(map));
        redis_report(servers->hooks, &server,
                     !map       ? "it did not tell the slots in time"
                     : error    ? error
                     : is_older ? "its map of the slots is older than another server's"
                                : "it knows of no slots");
    }
    freeReplyObject(told);
    freeReplyObject(map);
    redisFree(hiredis);
}

/* `slot`: of a cluster. */
static struct server *servers_owner(const struct redis_servers *servers, int slot) {
    return is_cluster(servers) ? servers->owners.of_slot[slot] : servers->server[0];
}

/* The key's server, for the caller to server_release(). NULL: nobody has the key, as far as is known.
 * `outdated`: the map is. */
static struct server *servers_find(struct redis_servers *servers, const char *key, bool outdated) {
    int slot = is_cluster(servers) ? redis_slot(key, strlen(key)) : 0;
    pthread_mutex_lock(&servers->mutex);
    if (is_cluster(servers))
        servers_tidy(servers);
    struct server *owner = servers_owner(servers, slot);
    servers->outdated |= outdated || !owner;
    if (is_cluster(servers) && servers->outdated && (!owner || clock_now_ns() >= servers->rest_until_ns))
        servers_read_map(servers);
    owner = server_use(servers_owner(servers, slot)); /* the map may be new */
    pthread_mutex_unlock(&servers->mutex);
    return owner;
}

/* ---- calls ---- */

/* Once another server answers, the subscriber must connect to it too: the old one publishes nothing, or too
 * late. */
static void servers_note_answer(struct redis_servers *servers, struct server *server, bool is_replica) {
    if (is_replica) {
        atomic_store(&server->was_replica, true);
    } else if (atomic_load_explicit(&server->was_replica, memory_order_relaxed) &&
               atomic_exchange(&server->was_replica, false)) {
        pthread_mutex_lock(&servers->mutex);
        redis_subscriber_reconnect(server->subscriber);
        pthread_mutex_unlock(&servers->mutex);
    }
}

/* Sends ASKING and the command, with nothing in between. */
static enum redis_status servers_call_asking(struct redis_servers *servers, struct server *server, int argc,
                                             const char *const argv[], struct redis_answer *answer,
                                             struct cancel *cancel) {
    const char *const asking[] = {"ASKING"};
    pthread_mutex_lock(&server->asking_mutex);
    if (!server->asking)
        server->asking = redis_connection_open(&server->url, servers->timeout_ms, servers->hooks);
    enum redis_status status =
        server->asking ? redis_connection_call(server->asking, 1, asking, answer, cancel) : REDIS_NOMEM;
    if (status == REDIS_ANSWERED)
        status = redis_connection_call(server->asking, argc, argv, answer, cancel);
    else if (status == REDIS_UNKNOWN)
        status = REDIS_UNAVAILABLE; /* only ASKING was sent */
    pthread_mutex_unlock(&server->asking_mutex);
    return status;
}

/* Notes the server that a redirection names. REDIS_ASK: returns it, for this call alone. */
static struct server *servers_follow(struct redis_servers *servers, enum redis_meaning meaning,
                                     const struct redis_redirect *redirect) {
    pthread_mutex_lock(&servers->mutex);
    struct server *server = server_at(servers, &redirect->to);
    unsigned moves = servers->owners.moves;
    if (server && meaning == REDIS_MOVED)
        redis_owners_set(&servers->owners, redirect->slot, server);
    if (servers->owners.moves != moves)
        redis_report_move(servers->hooks);
    struct server *ask = meaning == REDIS_ASK ? server_use(server) : NULL;
    pthread_mutex_unlock(&servers->mutex);
    return ask;
}

/* False: it was cancelled, or the time is up. */
static bool servers_pause(int *pause_ms, int64_t until_ns, const struct cancel *cancel) {
    *pause_ms = redis_backoff_next(&redis_backoff_call, *pause_ms);
    int64_t now_ns = clock_now_ns(); /* its last digits are the random number */
    int64_t end_ns = now_ns + redis_backoff_jitter(*pause_ms, (uint32_t)now_ns) * INT64_C(1000000);
    while (!cancel_called(cancel) && end_ns < until_ns) {
        if ((now_ns = clock_now_ns()) >= end_ns)
            return true;
        struct timespec slice = {.tv_nsec = cancel_poll_ns(cancel, now_ns, end_ns) - now_ns};
        nanosleep(&slice, NULL);
    }
    return false;
}

enum redis_status redis_servers_call(struct redis_servers *servers, const char *key, int argc,
                                     const char *const argv[], struct redis_answer *answer,
                                     struct cancel *cancel) {
    int64_t until_ns = clock_now_ns() + (int64_t)servers->timeout_ms * 1000000;
    int pause_ms = 0, redirects = 0;
    struct server *ask = NULL; /* by ASK: the server for the next attempt alone */
    bool outdated = false;
    for (;;) {
        bool asks = ask;
        struct server *server = asks ? ask : servers_find(servers, key, outdated);
        ask = NULL;
        if (!server) {
            if (servers_pause(&pause_ms, until_ns, cancel))
                continue;
            return REDIS_UNAVAILABLE;
        }
        enum redis_status status =
            asks ? servers_call_asking(servers, server, argc, argv, answer, cancel)
                 : redis_connection_call(server->connection, argc, argv, answer, cancel);
        struct redis_redirect redirect;
        enum redis_meaning meaning = REDIS_REFUSED;
        if (status == REDIS_ANSWERED) {
            meaning = redis_answer_meaning(answer, server->address.host, &redirect);
            servers_note_answer(servers, server, meaning == REDIS_IS_REPLICA);
        }
        server_release(server);
        if (!is_cluster(servers))
            return status;
        if (status != REDIS_ANSWERED)
            server_release(servers_find(servers, key, true)); /* reads the map for the next call */
        if (meaning == REDIS_REFUSED || meaning == REDIS_NO_SCRIPT)
            return status;
        if (meaning == REDIS_MOVED || meaning == REDIS_ASK)
            ask = servers_follow(servers, meaning, &redirect);
        outdated = meaning == REDIS_MOVED;
        if ((outdated || ask) && ++redirects % REDIS_REDIRECTS_AT_ONCE != 0)
            continue;
        server_release(ask);
        ask = NULL;
        if (!servers_pause(&pause_ms, until_ns, cancel))
            return status;
    }
}

bool redis_servers_are_subscribed(struct redis_servers *servers, const char *key, bool subscribe) {
    struct server *server = servers_find(servers, key, false);
    if (!server)
        return false;
    pthread_mutex_lock(&servers->mutex);
    if (subscribe && !server->subscriber)
        server->subscriber = redis_subscriber_open(&server->url, servers->hooks);
    bool is_subscribed = redis_subscriber_is_subscribed(server->subscriber);
    pthread_mutex_unlock(&servers->mutex);
    server_release(server);
    return is_subscribed;
}

/* ---- the thread that watches Sentinels ---- */

static bool is_same_answer(const struct redis_named *a, const struct redis_named *b) {
    bool replacing = a->election.replacing;
    return replacing == b->election.replacing && (replacing || redis_target_is_same(&a->master, &b->master));
}

/* Asks the Sentinels again and again while the connection is in use, since the old master of a failover takes
 * commands for another ten seconds. The connection and the subscriber follow the answers. */
static void *servers_watch(void *arg) {
    struct redis_servers *servers = arg;
    struct server *server = servers->server[0];
    int pause_ms = servers->timeout_ms < WATCH_MS ? servers->timeout_ms : WATCH_MS;
    struct redis_named named = {.asked_epoch = 0}, before;
    bool asked = false;
    while (waiter_wait(&servers->watch_end, clock_now_ns() + pause_ms * INT64_C(1000000), NULL) ==
           WAITER_TIMEOUT) {
        char why[REDIS_WHY_SIZE];
        if (!redis_connection_was_reached(server->connection, &named.election.epoch))
            continue;
        bool is_named = redis_master_ask(&servers->url, servers->timeout_ms, &named, why, sizeof why);
        if (!is_named && !named.election.replacing) /* nothing is known: what is connected stays so */
            continue;
        bool left = redis_connection_follow(server->connection, &named);
        if (left || (asked && !is_same_answer(&named, &before))) {
            pthread_mutex_lock(&servers->mutex);
            redis_subscriber_reconnect(server->subscriber);
            pthread_mutex_unlock(&servers->mutex);
        }
        before = named;
        asked = true;
    }
    return NULL;
}

/* ---- opening and closing ---- */

/* Adds the servers of the URL. False when out of memory. */
static bool servers_add_all(struct redis_servers *servers) {
    if (!is_cluster(servers))
        return server_add(servers, &servers->url);
    servers->slots = calloc(1, sizeof *servers->slots);
    for (int i = 0; i < servers->url.count; i++) {
        struct redis_address address = redis_target_address(&servers->url.servers[i]);
        struct server *server = servers->slots ? server_at(servers, &address) : NULL;
        if (!server)
            return false;
        server->is_in_url = true;
    }
    return true;
}

struct redis_servers *redis_servers_open(const struct redis_url *url, int timeout_ms,
                                         const struct redis_hooks *hooks) {
    struct redis_servers *servers = calloc(1, sizeof *servers);
    if (!servers)
        return NULL;
    servers->url = *url;
    servers->hooks = hooks;
    servers->timeout_ms = timeout_ms;
    pthread_mutex_init(&servers->mutex, NULL);
    waiter_init(&servers->watch_end);
    bool good = servers_add_all(servers);
    if (good && url->kind == REDIS_URL_SENTINEL)
        good = servers->watches = thread_start(&servers->watch, servers_watch, servers);
    if (good)
        return servers;
    redis_servers_close(servers);
    return NULL;
}

void redis_servers_close(struct redis_servers *servers) {
    if (!servers)
        return;
    if (servers->watches) {
        waiter_wake(&servers->watch_end);
        pthread_join(servers->watch, NULL);
    }
    for (int i = 0; i < servers->count; i++) /* all at once: each may take a second to end */
        redis_subscriber_stop(servers->server[i]->subscriber);
    for (int i = 0; i < servers->count; i++)
        server_free(servers->server[i]);
    for (int i = 0; i < servers->left_count; i++)
        server_free(servers->left[i]);
    free(servers->slots);
    waiter_destroy(&servers->watch_end);
    pthread_mutex_destroy(&servers->mutex);
    free(servers);
}
