/* redlock: one lock in several Redis servers that know nothing of each other (S. Sanfilippo, "Distributed
 * locks with Redis", redis.io; "Is Redlock safe?", 2016).
 *
 * The owner that has the votes of more than half of the nodes has the lock. All nodes are asked at the same
 * time, and the caller waits until enough votes decide it, for at most a twentieth of the time to live. The
 * grant counts from before the first question, less a hundredth of the time to live and 2 ms, because clocks
 * differ; if nothing is left of it, it is not granted. An attempt that fails releases its votes at once, also
 * on nodes that have not answered yet: the release follows the question over the same connection, and no
 * caller waits for it. Then the owner pauses for a random time, out of several times as long as asking took,
 * so that two owners that split the votes do not do it again.
 *
 * Each attempt of an owner has its own value: the owner and the number of the round. So a release that
 * arrives late, over a connection that was given up, does not delete the vote of a later round.
 *
 * Scripts are sent as text, not by digest: if a node did not have one, it would have to be sent again, and
 * would come after the question that was to follow it.
 *
 * No attempt ends as unknown: the node's thread releases a vote that the node may have given, also after the
 * caller has gone, until the node answers or two times to live have passed.
 *
 * No fence: each node could count its grants. But two grants need only one node in common, so none of the
 * counts that an owner reads is certain to be larger than all before. To agree on one number is consensus,
 * which this is not (M. Kleppmann, "How to do distributed locking", 2016). So a holder that is paused past
 * its deadline writes beside the next holder. The lock is not fair and wakes no waiters: a queue would have
 * to be the same on all nodes.
 *
 * Flaw: it trusts clocks and memory. A node that restarts without its data, or whose clock jumps, votes a
 * second time, and two owners hold the lock. Let nodes write with appendfsync always, or restart them only
 * after the longest time to live has passed, and let clocks be slewed, not set. Two addresses of one server
 * are two votes of one memory, and so are a master and its replica; lock_open() notices only addresses that
 * are written alike. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "extend.lua.h"
#include "lock/redlock/node.h"
#include "redlock_acquire.lua.h"
#include "redlock_release.lua.h"

enum { CALL_MIN_MS = 5 };

/* A waiter asks a busy lock again after `retry_least_ns` and a random part of a range: 8 times what asking
 * took, but at least `retry_spread_ns` and at most `retry_most_ns`. */
static const int64_t retry_least_ns = 1000000, retry_spread_ns = 8000000, retry_most_ns = 250000000;

struct redlock {
    const struct lock_env *env;
    struct redis_hooks hooks;
    int64_t ttl_ms;
    char ttl_text[REDIS_NUMBER_SIZE];
    int call_ms;
    int count, quorum;
    _Atomic uint64_t rounds;
    struct redis_target targets[REDLOCK_NODES_MAX]; /* the nodes' addresses and accounts */
    struct redlock_node *nodes[REDLOCK_NODES_MAX];
};

/* ---- the URL ---- */

/* Reads `length` bytes as target number `n`. False: `what` says what is wrong. */
static bool read_node(struct redis_target targets[], int n, const char *text, size_t length, char *what,
                      size_t size) {
    char url[sizeof((struct lock_url *)0)->address + 16], why[200];
    snprintf(url, sizeof url, "redis://%.*s", (int)length, text);
    if (length == 0) {
        snprintf(what, size, "node %d is empty", n + 1);
        return false;
    }
    if (!redis_target_parse(&targets[n], url, why, sizeof why)) {
        char *hint = strstr(why, " ("); /* the form of a whole URL, which this is not */
        snprintf(what, size, "node %d: %.*s", n + 1, hint ? (int)(hint - why) : -1, why);
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (targets[i].port == targets[n].port && strcasecmp(targets[i].host, targets[n].host) == 0) {
            snprintf(what, size, "nodes %d and %d are the same", i + 1, n + 1);
            return false;
        }
    }
    return true;
}

/* Returns how many there are; 0: `error` says what is wrong. */
static int read_nodes(struct redis_target targets[], const char *address, char *error, size_t size) {
    char what[256] = "has no address";
    int count = 0;
    for (const char *at = address; *address;) {
        size_t length = strcspn(at, ",");
        if (count == REDLOCK_NODES_MAX) {
            snprintf(what, sizeof what, "too many nodes");
            break;
        }
        if (!read_node(targets, count, at, length, what, sizeof what))
            break;
        count++;
        if (!at[length])
            return count;
        at += length + 1;
    }
    snprintf(error, size,
             "redlock: %s; want redlock://HOST[:PORT],HOST[:PORT],…, 1 to %d nodes, each with its own "
             "[USER]:PASSWORD@ before it and /DB behind it, a comma in them written %%2C",
             what, REDLOCK_NODES_MAX);
    return 0;
}

static void redlock_close(void *store) {
    struct redlock *redlock = store;
    for (int i = 0; i < redlock->count; i++)
        redlock_node_stop(redlock->nodes[i]);
    for (int i = 0; i < redlock->count; i++)
        redlock_node_close(redlock->nodes[i]);
    free(redlock);
}

static enum lock_status redlock_open(const struct lock_url *url, const struct lock_env *env, void **store,
                                     char *error, size_t error_size) {
    struct redlock *redlock = calloc(1, sizeof *redlock);
    if (!redlock)
        return LOCK_NOMEM;
    redlock->count = read_nodes(redlock->targets, url->address, error, error_size);
    if (redlock->count == 0) {
        free(redlock);
        return LOCK_CONFIG;
    }
    redlock->env = env;
    redlock->hooks = redis_store_hooks(env);
    redlock->ttl_ms = url->ttl_ms;
    snprintf(redlock->ttl_text, sizeof redlock->ttl_text, "%lld", (long long)url->ttl_ms);
    redlock->call_ms = (int)(url->ttl_ms / 20 < LOCK_TIMEOUT_MAX_MS ? url->ttl_ms / 20 : LOCK_TIMEOUT_MAX_MS);
    if (redlock->call_ms < CALL_MIN_MS)
        redlock->call_ms = CALL_MIN_MS;
    redlock->quorum = redlock->count / 2 + 1;
    for (int i = 0; i < redlock->count; i++) {
        redlock->nodes[i] =
            redlock_node_open(&redlock->targets[i], 2 * lock_env_timeout_ms(url->ttl_ms, 2), &redlock->hooks);
        if (!redlock->nodes[i]) {
            redlock_close(redlock);
            return LOCK_NOMEM;
        }
    }
    *store = redlock;
    return LOCK_OK;
}

/* ---- rounds ---- */

/* A round that runs `script` with `key`, `who`, the time to live and `value`, of which the first `argc` - 3
 * are sent. It is decided by a quorum of YES, or by so many NO that there can be no quorum. NULL when out of
 * memory.
 */
static struct redlock_round *new_round(const struct redlock *redlock, const char *script, int argc,
                                       const char *key, const char *who, const char *ttl_text,
                                       const char *value) {
    struct redlock_round *round = redlock_round_new(redlock->count);
    if (!round)
        return NULL;
    redis_store_key(round->name, key, "");
    snprintf(round->who, sizeof round->who, "%s", who);
    snprintf(round->value, sizeof round->value, "%s", value);
    const char *argv[] = {"EVAL", script, "1", round->name, round->who, ttl_text, round->value};
    memcpy(round->argv, argv, sizeof argv);
    round->argc = argc;
    round->enough = redlock->quorum;
    round->spare = redlock->count - redlock->quorum;
    round->counted = REDLOCK_NO;
    round->limit.until_ns = clock_now_ns() + (int64_t)redlock->call_ms * 1000000;
    round->late_ns = round->limit.until_ns;
    return round;
}

/* Asks the nodes that are not skipped, and waits for their votes. (No mutex is needed to read a vote before
 * it is posted: only its node changes it, after that.) */
static struct redlock_votes ask(const struct redlock *redlock, struct redlock_round *round) {
    for (int i = 0; i < redlock->count; i++) {
        if (round->votes.by_node[i] == REDLOCK_OPEN)
            redlock_node_post(redlock->nodes[i], &round->asks[i]);
    }
    return redlock_round_end(round);
}

/* Reports nodes that did not answer in time. Other failures are reported by their connections. */
static void report_silent(const struct redlock *redlock, const struct redlock_votes *votes) {
    char why[64];
    snprintf(why, sizeof why, "no answer within %d ms", redlock->call_ms);
    for (int i = 0; i < redlock->count && votes->count[REDLOCK_OPEN] == 0; i++) { /* not decided before */
        if (votes->by_node[i] == REDLOCK_OPEN)
            redis_report(&redlock->hooks, &redlock->targets[i], why);
    }
}

/* A round that releases votes. It insists, since a vote that is left blocks other owners. After two times to
 * live the vote has expired, or the node has hung for so long that its votes do not matter. */
static struct redlock_round *new_release_round(const struct redlock *redlock, const char *key,
                                               const char *who) {
    struct redlock_round *round = new_round(redlock, redlock_release_lua, 5, key, who, NULL, "");
    if (round) {
        round->insists = true;
        round->late_ns = clock_now_ns() + 2 * redlock->ttl_ms * 1000000;
    }
    return round;
}

/* Releases the votes of one round (`who` is its value), or of all rounds of an owner, on all nodes but those
 * that voted NO. Waits only for those that voted YES, since the others may hang. LOCK_OK, LOCK_NOMEM. */
static enum lock_status release_votes(const struct redlock *redlock, const char *key, const char *who,
                                      const struct redlock_votes *votes, bool waits) {
    struct redlock_round *round = new_release_round(redlock, key, who);
    if (!round)
        return LOCK_NOMEM;
    round->enough = waits ? votes->count[REDLOCK_YES] : 0;
    for (int i = 0; i < redlock->count; i++) {
        if (votes->by_node[i] == REDLOCK_NO)
            redlock_round_skip(round, i);
    }
    ask(redlock, round);
    return LOCK_OK;
}

/* ---- the backend ---- */

static enum lock_status busy(const struct redlock *redlock, struct lock_attempt *attempt, int64_t sent_ns) {
    int64_t now_ns = lock_env_now_ns(redlock->env), took_ns = now_ns - sent_ns;
    int64_t spread_ns = took_ns < retry_most_ns / 8 ? 8 * took_ns : retry_most_ns;
    if (spread_ns < retry_spread_ns)
        spread_ns = retry_spread_ns;
    attempt->retry_ns = now_ns + retry_least_ns + (int64_t)lock_env_random(redlock->env, (uint64_t)spread_ns);
    return LOCK_BUSY;
}

/* Point "voted": a quorum has voted YES, and how much time is left was not checked yet. */
static enum lock_status redlock_attempt(void *store, struct lock_attempt *attempt) {
    struct redlock *redlock = store;
    struct lock_grant *grant = &attempt->grant;
    char value[REDLOCK_VALUE_SIZE];
    snprintf(value, sizeof value, "%s:%015llx", grant->owner,
             (unsigned long long)atomic_fetch_add(&redlock->rounds, 1));
    int64_t sent_ns = lock_env_now_ns(redlock->env);
    struct redlock_round *round =
        new_round(redlock, redlock_acquire_lua, 7, grant->key, grant->owner, redlock->ttl_text, value);
    if (!round)
        return LOCK_NOMEM;
    round->counted = REDLOCK_DOWN; /* of three nodes one NO and one DOWN mean: busy */
    round->limit.cancel = attempt->limit.cancel;
    struct redlock_votes votes = ask(redlock, round);
    int64_t deadline_ns = redis_store_deadline_ns(sent_ns, redlock->ttl_ms);
    bool voted = votes.count[REDLOCK_YES] >= redlock->quorum;
    if (voted) {
        lock_env_at_point(redlock->env, "voted", grant->key);
        if (lock_env_now_ns(redlock->env) < deadline_ns) {
            grant->deadline_ns = deadline_ns;
            return LOCK_OK;
        }
    }
    bool cancelled = cancel_called(attempt->limit.cancel);
    release_votes(redlock, grant->key, value, &votes, !cancelled); /* without memory they expire */
    attempt->nothing_left = true;                                  /* the nodes release it, or it expires */
    if (voted || votes.count[REDLOCK_DOWN] > redlock->count - redlock->quorum) {
        if (!cancelled)
            report_silent(redlock, &votes);
        return LOCK_UNAVAILABLE;
    }
    return busy(redlock, attempt, sent_ns);
}

/* What the votes say about a grant. LOCK_NOT_OWNER: so many nodes do not have it that the others are no
 * quorum, so another owner may have it. */
static enum lock_status judge(const struct redlock *redlock, const struct redlock_votes *votes) {
    if (votes->count[REDLOCK_YES] >= redlock->quorum)
        return LOCK_OK;
    if (votes->count[REDLOCK_NO] > redlock->count - redlock->quorum)
        return LOCK_NOT_OWNER;
    report_silent(redlock, votes);
    return votes->count[REDLOCK_LOST] > 0 ? LOCK_UNKNOWN : LOCK_UNAVAILABLE;
}

static enum lock_status redlock_release(void *store, const char *key, const char *owner) {
    const struct redlock *redlock = store;
    struct redlock_round *round = new_release_round(redlock, key, owner);
    if (!round)
        return LOCK_NOMEM;
    struct redlock_votes votes = ask(redlock, round);
    return judge(redlock, &votes);
}

/* Attempts release their own votes, and a release insists. So this is only for questions that a node did not
 * take because its queue was full. It does not wait: the node's thread insists, and the background thread has
 * other work. */
static enum lock_status redlock_withdraw(void *store, const char *key, const char *owner, int64_t until_ns) {
    const struct redlock_votes none = {.count = {0}};
    (void)until_ns;
    return release_votes(store, key, owner, &none, false);
}

static void redlock_check(void *store, struct lock_check *check, size_t count) {
    const struct redlock *redlock = store;
    struct lock_grant *grant = &check->grant;
    const char *ttl_text = check->extends ? redlock->ttl_text : "0";
    (void)count;
    int64_t sent_ns = lock_env_now_ns(redlock->env);
    struct redlock_round *round = new_round(redlock, extend_lua, 6, grant->key, grant->owner, ttl_text, "");
    if (!round) {
        check->status = LOCK_NOMEM;
        return;
    }
    struct redlock_votes votes = ask(redlock, round);
    check->status = judge(redlock, &votes);
    if (check->status == LOCK_OK)
        grant->deadline_ns = redis_store_deadline_ns(sent_ns, redlock->ttl_ms);
}

const struct lock_backend lock_redlock = {
    .scheme = "redlock",
    .variant = "",
    .flaw = "has two holders when a node forgets or a clock jumps, and after a pause, as it has no fence",
    .caps = LOCK_CAN_EXTEND | LOCK_IS_SHARED | LOCK_IS_SAFE,
    .queues_locally = true,
    .open = redlock_open,
    .close = redlock_close,
    .attempt = redlock_attempt,
    .release = redlock_release,
    .withdraw = redlock_withdraw,
    .check = redlock_check,
};
