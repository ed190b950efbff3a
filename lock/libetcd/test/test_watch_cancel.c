/* Watches that are cancelled and started while events arrive. */
#include <stdatomic.h>

#include "lock/libetcd/test/recorder.h"

static struct etcd_server server;

struct load {
    struct etcd *etcd;
    const char *key;
    atomic_bool stop;
    pthread_t thread;
};

static void *put_all_the_time(void *arg) {
    struct load *load = arg;
    while (!atomic_load(&load->stop) && !harness_failed())
        tools_put(load->etcd, load->key, "1");
    return NULL;
}

static void start_load(struct load *load, struct etcd *etcd, const char *key) {
    *load = (struct load){.etcd = etcd, .key = key};
    CHECK_INT(pthread_create(&load->thread, NULL, put_all_the_time, load), 0);
}

static void stop_load(struct load *load) {
    atomic_store(&load->stop, true);
    pthread_join(load->thread, NULL);
}

static bool has_event(void *arg) {
    return recorder_events(arg) > 0;
}

static void dawdle(struct recorder *recorder) {
    (void)recorder;
    for (volatile int i = 0; i < 20000;)
        i = i + 1;
}

static void cancel_while_events_arrive(void) {
    enum { ROUNDS = 200 };
    struct recorder_start s = recorder_begin(&server);
    struct load load;
    start_load(&load, tools_open(&server, 1), "busy");
    for (int i = 0; i < ROUNDS && !harness_failed(); i++) {
        struct recorder *recorder = recorder_watch_key(s.etcd, "busy", s.base);
        recorder_then(recorder, dawdle, NULL);
        if (i % 3 > 0)
            CHECK(harness_wait(has_event, recorder, PATIENCE_MS));
        recorder_cancel(recorder);
    }
    stop_load(&load);
}

/* recorder_cancel() returns only after the callback, also if that is blocked. */
static void *release_later(void *arg) {
    struct recorder *recorder = arg;
    harness_pause_ms(50);
    recorder->arg = recorder;
    recorder_release(recorder);
    return NULL;
}

static void cancelling_waits_for_the_callback(void) {
    struct recorder_start s = recorder_begin(&server);
    struct recorder *recorder = recorder_watch_key(s.etcd, "a", s.base);
    pthread_t thread;
    recorder_created(recorder);
    recorder_hold(recorder);
    tools_put(s.etcd, "other", "0");
    struct etcd *other = tools_open(&server, 1); /* blocks the loop */
    tools_put(other, "a", "1");
    recorder_wait_held(recorder);
    CHECK_INT(pthread_create(&thread, NULL, release_later, recorder), 0);
    etcd_watch_cancel(recorder->watch);
    CHECK(recorder->arg == recorder);
    pthread_join(thread, NULL);
}

static void cancel_itself_at_once(struct recorder *recorder) {
    etcd_watch_cancel(recorder->watch);
    recorder->closed = true;
}

static void cancel_itself(struct recorder *recorder) {
    if (recorder->events > 0)
        cancel_itself_at_once(recorder);
}

static void cancel_the_other(struct recorder *recorder) {
    struct recorder *other = recorder->arg;
    if (recorder->events != 1)
        return;
    etcd_watch_cancel(other->watch);
    other->closed = true;
}

static void cancel_from_callbacks(void) {
    struct recorder_start s = recorder_begin(&server);
    struct recorder *itself = recorder_watch_key(s.etcd, "a", s.base);
    struct recorder *other = recorder_watch_key(s.etcd, "a", s.base);
    struct recorder *canceller = recorder_watch_key(s.etcd, "a", s.base);
    recorder_created(itself);
    recorder_created(other);
    recorder_then(itself, cancel_itself, NULL);
    recorder_then(canceller, cancel_the_other, other);
    tools_put(s.etcd, "a", "1");
    tools_put(s.etcd, "a", "2");
    recorder_is(canceller, "created@0 a=1@1 a=2@2");
    recorder_is(itself, "created@0 a=1@1");
    struct recorder *ended = recorder_watch(
        s.etcd, &(struct etcd_watch_config){.key = etcd_text("b"), .end = etcd_text("a")}, s.base);
    recorder_then(ended, cancel_itself_at_once, NULL); /* or it has been reported already */
    recorder_has(ended, "ended:");
}

/* A watch that starts another one from its callback; the new one reports later events. */
static struct etcd *of_callbacks;

static void begin_another(struct recorder *recorder) {
    if (recorder->events != 1 || recorder->arg)
        return;
    struct etcd_watch_config config = recorder_key("second");
    config.revision = recorder->base + 1;
    recorder->arg = recorder_watch(of_callbacks, &config, recorder->base);
}

static bool has_another(void *arg) {
    struct recorder *recorder = arg;
    pthread_mutex_lock(&recorder->mutex);
    pthread_mutex_unlock(&recorder->mutex);
    return recorder_events(recorder) > 0 && *(void *volatile *)&recorder->arg;
}

static void start_from_callback(void) {
    struct recorder_start s = recorder_begin(&server);
    struct recorder *first = recorder_watch_key(s.etcd, "first", s.base);
    of_callbacks = s.etcd;
    recorder_then(first, begin_another, NULL);
    recorder_created(first);
    tools_put(s.etcd, "first", "1");
    CHECK(harness_wait(has_another, first, PATIENCE_MS));
    tools_put(s.etcd, "second", "2");
    recorder_is(first->arg, "created@0 second=2@2");
}

static void close_while_events_arrive(void) {
    struct load load;
    start_load(&load, tools_open(&server, 1), "busy");
    for (int i = 0; i < 30 && !harness_failed(); i++) {
        const struct etcd_config config = {.endpoints = tools_endpoints(&server, 1)};
        struct etcd *etcd = NULL;
        CHECK_STATUS(etcd_open(&config, &etcd, NULL, 0), ETCD_OK);
        struct recorder *recorder[5];
        for (int j = 0; j < 5; j++) {
            recorder[j] = recorder_watch_key(etcd, "busy", 0);
            recorder_then(recorder[j], dawdle, NULL);
        }
        if (i % 3 > 0)
            CHECK(harness_wait(has_event, recorder[0], PATIENCE_MS));
        etcd_close(etcd);
        for (int j = 0; j < 5; j++) {
            pthread_mutex_lock(&recorder[j]->mutex);
            recorder[j]->closed = true;
            pthread_mutex_unlock(&recorder[j]->mutex);
        }
    }
    stop_load(&load);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    if (*harness_dir())
        etcd_start(&server, NULL);
    harness_run("cancelled while events arrive", cancel_while_events_arrive);
    harness_run("cancelling waits for the callback", cancelling_waits_for_the_callback);
    harness_run("cancelled from callbacks", cancel_from_callbacks);
    harness_run("started from a callback", start_from_callback);
    harness_run("client closed while events arrive", close_while_events_arrive);
    return harness_finish();
}
