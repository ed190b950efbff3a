/* Watches that are cancelled, and begun, while things come. */
#include <stdatomic.h>

#include "lock/libetcd/test/seen.h"

static struct etcd_server server;

/* What each test begins with. */
struct start {
    struct etcd *etcd;
    int64_t base; /* the store's revision */
};

static struct start begin(void) {
    struct start start = {.etcd = tools_open(&server, 1)};
    start.base = seen_revision(start.etcd);
    return start;
}

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
    return seen_events(arg) > 0;
}

static void dawdle(struct seen *seen) {
    (void)seen;
    for (volatile int i = 0; i < 20000;)
        i = i + 1;
}

static void cancel_while_they_come(void) {
    enum { ROUNDS = 300 };
    struct start s = begin();
    struct load load;
    start_load(&load, tools_open(&server, 1), "busy");
    for (int i = 0; i < ROUNDS && !harness_failed(); i++) {
        struct etcd_watch_config config = seen_key("busy");
        struct seen *seen = seen_watch(s.etcd, &config, s.base);
        seen_then(seen, dawdle, NULL);
        if (i % 3 > 0)
            CHECK(harness_wait(has_event, seen, PATIENCE_MS));
        seen_cancel(seen);
    }
    stop_load(&load);
}

/* seen_cancel() returns only when the callback has: it waits for one that is held. */
static void *release_later(void *arg) {
    struct seen *seen = arg;
    harness_pause_ms(50);
    seen->arg = seen;
    seen_release(seen);
    return NULL;
}

static void cancelling_waits_for_the_callback(void) {
    struct start s = begin();
    struct etcd_watch_config config = seen_key("a");
    struct seen *seen = seen_watch(s.etcd, &config, s.base);
    pthread_t thread;
    seen_created(seen);
    seen_hold(seen);
    tools_put(s.etcd, "other", "0");
    struct etcd *other = tools_open(&server, 1); /* this one's loop stands still */
    tools_put(other, "a", "1");
    seen_wait_held(seen);
    CHECK_INT(pthread_create(&thread, NULL, release_later, seen), 0);
    etcd_watch_cancel(seen->watch);
    CHECK(seen->arg == seen);
    pthread_join(thread, NULL);
}

static void cancel_itself(struct seen *seen) {
    if (seen->events == 0)
        return;
    etcd_watch_cancel(seen->watch);
    seen->closed = true;
    seen->arg = seen;
}

static void cancel_itself_at_once(struct seen *seen) {
    etcd_watch_cancel(seen->watch);
    seen->closed = true;
    seen->arg = seen;
}

static void cancel_the_other(struct seen *seen) {
    struct seen *other = seen->arg;
    if (seen->events != 1)
        return;
    etcd_watch_cancel(other->watch);
    other->closed = true;
}

static void cancel_from_callbacks(void) {
    struct start s = begin();
    struct etcd_watch_config config = seen_key("a");
    struct seen *itself = seen_watch(s.etcd, &config, s.base);
    struct seen *other = seen_watch(s.etcd, &config, s.base);
    struct seen *canceller = seen_watch(s.etcd, &config, s.base);
    seen_created(itself);
    seen_created(other);
    seen_then(itself, cancel_itself, NULL);
    seen_then(canceller, cancel_the_other, other);
    tools_put(s.etcd, "a", "1");
    tools_put(s.etcd, "a", "2");
    seen_is(canceller, "created@0 a=1@1 a=2@2");
    seen_is(itself, "created@0 a=1@1");
    config.revision = 0;
    config.end = etcd_text("");
    struct seen *ended =
        seen_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("b"), .end = etcd_text("a")}, s.base);
    seen_then(ended, cancel_itself_at_once, NULL); /* or it has been told already */
    seen_has(ended, "ended:");
}

/* A watch that begins another one, from its callback, which sees what follows. */
static struct etcd *of_callbacks;

static void begin_another(struct seen *seen) {
    if (seen->events != 1 || seen->arg)
        return;
    struct etcd_watch_config config = seen_key("second");
    config.revision = seen->base + 1;
    seen->arg = seen_watch(of_callbacks, &config, seen->base);
}

static bool has_another(void *arg) {
    struct seen *seen = arg;
    pthread_mutex_lock(&seen->mutex);
    pthread_mutex_unlock(&seen->mutex);
    return seen_events(seen) > 0 && *(void *volatile *)&seen->arg;
}

static void begin_from_a_callback(void) {
    struct start s = begin();
    struct etcd_watch_config config = seen_key("first");
    struct seen *first = seen_watch(s.etcd, &config, s.base);
    of_callbacks = s.etcd;
    seen_then(first, begin_another, NULL);
    seen_created(first);
    tools_put(s.etcd, "first", "1");
    CHECK(harness_wait(has_another, first, PATIENCE_MS));
    tools_put(s.etcd, "second", "2");
    seen_is(first->arg, "created@0 second=2@2");
}

static void close_while_they_come(void) {
    struct load load;
    start_load(&load, tools_open(&server, 1), "busy");
    for (int i = 0; i < 30 && !harness_failed(); i++) {
        const struct etcd_config config = {.endpoints = tools_endpoints(&server, 1)};
        struct etcd *etcd = NULL;
        CHECK_STATUS(etcd_open(&config, &etcd, NULL, 0), ETCD_OK);
        struct seen *seen[5];
        for (int j = 0; j < 5; j++) {
            struct etcd_watch_config watch = seen_key("busy");
            seen[j] = seen_watch(etcd, &watch, 0);
            seen_then(seen[j], dawdle, NULL);
        }
        if (i % 3 > 0)
            CHECK(harness_wait(has_event, seen[0], PATIENCE_MS));
        etcd_close(etcd);
        for (int j = 0; j < 5; j++) {
            pthread_mutex_lock(&seen[j]->mutex);
            seen[j]->closed = true;
            pthread_mutex_unlock(&seen[j]->mutex);
        }
    }
    stop_load(&load);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    if (*harness_dir())
        etcd_start(&server, NULL);
    harness_run("cancelled while events come", cancel_while_they_come);
    harness_run("cancelling waits for the callback", cancelling_waits_for_the_callback);
    harness_run("cancelled from callbacks", cancel_from_callbacks);
    harness_run("begun from a callback", begin_from_a_callback);
    harness_run("closed while events come", close_while_they_come);
    return harness_finish();
}
