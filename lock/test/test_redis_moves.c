/* redis in a cluster: locks whose slot moves to another server, held or not. */
#include <string.h>

#include "lock/test/tools.h"

static struct redis_cluster cluster;
static const char *url; /* of the lock under test */

static struct redis_server *holder_of(const char *key) {
    struct redis_server *server = redis_cluster_of(&cluster, harness_format("{%s}", key));
    CHECK(server);
    return server;
}

/* How many keys of the cluster end so. */
static int redis_count(const char *end) {
    int count = 0;
    for (int i = 0; i < cluster.count; i++) {
        const char *list = redis_command(&cluster.server[i], "KEYS", harness_format("*%s", end), NULL);
        count += *list == '[' && list[1] != ']';
        for (; *list; list++)
            count += *list == ' ' && strncmp(list + 1, "lock:", 5) == 0;
    }
    return count;
}

struct move {
    const char *tag;
    struct redis_server *from, *to;
};

static struct move begin_move(const char *key) {
    struct redis_server *from = holder_of(key);
    struct move move = {
        .tag = harness_format("{%s}", key), .from = from, .to = &cluster.server[from == &cluster.server[0]]};
    redis_cluster_begin_move(move.tag, move.from, move.to);
    return move;
}

static bool move_keys(const struct move *move) {
    return redis_cluster_move_keys(move->tag, move->from, move->to, 100) > 0;
}

/* The lock moves while it is held. While its keys are at the new server and the slot is not (ASK), it can be
 * extended, but not released: that script also names keys that do not exist, and the new server answers
 * TRYAGAIN to it. Then the new server has the slot (MOVED). */
static void held(void) {
    redis_cluster_flush(&cluster);
    struct lock *lock = tools_open(NULL, url);
    struct lock_grant first = tools_acquire(lock, "a");
    struct move move = begin_move("a");
    CHECK(move_keys(&move));
    tools_check_status(lock_extend(lock, &first), LOCK_OK);
    tools_check_status(lock_release(lock, &first), LOCK_UNAVAILABLE);
    redis_cluster_end_move(&cluster, move.tag, move.to);
    struct lock_grant second = tools_acquire(lock, "a"); /* it was released later */
    CHECK(second.fence > first.fence);
    tools_check_held(lock, "a");
    CHECK_INT(redis_integer(move.to, "EXISTS", "lock:{a}", NULL), 1);
    tools_release(lock, &second);
}

/* A waiter gets the lock where it was released, also if that is another server than where it began to wait.
 */
static void waited_for(void) {
    redis_cluster_flush(&cluster);
    struct lock *lock = tools_open(NULL, url), *other = tools_open(NULL, url);
    struct lock_grant first = tools_acquire(lock, "b");
    struct tools_waiter *waiter = tools_wait(other, "b", PATIENCE_MS, NULL);
    tools_wait_for_queue(holder_of("b"), "b", 1);
    struct move move = begin_move("b");
    CHECK(move_keys(&move));
    redis_cluster_end_move(&cluster, move.tag, move.to);
    tools_release(lock, &first);
    CHECK(tools_serve(waiter) > first.fence);
}

/* A free lock has keys that do not exist (TRYAGAIN): nobody gets it while its slot moves, and who waits gets
 * it after that. */
static void split(void) {
    redis_cluster_flush(&cluster);
    struct lock *lock = tools_open(NULL, url);
    struct lock_grant first = tools_use(lock, "c"), none; /* its fence stays */
    struct move move = begin_move("c");
    tools_check_status(lock_acquire(lock, "c", tools_in_ms(lock, 200), NULL, &none), LOCK_UNAVAILABLE);
    char error[LOCK_ERROR_SIZE];
    lock_last_error(lock, error, sizeof error);
    CHECK_HAS(error, "TRYAGAIN");
    struct tools_waiter *waiter = tools_wait(lock, "c", PATIENCE_MS, NULL);
    CHECK(move_keys(&move));
    redis_cluster_end_move(&cluster, move.tag, move.to);
    CHECK(tools_serve(waiter) > first.fence);
}

/* Whatever a key looks like, all that the store has of its lock is in one slot, and a waiter is woken by it.
 */
static void odd_keys(void) {
    static const char *const keys[] = {"}", "}x", "}x}y", "}{a}", "{}", "{}x", "{a}b", "a}b{c"};
    redis_cluster_flush(&cluster);
    struct lock *lock = tools_open(NULL, url), *other = tools_open(NULL, url);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct lock_grant first = tools_acquire(lock, keys[i]);
        tools_check_held(other, keys[i]);
        struct tools_waiter *waiter = tools_wait(other, keys[i], PATIENCE_MS, NULL);
        while (redis_count(":line") == 0)
            harness_pause_ms(1);
        tools_release(lock, &first);
        tools_check_status(tools_join(waiter), LOCK_OK);
        CHECK(waiter->grant.fence > first.fence);
        tools_check_status(lock_extend(other, &waiter->grant), LOCK_OK);
        tools_release(other, &waiter->grant);
        CHECK_INT(redis_count("}"), 0);
        CHECK_INT(redis_count(":fence"), (int)i + 1); /* no two have one name */
    }
}

/* A call goes to another server than before, so all that is held is verified at once: what is gone is told
 * long before a third of the time to live has passed. */
static void verified(void) {
    redis_cluster_flush(&cluster);
    struct lock *lock = tools_open_told(harness_format("%s&ttl=600000", url));
    struct lock_grant moved = tools_acquire(lock, "d"), gone = tools_acquire(lock, "e");
    redis_command(holder_of("e"), "DEL", "lock:{e}", NULL);
    struct move move = begin_move("d");
    CHECK(move_keys(&move));
    redis_cluster_end_move(&cluster, move.tag, move.to);
    tools_check_status(lock_extend(lock, &moved), LOCK_OK);
    tools_wait_told(1);
    CHECK_INT(lock_remaining_ns(lock, &gone), 0);
    CHECK_INT(told.times, 1);
    tools_release(lock, &moved);
}

static struct redis_cluster pair;

/* Connections to the server that was the master, but that of the question; the replication's have other
 * types.
 */
static int count_clients(void) {
    int count = -1;
    static const char *const types[] = {"normal", "pubsub"};
    for (int i = 0; i < 2; i++) {
        const char *list = redis_command(&pair.server[0], "CLIENT", "LIST", "TYPE", types[i], NULL);
        while ((list = strstr(list, " addr="))) {
            count++;
            list++;
        }
    }
    return count;
}

/* Each of the locks learns of it by its calls. */
static bool has_no_clients(void *locks) {
    for (int i = 0; i < 2; i++) {
        struct lock *lock = ((struct lock **)locks)[i];
        struct lock_grant grant;
        if (lock_acquire_for(lock, "a", PATIENCE_MS, &grant) == LOCK_OK)
            lock_release(lock, &grant);
    }
    return count_clients() == 0;
}

static bool is_master(void *server) {
    return strstr(redis_command(server, "ROLE", NULL), "[master") != NULL;
}

/* A server that is not a master any more, and that the URL does not name, is forgotten. */
static void forgotten(void) {
    redis_cluster_start(&pair, 1, 1);
    const char *named = harness_format("redis-cluster://127.0.0.1:%d", pair.server[1].port);
    struct lock *locks[] = {tools_open(NULL, named), tools_open(NULL, named)};
    struct lock_grant first = tools_acquire(locks[0], "a");
    struct tools_waiter *waiter = tools_wait(locks[1], "a", PATIENCE_MS, NULL);
    tools_wait_for_queue(&pair.server[0], "a", 1); /* by then it is subscribed */
    tools_release(locks[0], &first);
    tools_serve(waiter);
    CHECK(count_clients() > 2);
    CHECK_STR(redis_command(&pair.server[1], "CLUSTER", "FAILOVER", NULL), "OK");
    CHECK(harness_wait(is_master, &pair.server[1], PATIENCE_MS));
    CHECK(harness_wait(has_no_clients, locks, PATIENCE_MS));
}

static void *release(void *arg) {
    struct tools_waiter *releasing = arg;
    releasing->status = lock_release(releasing->lock, &releasing->grant);
    return NULL;
}

/* The reply to a release is lost, and its repetition goes to a server that was promoted and never had the
 * grant: that another did not get it meanwhile is not certain. */
static void released_at_another(void) {
    redis_cluster_start(&pair, 1, 1);
    const struct redis_server *replica = &pair.server[1];
    struct redis_server *master = &pair.server[0];
    struct tools_waiter releasing = {
        .lock = tools_open(NULL, harness_format("redis-cluster://127.0.0.1:%d?ttl=60000", replica->port))};
    CHECK_STR(redis_command(master, "ACL", "SETUSER", "default", "-psync", "-sync", NULL), "OK");
    redis_command(master, "CLIENT", "KILL", "TYPE", "replica", NULL);
    releasing.grant = tools_acquire(releasing.lock, "a");
    harness_pause_ms(1100); /* until the map of slots may be read again */
    uint64_t before = tools_metrics(releasing.lock).requests;
    redis_pause(master);
    CHECK_INT(pthread_create(&releasing.thread, NULL, release, &releasing), 0);
    while (tools_metrics(releasing.lock).requests == before)
        harness_pause_ms(1);
    CHECK_STR(redis_command(replica, "CLUSTER", "FAILOVER", "TAKEOVER", NULL), "OK");
    redis_kill(master);
    tools_check_status(tools_join(&releasing), LOCK_UNKNOWN);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    redis_cluster_start(&cluster, 2, 0);
    url = harness_format("%s?variant=owner", redis_cluster_url(&cluster));
    harness_run("held while its slot moves", held);
    harness_run("waited for while its slot moves", waited_for);
    harness_run("its keys are split", split);
    harness_run("all is verified after a move", verified);
    harness_run("keys of braces", odd_keys);
    harness_run("a server that has left", forgotten);
    harness_run("released at another server", released_at_another);
    return harness_finish();
}
