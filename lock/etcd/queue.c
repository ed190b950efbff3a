/* etcd: the lock that is safe because its store is.
 *
 * Who wants a lock puts a key below the lock's, on the lease of its process; whoever has the oldest key, by
 * create revision, has the lock. That revision is the fence: it grows, and through Raft it never goes back,
 * whatever fails over. The rest wait, each for the one before it to go: one is told when the lock is given
 * back, and they are served in turn. (The recipe is etcd's own, of its concurrency package, and before that
 * ZooKeeper's. There the key belongs to the session, so that two threads share a grant; here each acquisition
 * has its own, with its owner as value.)
 *
 * To put one's key and to see whether it is the oldest is one request; a key that is given back within this
 * process goes in the same one. Who must wait is told when the key before its own is deleted, by a watch on
 * the lock that stays (etcd_waits.h), and then looks, which is to ask for one's own key too: a lease can be
 * lost while waiting. So a hand-over between processes is two requests, and one wakes up.
 *
 * The name of a key is its process's and one of four, by turns: etcd keeps a name in its index until it is
 * compacted, and goes through all of them whenever a lock is looked at, those of processes that are no more
 * too. (Compact it now and then.) So a key is known by its owner or by its revision, and by its name only as
 * long as it lives. Whoever has the lock deletes its key by the name all the same, which etcd does in less
 * time than a transaction that compares the owner. If that is not answered it may be done any time later, so
 * what had one of the four names gets another, and is deleted with a comparison from then on.
 *
 * What it cannot do: a holder that is paused for longer than its lease does not know; that is what the fence
 * is for. A lease lives for whole seconds, 3 at least. So long the lock of a process that died is held,
 * though a grant may be shorter. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/etcd/txn_batch.h"
#include "lock/etcd/waits.h"

enum { NAMES = 4 };

struct queue {
    struct etcd_session *session;
    struct etcd_batch *batch;
    struct etcd_waits *waits;
    _Atomic unsigned stained; /* a bit for each of the names */
};

/* ---- names ---- */

/* A space cannot be in a lock's key: so those of no other one begin with this. */
static int name_prefix(char out[ETCD_KEY_SIZE], const char *key) {
    return snprintf(out, ETCD_KEY_SIZE, "lock/%s ", key);
}

/* Which of a process's names an owner's key has: by the last digit of the half that is counted. */
static unsigned turn_of(const char *owner) {
    char c = owner[LOCK_OWNER_SIZE - 2];
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10) % NAMES;
}

/* What the name of its key begins with, and as a rule the name itself. No other owner's begins with it but of
 * one with the same turn. */
static void name_own(char out[ETCD_KEY_SIZE], const char *key, const char *owner) {
    int length = name_prefix(out, key);
    snprintf(out + length, ETCD_KEY_SIZE - (size_t)length, "%.*s.%u", LOCK_OWNER_SIZE / 2, owner,
             turn_of(owner));
}

/* A deletion by the name of that owner may come late. */
static bool is_stained(struct queue *queue, const char *owner) {
    return atomic_load(&queue->stained) >> turn_of(owner) & 1;
}

/* The other name for it. */
static void name_other(char out[ETCD_KEY_SIZE], const char *key, const char *owner) {
    name_own(out, key, owner);
    stpcpy(out + strlen(out), "+");
}

/* ---- what is asked ---- */

static void copy_key(char out[ETCD_KEY_SIZE], struct etcd_bytes key) {
    snprintf(out, ETCD_KEY_SIZE, "%.*s", (int)key.size, (const char *)key.data);
}

/* The keys of the lock from the newest on, those put before `revision`; 0: all. */
static struct etcd_op newest(const char *prefix, int64_t before_revision, int64_t limit) {
    return (struct etcd_op){ETCD_RANGE,
                            .range = {.key = etcd_text(prefix),
                                      .prefix = true,
                                      .max_create_revision = before_revision ? before_revision - 1 : 0,
                                      .order = ETCD_DESCENDING,
                                      .sort_by = ETCD_CREATE_REVISION,
                                      .limit = limit,
                                      .keys_only = true}};
}

static struct etcd_compare has_revision(const char *key, int64_t revision) {
    return (struct etcd_compare){
        .key = etcd_text(key), .target = ETCD_CREATE_REVISION, .relation = ETCD_EQUAL, .number = revision};
}

static void read_before(void *ctx, const struct etcd_reply *reply) {
    struct etcd_place *place = ctx;
    place->name[0] = '\0';
    place->seen = reply->revision;
    if (!reply->succeeded)
        place->revision = 0;
    else if (reply->replies[0].kv_count > 0)
        copy_key(place->name, reply->replies[0].kvs[0].key);
}

/* Is the own key still there, and which one is before it? LOCK_NOT_OWNER: it has gone. */
static enum lock_status look(struct queue *queue, const struct lock_attempt *attempt,
                             struct etcd_place *place) {
    const struct lock_grant *grant = &attempt->grant;
    char own[ETCD_KEY_SIZE], prefix[ETCD_KEY_SIZE];
    name_own(own, grant->key, grant->owner);
    name_prefix(prefix, grant->key);
    struct etcd_compare there = has_revision(own, place->revision);
    there.prefix = true;
    const struct etcd_op before = newest(prefix, place->revision, 1);
    const struct etcd_txn txn = {.compares = &there, .compare_count = 1, .then = &before, .then_count = 1};
    enum etcd_status status = etcd_batch_do(queue->batch, &txn, &attempt->limit, read_before, place);
    /* It may have gone with others' writes, and is not known to be read; it has changed nothing itself. */
    if (status == ETCD_UNKNOWN)
        status = ETCD_UNAVAILABLE;
    return status != ETCD_OK ? etcd_session_status(status) : place->revision ? LOCK_OK : LOCK_NOT_OWNER;
}

static struct etcd_compare is_of(const char *name, const char *owner) {
    return (struct etcd_compare){
        .key = etcd_text(name), .target = ETCD_VALUE, .relation = ETCD_EQUAL, .value = etcd_text(owner)};
}

/* The key of an owner is deleted, whichever name it has, and nobody else's: as many transactions as it may
 * have names. */
struct giving {
    char names[2][ETCD_KEY_SIZE];
    struct etcd_compare compares[2];
    struct etcd_op dels[2], ops[2];
    size_t count;
};

static void make_giving(struct queue *queue, struct giving *giving, const char *key, const char *owner) {
    giving->count = is_stained(queue, owner) ? 2 : 1;
    name_own(giving->names[0], key, owner);
    name_other(giving->names[1], key, owner);
    for (size_t i = 0; i < 2; i++) {
        giving->compares[i] = is_of(giving->names[i], owner);
        giving->dels[i] = (struct etcd_op){ETCD_DELETE, .del = {.key = etcd_text(giving->names[i])}};
        giving->ops[i] = (struct etcd_op){ETCD_TXN, .txn = {.compares = &giving->compares[i],
                                                            .compare_count = 1,
                                                            .then = &giving->dels[i],
                                                            .then_count = 1}};
    }
}

static void read_given(void *ctx, const struct etcd_reply *reply) {
    bool *was_there = ctx;
    *was_there = reply->kind == ETCD_DELETE && reply->count == 1;
    for (size_t i = 0; i < reply->reply_count; i++)
        *was_there = *was_there || reply->replies[i].succeeded;
}

/* LOCK_NOT_OWNER: there is none. `held`: by that owner, so nobody else has its name. */
static enum lock_status give(struct queue *queue, const char *key, const char *owner, bool held,
                             const struct lock_limit *limit) {
    struct giving giving;
    bool was_there, was_plain;
    make_giving(queue, &giving, key, owner);
    const struct etcd_txn txn = {.then = giving.ops, .then_count = giving.count};
    enum etcd_status status =
        etcd_batch_delete(queue->batch, &txn, held && giving.count == 1 ? &giving.dels[0] : NULL, &was_plain,
                          limit, read_given, &was_there);
    if (status == ETCD_UNKNOWN && was_plain)
        atomic_fetch_or(&queue->stained, 1U << turn_of(owner));
    return status != ETCD_OK ? etcd_session_status(status) : was_there ? LOCK_OK : LOCK_NOT_OWNER;
}

static enum lock_status release(void *store, const char *key, const char *owner) {
    struct queue *queue = store;
    const struct lock_limit limit = etcd_session_limit(queue->session);
    return give(queue, key, owner, true, &limit);
}

struct joining {
    const struct etcd_epoch *epoch;
    const char *owner;
    size_t first; /* of the replies: what is before it was given back */
    struct etcd_place *place;
    bool refused, was_there;
    char stale[LOCK_OWNER_SIZE]; /* who has the name; "": nobody else */
};

static void read_owner(struct joining *joining, const struct etcd_kv *kv) {
    char owner[LOCK_OWNER_SIZE];
    snprintf(owner, sizeof owner, "%.*s", (int)kv->value.size, (const char *)kv->value.data);
    if (strcmp(owner, joining->owner) == 0) {
        joining->was_there = true;
        joining->place->revision = kv->create_revision;
        joining->place->lease = kv->lease;
    } else {
        memcpy(joining->stale, owner, sizeof owner);
    }
}

static void read_joining(void *ctx, const struct etcd_reply *reply) {
    struct joining *joining = ctx;
    struct etcd_place *place = joining->place;
    const struct etcd_reply *replies = reply->replies + joining->first;
    *place = (struct etcd_place){.seen = reply->revision};
    if (reply->succeeded) {
        place->revision = reply->revision;
        place->lease = joining->epoch->lease;
        if (replies[1].kv_count > 1)
            copy_key(place->name, replies[1].kvs[1].key);
        return;
    }
    for (size_t i = 0; i < replies[0].kv_count; i++)
        read_owner(joining, &replies[0].kvs[i]);
    if (replies[0].kv_count == 0)
        joining->refused = replies[1].kv_count == 0 || replies[1].kvs[0].version != joining->epoch->version;
}

/* Puts the own key where it is not there yet; for one who does not wait only if nobody else has one. Gives
 * back `attempt->releasing` with it. On LOCK_OK the place is known, but for `before` where the key was there.
 * LOCK_NOT_OWNER: the epoch is another, or the lease is gone. */
static enum lock_status enqueue(struct queue *queue, const struct lock_attempt *attempt,
                                const struct etcd_epoch *epoch, struct etcd_place *place, bool *was_there) {
    char own[ETCD_KEY_SIZE], name[ETCD_KEY_SIZE], prefix[ETCD_KEY_SIZE];
    const struct lock_grant *grant = &attempt->grant;
    struct giving giving = {.count = 0};
    name_own(own, grant->key, grant->owner);
    name_prefix(prefix, grant->key);
    (is_stained(queue, grant->owner) ? name_other : name_own)(name, grant->key, grant->owner);
    /* A request that comes late gives back too, though it does not put: not from one who has the name by
     * then. */
    if (attempt->releasing[0])
        make_giving(queue, &giving, grant->key, attempt->releasing);
    struct etcd_compare compares[] = {etcd_session_compare(epoch),
                                      has_revision(attempt->waits ? own : prefix, 0)};
    compares[1].prefix = true;
    const struct etcd_put put = {
        .key = etcd_text(name), .value = etcd_text(grant->owner), .lease = epoch->lease};
    struct etcd_op then[4], otherwise[4];
    memcpy(then, giving.ops, sizeof giving.ops);
    memcpy(otherwise, giving.ops, sizeof giving.ops);
    then[giving.count] = (struct etcd_op){ETCD_PUT, .put = put};
    then[giving.count + 1] = newest(prefix, 0, 2);
    otherwise[giving.count] = (struct etcd_op){ETCD_RANGE, .range = {.key = etcd_text(own), .prefix = true}};
    otherwise[giving.count + 1] =
        (struct etcd_op){ETCD_RANGE, .range = {.key = etcd_text(epoch->key), .keys_only = true}};
    const struct etcd_txn txn = {.compares = compares,
                                 .compare_count = 2,
                                 .then = then,
                                 .then_count = giving.count + 2,
                                 .otherwise = otherwise,
                                 .otherwise_count = giving.count + 2};
    struct joining joining = {.epoch = epoch, .owner = grant->owner, .first = giving.count, .place = place};
    enum etcd_status status = etcd_batch_do(queue->batch, &txn, &attempt->limit, read_joining, &joining);
    if (status != ETCD_OK || joining.refused)
        return status != ETCD_OK ? etcd_session_status(status) : LOCK_NOT_OWNER;
    *was_there = joining.was_there;
    if (joining.was_there || !joining.stale[0])
        return LOCK_OK;
    /* What an attempt of this process has left; the keeper would come to it. */
    enum lock_status released = give(queue, grant->key, joining.stale, false, &attempt->limit);
    return released == LOCK_OK ? LOCK_NOT_OWNER : released;
}

/* ---- what the layer calls ---- */

/* The place in the line, which it joins if it does not stand there. LOCK_OK. */
static enum lock_status stand(struct queue *queue, struct lock_attempt *attempt, struct etcd_place *place) {
    struct etcd_epoch epoch;
    enum lock_status status = LOCK_NOT_OWNER;
    bool was_there = false;
    if (attempt->releasing[0] &&
        (!attempt->waits || turn_of(attempt->releasing) == turn_of(attempt->grant.owner))) {
        status = give(queue, attempt->grant.key, attempt->releasing, false, &attempt->limit);
        if (status != LOCK_OK && status != LOCK_NOT_OWNER)
            return status;
        attempt->releasing[0] = '\0';
        status = LOCK_NOT_OWNER;
    }
    for (int tries = 0; status == LOCK_NOT_OWNER && tries < 3; tries++) {
        status = etcd_session_begin(queue->session, &epoch, &attempt->limit);
        if (status != LOCK_OK)
            return status;
        status = enqueue(queue, attempt, &epoch, place, &was_there);
        if (status == LOCK_NOT_OWNER || status == LOCK_UNKNOWN)
            etcd_session_doubt(queue->session, &epoch);
    }
    if (status != LOCK_OK)
        return status == LOCK_NOT_OWNER ? LOCK_UNAVAILABLE : status;
    attempt->releasing[0] = '\0';
    if (was_there && attempt->waits)
        status = look(queue, attempt, place);
    return status == LOCK_NOT_OWNER ? LOCK_UNAVAILABLE : status; /* lost again: try later */
}

static enum lock_status wait_there(struct queue *queue, struct lock_attempt *attempt,
                                   const struct etcd_place *place) {
    char prefix[ETCD_KEY_SIZE];
    name_prefix(prefix, attempt->grant.key);
    return etcd_waits_busy(queue->waits, etcd_waits_note(queue->waits, &attempt->grant, prefix, place),
                           attempt);
}

static enum lock_status attempt(void *store, struct lock_attempt *attempt) {
    struct queue *queue = store;
    struct lock_grant *grant = &attempt->grant;
    int64_t sent_ns = lock_env_now_ns(etcd_session_env(queue->session));
    struct etcd_place place;
    bool stands = etcd_waits_find(queue->waits, grant->owner, &place);
    enum lock_status status = stands ? look(queue, attempt, &place) : LOCK_NOT_OWNER;
    if (status == LOCK_NOT_OWNER)
        status = stand(queue, attempt, &place);
    attempt->nothing_left = status == LOCK_UNAVAILABLE;
    if (status != LOCK_OK)
        return status;
    if (!place.revision)
        return etcd_waits_busy(queue->waits, ETCD_WAIT_DEAF, attempt);
    if (place.name[0])
        return wait_there(queue, attempt, &place);
    etcd_waits_drop(queue->waits, grant->owner);
    grant->fence = (uint64_t)place.revision;
    return etcd_session_grant(queue->session, place.lease, sent_ns, grant);
}

static enum lock_status withdraw(void *store, const char *key, const char *owner, int64_t until_ns) {
    struct queue *queue = store;
    const struct lock_limit limit = {.until_ns = until_ns};
    etcd_waits_drop(queue->waits, owner);
    enum lock_status status = etcd_session_settle(queue->session, &limit);
    return status == LOCK_OK ? give(queue, key, owner, false, &limit) : status;
}

static enum lock_status extend(void *store, struct lock_grant *grant) {
    char own[ETCD_KEY_SIZE];
    name_own(own, grant->key, grant->owner);
    return etcd_session_extend(((struct queue *)store)->session, own, true, grant);
}

static void name_granted(char out[ETCD_KEY_SIZE], const struct lock_grant *grant) {
    name_own(out, grant->key, grant->owner);
}

static void verify_many(void *store, struct lock_check checks[], size_t count) {
    etcd_session_verify(((struct queue *)store)->session, checks, count, true, name_granted);
}

static void close_queue(void *store) {
    struct queue *queue = store;
    etcd_session_close(queue->session);
    etcd_waits_free(queue->waits);
    etcd_batch_free(queue->batch);
    free(queue);
}

static enum lock_status open_queue(const struct lock_url *url, const struct lock_env *env, void **store,
                                   char *error, size_t error_size) {
    void *session;
    enum lock_status status = etcd_session_open(url, env, &session, error, error_size);
    if (status != LOCK_OK)
        return status;
    struct queue *queue = calloc(1, sizeof *queue);
    if (!queue) {
        etcd_session_close(session);
        return LOCK_NOMEM;
    }
    queue->session = session;
    queue->batch = etcd_batch_new(session);
    queue->waits = etcd_waits_new(session, true);
    if (!queue->batch || !queue->waits) {
        close_queue(queue);
        return LOCK_NOMEM;
    }
    *store = queue;
    return LOCK_OK;
}

const struct lock_backend lock_etcd_queue = {
    .scheme = "etcd",
    .variant = "queue",
    .flaw =
        "has two who believe they hold it after a pause longer than the lease; the fence stops the second",
    .caps = LOCK_CAN_FENCE | LOCK_CAN_FENCE_FAILOVER | LOCK_CAN_EXTEND | LOCK_IS_FAIR | LOCK_CAN_WAKE |
            LOCK_IS_SHARED | LOCK_IS_SAFE,
    .has_tls = true,
    .queues_locally = true,
    .attempt_releases = true,
    .outlives_deadline = true,
    .open = open_queue,
    .close = close_queue,
    .attempt = attempt,
    .release = release,
    .withdraw = withdraw,
    .extend = extend,
    .verify_many = verify_many,
};
