/* Watches on one server: what they tell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/libetcd/test/seen.h"

static struct etcd_server server; /* tells progress every 200 ms */

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

/* ---- what is told ---- */

static void tells_what_changes(void) {
    struct start s = begin();
    struct seen *of_key = seen_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("ab")}, s.base);
    struct seen *under_prefix =
        seen_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("a"), .prefix = true}, s.base);
    struct seen *in_range = seen_watch(
        s.etcd, &(struct etcd_watch_config){.key = etcd_text("aa"), .end = etcd_text("ac")}, s.base);
    struct seen *with_prev =
        seen_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("ab"), .prev = true}, s.base);
    struct seen *only_deletes =
        seen_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("ab"), .no_puts = true}, s.base);
    struct seen *only_puts =
        seen_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("ab"), .no_deletes = true}, s.base);
    struct seen *const all[] = {of_key, under_prefix, in_range, with_prev, only_deletes, only_puts, NULL};
    for (size_t i = 0; all[i]; i++)
        seen_created(all[i]);
    tools_put(s.etcd, "ab", "1");
    tools_put(s.etcd, "ac", "2");
    tools_put(s.etcd, "b", "3");
    tools_put(s.etcd, "ab", "4");
    seen_delete(s.etcd, "ab");
    seen_delete(s.etcd, "ab"); /* of nothing: no event */
    tools_put(s.etcd, "ab", "");
    seen_is(of_key, "created@0 ab=1@1 ab=4@4 -ab@5 ab=@6");
    seen_is(under_prefix, "created@0 ab=1@1 ac=2@2 ab=4@4 -ab@5 ab=@6");
    seen_is(in_range, "created@0 ab=1@1 ab=4@4 -ab@5 ab=@6");
    seen_is(with_prev, "created@0 ab=1@1 ab=4@4(1) -ab@5(4) ab=@6");
    seen_is(only_deletes, "created@0 -ab@5");
    seen_is(only_puts, "created@0 ab=1@1 ab=4@4 ab=@6");
    const struct etcd_delete everything = {.prefix = true};
    CHECK_STATUS(etcd_delete(s.etcd, &everything, NULL, NULL), ETCD_OK);
    seen_has(under_prefix, " -ab@7 -ac@7");
}

static void past_and_future(void) {
    struct start s = begin();
    tools_put(s.etcd, "a", "1");
    tools_put(s.etcd, "a", "2");
    tools_put(s.etcd, "a", "3");
    struct etcd_watch_config config = seen_key("a");
    config.revision = s.base + 2;
    struct seen *past = seen_watch(s.etcd, &config, s.base);
    config.revision = s.base + 6;
    struct seen *future = seen_watch(s.etcd, &config, s.base);
    config.progress = true;
    struct seen *told = seen_watch(s.etcd, &config, s.base);
    seen_created(future);
    tools_put(s.etcd, "a", "4");
    tools_put(s.etcd, "a", "5");
    tools_put(s.etcd, "a", "6");
    tools_put(s.etcd, "a", "7");
    seen_is(past, "created@1 a=2@2 a=3@3 a=4@4 a=5@5 a=6@6 a=7@7");
    seen_is(future, "created@5 a=6@6 a=7@7");
    seen_is(told, "created@5 a=6@6 a=7@7");
}

static bool has_progressed(void *arg) {
    struct seen *seen = arg;
    pthread_mutex_lock(&seen->mutex);
    bool so = seen->progress > 1 && seen->progress_revision - seen->base >= 2;
    pthread_mutex_unlock(&seen->mutex);
    return so;
}

/* Progress is told to who asked for it, and moves the place where a watch is resumed. */
static void tells_progress(void) {
    struct start s = begin();
    struct etcd_watch_config config = seen_key("quiet");
    struct seen *silent = seen_watch(s.etcd, &config, s.base);
    config.progress = true;
    struct seen *told = seen_watch(s.etcd, &config, s.base);
    seen_created(told);
    tools_put(s.etcd, "a", "1");
    tools_put(s.etcd, "a", "2");
    CHECK(harness_wait(has_progressed, told, PATIENCE_MS));
    CHECK_INT(told->progress_revision, s.base + 2);
    CHECK_INT(silent->progress, 0);
    CHECK_INT(told->events, 0);
}

/* So many watches are on the server. */
static bool are_watched(void *arg) {
    return seen_metric(&server, "etcd_debugging_mvcc_watcher_total") == *(int *)arg;
}

static void a_thousand_of_one_client(void) {
    enum { WATCHES = 1000, A_TXN = 100 };
    struct start s = begin();
    static struct seen *seen[WATCHES];
    for (int i = 0; i < WATCHES; i++) {
        struct etcd_watch_config config = seen_key(harness_format("many/%d", i));
        seen[i] = seen_watch(s.etcd, &config, s.base);
    }
    for (int i = 0; i < WATCHES; i++)
        seen_created(seen[i]);
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
            if (round == 2 && i % 2 == 0) /* those that are not cancelled */
                text = harness_format("%s many/%d=%d@%d", text, i, i, 11 + i / A_TXN);
            seen_has(seen[i], text);
            CHECK_STR(seen[i]->text, text);
        }
        for (int i = 1; round == 1 && i < WATCHES; i += 2)
            seen_cancel(seen[i]);
        int left = round == 1 ? WATCHES / 2 : 0;
        for (int i = 0; round == 2 && i < WATCHES; i += 2)
            seen_cancel(seen[i]);
        CHECK(harness_wait(are_watched, &left, PATIENCE_MS));
    }
}

/* A batch of the server's loop for what is past, too large for one message. */
static void fragments_are_put_together(void) {
    enum { PUTS = 40 };
    static const char sent[] = "grpc_server_msg_sent_total{grpc_method=\"Watch\"";
    struct start s = begin();
    const char *large = harness_repeat('x', 100000);
    for (int i = 0; i < PUTS; i++)
        tools_put(s.etcd, "large", large);
    struct etcd_watch_config config = seen_key("large");
    config.revision = s.base + 1;
    int64_t before = seen_metric(&server, sent);
    CHECK(before >= 0);
    struct seen *whole = seen_watch(s.etcd, &config, s.base);
    seen_has(whole, harness_format("@%d", PUTS));
    CHECK_INT(seen_metric(&server, sent) - before, 2);
    config.fragment = true;
    before = seen_metric(&server, sent);
    struct seen *fragment = seen_watch(s.etcd, &config, s.base);
    seen_has(fragment, harness_format("@%d", PUTS));
    int64_t messages = seen_metric(&server, sent) - before;
    if (messages < 3)
        FAIL("%d messages are no fragments", (int)messages);
    CHECK_STR(fragment->text, whole->text);
    CHECK_INT(fragment->calls, 2); /* created; all of the events */
    tools_put(s.etcd, "large", "small");
    seen_has(fragment, harness_format("large=small@%d", PUTS + 1));
    CHECK_INT(fragment->events, PUTS + 1);
}

/* ---- how they end ---- */

static void ends_where_compacted(void) {
    struct start s = begin();
    for (int i = 0; i < 5; i++)
        tools_put(s.etcd, "a", "1");
    CHECK_STATUS(etcd_compact(s.etcd, s.base + 4, true, NULL), ETCD_OK);
    struct etcd_watch_config config = seen_key("a");
    config.revision = s.base + 3;
    struct seen *late = seen_watch(s.etcd, &config, s.base);
    config.revision = s.base + 4;
    struct seen *just = seen_watch(s.etcd, &config, s.base);
    seen_is(late, "created@2 compacted@4");
    seen_is(just, "created@3 a=1@4 a=1@5");
    tools_put(s.etcd, "a", "2");
    seen_is(just, "created@3 a=1@4 a=1@5 a=2@6");
    seen_is(late, "created@2 compacted@4"); /* it is over */
    seen_cancel(late);
    seen_cancel(just);
}

static void an_empty_range_is_refused(void) {
    struct start s = begin();
    struct etcd_watch_config config = {.key = etcd_text("b"), .end = etcd_text("a")};
    struct seen *before = seen_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("c")}, s.base);
    struct seen *empty = seen_watch(s.etcd, &config, s.base);
    struct seen *after = seen_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("c")}, s.base);
    seen_is(empty, harness_format("ended:%s", etcd_status_text(ETCD_INVALID)));
    tools_put(s.etcd, "c", "1");
    seen_is(before, "created@0 c=1@1");
    seen_is(after, "created@0 c=1@1");
    seen_cancel(empty);
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

/* Also of a client that was there before anybody needed a user: it had no token, and gets one. */
static void users_see_what_they_may(void) {
    struct etcd_server own;
    etcd_start(&own, NULL);
    struct etcd *early = open_as(&own, "u", "u");
    int64_t base = seen_revision(early);
    struct etcd_watch_config mine = seen_key("u/a"), not_mine = seen_key("r/a");
    struct seen *before = seen_watch(early, &mine, base);
    seen_created(before);
    enable_auth(&own);
    struct etcd *root = open_as(&own, "root", "r"), *user = open_as(&own, "u", "u");
    struct seen *after = seen_watch(early, &mine, base);
    struct seen *allowed = seen_watch(user, &mine, base);
    struct seen *denied = seen_watch(user, &not_mine, base);
    struct seen *early_denied = seen_watch(early, &not_mine, base);
    struct seen *nobody = seen_watch(tools_open(&own, 1), &mine, base);
    seen_created(after);
    seen_created(allowed);
    const char *ended = harness_format("ended:%s", etcd_status_text(ETCD_DENIED));
    seen_is(denied, ended);
    seen_is(early_denied, ended);
    seen_is(nobody, ended);
    tools_put(root, "r/a", "1");
    tools_put(root, "u/a", "2");
    seen_has(before, "u/a=2@2");
    seen_has(after, "u/a=2@2");
    seen_has(allowed, "u/a=2@2");
    CHECK_INT(before->events, 1);
    seen_is(denied, ended);
}

/* For a campaign: the pings of a client that hears and says nothing are not too many for the server. */
static int minutes;

static void quiet_for_minutes(void) {
    struct start s = begin();
    struct etcd_watch_config config = seen_key("quiet");
    struct seen *seen = seen_watch(s.etcd, &config, s.base);
    seen_created(seen);
    harness_pause_ms(minutes * 60000);
    tools_put(s.etcd, "quiet", "1");
    seen_is(seen, "created@0 quiet=1@1");
}

int main(int argc, char **argv) {
    const char *given = getenv("SECKILL_ETCD_MINUTES");
    minutes = given ? (int)strtol(given, NULL, 10) : 0;
    harness_begin(argc, argv);
    if (minutes)
        harness_limit(240 + 60 * (unsigned)minutes);
    if (*harness_dir())
        etcd_start(&server, "--experimental-watch-progress-notify-interval", "200ms", NULL);
    harness_run("tells what changes", tells_what_changes);
    harness_run("from the past and from the future", past_and_future);
    harness_run("tells progress", tells_progress);
    harness_run("a thousand of one client", a_thousand_of_one_client);
    harness_run("fragments are put together", fragments_are_put_together);
    harness_run("ends where the store was compacted", ends_where_compacted);
    harness_run("an empty range is refused", an_empty_range_is_refused);
    harness_run("users see what they may", users_see_what_they_may);
    if (minutes)
        harness_run("quiet for minutes", quiet_for_minutes);
    return harness_finish();
}
