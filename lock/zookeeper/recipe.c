/* zookeeper: the lock of ZooKeeper's own recipe ("ZooKeeper Recipes and Solutions", Locks), with an owner in
 * the names.
 *
 * Who wants KEY makes an ephemeral, sequential node /lock/KEY/OWNER-SEQUENCE. The one with the lowest
 * sequence has the lock; each of the others watches the one right before its own, so that a release wakes
 * one. The owner in the name finds a node again whose making was not answered. /lock/KEY is a container: the
 * server removes it some time after its last child.
 *
 * The fence is the czxid of the node, the number of the transaction that made it. ZooKeeper counts all of its
 * transactions in one order, which a new leader goes on with; and who queued up later has both the higher
 * sequence and the higher czxid. It counts anew in an ensemble that is set up anew without its data.
 *
 * A node lasts as long as the session of its process, which is one for all keys. So a grant does not run out
 * in the store: who forgets to give it back keeps it from the others until the keeper takes it back.
 *
 * What it cannot do: a holder that is paused beyond its time does not know, which is what the fence is for.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/zookeeper/address.h"
#include "lock/zookeeper/session.h"

enum {
    LOOK_MS = 1000, /* a wake-up that was lost costs so much */
    /* ROOT/KEY/NAME, where a character of a key may take three. */
    PATH_SIZE = (ZOOKEEPER_ROOT_SIZE - 1) + 1 + 3 * LOCK_KEY_MAX + 1 + ZOOKEEPER_NAME_SIZE,
    BUCKETS = 1024,
    ROUNDS_MAX = 8, /* of an attempt, while others come and go */
};

/* What this process has in the store, or may have. Only who has the turn of `key`, and the keeper, ask for an
 * owner, one after the other; but for looks, which change nothing. */
struct node {
    struct node *chain;
    uint64_t session;
    int64_t czxid;
    char name[ZOOKEEPER_NAME_SIZE]; /* "": it may be there */
    char owner[LOCK_OWNER_SIZE];
    char key[LOCK_KEY_MAX + 1];
};

struct store {
    const struct lock_env *env;
    struct zookeeper_session *session;
    char root[ZOOKEEPER_ROOT_SIZE]; /* CHROOT/lock */
    pthread_mutex_t mutex;          /* of the nodes */
    struct node *nodes[BUCKETS];
};

/* ---- nodes: copies go in and out ---- */

static struct node **find_node(struct store *store, const char *owner) {
    uint32_t hash = 2166136261U; /* FNV-1a */
    for (const char *c = owner; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    struct node **at = &store->nodes[hash % BUCKETS];
    while (*at && strcmp((*at)->owner, owner) != 0)
        at = &(*at)->chain;
    return at;
}

/* False: `owner` has nothing there; `*node` has only its name then. */
static bool read_node(struct store *store, const char *key, const char *owner, struct node *node) {
    pthread_mutex_lock(&store->mutex);
    const struct node *found = *find_node(store, owner);
    *node = found ? *found : (struct node){.chain = NULL};
    pthread_mutex_unlock(&store->mutex);
    memcpy(node->key, key, strlen(key) + 1);
    memcpy(node->owner, owner, strlen(owner) + 1);
    return found != NULL;
}

/* False when out of memory; not for one that is there. */
static bool write_node(struct store *store, const struct node *node) {
    pthread_mutex_lock(&store->mutex);
    struct node **at = find_node(store, node->owner), *chain = *at ? (*at)->chain : NULL;
    if (!*at)
        *at = malloc(sizeof **at);
    bool there = *at != NULL;
    if (there)
        **at = *node, (*at)->chain = chain;
    pthread_mutex_unlock(&store->mutex);
    return there;
}

static void drop_node(struct store *store, const char *owner) {
    pthread_mutex_lock(&store->mutex);
    struct node **at = find_node(store, owner), *node = *at;
    if (node) {
        *at = node->chain;
        free(node);
    }
    pthread_mutex_unlock(&store->mutex);
}

/* ---- paths ---- */

/* `rest`: of a path below the key's, or NULL. A key may have any visible character; a name may not have '/',
 * nor be "." or "..". */
static void make_path(const struct store *store, char path[PATH_SIZE], const char *key, const char *rest) {
    char *at = stpcpy(path, store->root);
    *at++ = '/';
    for (const char *c = key; *c; c++) {
        if (*c == '/' || *c == '%' || (*c == '.' && c == key))
            at += snprintf(at, 4, "%%%02X", (unsigned char)*c);
        else
            *at++ = *c;
    }
    *at = '\0';
    if (rest)
        stpcpy(stpcpy(at, "/"), rest);
}

/* ---- talking ---- */

/* The requests of one call after the other, and the replies to the last one. */
struct talk {
    struct store *store;
    struct lock_limit limit;
    char parent[PATH_SIZE], queue[PATH_SIZE], own[PATH_SIZE], other[PATH_SIZE];
    char levels[ZOOKEEPER_LEVELS_MAX][ZOOKEEPER_ROOT_SIZE];
    struct zookeeper_request requests[ZOOKEEPER_REQUESTS_MAX];
    struct zookeeper_reply replies[ZOOKEEPER_REQUESTS_MAX];
    int count;
};

static void begin(struct talk *talk, struct store *store, const struct node *node) {
    char start[LOCK_OWNER_SIZE + 1];
    talk->store = store;
    talk->limit = (struct lock_limit){.until_ns = zookeeper_session_until_ns(store->session)};
    talk->count = 0;
    stpcpy(stpcpy(start, node->owner), "-");
    make_path(store, talk->parent, node->key, NULL);
    make_path(store, talk->queue, node->key, start);
}

static void end_by(struct talk *talk, int64_t until_ns) {
    if (until_ns < talk->limit.until_ns)
        talk->limit.until_ns = until_ns;
}

/* Its reply is the answer's, in talk->replies. */
static int add(struct talk *talk, enum zookeeper_verb verb, const char *path, const struct node *node) {
    talk->requests[talk->count] =
        (struct zookeeper_request){.verb = verb, .path = path, .key = node->key, .owner = node->owner};
    return talk->count++;
}

static int add_own(struct talk *talk, enum zookeeper_verb verb, const struct node *node) {
    make_path(talk->store, talk->own, node->key, node->name);
    return add(talk, verb, talk->own, node);
}

static void add_parents(struct talk *talk, const struct node *node) {
    const char *slash = talk->store->root;
    for (int i = 0; slash; i++) {
        slash = strchr(slash + 1, '/');
        size_t length = slash ? (size_t)(slash - talk->store->root) : strlen(talk->store->root);
        memcpy(talk->levels[i], talk->store->root, length);
        talk->levels[i][length] = '\0';
        add(talk, ZOOKEEPER_MAKE, talk->levels[i], node);
    }
    add(talk, ZOOKEEPER_CONTAINER, talk->parent, node);
}

static enum lock_status talk_in(struct talk *talk, uint64_t *session) {
    int count = talk->count;
    talk->count = 0;
    return zookeeper_session_call(talk->store->session, session, talk->requests, count, talk->replies,
                                  &talk->limit);
}

/* ---- giving back ---- */

/* Whose making was not answered. LOCK_OK: it has its name now; LOCK_NOT_OWNER: it is not there. */
static enum lock_status find_again(struct talk *talk, struct node *node) {
    add(talk, ZOOKEEPER_SYNC, talk->parent, node); /* another server may answer now than was asked first */
    int place = add(talk, ZOOKEEPER_PLACE, talk->parent, node);
    enum lock_status status = talk_in(talk, &node->session);
    const struct zookeeper_reply *reply = &talk->replies[place];
    if (status != LOCK_OK)
        return status;
    if (reply->result == ZOOKEEPER_NOT_DONE)
        return LOCK_UNAVAILABLE;
    memcpy(node->name, reply->name, sizeof node->name);
    return node->name[0] ? LOCK_OK : LOCK_NOT_OWNER;
}

static enum lock_status remove_node(struct talk *talk, struct node *node) {
    enum lock_status status = node->session ? LOCK_OK : LOCK_NOT_OWNER;
    if (status == LOCK_OK && !node->name[0])
        status = find_again(talk, node);
    if (status == LOCK_OK) {
        add_own(talk, ZOOKEEPER_DELETE, node);
        status = talk_in(talk, &node->session);
        if (status == LOCK_OK && talk->replies[0].result != ZOOKEEPER_DONE)
            status = talk->replies[0].result == ZOOKEEPER_NO_NODE ? LOCK_NOT_OWNER : LOCK_UNAVAILABLE;
    }
    if (status == LOCK_OK || status == LOCK_NOT_OWNER)
        drop_node(talk->store, node->owner);
    return status;
}

static enum lock_status withdraw(void *opened, const char *key, const char *owner, int64_t until_ns) {
    struct store *store = opened;
    struct talk talk;
    struct node node;
    if (!read_node(store, key, owner, &node))
        return LOCK_NOT_OWNER;
    begin(&talk, store, &node);
    end_by(&talk, until_ns);
    return remove_node(&talk, &node);
}

static enum lock_status release(void *store, const char *key, const char *owner) {
    return withdraw(store, key, owner, INT64_MAX);
}

/* ---- taking ---- */

static void forget(struct store *store, struct node *node) {
    node->session = 0;
    node->czxid = 0;
    node->name[0] = '\0';
    write_node(store, node);
}

/* Of the node that is given back with the same call. */
static void read_given(const struct talk *talk, struct lock_attempt *attempt, bool over,
                       enum zookeeper_result result) {
    if (!over && result != ZOOKEEPER_DONE && result != ZOOKEEPER_NO_NODE)
        return;
    drop_node(talk->store, attempt->releasing);
    attempt->releasing[0] = '\0';
}

static void read_queued(struct talk *talk, struct node *node, int queued, uint64_t session) {
    const struct zookeeper_reply *reply = &talk->replies[queued];
    if (reply->result != ZOOKEEPER_DONE && reply->result != ZOOKEEPER_LOST)
        return;
    node->session = session;
    node->czxid = reply->czxid;
    memcpy(node->name, reply->name, sizeof node->name);
    write_node(talk->store, node);
}

/* Makes the node, and gives back what is to be given back. LOCK_OK, with the place in `*place`;
 * LOCK_NOT_OWNER: try again. */
static enum lock_status queue_up(struct talk *talk, struct lock_attempt *attempt, struct node *node,
                                 bool *parents, struct zookeeper_reply *place) {
    struct node given;
    uint64_t session = 0;
    int at_given = -1;
    if (attempt->releasing[0] && !read_node(talk->store, node->key, attempt->releasing, &given))
        attempt->releasing[0] = '\0';
    if (attempt->releasing[0]) { /* it was granted, so it has a name */
        session = given.session;
        make_path(talk->store, talk->other, node->key, given.name);
        at_given = add(talk, ZOOKEEPER_DELETE, talk->other, &given);
    }
    if (*parents)
        add_parents(talk, node);
    int at_queue = add(talk, ZOOKEEPER_QUEUE, talk->queue, node);
    int at_place = add(talk, ZOOKEEPER_PLACE, talk->parent, node);
    enum lock_status status = talk_in(talk, &session);
    if (at_given >= 0 && status != LOCK_UNAVAILABLE && status != LOCK_NOMEM)
        read_given(talk, attempt, status == LOCK_NOT_OWNER, talk->replies[at_given].result);
    if (status == LOCK_NOT_OWNER || status == LOCK_UNAVAILABLE || status == LOCK_NOMEM)
        return status;
    read_queued(talk, node, at_queue, session);
    if (status != LOCK_OK)
        return status;
    bool again = talk->replies[at_queue].result == ZOOKEEPER_NO_NODE && !*parents;
    *parents = true;
    *place = talk->replies[at_place];
    return again ? LOCK_NOT_OWNER : node->session ? LOCK_OK : LOCK_UNAVAILABLE;
}

/* LOCK_OK, with the place in `*place`, of a node that was made before; LOCK_NOT_OWNER: it is not there. */
static enum lock_status look_up(struct talk *talk, struct node *node, struct zookeeper_reply *place) {
    if (!node->name[0]) {
        enum lock_status status = find_again(talk, node);
        if (status != LOCK_OK)
            return status;
        write_node(talk->store, node);
    }
    int at_stat = node->czxid ? -1 : add_own(talk, ZOOKEEPER_STAT, node);
    int at_place = add(talk, ZOOKEEPER_PLACE, talk->parent, node);
    enum lock_status status = talk_in(talk, &node->session);
    if (status != LOCK_OK)
        return status;
    if (at_stat >= 0)
        node->czxid = talk->replies[at_stat].czxid;
    *place = talk->replies[at_place];
    if (place->result == ZOOKEEPER_NOT_DONE)
        return LOCK_UNAVAILABLE;
    write_node(talk->store, node);
    return place->name[0] && node->czxid ? LOCK_OK : LOCK_NOT_OWNER;
}

static enum lock_status watch(struct talk *talk, struct lock_attempt *attempt, const struct node *node,
                              const char *before) {
    uint64_t session = node->session;
    make_path(talk->store, talk->other, node->key, before);
    add(talk, ZOOKEEPER_WATCH, talk->other, node);
    enum lock_status status = talk_in(talk, &session);
    if (status != LOCK_OK)
        return status;
    if (talk->replies[0].result == ZOOKEEPER_NO_NODE)
        return LOCK_NOT_OWNER;
    attempt->retry_ns = lock_env_now_ns(talk->store->env) + LOOK_MS * 1000000LL;
    return LOCK_BUSY;
}

/* LOCK_NOT_OWNER: something has changed meanwhile, try again. */
static enum lock_status try_once(struct talk *talk, struct lock_attempt *attempt, struct node *node,
                                 bool *parents) {
    struct store *store = talk->store;
    struct zookeeper_reply place;
    int64_t sent_ns = lock_env_now_ns(store->env);
    bool made = node->session != 0;
    enum lock_status status =
        made ? look_up(talk, node, &place) : queue_up(talk, attempt, node, parents, &place);
    if (status == LOCK_NOT_OWNER && made)
        forget(store, node);
    if (status != LOCK_OK)
        return status;
    if (place.before[0])
        return attempt->waits ? watch(talk, attempt, node, place.before) : LOCK_BUSY;
    if (!place.name[0]) /* it was, and is gone */
        return LOCK_NOT_OWNER;
    int64_t deadline_ns = zookeeper_session_deadline_ns(store->session, node->session, sent_ns);
    attempt->retry_ns = sent_ns + 20000000;
    if (deadline_ns == 0) /* the first, but perhaps not for long: until the server has heard of us again */
        return attempt->waits ? LOCK_BUSY : LOCK_UNAVAILABLE;
    attempt->grant.fence = (uint64_t)node->czxid;
    attempt->grant.deadline_ns = deadline_ns;
    return LOCK_OK;
}

static enum lock_status attempt_it(void *opened, struct lock_attempt *attempt) {
    struct store *store = opened;
    struct talk talk;
    struct node node;
    bool parents = false, known = read_node(store, attempt->grant.key, attempt->grant.owner, &node);
    if (!known && !write_node(store, &node)) /* before anything is made, so that it is not lost */
        return LOCK_NOMEM;
    begin(&talk, store, &node);
    end_by(&talk, attempt->limit.until_ns);
    talk.limit.cancel = attempt->limit.cancel;
    enum lock_status status = LOCK_NOT_OWNER;
    attempt->retry_ns = lock_env_now_ns(store->env);
    for (int round = 0; round < ROUNDS_MAX && status == LOCK_NOT_OWNER; round++)
        status = try_once(&talk, attempt, &node, &parents);
    if (status == LOCK_NOT_OWNER)
        status = LOCK_BUSY;
    if (status == LOCK_OK || attempt->waits)
        return status;
    if (!node.session) {
        drop_node(store, node.owner);
        return status;
    }
    enum lock_status removed = remove_node(&talk, &node);
    return removed == LOCK_OK || removed == LOCK_NOT_OWNER ? status : LOCK_UNKNOWN;
}

/* ---- while it is held ---- */

static enum lock_status check(struct store *store, const struct lock_grant *grant, struct node *node) {
    struct talk talk;
    if (!read_node(store, grant->key, grant->owner, node) || !node->name[0])
        return LOCK_NOT_OWNER;
    begin(&talk, store, node);
    add(&talk, ZOOKEEPER_SYNC, talk.parent, node); /* what the server knows may be old */
    int stat = add_own(&talk, ZOOKEEPER_STAT, node);
    enum lock_status status = talk_in(&talk, &node->session);
    if (status != LOCK_OK)
        return status;
    if (talk.replies[stat].result == ZOOKEEPER_NOT_DONE)
        return LOCK_UNAVAILABLE;
    return talk.replies[stat].czxid == node->czxid ? LOCK_OK : LOCK_NOT_OWNER;
}

static enum lock_status extend(void *opened, struct lock_grant *grant) {
    struct store *store = opened;
    struct node node;
    int64_t sent_ns = lock_env_now_ns(store->env);
    enum lock_status status = check(store, grant, &node);
    if (status != LOCK_OK)
        return status;
    int64_t deadline_ns = zookeeper_session_deadline_ns(store->session, node.session, sent_ns);
    if (deadline_ns == 0)
        return LOCK_UNAVAILABLE;
    grant->deadline_ns = deadline_ns;
    return LOCK_OK;
}

static enum lock_status look(void *store, const struct lock_grant *grant) {
    struct node node;
    return check(store, grant, &node);
}

/* ---- opening ---- */

static enum lock_status open_store(const struct lock_url *url, const struct lock_env *env, void **store,
                                   char *error, size_t error_size) {
    char servers[ZOOKEEPER_SERVERS_SIZE], root[ZOOKEEPER_ROOT_SIZE], what[128];
    if (!zookeeper_address_read(url->address, servers, root, what, sizeof what)) {
        snprintf(error, error_size, "zookeeper: %s; want zookeeper://HOST[:PORT],HOST[:PORT]...[/CHROOT]",
                 what);
        return LOCK_CONFIG;
    }
    struct store *opened = calloc(1, sizeof *opened);
    if (!opened)
        return LOCK_NOMEM;
    opened->env = env;
    stpcpy(opened->root, root);
    opened->session = zookeeper_session_open(servers, url->ttl_ms, env);
    if (!opened->session) {
        free(opened);
        return LOCK_NOMEM;
    }
    pthread_mutex_init(&opened->mutex, NULL);
    *store = opened;
    return LOCK_OK;
}

/* Grants that are held run out with the session; if there are none it ends now. */
static void close_store(void *store) {
    struct store *opened = store;
    uint64_t session = zookeeper_session_number(opened->session);
    bool holds = false;
    for (int i = 0; i < BUCKETS; i++) {
        while (opened->nodes[i]) {
            struct node *next = opened->nodes[i]->chain;
            holds |= opened->nodes[i]->session == session;
            free(opened->nodes[i]);
            opened->nodes[i] = next;
        }
    }
    zookeeper_session_close(opened->session, holds);
    pthread_mutex_destroy(&opened->mutex);
    free(opened);
}

const struct lock_backend lock_zookeeper = {
    .scheme = "zookeeper",
    .variant = "",
    .flaw = "two hold it after a pause longer than the session, and the fence stops the second",
    .caps = LOCK_CAN_FENCE | LOCK_CAN_FENCE_FAILOVER | LOCK_CAN_EXTEND | LOCK_IS_FAIR | LOCK_CAN_WAKE |
            LOCK_IS_SHARED | LOCK_IS_SAFE,
    .queues_locally = true,
    .attempt_releases = true,
    .outlives_deadline = true,
    .open = open_store,
    .close = close_store,
    .attempt = attempt_it,
    .release = release,
    .withdraw = withdraw,
    .extend = extend,
    .verify = look,
};
