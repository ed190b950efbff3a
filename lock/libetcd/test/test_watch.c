/* Watches on one server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/libetcd/test/recorder.h"

static struct etcd_server server; /* reports progress every 200 ms */

/* Set up by each test. */
struct start {
    struct etcd *etcd;
    int64_t base; /* the store's revision */
};

static struct start begin(void) {
    struct start start = {.etcd = tools_open(&server, 1)};
    start.base = recorder_revision(start.etcd);
    return start;
}

/* ---- events ---- */

static void events_for_each_change(void) {
    struct start s = begin();
    struct recorder *of_key =
        recorder_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("ab")}, s.base);
    struct recorder *under_prefix =
        recorder_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("a"), .prefix = true}, s.base);
    struct recorder *in_range = recorder_watch(
        s.etcd, &(struct etcd_watch_config){.key = etcd_text("aa"), .end = etcd_text("ac")}, s.base);
    struct recorder *with_prev =
        recorder_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("ab"), .prev = true}, s.base);
    struct recorder *only_deletes =
        recorder_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("ab"), .no_puts = true}, s.base);
    struct recorder *only_puts = recorder_watch(
        s.etcd, &(struct etcd_watch_config){.key = etcd_text("ab"), .no_deletes = true}, s.base);
    struct recorder *const all[] = {of_key, under_prefix, in_range, with_prev, only_deletes, only_puts, NULL};
    for (size_t i = 0; all[i]; i++)
        recorder_created(all[i]);
    tools_put(s.etcd, "ab", "1");
    tools_put(s.etcd, "ac", "2");
    tools_put(s.etcd, "b", "3");
    tools_put(s.etcd, "ab", "4");
    recorder_delete(s.etcd, "ab");
    recorder_delete(s.etcd, "ab"); /* deletes nothing: no event */
    tools_put(s.etcd, "ab", "");
    recorder_is(of_key, "created@0 ab=1@1 ab=4@4 -ab@5 ab=@6");
    recorder_is(under_prefix, "created@0 ab=1@1 ac=2@2 ab=4@4 -ab@5 ab=@6");
    recorder_is(in_range, "created@0 ab=1@1 ab=4@4 -ab@5 ab=@6");
    recorder_is(with_prev, "created@0 ab=1@1 ab=4@4(1) -ab@5(4) ab=@6");
    recorder_is(only_deletes, "created@0 -ab@5");
    recorder_is(only_puts, "created@0 ab=1@1 ab=4@4 ab=@6");
    const struct etcd_delete everything = {.prefix = true};
    CHECK_STATUS(etcd_delete(s.etcd, &everything, NULL, NULL), ETCD_OK);
    recorder_has(under_prefix, " -ab@7 -ac@7");
}

static void past_and_future(void) {
    struct start s = begin();
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
    struct start s = begin();
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
    struct start s = begin();
    static struct recorder *recorder[WATCHES];
    for (int i = 0; i < WATCHES; i++) {
        struct etcd_watch_config config = recorder_key(harness_format("many/%d", i));
        recorder[i] = recorder_watch(s.etcd, &config, s.base);
    }
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
    struct start s = begin();
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
    struct start s = begin();
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
    struct start s = begin();
    struct etcd_watch_config config = {.key = etcd_text("b"), .end = etcd_text("a")};
    struct recorder *before =
        recorder_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("c")}, s.base);
    struct recorder *empty = recorder_watch(s.etcd, &config, s.base);
    struct recorder *after =
        recorder_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("c")}, s.base);
    recorder_is(empty, harness_format("ended:%s", etcd_status_text(ETCD_INVALID)));
    tools_put(s.etcd, "c", "1");
    recorder_is(before, "created@0 c=1@1");
    recorder_is(after, "created@0 c=1@1");
    recorder_cancel(empty);
}

/* The user u may read what begins with "u/", root everything. */
static void enable_auth(const struct etcd_server *etcd) {
    static const char *const steps[][6] = {
        {"user", "add", "root:r"},
        {"user", "grant-role", "root", "root"},
        {"user", "add", "u:u"},
        {"role", "add", "reader"},
        {"role", "grant-permission", "reader", "read", "u/", "u0"},
        {"user", "grant-role", "u", "reader"},
        {"auth", "enable"},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const char *const *s = steps[i];
        const char *said = etcd_command(etcd, s[0], s[1], s[2], s[3], s[4], s[5], NULL);
        if (strstr(said, "Error"))
            FAIL("%s %s: %s", s[0], s[1], said);
    }
}

static struct etcd *open_as(const struct etcd_server *etcd, const char *user, const char *password) {
    const struct etcd_config config = {
        .endpoints = tools_endpoints(etcd, 1), .user = user, .password = password, .timeout_ms = PATIENCE_MS};
    return tools_open_config(&config);
}

/* Also for a client that was opened before authentication was on: it has no token, and logs in. */
static void permissions_of_users(void) {
    struct etcd_server own;
    etcd_start(&own, NULL);
    struct etcd *early = open_as(&own, "u", "u");
    int64_t base = recorder_revision(early);
    struct etcd_watch_config mine = recorder_key("u/a"), not_mine = recorder_key("r/a");
    struct recorder *before = recorder_watch(early, &mine, base);
    recorder_created(before);
    enable_auth(&own);
    struct etcd *root = open_as(&own, "root", "r"), *user = open_as(&own, "u", "u");
    struct recorder *after = recorder_watch(early, &mine, base);
    struct recorder *allowed = recorder_watch(user, &mine, base);
    struct recorder *denied = recorder_watch(user, &not_mine, base);
    struct recorder *early_denied = recorder_watch(early, &not_mine, base);
    struct recorder *nobody = recorder_watch(tools_open(&own, 1), &mine, base);
    recorder_created(after);
    recorder_created(allowed);
    const char *ended = harness_format("ended:%s", etcd_status_text(ETCD_DENIED));
    recorder_is(denied, ended);
    recorder_is(early_denied, ended);
    recorder_is(nobody, ended);
    tools_put(root, "r/a", "1");
    tools_put(root, "u/a", "2");
    recorder_has(before, "u/a=2@2");
    recorder_has(after, "u/a=2@2");
    recorder_has(allowed, "u/a=2@2");
    CHECK_INT(before->events, 1);
    recorder_is(denied, ended);
}

/* Only on request (SECKILL_ETCD_MINUTES): the server accepts the pings of an idle client. */
static int minutes;

static void no_events_for_minutes(void) {
    struct start s = begin();
    struct etcd_watch_config config = recorder_key("quiet");
    struct recorder *recorder = recorder_watch(s.etcd, &config, s.base);
    recorder_created(recorder);
    harness_pause_ms(minutes * 60000);
    tools_put(s.etcd, "quiet", "1");
    recorder_is(recorder, "created@0 quiet=1@1");
}

int main(int argc, char **argv) {
    const char *given = getenv("SECKILL_ETCD_MINUTES");
    minutes = given ? (int)strtol(given, NULL, 10) : 0;
    harness_begin(argc, argv);
    if (minutes)
        harness_limit(240 + 60 * (unsigned)minutes);
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
    if (minutes)
        harness_run("no events for minutes", no_events_for_minutes);
    return harness_finish();
}
