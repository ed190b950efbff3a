/* redlock: one lock in several Redis servers that know nothing of each other (S. Sanfilippo, "Distributed
 * locks with Redis", redis.io; "Is Redlock safe?", 2016).
 *
 * The lock is had by whoever has the votes of more than half of the nodes. All of them are asked at once, and
 * whoever asks waits for as many as decide it, a twentieth of the time to live at the longest. What was had
 * counts from before the first was asked, less a hundredth of the time to live and 2 ms, since clocks do not
 * run alike; where nothing is left of that it is not had. Who fails takes back its votes at once, also from
 * those nodes that have not answered yet: they get it after the question, over the same connection, and
 * nobody waits for them. Then it waits for a random time, out of several times as long as asking took, so
 * that two who split the votes do not do it again.
 *
 * With each attempt of an owner the value that a node stores is another: the owner, and the number of the
 * round. So what takes an earlier round back, and arrives late over a connection that was given up, cannot
 * take the vote of a later one.
 *
 * Scripts are sent as they are, not by their digest: who asks for a script that the node does not have asks
 * again, and would come after what was to follow it.
 *
 * No attempt ends as unknown: a vote that may have been given is taken back by the node's thread, however
 * long the caller has been gone, until the node answers or twice the time to live has passed.
 *
 * What it cannot do. There is no fence: each node could count the grants for itself, but two grants need have
 * only one node in common, and of the numbers they bring home none need be larger than all before; to make
 * one number of them is consensus, which this is not (M. Kleppmann, "How to do distributed locking", 2016).
 * So a holder that is paused beyond its time, and whose key has a next one, writes all the same. It is not
 * fair, and wakes nobody: a line in which to wait would have to be the same on all nodes.
 *
 * When it is wrong. It believes in clocks and in memory: a node that starts again without what it knew, or
 * whose clock jumps, votes a second time, and two hold the lock. Let nodes write with appendfsync always, or
 * start them again only after the longest time to live has passed, and let clocks be slewed, not set. Two
 * addresses of one server are two votes of one memory, and so are a master and its replica; only what is
 * written alike in the URL is seen. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "extend.lua.h"
#include "lock/core/waiter.h"
#include "lock/redlock/node.h"
#include "redlock_acquire.lua.h"
#include "redlock_release.lua.h"

enum { CALL_MIN_MS = 5 };

/* Asking again: not before the least, and a few times as late as asking took, but then within the most. */
static const int64_t retry_least_ns = 1000000, retry_spread_ns = 8000000, retry_most_ns = 250000000;

struct redlock {
    const struct lock_env *env;
    int64_t ttl_ms;
    char ttl_text[REDIS_NUMBER_SIZE];
    int call_ms;
    int count, quorum;
    _Atomic uint64_t rounds;
    struct redlock_node *nodes[REDLOCK_NODES_MAX];
};

/* ---- the URL ---- */

static enum lock_status refuse(char *error, size_t size, const char *what) {
    snprintf(error, size,
             "redlock: %s; want redlock://HOST[:PORT],HOST[:PORT],…, 1 to %d nodes, each with its own "
             "[USER]:PASSWORD@ before it and /DB behind it, a comma in them written %%2C",
             what, REDLOCK_NODES_MAX);
    return LOCK_CONFIG;
}

/* One part, `length` bytes, as target number `n`. */
static bool read_node(struct redis_target targets[], int n, const char *text, size_t length, char *what,
                      size_t size) {
    char url[sizeof((struct lock_url *)0)->address + 16], why[200];
    snprintf(url, sizeof url, "redis://%.*s", (int)length, text);
    if (length == 0) {
        snprintf(what, size, "node %d is empty", n + 1);
        return false;
    }
    if (!redis_target_parse(&targets[n], url, why, sizeof why)) {
        char *hint = strstr(why, " ("); /* how a whole URL is written, which this is not */
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

/* How many there are; 0: `error` says what is wrong. */
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
    refuse(error, size, what);
    return 0;
}

static void close_all(void *store) {
    struct redlock *redlock = store;
    for (int i = 0; i < redlock->count; i++)
        redlock_node_stop(redlock->nodes[i]);
    for (int i = 0; i < redlock->count; i++)
        redlock_node_close(redlock->nodes[i]);
    free(redlock);
}

static enum lock_status open_all(const struct lock_url *url, const struct lock_env *env, void **store,
                                 char *error, size_t error_size) {
    struct redis_target targets[REDLOCK_NODES_MAX];
    int count = read_nodes(targets, url->address, error, error_size);
    if (count == 0)
        return LOCK_CONFIG;
    struct redlock *redlock = calloc(1, sizeof *redlock);
    if (!redlock)
        return LOCK_NOMEM;
    redlock->env = env;
    redlock->ttl_ms = url->ttl_ms;
    snprintf(redlock->ttl_text, sizeof redlock->ttl_text, "%lld", (long long)url->ttl_ms);
    redlock->call_ms = (int)(url->ttl_ms / 20 < LOCK_TIMEOUT_MAX_MS ? url->ttl_ms / 20 : LOCK_TIMEOUT_MAX_MS);
    if (redlock->call_ms < CALL_MIN_MS)
        redlock->call_ms = CALL_MIN_MS;
    redlock->count = count;
    redlock->quorum = count / 2 + 1;
    for (int i = 0; i < count; i++) {
        redlock->nodes[i] = redlock_node_open(&targets[i], 2 * lock_env_timeout_ms(url->ttl_ms, 2), env);
        if (!redlock->nodes[i]) {
            close_all(redlock);
            return LOCK_NOMEM;
        }
    }
    *store = redlock;
    return LOCK_OK;
}

/* ---- rounds ---- */

/* A round that runs `script` with `key`, `who`, the time to live and `value`, of which it takes `argc` - 4.
 * It is decided by a quorum, or by so many no that there is none. NULL when out of memory. */
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
    round->rests = REDLOCK_NO;
    round->until_ns = clock_mono_ns(&clock_system) + (int64_t)redlock->call_ms * 1000000;
    round->late_ns = round->until_ns;
    return round;
}

/* Asks those nodes that are not skipped. (Only the node itself changes its vote, once it is posted.) */
static struct redlock_votes ask(const struct redlock *redlock, struct redlock_round *round) {
    for (int i = 0; i < redlock->count; i++) {
        if (round->votes.by_node[i] == REDLOCK_OPEN)
            redlock_node_post(redlock->nodes[i], &round->asks[i]);
    }
    return redlock_round_end(round);
}

/* Of the nodes that refuse or are not there their connections tell. */
static void tell_silent(const struct redlock *redlock, const struct redlock_votes *votes) {
    char why[64];
    snprintf(why, sizeof why, "no answer within %d ms", redlock->call_ms);
    for (int i = 0; i < redlock->count && votes->count[REDLOCK_OPEN] == 0; i++) { /* not decided before */
        if (votes->by_node[i] == REDLOCK_OPEN)
            redlock_node_tell(redlock->nodes[i], why);
    }
}

static struct redlock_round *new_take(const struct redlock *redlock, const char *key, const char *owner,
                                      const char *value) {
    struct redlock_round *round =
        new_round(redlock, redlock_acquire_lua, 7, key, owner, redlock->ttl_text, value);
    if (round)
        round->rests = REDLOCK_DOWN; /* one no and one down of three is: busy */
    return round;
}

/* Insists: a key that is left behind holds up others. After twice the time to live it has long run out, or
 * the node has hung so long that it does not matter what it does. */
static struct redlock_round *new_give(const struct redlock *redlock, const char *key, const char *who) {
    struct redlock_round *round = new_round(redlock, redlock_release_lua, 5, key, who, NULL, "");
    if (round) {
        round->insists = true;
        round->late_ns = clock_mono_ns(&clock_system) + 2 * redlock->ttl_ms * 1000000;
    }
    return round;
}

/* Takes a round back from where it is, or may yet come to be: from all but those that have said no. Waits
 * only for those that have said yes, as the others may hang. */
static void take_back(const struct redlock *redlock, const char *key, const char *value,
                      const struct redlock_votes *votes, bool waits) {
    struct redlock_round *round = new_give(redlock, key, value);
    if (!round)
        return; /* it runs out by itself */
    round->enough = waits ? votes->count[REDLOCK_YES] : 0;
    for (int i = 0; i < redlock->count; i++) {
        if (votes->by_node[i] == REDLOCK_NO)
            redlock_round_skip(round, i);
    }
    ask(redlock, round);
}

/* ---- what the layer calls ---- */

static enum lock_status busy(const struct redlock *redlock, struct lock_attempt *attempt, int64_t sent_ns) {
    int64_t now_ns = lock_env_now_ns(redlock->env), took_ns = now_ns - sent_ns;
    int64_t spread_ns = took_ns < retry_most_ns / 8 ? 8 * took_ns : retry_most_ns;
    if (spread_ns < retry_spread_ns)
        spread_ns = retry_spread_ns;
    attempt->retry_ns = now_ns + retry_least_ns + (int64_t)lock_env_random(redlock->env, (uint64_t)spread_ns);
    return LOCK_BUSY;
}

/* Points: "voted", a quorum has said yes, and what time is left is not looked at yet. */
static enum lock_status take(void *store, struct lock_attempt *attempt) {
    struct redlock *redlock = store;
    struct lock_grant *grant = &attempt->grant;
    char value[REDLOCK_VALUE_SIZE];
    snprintf(value, sizeof value, "%s:%015llx", grant->owner,
             (unsigned long long)atomic_fetch_add(&redlock->rounds, 1));
    int64_t sent_ns = lock_env_now_ns(redlock->env);
    struct redlock_round *round = new_take(redlock, grant->key, grant->owner, value);
    if (!round)
        return LOCK_NOMEM;
    round->cancel = attempt->limit.cancel;
    struct redlock_votes votes = ask(redlock, round);
    int64_t deadline_ns = redis_store_deadline_ns(sent_ns, redlock->ttl_ms);
    bool had = votes.count[REDLOCK_YES] >= redlock->quorum;
    if (had) {
        lock_env_at_point(redlock->env, "voted", grant->key);
        if (lock_env_now_ns(redlock->env) < deadline_ns) {
            grant->deadline_ns = deadline_ns;
            return LOCK_OK;
        }
    }
    bool cancelled = lock_cancel_called(attempt->limit.cancel);
    take_back(redlock, grant->key, value, &votes, !cancelled);
    attempt->nothing_left = true; /* or it runs out */
    if (had || votes.count[REDLOCK_DOWN] > redlock->count - redlock->quorum) {
        if (!cancelled)
            tell_silent(redlock, &votes);
        return LOCK_UNAVAILABLE;
    }
    return busy(redlock, attempt, sent_ns);
}

/* What a quorum says of a grant. Yes is sure; a grant that so many do not have that the others are no quorum
 * is over: somebody else may have had it. Fewer than that prove nothing. */
static enum lock_status judge(const struct redlock *redlock, const struct redlock_votes *votes) {
    if (votes->count[REDLOCK_YES] >= redlock->quorum)
        return LOCK_OK;
    if (votes->count[REDLOCK_NO] > redlock->count - redlock->quorum)
        return LOCK_NOT_OWNER;
    tell_silent(redlock, votes);
    return votes->count[REDLOCK_LOST] > 0 ? LOCK_UNKNOWN : LOCK_UNAVAILABLE;
}

static enum lock_status give(void *store, const char *key, const char *owner) {
    const struct redlock *redlock = store;
    struct redlock_round *round = new_give(redlock, key, owner);
    if (!round)
        return LOCK_NOMEM;
    struct redlock_votes votes = ask(redlock, round);
    return judge(redlock, &votes);
}

/* An attempt takes back what it leaves, and a release goes on asking; this is for what was dropped because a
 * node had too much before it. It waits for nothing: the node's thread has it in hand, and the keeper has
 * more to do than to stand by a node that is down. */
static enum lock_status withdraw(void *store, const char *key, const char *owner, int64_t until_ns) {
    const struct redlock *redlock = store;
    (void)until_ns;
    struct redlock_round *round = new_give(redlock, key, owner);
    if (!round)
        return LOCK_NOMEM;
    round->enough = 0;
    ask(redlock, round);
    return LOCK_OK;
}

static enum lock_status extend_by(const struct redlock *redlock, const struct lock_grant *grant,
                                  const char *ttl_text) {
    struct redlock_round *round = new_round(redlock, extend_lua, 6, grant->key, grant->owner, ttl_text, "");
    if (!round)
        return LOCK_NOMEM;
    struct redlock_votes votes = ask(redlock, round);
    return judge(redlock, &votes);
}

static enum lock_status extend(void *store, struct lock_grant *grant) {
    const struct redlock *redlock = store;
    int64_t sent_ns = lock_env_now_ns(redlock->env);
    enum lock_status status = extend_by(redlock, grant, redlock->ttl_text);
    int64_t deadline_ns = redis_store_deadline_ns(sent_ns, redlock->ttl_ms);
    if (status == LOCK_OK)
        grant->deadline_ns = deadline_ns;
    return status;
}

static enum lock_status look(void *store, const struct lock_grant *grant) {
    return extend_by(store, grant, "0");
}

const struct lock_backend lock_redlock = {
    .scheme = "redlock",
    .variant = "",
    .flaw = "has two holders when a node forgets or a clock jumps, and after a pause, as it has no fence",
    .caps = LOCK_CAN_EXTEND | LOCK_IS_SHARED | LOCK_IS_SAFE,
    .queues_locally = true,
    .open = open_all,
    .close = close_all,
    .attempt = take,
    .release = give,
    .withdraw = withdraw,
    .extend = extend,
    .verify = look,
};
