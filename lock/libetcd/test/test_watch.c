/* Watches on one server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    return harness_finish();
}
