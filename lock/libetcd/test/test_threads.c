/* One client for many threads while the server restarts: an acknowledged write is in the store once, a
 * refused one is not, and an unknown one may be. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/libetcd/test/tools.h"

enum { THREADS = 32, COUNTERS = 4, MARKS = 2000, RESTARTS = 4, SOON_MS = 1500 };

struct counter {
    char key[8];
    atomic_int done, unknown;
};

struct worker {
    pthread_t thread;
    struct etcd *etcd;
    uint64_t position;
    atomic_bool *stop;
    struct counter *counters;
    int number, mark_count;
    enum etcd_status marks[MARKS]; /* the outcome of each put of a new key */
};

/* Checks that the status is one of these, and returns it. */
static enum etcd_status usual(enum etcd_status status, const char *error) {
    if (status != ETCD_OK && status != ETCD_UNKNOWN && status != ETCD_UNAVAILABLE && status != ETCD_TIMEOUT)
        FAIL("%s: %s", etcd_status_text(status), error);
    return status;
}

static enum etcd_status ask(struct worker *worker, const struct etcd_op *op, struct etcd_reply **reply) {
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {
        .deadline_ns = tools_in_ms(SOON_MS), .error = error, .error_size = sizeof error};
    return usual(etcd_do(worker->etcd, op, &call, reply), error);
}

/* 0: it does not exist; -1: it cannot be read. */
static int64_t read_counter(struct worker *worker, const char *key, int64_t *mod_revision) {
    const struct etcd_op op = {ETCD_RANGE, .range = {.key = etcd_text(key)}};
    struct etcd_reply *reply = NULL;
    enum etcd_status status = ask(worker, &op, &reply);
    CHECK(status != ETCD_UNKNOWN);
    if (status != ETCD_OK)
        return -1;
    char text[24] = "0";
    *mod_revision = 0;
    if (reply->kv_count == 1) {
        CHECK(reply->kvs[0].value.size < sizeof text);
        memcpy(text, reply->kvs[0].value.data, reply->kvs[0].value.size);
        text[reply->kvs[0].value.size] = '\0';
        *mod_revision = reply->kvs[0].mod_revision;
    }
    etcd_reply_free(reply);
    return strtoll(text, NULL, 10);
}

static void count_up(struct worker *worker) {
    struct counter *counter = &worker->counters[harness_random(&worker->position) % COUNTERS];
    int64_t mod_revision, value = read_counter(worker, counter->key, &mod_revision);
    if (value < 0)
        return;
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value + 1);
    const struct etcd_compare compare = {
        .key = etcd_text(counter->key), .target = ETCD_MOD_REVISION, .number = mod_revision};
    const struct etcd_op put = {ETCD_PUT, .put = {.key = etcd_text(counter->key), .value = etcd_text(text)}};
    const struct etcd_op op = {ETCD_TXN, .txn = {&compare, 1, &put, 1, NULL, 0}};
    struct etcd_reply *reply = NULL;
    enum etcd_status status = ask(worker, &op, &reply);
    if (status == ETCD_UNKNOWN)
        atomic_fetch_add(&counter->unknown, 1);
    if (status == ETCD_OK && reply->succeeded)
        atomic_fetch_add(&counter->done, 1);
    etcd_reply_free(reply);
}

static void put_mark(struct worker *worker) {
    char key[32];
    if (worker->mark_count == MARKS)
        return;
    snprintf(key, sizeof key, "mark-%02d-%04d", worker->number, worker->mark_count);
    const struct etcd_op op = {ETCD_PUT, .put = {.key = etcd_text(key), .value = etcd_text(key)}};
    worker->marks[worker->mark_count++] = ask(worker, &op, NULL);
}

static void *work(void *arg) {
    struct worker *worker = arg;
    while (!atomic_load(worker->stop))
        harness_random(&worker->position) % 2 ? count_up(worker) : put_mark(worker);
    return NULL;
}

static void check_marks(struct etcd *etcd, const struct worker *worker) {
    char prefix[32];
    snprintf(prefix, sizeof prefix, "mark-%02d-", worker->number);
    const struct etcd_range range = {.key = etcd_text(prefix), .prefix = true};
    struct etcd_reply *reply = NULL;
    bool there[MARKS] = {false};
    CHECK_STATUS(etcd_range(etcd, &range, NULL, &reply), ETCD_OK);
    for (size_t i = 0; i < reply->kv_count; i++) {
        const struct etcd_kv *kv = &reply->kvs[i];
        CHECK_INT(kv->version, 1); /* put once */
        char key[32];
        snprintf(key, sizeof key, "%.*s", (int)kv->key.size, (const char *)kv->key.data);
        there[strtol(key + strlen(prefix), NULL, 10)] = true;
    }
    etcd_reply_free(reply);
    for (int i = 0; i < worker->mark_count; i++) {
        if (worker->marks[i] != ETCD_UNKNOWN)
            CHECK_INT(there[i], worker->marks[i] == ETCD_OK);
    }
}

static void threads_while_server_restarts(void) {
    static struct worker workers[THREADS];
    struct counter counters[COUNTERS] = {0};
    atomic_bool stop = false;
    struct etcd_server server;
    char error[ETCD_ERROR_SIZE] = "";
    struct etcd *etcd;
    uint64_t position = harness_seed();
    etcd_start(&server, NULL);
    const struct etcd_config config = {.endpoints = tools_endpoints(&server, 1), .timeout_ms = PATIENCE_MS};
    CHECK_STATUS(etcd_open(&config, &etcd, error, sizeof error), ETCD_OK);
    for (int i = 0; i < COUNTERS; i++)
        snprintf(counters[i].key, sizeof counters[i].key, "count%d", i);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.etcd = etcd,
                                     .number = i,
                                     .position = harness_random(&position),
                                     .stop = &stop,
                                     .counters = counters};
        CHECK_INT(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < RESTARTS; i++) {
        harness_pause_ms(300);
        i % 2 ? etcd_stop(&server) : etcd_kill(&server);
        etcd_restart(&server);
    }
    harness_pause_ms(300);
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_join(workers[i].thread, NULL), 0);
    CHECK(!harness_failed());
    int64_t mod_revision;
    for (int i = 0; i < COUNTERS; i++) {
        int64_t value = read_counter(&workers[0], counters[i].key, &mod_revision);
        CHECK(counters[i].done > 0);
        CHECK(value >= counters[i].done && value <= counters[i].done + counters[i].unknown);
    }
    for (int i = 0; i < THREADS; i++)
        check_marks(etcd, &workers[i]);
    etcd_close(etcd);
}

/* Each thread opens and closes its own clients, which share only gRPC. */
static void *come_and_go(void *arg) {
    const struct etcd_config config = {.endpoints = tools_endpoints(arg, 1), .timeout_ms = PATIENCE_MS};
    char error[ETCD_ERROR_SIZE] = "";
    for (int i = 0; i < 10; i++) {
        struct etcd *etcd;
        CHECK_STATUS(etcd_open(&config, &etcd, error, sizeof error), ETCD_OK);
        tools_put(etcd, "a", "1");
        etcd_close(etcd);
    }
    return NULL;
}

static void clients_open_and_close(void) {
    struct etcd_server server;
    pthread_t threads[8];
    etcd_start(&server, NULL);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, come_and_go, &server), 0);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        CHECK_INT(pthread_join(threads[i], NULL), 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("thirty-two threads while the server restarts", threads_while_server_restarts);
    harness_run("clients open and close", clients_open_and_close);
    return harness_finish();
}
