/* Watches on one server. */
#include <stdatomic.h>

#include "lock/libetcd/test/recorder.h"

static struct etcd_server server; /* reports progress every 200 ms */

/* ---- events ---- */

static void events_for_each_change(void) {
    enum { UNDER_PREFIX = 1, WATCHES = 6 };
    static const struct {
        struct etcd_watch_config config;
        const char *text;
    } watches[WATCHES] = {
        {{.key = {"ab", 2}}, "created@0 ab=1@1 ab=4@4 -ab@5 ab=@6"},
        {{.key = {"a", 1}, .prefix = true}, "created@0 ab=1@1 ac=2@2 ab=4@4 -ab@5 ab=@6"},
        {{.key = {"aa", 2}, .end = {"ac", 2}}, "created@0 ab=1@1 ab=4@4 -ab@5 ab=@6"},
        {{.key = {"ab", 2}, .prev = true}, "created@0 ab=1@1 ab=4@4(1) -ab@5(4) ab=@6"},
        {{.key = {"ab", 2}, .no_puts = true}, "created@0 -ab@5"},
        {{.key = {"ab", 2}, .no_deletes = true}, "created@0 ab=1@1 ab=4@4 ab=@6"},
    };
    struct recorder_start s = recorder_begin(&server);
    struct recorder *recorders[WATCHES];
    for (int i = 0; i < WATCHES; i++)
        recorders[i] = recorder_watch(s.etcd, &watches[i].config, s.base);
    for (int i = 0; i < WATCHES; i++)
        recorder_created(recorders[i]);
    tools_put(s.etcd, "ab", "1");
    tools_put(s.etcd, "ac", "2");
    tools_put(s.etcd, "b", "3");
    tools_put(s.etcd, "ab", "4");
    recorder_delete(s.etcd, "ab");
    recorder_delete(s.etcd, "ab"); /* deletes nothing: no event */
    tools_put(s.etcd, "ab", "");
    for (int i = 0; i < WATCHES; i++)
        recorder_is(recorders[i], watches[i].text);
    const struct etcd_delete everything = {.prefix = true};
    CHECK_STATUS(etcd_delete(s.etcd, &everything, NULL, NULL), ETCD_OK);
    recorder_has(recorders[UNDER_PREFIX], " -ab@7 -ac@7");
}

static void past_and_future(void) {
    struct recorder_start s = recorder_begin(&server);
    tools_put(s.etcd, "a", "1");
    tools_put(s.etcd, "a", "2");
    tools_put(s.etcd, "a", "3");
    struct etcd_watch_config config = recorder_key("a");
    config.revision = s.base + 2;
    struct recorder *past = recorder_watch(s.etcd, &config, s.base);
    config.revision = s.base + 6;
    struct recorder *future = recorder_watch(s.etcd, &config, s.base);
    config.progress = true;
    struct recorder *told = recorder_watch(s.etcd, &config, s.base);
    recorder_created(future);
    tools_put(s.etcd, "a", "4");
    tools_put(s.etcd, "a", "5");
    tools_put(s.etcd, "a", "6");
    tools_put(s.etcd, "a", "7");
    recorder_is(past, "created@1 a=2@2 a=3@3 a=4@4 a=5@5 a=6@6 a=7@7");
    recorder_is(future, "created@5 a=6@6 a=7@7");
    recorder_is(told, "created@5 a=6@6 a=7@7");
}

static bool has_progressed(void *arg) {
    struct recorder *recorder = arg;
    pthread_mutex_lock(&recorder->mutex);
    bool so = recorder->progress > 1 && recorder->progress_revision - recorder->base >= 2;
    pthread_mutex_unlock(&recorder->mutex);
    return so;
}

/* Only a watch that requested progress gets it; progress moves the revision where the watch resumes. */
static void progress_notifications(void) {
    struct recorder_start s = recorder_begin(&server);
    struct etcd_watch_config config = recorder_key("quiet");
    struct recorder *silent = recorder_watch(s.etcd, &config, s.base);
    config.progress = true;
    struct recorder *told = recorder_watch(s.etcd, &config, s.base);
    recorder_created(told);
    tools_put(s.etcd, "a", "1");
    tools_put(s.etcd, "a", "2");
    CHECK(harness_wait(has_progressed, told, PATIENCE_MS));
    CHECK_INT(told->progress_revision, s.base + 2);
    CHECK_INT(silent->progress, 0);
    CHECK_INT(told->events, 0);
}

/* Waits until the server has so many watches. */
static bool are_watched(void *arg) {
    return recorder_metric(&server, "etcd_debugging_mvcc_watcher_total") == *(int *)arg;
}

static void thousand_watches(void) {
    enum { WATCHES = 1000, A_TXN = 100 };
    struct recorder_start s = recorder_begin(&server);
    static struct recorder *recorder[WATCHES];
    for (int i = 0; i < WATCHES; i++)
        recorder[i] = recorder_watch_key(s.etcd, harness_format("many/%d", i), s.base);
    for (int i = 0; i < WATCHES; i++)
        recorder_created(recorder[i]);
    for (int round = 1; round <= 2; round++) {
        for (int from = 0; from < WATCHES; from += A_TXN) {
            struct etcd_op ops[A_TXN];
            for (int i = 0; i < A_TXN; i++) {
                const char *key = harness_format("many/%d", from + i);
                ops[i] =
                    (struct etcd_op){ETCD_PUT, .put = {.key = etcd_text(key), .value = etcd_text(key + 5)}};
            }
            const struct etcd_txn txn = {.then = ops, .then_count = A_TXN};
            CHECK_STATUS(etcd_txn(s.etcd, &txn, NULL, NULL), ETCD_OK);
        }
        for (int i = 0; i < WATCHES; i++) {
            const char *text = harness_format("created@0 many/%d=%d@%d", i, i, 1 + i / A_TXN);
            if (round == 2 && i % 2 == 0) /* the watches that are not cancelled */
                text = harness_format("%s many/%d=%d@%d", text, i, i, 11 + i / A_TXN);
            recorder_has(recorder[i], text);
            CHECK_STR(recorder[i]->text, text);
        }
        for (int i = 1; round == 1 && i < WATCHES; i += 2)
            recorder_cancel(recorder[i]);
        int left = round == 1 ? WATCHES / 2 : 0;
        for (int i = 0; round == 2 && i < WATCHES; i += 2)
            recorder_cancel(recorder[i]);
        CHECK(harness_wait(are_watched, &left, PATIENCE_MS));
    }
}

/* A batch of the server's loop for past events, too large for one message. */
static void fragments_are_joined(void) {
    enum { PUTS = 40 };
    static const char sent[] = "grpc_server_msg_sent_total{grpc_method=\"Watch\"";
    struct recorder_start s = recorder_begin(&server);
    const char *large = harness_repeat('x', 100000);
    for (int i = 0; i < PUTS; i++)
        tools_put(s.etcd, "large", large);
    struct etcd_watch_config config = recorder_key("large");
    config.revision = s.base + 1;
    int64_t before = recorder_metric(&server, sent);
    CHECK(before >= 0);
    struct recorder *whole = recorder_watch(s.etcd, &config, s.base);
    recorder_has(whole, harness_format("@%d", PUTS));
    CHECK_INT(recorder_metric(&server, sent) - before, 2);
    config.fragment = true;
    before = recorder_metric(&server, sent);
    struct recorder *fragment = recorder_watch(s.etcd, &config, s.base);
    recorder_has(fragment, harness_format("@%d", PUTS));
    int64_t messages = recorder_metric(&server, sent) - before;
    if (messages < 3)
        FAIL("%d messages are no fragments", (int)messages);
    CHECK_STR(fragment->text, whole->text);
    CHECK_INT(fragment->calls, 2); /* created; all of the events */
    tools_put(s.etcd, "large", "small");
    recorder_has(fragment, harness_format("large=small@%d", PUTS + 1));
    CHECK_INT(fragment->events, PUTS + 1);
}

/* ---- the end of a watch ---- */

static void compaction_ends_watch(void) {
    struct recorder_start s = recorder_begin(&server);
    for (int i = 0; i < 5; i++)
        tools_put(s.etcd, "a", "1");
    CHECK_STATUS(etcd_compact(s.etcd, s.base + 4, true, NULL), ETCD_OK);
    struct etcd_watch_config config = recorder_key("a");
    config.revision = s.base + 3;
    struct recorder *late = recorder_watch(s.etcd, &config, s.base);
    config.revision = s.base + 4;
    struct recorder *just = recorder_watch(s.etcd, &config, s.base);
    recorder_is(late, "created@2 compacted@4");
    recorder_is(just, "created@3 a=1@4 a=1@5");
    tools_put(s.etcd, "a", "2");
    recorder_is(just, "created@3 a=1@4 a=1@5 a=2@6");
    recorder_is(late, "created@2 compacted@4"); /* it is over */
    recorder_cancel(late);
    recorder_cancel(just);
}

static void an_empty_range_is_refused(void) {
    struct recorder_start s = recorder_begin(&server);
    struct etcd_watch_config config = {.key = etcd_text("b"), .end = etcd_text("a")};
    struct recorder *before = recorder_watch_key(s.etcd, "c", s.base);
    struct recorder *empty = recorder_watch(s.etcd, &config, s.base);
    struct recorder *after = recorder_watch_key(s.etcd, "c", s.base);
    recorder_is(empty, harness_format("ended:%s", etcd_status_text(ETCD_INVALID)));
    tools_put(s.etcd, "c", "1");
    recorder_is(before, "created@0 c=1@1");
    recorder_is(after, "created@0 c=1@1");
    recorder_cancel(empty);
}

/* Also for a client that was opened before authentication was on: it has no token, and logs in. */
static void permissions_of_users(void) {
    struct etcd_server own;
    etcd_start(&own, "--bcrypt-cost", "4", NULL);
    tools_add_users(&own);
    struct etcd *early = tools_open_as(&own, "bob", "bobpw");
    int64_t base = recorder_revision(early);
    struct recorder *before = recorder_watch_key(early, "b/a", base);
    recorder_created(before);
    tools_enable_auth(&own);
    struct etcd *alice = tools_open_as(&own, "alice", "secret-word"),
                *bob = tools_open_as(&own, "bob", "bobpw");
    struct recorder *told[] = {before, recorder_watch_key(early, "b/a", base),
                               recorder_watch_key(bob, "b/a", base)};
    struct recorder *denied[] = {recorder_watch_key(bob, "r/a", base), recorder_watch_key(early, "r/a", base),
                                 recorder_watch_key(tools_open(&own, 1), "b/a", base)};
    for (int i = 0; i < 3; i++) {
        recorder_created(told[i]);
        recorder_is(denied[i], "ended:denied");
    }
    tools_put(alice, "r/a", "1");
    tools_put(alice, "b/a", "2");
    for (int i = 0; i < 3; i++)
        recorder_has(told[i], "b/a=2@2");
    CHECK_INT(before->events, 1);
    recorder_is(denied[0], "ended:denied");
}

/* ---- cancelled and started while events arrive ---- */

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
        etcd_start(&server, "--experimental-watch-progress-notify-interval", "200ms", NULL);
    harness_run("events for each change", events_for_each_change);
    harness_run("start at a past or future revision", past_and_future);
    harness_run("progress notifications", progress_notifications);
    harness_run("a thousand watches of one client", thousand_watches);
    harness_run("fragments are joined", fragments_are_joined);
    harness_run("a compaction ends the watch", compaction_ends_watch);
    harness_run("an empty range is refused", an_empty_range_is_refused);
    harness_run("permissions of users", permissions_of_users);
    harness_run("cancelled while events arrive", cancel_while_events_arrive);
    harness_run("cancelling waits for the callback", cancelling_waits_for_the_callback);
    harness_run("cancelled from callbacks", cancel_from_callbacks);
    harness_run("started from a callback", start_from_callback);
    harness_run("client closed while events arrive", close_while_events_arrive);
    return harness_finish();
}
