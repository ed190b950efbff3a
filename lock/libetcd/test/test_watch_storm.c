/* A watch sees a hundred thousand events while members are killed: each once, in order, and none is missing.
 *
 * Each thread writes its own keys, all of them in one transaction, again and again. The server counts how
 * often a key was written since it was made, its version, and sends it with each event: what a watch tells of
 * a key must be 1, 2, 3, … and end with what the store holds. So nothing is to be remembered, and it is no
 * matter which of the writes that were not answered were done. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/libetcd/test/recorder.h"

enum { WRITE_MS = 2000, KILLS = 4 };
enum { THREADS = 4, KEYS = 50, ROUNDS = 510 }; /* 102,000 events, less what is lost with a member */

static struct etcd_server members[3];

static struct storm {
    struct etcd *writers;
    struct etcd_watch *watch;
    atomic_int rounds; /* writes of all threads so far */
    /* Of the watch's callback. */
    int64_t version[THREADS][KEYS], value[THREADS][KEYS];
    int64_t revision;
    size_t of_revision; /* events of it so far */
    atomic_long events;
    atomic_int created;
    bool acknowledged[THREADS][ROUNDS], seen[THREADS][ROUNDS];
} storm;

/* ---- writes ---- */

static void *write_all(void *arg) {
    int number = *(int *)arg;
    char keys[KEYS][32], value[16];
    struct etcd_op ops[KEYS];
    for (int round = 0; round < ROUNDS && !harness_failed(); round++) {
        snprintf(value, sizeof value, "%d", round);
        for (int i = 0; i < KEYS; i++) {
            snprintf(keys[i], sizeof keys[i], "storm/%d/%d", number, i);
            ops[i] =
                (struct etcd_op){ETCD_PUT, .put = {.key = etcd_text(keys[i]), .value = etcd_text(value)}};
        }
        const struct etcd_txn txn = {.then = ops, .then_count = KEYS};
        const struct etcd_call call = {.deadline_ns = tools_in_ms(WRITE_MS)};
        enum etcd_status status = etcd_txn(storm.writers, &txn, &call, NULL);
        storm.acknowledged[number][round] = status == ETCD_OK;
        if (status != ETCD_UNKNOWN && status != ETCD_UNAVAILABLE && status != ETCD_TIMEOUT)
            CHECK_STATUS(status, ETCD_OK);
        atomic_fetch_add(&storm.rounds, 1);
    }
    return NULL;
}

/* ---- events ---- */

static void __attribute__((noreturn))
wrong(const struct etcd_event *event, const char *what, int64_t expected) {
    fprintf(stderr, "%.*s at revision %lld, version %lld, value %.*s: %s %lld\n", (int)event->kv.key.size,
            (const char *)event->kv.key.data, (long long)event->kv.mod_revision, (long long)event->kv.version,
            (int)event->kv.value.size, (const char *)event->kv.value.data, what, (long long)expected);
    abort();
}

static int64_t number_of(struct etcd_bytes bytes) {
    char text[16];
    snprintf(text, sizeof text, "%.*s", (int)bytes.size, (const char *)bytes.data);
    return strtol(text, NULL, 10);
}

static bool read_key(struct etcd_bytes bytes, int *thread, int *key) {
    static const char prefix[] = "storm/";
    char name[32], *end;
    snprintf(name, sizeof name, "%.*s", (int)bytes.size, (const char *)bytes.data);
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    *thread = (int)strtol(name + sizeof prefix - 1, &end, 10);
    *key = *end == '/' ? (int)strtol(end + 1, &end, 10) : -1;
    return *thread >= 0 && *thread < THREADS && *key >= 0 && *key < KEYS && !*end;
}

static void check_event(const struct etcd_event *event) {
    int thread, key;
    if (!read_key(event->kv.key, &thread, &key) || event->deleted)
        wrong(event, "not one of", KEYS);
    if (event->kv.mod_revision < storm.revision)
        wrong(event, "after", storm.revision);
    if (event->kv.mod_revision > storm.revision && storm.of_revision % KEYS != 0)
        wrong(event, "parts of the revision before are missing:", (int64_t)storm.of_revision);
    if (event->kv.mod_revision > storm.revision)
        storm.of_revision = 0;
    storm.of_revision++;
    storm.revision = event->kv.mod_revision;
    if (event->kv.version != ++storm.version[thread][key])
        wrong(event, "not version", storm.version[thread][key]);
    int64_t value = number_of(event->kv.value);
    if (event->kv.version > 1 && value <= storm.value[thread][key])
        wrong(event, "written twice, after", storm.value[thread][key]);
    storm.value[thread][key] = value;
    storm.seen[thread][value] = true;
}

static void on_event(void *ctx, const struct etcd_watch_event *event) {
    (void)ctx;
    if (event->kind == ETCD_WATCH_CREATED)
        atomic_fetch_add(&storm.created, 1);
    else if (event->kind != ETCD_WATCH_EVENTS)
        abort();
    for (size_t i = 0; i < event->count; i++)
        check_event(&event->events[i]);
    atomic_fetch_add(&storm.events, (long)event->count);
}

/* ---- the store ---- */

static bool all_is_seen(void *versions) {
    return atomic_load(&storm.events) >= *(int64_t *)versions;
}

static void compare_with_the_store(struct etcd *etcd) {
    const struct etcd_range range = {.key = etcd_text("storm/"), .prefix = true};
    struct etcd_reply *reply = NULL;
    int64_t versions = 0;
    CHECK_STATUS(etcd_range(etcd, &range, NULL, &reply), ETCD_OK);
    CHECK_INT(reply->kv_count, THREADS * KEYS);
    for (size_t i = 0; i < reply->kv_count; i++)
        versions += reply->kvs[i].version;
    CHECK(harness_wait(all_is_seen, &versions, PATIENCE_MS));
    harness_pause_ms(150);
    etcd_watch_cancel(storm.watch);
    CHECK_INT(storm.events, versions);
    for (size_t i = 0; i < reply->kv_count; i++) {
        int thread, key;
        CHECK(read_key(reply->kvs[i].key, &thread, &key));
        CHECK_INT(storm.version[thread][key], reply->kvs[i].version);
        CHECK_INT(storm.value[thread][key], number_of(reply->kvs[i].value));
    }
    CHECK_INT(storm.revision, reply->revision);
    etcd_reply_free(reply);
    int done = 0;
    for (int thread = 0; thread < THREADS; thread++) {
        for (int round = 0; round < ROUNDS; round++) {
            done += storm.seen[thread][round];
            if (storm.acknowledged[thread][round] && !storm.seen[thread][round])
                FAIL("write %d of thread %d was acknowledged, and is not in the store", round, thread);
        }
    }
    CHECK_INT(versions, done * KEYS);
}

static bool is_written(void *arg) {
    return atomic_load(&storm.rounds) >= *(int *)arg || harness_failed();
}

/* A paused member is left only after ten seconds without an answer to pings. */
static void disturb(int time) {
    int which = recorder_serving(members, 3, "Watch");
    if (time == 2) {
        etcd_pause(&members[which]);
        harness_pause_ms(1000);
        etcd_resume(&members[which]);
    } else {
        etcd_kill(&members[which]);
        etcd_restart(&members[which]);
    }
}

static void serving_member_killed(void) {
    pthread_t threads[THREADS];
    int numbers[THREADS];
    etcd_start_cluster(members, 3, NULL);
    storm = (struct storm){.writers = tools_open(members, 3)};
    struct etcd *etcd = tools_open(members, 3);
    const struct etcd_watch_config config = {
        .key = etcd_text("storm/"), .prefix = true, .on_event = on_event};
    CHECK_STATUS(etcd_watch(etcd, &config, &storm.watch), ETCD_OK);
    while (!atomic_load(&storm.created))
        harness_pause_ms(1);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK_INT(pthread_create(&threads[i], NULL, write_all, &numbers[i]), 0);
    }
    for (int i = 1; i <= KILLS; i++) {
        int rounds = THREADS * ROUNDS * i / (KILLS + 1);
        harness_wait(is_written, &rounds, 60000);
        disturb(i);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(!harness_failed());
    compare_with_the_store(etcd);
    printf("     %ld events; resumed %d times\n", atomic_load(&storm.events),
           atomic_load(&storm.created) - 1);
    CHECK(atomic_load(&storm.created) > KILLS / 2);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("the serving member is killed", serving_member_killed);
    return harness_finish();
}
