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

enum { WRITE_MS = 2000 };
enum { THREADS = 4, KEYS = 50, ROUNDS = 510 }; /* 102,000 events, less what is lost with a member */

struct storm {
    struct etcd *writers;
    struct etcd_watch *watch;
    int kills;
    atomic_int rounds; /* acknowledged writes of all threads */
    atomic_int unknown;
    /* Of the watch's callback. */
    int64_t version[THREADS][KEYS], value[THREADS][KEYS];
    int64_t revision;
    size_t of_revision; /* events of it so far */
    atomic_long events;
    atomic_int resumed;
    int64_t last_ns, gap_ns; /* between two calls */
    bool acknowledged[THREADS][ROUNDS], recorder[THREADS][ROUNDS];
};

struct writer {
    struct storm *storm;
    int number;
    pthread_t thread;
};

static struct storm storm;

/* ---- writes ---- */

static void *write_all(void *arg) {
    struct writer *writer = arg;
    char keys[KEYS][32], value[16];
    struct etcd_op ops[KEYS];
    for (int round = 0; round < ROUNDS && !harness_failed(); round++) {
        snprintf(value, sizeof value, "%d", round);
        for (int i = 0; i < KEYS; i++) {
            snprintf(keys[i], sizeof keys[i], "storm/%d/%d", writer->number, i);
            ops[i] =
                (struct etcd_op){ETCD_PUT, .put = {.key = etcd_text(keys[i]), .value = etcd_text(value)}};
        }
        const struct etcd_txn txn = {.then = ops, .then_count = KEYS};
        const struct etcd_call call = {.deadline_ns = tools_in_ms(WRITE_MS)};
        enum etcd_status status = etcd_txn(writer->storm->writers, &txn, &call, NULL);
        writer->storm->acknowledged[writer->number][round] = status == ETCD_OK;
        if (status == ETCD_UNKNOWN)
            atomic_fetch_add(&writer->storm->unknown, 1);
        else if (status != ETCD_UNAVAILABLE && status != ETCD_TIMEOUT)
            CHECK_STATUS(status, ETCD_OK);
        atomic_fetch_add(&writer->storm->rounds, 1);
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

static void check_event(struct storm *s, const struct etcd_event *event) {
    int thread, key;
    if (!read_key(event->kv.key, &thread, &key) || event->deleted)
        wrong(event, "not one of", KEYS);
    if (event->kv.mod_revision < s->revision)
        wrong(event, "after", s->revision);
    if (event->kv.mod_revision > s->revision && s->of_revision % KEYS != 0)
        wrong(event, "parts of the revision before are missing:", (int64_t)s->of_revision);
    if (event->kv.mod_revision > s->revision)
        s->of_revision = 0;
    s->of_revision++;
    s->revision = event->kv.mod_revision;
    if (event->kv.version != ++s->version[thread][key])
        wrong(event, "not version", s->version[thread][key]);
    int64_t value = number_of(event->kv.value);
    if (event->kv.version > 1 && value <= s->value[thread][key])
        wrong(event, "written twice, after", s->value[thread][key]);
    s->value[thread][key] = value;
    s->recorder[thread][value] = true;
}

static void on_event(void *ctx, const struct etcd_watch_event *event) {
    struct storm *s = ctx;
    int64_t now_ns = tools_in_ms(0);
    if (event->kind == ETCD_WATCH_CREATED)
        atomic_fetch_add(&s->resumed, 1);
    else if (event->kind != ETCD_WATCH_EVENTS)
        abort();
    for (size_t i = 0; i < event->count; i++)
        check_event(s, &event->events[i]);
    if (s->last_ns && now_ns - s->last_ns > s->gap_ns)
        s->gap_ns = now_ns - s->last_ns;
    s->last_ns = now_ns;
    atomic_fetch_add(&s->events, (long)event->count);
}

/* ---- the store ---- */

struct total {
    int64_t versions;
};

static bool all_is_seen(void *arg) {
    return atomic_load(&storm.events) >= ((struct total *)arg)->versions;
}

static void compare_with_the_store(struct etcd *etcd) {
    const struct etcd_range range = {.key = etcd_text("storm/"), .prefix = true};
    struct etcd_reply *reply = NULL;
    struct total total = {0};
    CHECK_STATUS(etcd_range(etcd, &range, NULL, &reply), ETCD_OK);
    CHECK_INT(reply->kv_count, THREADS * KEYS);
    for (size_t i = 0; i < reply->kv_count; i++)
        total.versions += reply->kvs[i].version;
    CHECK(harness_wait(all_is_seen, &total, PATIENCE_MS));
    harness_pause_ms(150);
    etcd_watch_cancel(storm.watch);
    CHECK_INT(storm.events, total.versions);
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
            done += storm.recorder[thread][round];
            if (storm.acknowledged[thread][round] && !storm.recorder[thread][round])
                FAIL("write %d of thread %d was acknowledged, and is not in the store", round, thread);
        }
    }
    CHECK_INT(total.versions, done * KEYS);
}

static bool is_written(void *arg) {
    return atomic_load(&storm.rounds) >= *(int *)arg || harness_failed();
}

/* Calls `disturb` `times` times during the writes. */
static void rage(struct etcd_server *members, int count, int times,
                 void (*disturb)(struct etcd_server *members, int count, int time)) {
    struct writer writers[THREADS];
    storm = (struct storm){.writers = tools_open(members, count)};
    struct etcd *etcd = tools_open(members, count);
    const struct etcd_watch_config config = {
        .key = etcd_text("storm/"), .prefix = true, .on_event = on_event, .ctx = &storm};
    CHECK_STATUS(etcd_watch(etcd, &config, &storm.watch), ETCD_OK);
    while (!atomic_load(&storm.resumed))
        harness_pause_ms(1);
    int64_t began_ms = harness_now_ms();
    for (int i = 0; i < THREADS; i++) {
        writers[i] = (struct writer){.storm = &storm, .number = i};
        CHECK_INT(pthread_create(&writers[i].thread, NULL, write_all, &writers[i]), 0);
    }
    for (int i = 1; i <= times; i++) {
        int rounds = THREADS * ROUNDS * i / (times + 1);
        harness_wait(is_written, &rounds, 60000);
        disturb(members, count, i);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(writers[i].thread, NULL);
    int64_t took_ms = harness_now_ms() - began_ms;
    CHECK(!harness_failed());
    compare_with_the_store(etcd);
    printf("     %ld events in %d ms; %d writes not known; resumed %d times, longest gap %d ms\n",
           atomic_load(&storm.events), (int)took_ms, atomic_load(&storm.unknown),
           atomic_load(&storm.resumed) - 1, (int)(storm.gap_ns / 1000000));
    CHECK(atomic_load(&storm.resumed) > times / 2);
}

static void kill_and_restart(struct etcd_server *members, int count, int time) {
    (void)time;
    int which = count > 1 ? recorder_serving(members, count, "Watch") : 0;
    etcd_kill(&members[which]);
    etcd_restart(&members[which]);
}

static void one_server_is_killed(void) {
    struct etcd_server server;
    etcd_start(&server, NULL);
    rage(&server, 1, 5, kill_and_restart);
}

/* A paused member is left only after ten seconds without an answer to pings. */
static void kill_or_pause(struct etcd_server *members, int count, int time) {
    if (time != 2) {
        kill_and_restart(members, count, time);
        return;
    }
    int which = recorder_serving(members, count, "Watch");
    etcd_pause(&members[which]);
    harness_pause_ms(1000);
    etcd_resume(&members[which]);
}

static void serving_member_killed(void) {
    struct etcd_server members[3];
    etcd_start_cluster(members, 3, NULL);
    rage(members, 3, 4, kill_or_pause);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("one server is killed", one_server_is_killed);
    harness_run("the serving member is killed", serving_member_killed);
    return harness_finish();
}
