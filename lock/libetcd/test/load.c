#include "lock/libetcd/test/load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 20000, PAUSE_MS = 1, WRITE_MS = 2000 };

/* The counts of one thread. */
struct kind {
    pthread_t thread;
    atomic_int ok, unknown, refused;
};

struct load {
    struct etcd *etcd;
    int run; /* keys of earlier loads are not counted */
    atomic_bool stop;
    _Atomic uint64_t member_id;
    struct kind reads, idempotent, others;
    /* Other writes: each writes its own key, once. */
    int count;
    enum etcd_status outcome[MOST];
    struct etcd_watch *watch; /* of what they write */
    atomic_int created, told; /* how often it began, and how many events it has told */
    int64_t told_revision;
    int done; /* writes that are in the store in the end */
};

static bool goes_on(struct load *load) {
    harness_pause_ms(PAUSE_MS);
    return !atomic_load(&load->stop) && !harness_failed();
}

static void *read_on(void *arg) {
    struct load *load = arg;
    const struct etcd_range range = {.key = etcd_text("load/read")};
    while (goes_on(load)) {
        struct etcd_reply *reply = NULL;
        CHECK_STATUS(etcd_range(load->etcd, &range, NULL, &reply), ETCD_OK);
        atomic_store(&load->member_id, reply->member_id);
        etcd_reply_free(reply);
        atomic_fetch_add(&load->reads.ok, 1);
    }
    return NULL;
}

static void *write_idempotent(void *arg) {
    struct load *load = arg;
    const struct etcd_put put = {.key = etcd_text("load/idempotent"), .value = etcd_text("1")};
    const struct etcd_call call = {.idempotent = true};
    while (goes_on(load)) {
        CHECK_STATUS(etcd_put(load->etcd, &put, &call, NULL), ETCD_OK);
        atomic_fetch_add(&load->idempotent.ok, 1);
    }
    return NULL;
}

/* Writes a new key and a counter in one transaction; each attempt that is done adds one version to the
 * counter. */
static enum etcd_status write_once(struct load *load, int number) {
    char key[48], counter[32], value[16];
    snprintf(key, sizeof key, "load/%d/once/%d", load->run, number);
    snprintf(counter, sizeof counter, "load/%d/counter", load->run);
    snprintf(value, sizeof value, "%d", number);
    const struct etcd_op ops[] = {
        {ETCD_PUT, .put = {.key = etcd_text(key), .value = etcd_text(value)}},
        {ETCD_PUT, .put = {.key = etcd_text(counter), .value = etcd_text(value)}},
    };
    const struct etcd_txn txn = {.then = ops, .then_count = 2};
    const struct etcd_call call = {.deadline_ns = tools_in_ms(WRITE_MS)};
    return etcd_txn(load->etcd, &txn, &call, NULL);
}

static void *write_others(void *arg) {
    struct load *load = arg;
    for (load->count = 0; load->count < MOST && goes_on(load); load->count++) {
        enum etcd_status status = write_once(load, load->count);
        load->outcome[load->count] = status;
        if (status == ETCD_OK)
            atomic_fetch_add(&load->others.ok, 1);
        else if (status == ETCD_UNKNOWN)
            atomic_fetch_add(&load->others.unknown, 1);
        else if (status == ETCD_UNAVAILABLE || status == ETCD_TIMEOUT)
            atomic_fetch_add(&load->others.refused, 1);
        else
            FAIL("a write is %s", etcd_status_text(status));
    }
    return NULL;
}

/* A watch tells each of these writes once, whole and in order: a new key, and the next version of the
 * counter, of one revision. In the client's thread. */
static void on_event(void *ctx, const struct etcd_watch_event *event) {
    struct load *load = ctx;
    if (event->kind == ETCD_WATCH_CREATED)
        atomic_fetch_add(&load->created, 1);
    else if (event->kind != ETCD_WATCH_EVENTS)
        abort();
    for (size_t i = 0; i < event->count; i++) {
        const struct etcd_kv *kv = &event->events[i].kv;
        int told = atomic_fetch_add(&load->told, 1);
        bool is_counter = told % 2 == 1;
        if (kv->version != (is_counter ? told / 2 + 1 : 1) ||
            (kv->mod_revision == load->told_revision) != is_counter ||
            kv->mod_revision < load->told_revision || event->events[i].deleted) {
            fprintf(stderr, "event %d is %.*s at revision %lld, version %lld, after revision %lld\n", told,
                    (int)kv->key.size, (const char *)kv->key.data, (long long)kv->mod_revision,
                    (long long)kv->version, (long long)load->told_revision);
            abort();
        }
        load->told_revision = kv->mod_revision;
    }
}

static bool is_watched(void *load) {
    return atomic_load(&((struct load *)load)->created) > 0;
}

struct load *load_start(struct etcd *etcd) {
    static struct load load;
    int run = load.run + 1;
    load = (struct load){.etcd = etcd, .run = run};
    tools_put(etcd, "load/read", "1");
    const char *prefix = harness_format("load/%d/", run);
    const struct etcd_watch_config config = {
        .key = etcd_text(prefix), .prefix = true, .on_event = on_event, .ctx = &load};
    CHECK_STATUS(etcd_watch(etcd, &config, &load.watch), ETCD_OK);
    CHECK(harness_wait(is_watched, &load, PATIENCE_MS));
    CHECK_INT(pthread_create(&load.reads.thread, NULL, read_on, &load), 0);
    CHECK_INT(pthread_create(&load.idempotent.thread, NULL, write_idempotent, &load), 0);
    CHECK_INT(pthread_create(&load.others.thread, NULL, write_others, &load), 0);
    load_wait(&load);
    return &load;
}

struct goal {
    struct load *load;
    int reads, idempotent, others;
};

static bool is_reached(void *arg) {
    struct goal *goal = arg;
    return harness_failed() || (atomic_load(&goal->load->reads.ok) >= goal->reads &&
                                atomic_load(&goal->load->idempotent.ok) >= goal->idempotent &&
                                atomic_load(&goal->load->others.ok) >= goal->others);
}

void load_wait(struct load *load) {
    enum { TIMES = 3 };
    struct goal goal = {load, atomic_load(&load->reads.ok) + TIMES, atomic_load(&load->idempotent.ok) + TIMES,
                        atomic_load(&load->others.ok) + TIMES};
    if (!harness_wait(is_reached, &goal, 2 * PATIENCE_MS))
        FAIL("it does not go on: %d reads, %d idempotent writes, %d others", load->reads.ok,
             load->idempotent.ok, load->others.ok);
    CHECK(!harness_failed());
}

int load_member(struct load *load, const struct etcd_server *members, int count) {
    uint64_t id = atomic_load(&load->member_id);
    for (int i = 0; i < count; i++) {
        struct etcd *etcd;
        struct etcd_member_status status = {0};
        const struct etcd_config config = {.endpoints = tools_endpoints(&members[i], 1)};
        const struct etcd_call call = {.deadline_ns = tools_in_ms(1000)};
        CHECK_STATUS(etcd_open(&config, &etcd, NULL, 0), ETCD_OK);
        enum etcd_status asked = etcd_member_status(etcd, 0, &call, &status);
        etcd_close(etcd);
        if (asked == ETCD_OK && status.member_id == id)
            return i;
    }
    FAIL("no member has the id %llx", (unsigned long long)id);
}

static bool has_told_all(void *arg) {
    const struct load *load = arg;
    return atomic_load(&load->told) >= 2 * load->done;
}

/* Every acknowledged write is in the store, no refused one is, and none was done twice. The watch has told
 * all of them. */
static void compare_with_the_store(struct load *load) {
    const char *prefix = harness_format("load/%d/once/", load->run);
    const char *counter = harness_format("load/%d/counter", load->run);
    const struct etcd_range range = {.key = etcd_text(prefix), .prefix = true};
    const struct etcd_range count = {.key = etcd_text(counter)};
    struct etcd_reply *reply = NULL;
    char *done = harness_alloc(MOST);
    CHECK_STATUS(etcd_range(load->etcd, &range, NULL, &reply), ETCD_OK);
    for (size_t i = 0; i < reply->kv_count; i++) {
        char number[16];
        const struct etcd_kv *kv = &reply->kvs[i];
        snprintf(number, sizeof number, "%.*s", (int)kv->value.size, (const char *)kv->value.data);
        CHECK_INT(kv->version, 1);
        done[strtol(number, NULL, 10)] = 1;
    }
    load->done = (int)reply->kv_count;
    etcd_reply_free(reply);
    for (int i = 0; i < load->count; i++) {
        if (load->outcome[i] == ETCD_OK && !done[i])
            FAIL("write %d was acknowledged, and is not there", i);
        if (load->outcome[i] != ETCD_OK && load->outcome[i] != ETCD_UNKNOWN && done[i])
            FAIL("write %d is there, and was %s", i, etcd_status_text(load->outcome[i]));
    }
    CHECK_STATUS(etcd_range(load->etcd, &count, NULL, &reply), ETCD_OK);
    CHECK_INT(reply->kv_count, 1);
    CHECK_INT(reply->kvs[0].version, load->done);
    etcd_reply_free(reply);
    CHECK(harness_wait(has_told_all, load, PATIENCE_MS));
    etcd_watch_cancel(load->watch);
    CHECK_INT(load->told, 2 * load->done);
}

void load_finish(struct load *load, const char *what, bool away) {
    atomic_store(&load->stop, true);
    pthread_join(load->reads.thread, NULL);
    pthread_join(load->idempotent.thread, NULL);
    pthread_join(load->others.thread, NULL);
    CHECK(!harness_failed());
    compare_with_the_store(load);
    printf("     %s: %d reads, %d idempotent writes, %d others, %d unknown, %d refused\n", what,
           load->reads.ok, load->idempotent.ok, load->others.ok, load->others.unknown, load->others.refused);
    if (!away)
        CHECK_INT(load->others.refused, 0);
}
