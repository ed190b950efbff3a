/* zookeeper: the lock of ZooKeeper's own recipe ("ZooKeeper Recipes and Solutions", Locks), with the owner in
 * the nodes' names.
 *
 * An owner that wants KEY creates an ephemeral sequential node /lock/KEY/OWNER-SEQUENCE. The node with the
 * lowest sequence has the lock; each other owner watches the node right before its own, so a release wakes
 * one waiter. A node whose creation was not answered is found by the owner in its name, and deleted; the
 * owner begins anew. /lock/KEY is a container: the server removes it some time after its last child.
 *
 * The fence is the czxid of the node, the number of the transaction that created it. ZooKeeper numbers all
 * its transactions in one order, and a new leader goes on with it. An owner that queues later has both the
 * higher sequence and the higher czxid. Only an ensemble that is set up anew without its data begins anew.
 *
 * A node exists as long as the session of its process, which is one for all keys. So a grant does not expire
 * in the store: if a holder forgets to release it, the background thread does.
 *
 * Flaw: a holder that is paused past its deadline does not notice; the fence stops its writes. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/zookeeper/zookeeper_session.h"

enum {
    RETRY_MS = 1000, /* in case a wake-up is lost */
    /* ROOT/KEY/NAME, where a character of a key may take three. */
    PATH_SIZE = (ZOOKEEPER_ROOT_SIZE - 1) + 1 + 3 * LOCK_KEY_MAX + 1 + ZOOKEEPER_NAME_SIZE,
    BUCKETS = 1024,
    ROUNDS_MAX = 8, /* of an attempt, while other owners come and go */
};

/* Within an attempt only: something has changed meanwhile, so it begins another round. */
static const enum lock_status RETRY = LOCK_STATUSES;

/* A node that this process has in the store, or may have. The local holder of `key` and the background thread
 * use an owner's node one after the other. */
struct node {
    LIST_ENTRY(node) next;
    uint64_t session;
    int64_t czxid;                  /* 0: its creation was not answered, and it may exist */
    char name[ZOOKEEPER_NAME_SIZE]; /* "": not known */
    char owner[LOCK_OWNER_SIZE];
    char key[LOCK_KEY_MAX + 1];
};

LIST_HEAD(nodes, node);

struct store {
    const struct lock_env *env;
    struct zookeeper_session *session;
    char root[ZOOKEEPER_ROOT_SIZE]; /* CHROOT/lock */
    pthread_mutex_t mutex;          /* of the nodes */
    struct nodes nodes[BUCKETS];
};

/* ---- nodes ---- */

static struct nodes *bucket_of(struct store *store, const char *owner) {
    return &store->nodes[lock_hash_text(owner) % BUCKETS];
}

/* NULL: `owner` has no node. A thread that cannot keep others from dropping the node reads `*copy`, which may
 * be NULL. */
static struct node *find_node(struct store *store, const char *owner, struct node *copy) {
    pthread_mutex_lock(&store->mutex);
    struct node *node = LIST_FIRST(bucket_of(store, owner));
    while (node && strcmp(node->owner, owner) != 0)
        node = LIST_NEXT(node, next);
    if (node && copy)
        *copy = *node;
    pthread_mutex_unlock(&store->mutex);
    return node;
}

/* NULL when out of memory. */
static struct node *add_node(struct store *store, const char *key, const char *owner) {
    struct node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    memcpy(node->key, key, strlen(key) + 1);
    memcpy(node->owner, owner, strlen(owner) + 1);
    pthread_mutex_lock(&store->mutex);
    LIST_INSERT_HEAD(bucket_of(store, owner), node, next);
    pthread_mutex_unlock(&store->mutex);
    return node;
}

static void drop_node(struct store *store, struct node *node) {
    pthread_mutex_lock(&store->mutex);
    LIST_REMOVE(node, next);
    pthread_mutex_unlock(&store->mutex);
    free(node);
}

/* ---- batches of requests ---- */

/* `path` becomes ROOT/KEY, or ROOT/KEY/NAME. A key may contain characters that a node's name may not: '/',
 * and a dot if it is "." or ".."; each of them takes three. */
static void print_path(const char *root, char *path, const char *key, const char *name) {
    char *at = stpcpy(path, root);
    *at++ = '/';
    for (const char *c = key; *c; c++) {
        if (*c == '/' || *c == '%' || (*c == '.' && c == key))
            at += snprintf(at, 4, "%%%02X", (unsigned char)*c);
        else
            *at++ = *c;
    }
    *at = '\0';
    if (name)
        stpcpy(stpcpy(at, "/"), name);
}

/* Collects the requests of the next call, and keeps the replies to the last one. */
struct batch {
    struct store *store;
    struct lock_limit limit;
    char parent[PATH_SIZE], queue[PATH_SIZE], other[PATH_SIZE];
    char levels[ZOOKEEPER_LEVELS_MAX][ZOOKEEPER_ROOT_SIZE];
    struct zookeeper_request requests[ZOOKEEPER_REQUESTS_MAX];
    struct zookeeper_reply replies[ZOOKEEPER_REQUESTS_MAX];
    int count;
};

/* For calls about one node, which end at `until_ns`, or earlier. */
static void begin(struct batch *batch, struct store *store, const struct node *node, int64_t until_ns) {
    char start[LOCK_OWNER_SIZE + 1];
    batch->store = store;
    batch->limit = (struct lock_limit){.until_ns = zookeeper_session_until_ns(store->session)};
    if (until_ns < batch->limit.until_ns)
        batch->limit.until_ns = until_ns;
    batch->count = 0;
    stpcpy(stpcpy(start, node->owner), "-");
    print_path(store->root, batch->parent, node->key, NULL);
    print_path(store->root, batch->queue, node->key, start);
}

/* Adds a request. Returns the index of its reply in batch->replies. */
static int add(struct batch *batch, enum zookeeper_verb verb, const char *path, const struct node *node) {
    batch->requests[batch->count] =
        (struct zookeeper_request){.verb = verb, .path = path, .key = node->key, .owner = node->owner};
    return batch->count++;
}

static void add_parents(struct batch *batch, const struct node *node) {
    const char *slash = batch->store->root;
    for (int i = 0; slash; i++) {
        slash = strchr(slash + 1, '/');
        size_t length = slash ? (size_t)(slash - batch->store->root) : strlen(batch->store->root);
        memcpy(batch->levels[i], batch->store->root, length);
        batch->levels[i][length] = '\0';
        add(batch, ZOOKEEPER_CREATE, batch->levels[i], node);
    }
    add(batch, ZOOKEEPER_CONTAINER, batch->parent, node);
}

static enum lock_status send_batch(struct batch *batch, uint64_t *session) {
    int count = batch->count;
    batch->count = 0;
    return zookeeper_session_call(batch->store->session, session, batch->requests, count, batch->replies,
                                  &batch->limit);
}

/* ---- releasing ---- */

/* LOCK_OK, with the place in `*place`; LOCK_NOT_OWNER: there is no node of that owner. `syncs`: asks for the
 * latest writes, which the server that answers may not have yet. */
static enum lock_status find_place(struct batch *batch, struct node *node, bool syncs,
                                   struct zookeeper_reply *place) {
    if (syncs)
        add(batch, ZOOKEEPER_SYNC, batch->parent, node);
    int at_place = add(batch, ZOOKEEPER_FIND_PLACE, batch->parent, node);
    enum lock_status status = send_batch(batch, &node->session);
    *place = batch->replies[at_place];
    if (status != LOCK_OK || place->result == ZOOKEEPER_NOT_DONE)
        return status != LOCK_OK ? status : LOCK_UNAVAILABLE;
    return place->name[0] ? LOCK_OK : LOCK_NOT_OWNER;
}

static enum lock_status delete_node(struct batch *batch, struct node *node) {
    struct zookeeper_reply place;
    enum lock_status status = node->session ? LOCK_OK : LOCK_NOT_OWNER;
    if (status == LOCK_OK && !node->name[0]) {
        status = find_place(batch, node, true, &place);
        memcpy(node->name, place.name, sizeof node->name);
    }
    if (status != LOCK_OK)
        return status;
    print_path(batch->store->root, batch->other, node->key, node->name);
    add(batch, ZOOKEEPER_DELETE, batch->other, node);
    status = send_batch(batch, &node->session);
    if (status == LOCK_OK && batch->replies[0].result != ZOOKEEPER_DONE)
        status = batch->replies[0].result == ZOOKEEPER_NO_NODE ? LOCK_NOT_OWNER : LOCK_UNAVAILABLE;
    return status;
}

static enum lock_status remove_node(struct batch *batch, struct node *node) {
    enum lock_status status = delete_node(batch, node);
    if (status == LOCK_OK || status == LOCK_NOT_OWNER)
        drop_node(batch->store, node);
    return status;
}

static enum lock_status zookeeper_withdraw(void *opened, const char *key, const char *owner,
                                           int64_t until_ns) {
    struct store *store = opened;
    struct batch batch;
    struct node *node = find_node(store, owner, NULL);
    (void)key;
    if (!node)
        return LOCK_NOT_OWNER;
    begin(&batch, store, node, until_ns);
    return remove_node(&batch, node);
}

static enum lock_status zookeeper_release(void *store, const char *key, const char *owner) {
    return zookeeper_withdraw(store, key, owner, INT64_MAX);
}

/* ---- acquiring ---- */

static void read_created(struct batch *batch, struct node *node, int queued, uint64_t session) {
    const struct zookeeper_reply *reply = &batch->replies[queued];
    if (reply->result != ZOOKEEPER_DONE && reply->result != ZOOKEEPER_LOST)
        return;
    node->session = session;
    node->czxid = reply->czxid;
    memcpy(node->name, reply->name, sizeof node->name);
}

/* Creates the node, and releases attempt->releasing with the same call. With `*parents` it also creates the
 * nodes above. LOCK_OK, with the place in `*place`; RETRY, with `*parents` set if they were missing; or a
 * failure. */
static enum lock_status create_node(struct batch *batch, struct lock_attempt *attempt, struct node *node,
                                    bool *parents, struct zookeeper_reply *place) {
    struct node *released = NULL;
    if (attempt->releasing[0])
        released = find_node(batch->store, attempt->releasing, NULL);
    if (!released)
        attempt->releasing[0] = '\0';
    uint64_t session = released ? released->session : 0;
    if (released) { /* it was granted, so its name is known */
        print_path(batch->store->root, batch->other, node->key, released->name);
        add(batch, ZOOKEEPER_DELETE, batch->other, released);
    }
    if (*parents)
        add_parents(batch, node);
    int at_queue = add(batch, ZOOKEEPER_QUEUE, batch->queue, node);
    int at_place = add(batch, ZOOKEEPER_FIND_PLACE, batch->parent, node);
    enum lock_status status = send_batch(batch, &session);
    bool sent = status == LOCK_OK || status == LOCK_UNKNOWN;
    enum zookeeper_result deleted = batch->replies[0].result;
    if (released &&
        (status == LOCK_NOT_OWNER || (sent && (deleted == ZOOKEEPER_DONE || deleted == ZOOKEEPER_NO_NODE)))) {
        attempt->releasing[0] = '\0';
        drop_node(batch->store, released);
    }
    if (!sent)
        return status == LOCK_NOT_OWNER ? RETRY : status;
    read_created(batch, node, at_queue, session);
    if (status != LOCK_OK)
        return status;
    bool again = batch->replies[at_queue].result == ZOOKEEPER_NO_NODE && !*parents;
    *parents = true;
    *place = batch->replies[at_place];
    return again ? RETRY : node->session ? LOCK_OK : LOCK_UNAVAILABLE;
}

/* LOCK_BUSY, or RETRY: the predecessor is gone. */
static enum lock_status watch(struct batch *batch, struct lock_attempt *attempt, const struct node *node,
                              const char *predecessor) {
    uint64_t session = node->session;
    print_path(batch->store->root, batch->other, node->key, predecessor);
    add(batch, ZOOKEEPER_WATCH, batch->other, node);
    enum lock_status status = send_batch(batch, &session);
    if (status != LOCK_OK)
        return status == LOCK_NOT_OWNER ? RETRY : status;
    if (batch->replies[0].result == ZOOKEEPER_NO_NODE)
        return RETRY;
    attempt->retry_ns = lock_env_now_ns(batch->store->env) + RETRY_MS * 1000000LL;
    return LOCK_BUSY;
}

/* LOCK_OK, LOCK_BUSY, RETRY, or a failure. */
static enum lock_status try_once(struct batch *batch, struct lock_attempt *attempt, struct node *node,
                                 bool *parents) {
    struct store *store = batch->store;
    struct zookeeper_reply place;
    int64_t sent_ns = lock_env_now_ns(store->env);
    bool is_unknown = node->session && !node->czxid; /* its creation was not answered */
    enum lock_status status = is_unknown      ? delete_node(batch, node)
                              : node->session ? find_place(batch, node, false, &place)
                                              : create_node(batch, attempt, node, parents, &place);
    if (status == LOCK_NOT_OWNER || (status == LOCK_OK && is_unknown)) {
        node->session = 0; /* it does not exist any more; another is to be created */
        return RETRY;
    }
    if (status != LOCK_OK)
        return status;
    if (place.predecessor[0])
        return attempt->waits ? watch(batch, attempt, node, place.predecessor) : LOCK_BUSY;
    if (!place.name[0]) /* it was created, and is gone */
        return RETRY;
    int64_t deadline_ns = zookeeper_session_deadline_ns(store->session, node->session, sent_ns);
    attempt->retry_ns = sent_ns + 20000000;
    if (deadline_ns == 0) /* it is the first, but the session may soon end: wait for a heartbeat */
        return attempt->waits ? LOCK_BUSY : LOCK_UNAVAILABLE;
    attempt->grant.fence = (uint64_t)node->czxid;
    attempt->grant.deadline_ns = deadline_ns;
    return LOCK_OK;
}

static enum lock_status zookeeper_attempt(void *opened, struct lock_attempt *attempt) {
    struct store *store = opened;
    struct batch batch;
    struct node *node = find_node(store, attempt->grant.owner, NULL);
    bool parents = false;
    if (!node) /* it is noted before it is created, so that no node is forgotten */
        node = add_node(store, attempt->grant.key, attempt->grant.owner);
    if (!node)
        return LOCK_NOMEM;
    begin(&batch, store, node, attempt->limit.until_ns);
    batch.limit.cancel = attempt->limit.cancel;
    enum lock_status status = RETRY;
    attempt->retry_ns = lock_env_now_ns(store->env);
    for (int round = 0; round < ROUNDS_MAX && status == RETRY; round++)
        status = try_once(&batch, attempt, node, &parents);
    if (status == RETRY)
        status = LOCK_BUSY;
    if (status == LOCK_OK || attempt->waits)
        return status;
    enum lock_status removed = remove_node(&batch, node);
    return removed == LOCK_OK || removed == LOCK_NOT_OWNER ? status : LOCK_UNKNOWN;
}

/* ---- while it is held ---- */

static enum lock_status verify_node(struct store *store, struct lock_grant *grant) {
    struct batch batch;
    struct node node;
    struct zookeeper_reply place;
    int64_t sent_ns = lock_env_now_ns(store->env);
    if (!find_node(store, grant->owner, &node))
        return LOCK_NOT_OWNER;
    begin(&batch, store, &node, INT64_MAX);
    enum lock_status status = find_place(&batch, &node, true, &place);
    if (status != LOCK_OK)
        return status;
    int64_t deadline_ns = zookeeper_session_deadline_ns(store->session, node.session, sent_ns);
    if (deadline_ns == 0)
        return LOCK_UNAVAILABLE;
    grant->deadline_ns = deadline_ns;
    return LOCK_OK;
}

static void zookeeper_check(void *store, struct lock_check *check, size_t count) {
    (void)count;
    check->status = verify_node(store, &check->grant);
}

/* ---- opening ---- */

static enum lock_status zookeeper_open(const struct lock_url *url, const struct lock_env *env, void **store,
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

/* Grants that are held expire with the session. If there are none, the session ends now. */
static void zookeeper_close_store(void *store) {
    struct store *opened = store;
    uint64_t newest = 0;
    for (int i = 0; i < BUCKETS; i++) {
        for (struct node *node; (node = LIST_FIRST(&opened->nodes[i]));) {
            newest = node->session > newest ? node->session : newest;
            drop_node(opened, node);
        }
    }
    zookeeper_session_close(opened->session, newest);
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
    .open = zookeeper_open,
    .close = zookeeper_close_store,
    .attempt = zookeeper_attempt,
    .release = zookeeper_release,
    .withdraw = zookeeper_withdraw,
    .check = zookeeper_check,
};
