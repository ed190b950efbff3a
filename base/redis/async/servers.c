/* The servers behind one URL, a connection to each, and which of them has a key.
 *
 * - The servers of a cluster are its masters, as the cluster names them.
 * - The map of slots (CLUSTER SLOTS) is read from one server after the other, until one knows it.
 * - A map that is older than the last one is not believed (slots.h).
 * - Calls in flight at a master that has lost its slots count as lost: it may have been replaced.
 * - A server that has no slot any more is dropped once it was idle for some time (slots.h).
 *
 * Everything belongs to the loop's thread. */
#include "base/redis/async/driver.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/redis/redirect.h"

enum { MAP_JITTER_MS = 250 };

bool servers_are_cluster(const struct servers *servers) {
    return servers->config.url->kind == REDIS_URL_CLUSTER;
}

void servers_want_map(struct servers *servers) {
    (servers->config.leader ? servers->config.leader : servers)->wanted = true;
}

static struct server *server_find(const struct servers *servers, const struct redis_address *address) {
    for (int i = 0; i < servers->count; i++) {
        if (redis_address_is_same(&servers->server[i]->address, address))
            return servers->server[i];
    }
    return NULL;
}

/* ---- servers with a leader ---- */

/* The leader's connection to the same server, or NULL if it has none that is up. */
static struct redis *server_leaders(const struct server *server) {
    const struct servers *leader = server->of->config.leader;
    const struct server *same =
        servers_are_cluster(leader) ? server_find(leader, &server->address) : leader->server[0];
    return same && !leader->closing && redis_is_up(same->redis) ? same->redis : NULL;
}

static void server_find_leaders(void *ctx, struct redis *redis) {
    (void)redis;
    ((struct server *)ctx)->finding = true;
}

/* Whether the leader has prepared the server of this connection, in this history. */
static bool server_is_same(struct server *server, const struct redis *leaders) {
    server->led_by_ms = redis_reached_ms(leaders);
    return redis_target_is_same(redis_address_now(server->redis), redis_address_now(leaders)) &&
           strcmp(redis_history(server->redis)->id, redis_history(leaders)->id) == 0;
}

/* Whether the two were compared since the leader's connection was made. From then on the leader watches the
 * server for both. */
static bool server_is_led(const struct server *server) {
    const struct redis *redis = server_leaders(server);
    return redis && redis_reached_ms(redis) == server->led_by_ms;
}

/* Compares the two when either connection is new. */
static void server_compare(struct server *server, void (*same)(struct server *server)) {
    const struct redis *redis = server_leaders(server);
    if (!redis || (redis_is_up(server->redis) && server_is_led(server)))
        return;
    if (!server_is_same(server, redis))
        redis_break(server->redis, "the store has another server by now");
    else if (same)
        same(server);
}

static void server_follow(struct server *server) {
    const struct redis *redis = server_leaders(server);
    if (server->finding && redis) {
        server->finding = false;
        redis_found(server->redis, redis_address_now(redis), NULL);
    } else if (redis_is_up(server->redis)) {
        server_compare(server, NULL);
    }
}

/* ---- connections ---- */

static void servers_on_state(void *ctx, bool up) {
    struct server *server = ctx;
    struct servers *servers = server->of;
    server->was_up |= up;
    server->was_away &= !up;
    if (!up)
        server->down_since_ms = clock_mono_ms(servers->config.clock);
    if (!servers->config.leader && (!up || !server->is_master))
        servers_want_map(servers);
    if (servers->config.on_state && !servers->closing)
        servers->config.on_state(servers->config.ctx, up);
}

static void server_find_master(void *ctx, struct redis *redis) {
    struct server *server = ctx;
    sentinels_find(server->of->sentinels, redis);
}

void server_admit(struct server *server) {
    if (server->barrier)
        barrier_admit(server->barrier);
    else
        redis_admit(server->redis);
}

static bool server_owns_slots(const struct server *server) {
    int slot = 0;
    while (slot < REDIS_SLOTS && server->of->owners.of_slot[slot] != server)
        slot++;
    return slot < REDIS_SLOTS;
}

static bool server_owns_key(const struct server *server, const char *key) {
    return servers_of_key(server->of, key) == server;
}

static void server_prepare(void *ctx, struct redis *redis) {
    struct server *server = ctx;
    struct servers_config *config = &server->of->config;
    if (!server->was_up && !*redis_error(redis)) /* the first search has found it: the search was no outage */
        server->down_since_ms = redis_reached_ms(redis);
    if (config->leader) {
        server_compare(server, server_admit);
    } else if (redis_history(redis)->is_master) {
        if (config->prepare)
            config->prepare(config->prepare_ctx, server);
        else
            server_admit(server);
    } else if (server_owns_slots(server)) {
        redis_break(redis, "it is a replica");
    } else {
        redis_admit(redis); /* it can tell the map */
    }
}

/* The server has slots by now. If it was a replica when it was reached, it was not prepared. */
static void server_make_owner(struct server *server) {
    if (redis_is_up(server->redis) && !redis_history(server->redis)->is_master)
        redis_break(server->redis, "it became a master");
}

static enum redis_role servers_role(const struct servers *servers) {
    if (servers_are_cluster(servers))
        return REDIS_ROLE_NODE;
    return servers->config.url->kind == REDIS_URL_SENTINEL || servers->config.replicas ? REDIS_ROLE_MASTER
                                                                                       : REDIS_ROLE_ANY;
}

static struct server *server_add(struct servers *servers, const struct redis_target *target) {
    struct server *server = servers->count < SERVERS_MAX ? calloc(1, sizeof *server) : NULL;
    if (!server)
        return NULL;
    server->of = servers;
    server->down_since_ms = clock_mono_ms(servers->config.clock);
    server->address = redis_target_address(target);
    struct redis_config config = {.loop = servers->config.loop,
                                  .clock = servers->config.clock,
                                  .timeout_ms = servers->config.timeout_ms,
                                  .role = servers_role(servers),
                                  .target = *target,
                                  .find = servers->config.leader ? server_find_leaders
                                          : servers->sentinels   ? server_find_master
                                                                 : NULL,
                                  .prepare = server_prepare,
                                  .hold = servers->config.replicas > 0,
                                  .on_state = servers_on_state,
                                  .ctx = server};
    server->redis = redis_open(&config);
    if (server->redis && config.hold)
        server->barrier = barrier_open(server, server_owns_key);
    if (!server->redis || (config.hold && !server->barrier)) {
        redis_close(server->redis);
        free(server);
        return NULL;
    }
    servers->server[servers->count++] = server;
    return server;
}

static void server_disconnect(struct server *server) {
    redis_close(server->redis);
    barrier_close(server->barrier);
}

/* The server is idle, so no call ends here. The connection refers to the server until the loop has run, but
 * calls neither `on_state` nor `find` once it is closed. */
static void server_drop(struct servers *servers, int i) {
    struct server *server = servers->server[i];
    if (server->was_away && servers->config.lost)
        servers->config.lost(servers->config.prepare_ctx, server);
    servers->server[i] = servers->server[--servers->count];
    /* A caller that goes through the servers may have passed this place, and would miss the last server. */
    servers->owners.moves++;
    redis_owners_forget(&servers->owners, server);
    server_disconnect(server);
    free(server);
}

struct server *servers_at(struct servers *servers, const struct redis_address *address) {
    struct server *known = server_find(servers, address);
    if (known)
        return known;
    struct redis_target target = redis_url_target(servers->config.url, address);
    return server_add(servers, &target);
}

/* The servers that the URL names. */
static bool servers_add_named(struct servers *servers) {
    const struct redis_url *url = servers->config.url;
    bool added = false;
    for (int i = 0; i < url->count; i++) {
        struct redis_address address = redis_target_address(&url->servers[i]);
        added |= servers_at(servers, &address) != NULL;
    }
    return added;
}

/* ---- the map ---- */

struct server *servers_of_slot(struct servers *servers, int slot) {
    const struct servers *leader = servers->config.leader;
    if (!leader)
        return servers->owners.of_slot[slot];
    const struct server *theirs = leader->closing ? NULL : leader->owners.of_slot[slot];
    return theirs && !servers->closing ? servers_at(servers, &theirs->address) : NULL;
}

struct server *servers_of_key(struct servers *servers, const char *key) {
    struct server *server = servers_are_cluster(servers)
                                ? servers_of_slot(servers, redis_slot(key, strlen(key)))
                                : servers->server[0];
    return server && servers->config.leader && !server_is_led(server) ? NULL : server;
}

void servers_note_moved(struct servers *servers, int slot, struct server *server) {
    struct servers *leader = servers->config.leader;
    struct server *owner = leader ? servers_at(leader, &server->address) : server;
    if (owner) {
        redis_owners_set(leader ? &leader->owners : &servers->owners, slot, owner);
        server_make_owner(owner);
    }
    servers_want_map(servers);
}

static void servers_install(struct servers *servers) {
    void *masters[REDIS_MASTERS_MAX] = {NULL};
    bool were[SERVERS_MAX] = {false};
    int known = servers->count;
    for (int i = 0; i < known; i++) {
        were[i] = servers->server[i]->is_master;
        servers->server[i]->is_master = false;
    }
    for (int i = 0; i < servers->slots->masters; i++) {
        struct server *master = masters[i] = servers_at(servers, &servers->slots->master[i]);
        if (master)
            master->is_master = true;
    }
    redis_owners_install(&servers->owners, servers->slots, masters);
    for (int slot = 0; slot < REDIS_SLOTS; slot++) {
        if (!servers->owners.of_slot[slot]) /* the server that was asked may not have heard yet */
            servers_want_map(servers);
    }
    for (int i = 0; i < servers->slots->masters; i++) {
        if (masters[i])
            server_make_owner(masters[i]);
    }
    for (int i = 0; i < known; i++) {
        struct server *server = servers->server[i];
        if (server->is_master)
            server->was_away = redis_is_gone(server->redis);
        else if (were[i] && !redis_is_idle(server->redis))
            redis_break(server->redis, "it is no master any more");
    }
    servers->error[0] = '\0';
}

static void servers_on_epoch(void *ctx, const struct redis_value *value) {
    ((struct servers *)ctx)->told_epoch = redis_slots_epoch(value);
}

static void servers_on_map(void *ctx, const struct redis_value *value) {
    struct servers *servers = ctx;
    const char *asked = servers->asked->address.host;
    servers->asked = NULL;
    if (servers->closing)
        return;
    const char *error = redis_value_error(value);
    if (value && redis_slots_read(servers->slots, value, asked, servers->told_epoch,
                                  clock_mono_ms(servers->config.clock))) {
        servers_install(servers);
        return;
    }
    servers_want_map(servers); /* another server may know more */
    snprintf(servers->error, sizeof servers->error, "%s",
             error ? error : "no server of the cluster says who has the slots");
}

static bool servers_lack_master(const struct servers *servers) {
    int i = 0;
    while (i < servers->count &&
           (!servers->server[i]->is_master || redis_is_reached(servers->server[i]->redis)))
        i++;
    return i < servers->count;
}

/* Asks the next server that is up. If none is, tries those that the URL names. */
static void servers_read_map(struct servers *servers) {
    for (int i = 0; i < servers->count; i++) {
        struct server *server = servers->server[servers->next++ % servers->count];
        if (!redis_is_up(server->redis))
            continue;
        servers->wanted = false;
        servers->asked = server;
        servers->read_at_ms = clock_mono_ms(servers->config.clock) +
                              (servers_lack_master(servers) ? REDIS_MAP_AGE_GONE_MS : REDIS_MAP_AGE_MS) +
                              (int64_t)randombytes_uniform(MAP_JITTER_MS);
        redis_call(server->redis, servers_on_epoch, servers, 2, (const char *[]){"CLUSTER", "INFO"});
        redis_call(server->redis, servers_on_map, servers, 2, (const char *[]){"CLUSTER", "SLOTS"});
        return;
    }
    servers_add_named(servers);
}

/* Also drops the servers of a cluster that the leader does not have any more. */
static void servers_follow_all(struct servers *servers) {
    for (int i = servers->count; i-- > 0;) {
        struct server *server = servers->server[i];
        if (servers_are_cluster(servers) && !server_find(servers->config.leader, &server->address) &&
            redis_is_idle(server->redis))
            server_drop(servers, i);
        else
            server_follow(server);
    }
}

void servers_tick(struct servers *servers) {
    if (servers->config.leader) {
        servers_follow_all(servers);
        return;
    }
    int64_t now_ms = clock_mono_ms(servers->config.clock);
    for (int i = 0; i < servers->count; i++) /* its slots may have another owner by now */
        servers->wanted |= servers->server[i]->is_master && !redis_is_up(servers->server[i]->redis);
    if (servers->wanted && !servers->asked && now_ms >= servers->read_at_ms)
        servers_read_map(servers);
    if (servers->wanted || servers->asked)
        return;
    for (int i = servers->count; i-- > 0;) {
        struct server *server = servers->server[i];
        bool is_idle = !server->is_master && redis_is_idle(server->redis);
        if (redis_server_is_over(&server->idle_since_ms, is_idle, now_ms))
            server_drop(servers, i);
    }
}

/* ---- opening and closing ---- */

bool servers_open(struct servers *servers, const struct servers_config *config) {
    *servers = (struct servers){.config = *config, .wanted = true};
    if (servers_are_cluster(servers) && config->leader)
        return true; /* each is added when it is needed */
    if (servers_are_cluster(servers)) {
        servers->slots = calloc(1, sizeof *servers->slots);
        if (servers->slots && servers_add_named(servers))
            return true;
        free(servers->slots);
        return false;
    }
    if (config->url->kind == REDIS_URL_SENTINEL && !config->leader &&
        !(servers->sentinels = sentinels_open(&servers->config)))
        return false;
    if (server_add(servers, &config->url->servers[0]))
        return true;
    sentinels_close(servers->sentinels);
    return false;
}

/* A caller that hears an answer while the servers close may send its next call: it must find no server, since
 * the servers are about to be freed. */
void servers_close(struct servers *servers) {
    int count = servers->count;
    servers->closing = true;
    servers->count = 0;
    memset(servers->owners.of_slot, 0, sizeof servers->owners.of_slot);
    sentinels_close(servers->sentinels);
    for (int i = 0; i < count; i++)
        server_disconnect(servers->server[i]);
    for (int i = 0; i < count; i++)
        free(servers->server[i]);
    free(servers->slots);
}
