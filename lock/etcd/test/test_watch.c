/* Watches on one server: what they tell, and how they end. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/etcd/test/seen.h"

static struct etcd_server server; /* tells progress every 200 ms */

static struct etcd_watch_config one(const char *key) {
    return (struct etcd_watch_config){.key = etcd_text(key)};
}

static int64_t revision_of(struct etcd *etcd) {
    struct etcd_reply *reply = NULL;
    const struct etcd_range range = {.key = etcd_text("-"), .count_only = true};
    CHECK_STATUS(etcd_range(etcd, &range, NULL, &reply), ETCD_OK);
    int64_t revision = reply->revision;
    etcd_reply_free(reply);
    return revision;
}

static void delete (struct etcd *etcd, const char *key) {
    const struct etcd_delete del = {.key = etcd_text(key)};
    CHECK_STATUS(etcd_delete(etcd, &del, NULL, NULL), ETCD_OK);
}

/* What each test begins with. */
struct start {
    struct etcd *etcd;
    int64_t base; /* the store's revision */
};

static struct start begin(void) {
    struct start start = {.etcd = tools_open(&server, 1)};
    start.base = revision_of(start.etcd);
    return start;
}

/* ---- what is told ---- */

static void tells_what_changes(void) {
    struct start s = begin();
    struct seen *key = seen_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("ab")}, s.base);
    struct seen *prefix =
        seen_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("a"), .prefix = true}, s.base);
    struct seen *range = seen_watch(
        s.etcd, &(struct etcd_watch_config){.key = etcd_text("aa"), .end = etcd_text("ac")}, s.base);
    struct seen *prev =
        seen_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("ab"), .prev = true}, s.base);
    struct seen *no_puts =
        seen_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("ab"), .no_puts = true}, s.base);
    struct seen *no_deletes =
        seen_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("ab"), .no_deletes = true}, s.base);
    struct seen *all[] = {key, prefix, range, prev, no_puts, no_deletes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        seen_created(all[i]);
    tools_put(s.etcd, "ab", "1");
    tools_put(s.etcd, "ac", "2");
    tools_put(s.etcd, "b", "3");
    tools_put(s.etcd, "ab", "4");
    delete (s.etcd, "ab");
    delete (s.etcd, "ab"); /* of nothing: no event */
    tools_put(s.etcd, "ab", "");
    seen_is(key, "created@0 ab=1@1 ab=4@4 -ab@5 ab=@6");
    seen_is(prefix, "created@0 ab=1@1 ac=2@2 ab=4@4 -ab@5 ab=@6");
    seen_is(range, "created@0 ab=1@1 ab=4@4 -ab@5 ab=@6");
    seen_is(prev, "created@0 ab=1@1 ab=4@4(1) -ab@5(4) ab=@6");
    seen_is(no_puts, "created@0 -ab@5");
    seen_is(no_deletes, "created@0 ab=1@1 ab=4@4 ab=@6");
    const struct etcd_delete everything = {.prefix = true};
    CHECK_STATUS(etcd_delete(s.etcd, &everything, NULL, NULL), ETCD_OK);
    seen_has(prefix, " -ab@7 -ac@7");
}

static void past_and_future(void) {
    struct start s = begin();
    tools_put(s.etcd, "a", "1");
    tools_put(s.etcd, "a", "2");
    tools_put(s.etcd, "a", "3");
    struct etcd_watch_config config = one("a");
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
    struct etcd_watch_config config = one("quiet");
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

static void a_thousand_of_one_client(void) {
    enum { WATCHES = 1000, A_TXN = 100 };
    struct start s = begin();
    static struct seen *seen[WATCHES];
    for (int i = 0; i < WATCHES; i++) {
        struct etcd_watch_config config = one(harness_format("many/%d", i));
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
    struct etcd_watch_config config = one("large");
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
    struct etcd_watch_config config = one("a");
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
    int64_t base = revision_of(early);
    struct etcd_watch_config mine = one("u/a"), not_mine = one("r/a");
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

/* ---- cancelling ---- */

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
        struct etcd_watch_config config = one("busy");
        struct seen *seen = seen_watch(s.etcd, &config, s.base);
        seen->then = dawdle;
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
    struct etcd_watch_config config = one("a");
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
    struct etcd_watch_config config = one("a");
    struct seen *itself = seen_watch(s.etcd, &config, s.base);
    struct seen *other = seen_watch(s.etcd, &config, s.base);
    struct seen *canceller = seen_watch(s.etcd, &config, s.base);
    seen_created(itself);
    seen_created(other);
    itself->then = cancel_itself;
    canceller->arg = other;
    canceller->then = cancel_the_other;
    tools_put(s.etcd, "a", "1");
    tools_put(s.etcd, "a", "2");
    seen_is(canceller, "created@0 a=1@1 a=2@2");
    seen_is(itself, "created@0 a=1@1");
    config.revision = 0;
    config.end = etcd_text("");
    struct seen *ended =
        seen_watch(s.etcd, &(struct etcd_watch_config){.key = etcd_text("b"), .end = etcd_text("a")}, s.base);
    ended->then = cancel_itself_at_once; /* or it has been told already */
    seen_has(ended, "ended:");
}

/* A watch that begins another one, from its callback, which sees what follows. */
static struct etcd *of_callbacks;

static void begin_another(struct seen *seen) {
    if (seen->events != 1 || seen->arg)
        return;
    struct etcd_watch_config config = one("second");
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
    struct etcd_watch_config config = one("first");
    struct seen *first = seen_watch(s.etcd, &config, s.base);
    of_callbacks = s.etcd;
    first->then = begin_another;
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
            struct etcd_watch_config watch = one("busy");
            seen[j] = seen_watch(etcd, &watch, 0);
            seen[j]->then = dawdle;
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

/* ---- a server that comes and goes ---- */

static void begun_before_the_server(void) {
    struct etcd_server later;
    etcd_start(&later, NULL);
    etcd_kill(&later);
    struct etcd *etcd = tools_open(&later, 1);
    struct etcd_watch_config config = one("a");
    struct seen *seen = seen_watch(etcd, &config, 1);
    struct seen *cancelled = seen_watch(etcd, &config, 1);
    harness_pause_ms(20);
    seen_cancel(cancelled);
    CHECK_INT(seen->calls, 0);
    etcd_restart(&later);
    seen_created(seen);
    tools_put(etcd, "a", "1");
    seen_is(seen, "created@0 a=1@1");
}

/* While the loop stands still the server is killed and comes back; then `change` happens, unseen. */
static void miss(struct etcd_server *etcd, struct seen *gate, struct etcd *other,
                 void (*change)(struct etcd *other, int64_t base), int64_t base) {
    seen_hold(gate);
    tools_put(other, "gate", "1");
    seen_wait_held(gate);
    etcd_kill(etcd);
    etcd_restart(etcd);
    change(other, base);
    seen_release(gate);
}

static void change_a(struct etcd *other, int64_t base) {
    (void)base;
    tools_put(other, "a", "2");
    delete (other, "a");
    tools_put(other, "a", "3");
}

static void compact_a(struct etcd *other, int64_t base) {
    change_a(other, base);
    CHECK_STATUS(etcd_compact(other, base + 4, true, NULL), ETCD_OK);
}

static void compact_at_delete(struct etcd *other, int64_t base) {
    delete (other, "a");
    CHECK_STATUS(etcd_compact(other, base + 2, true, NULL), ETCD_OK);
}

struct missing {
    struct etcd_server etcd;
    struct etcd *client, *other;
    int64_t base;
    struct seen *gate, *seen;
};

static void start_missing(struct missing *m) {
    etcd_start(&m->etcd, NULL);
    m->client = tools_open(&m->etcd, 1);
    m->other = tools_open(&m->etcd, 1);
    m->base = revision_of(m->other);
    struct etcd_watch_config config = one("gate");
    m->gate = seen_watch(m->client, &config, m->base);
    config = one("a");
    config.prev = true;
    m->seen = seen_watch(m->client, &config, m->base);
    seen_created(m->gate);
    seen_created(m->seen);
    tools_put(m->other, "a", "1");
    seen_is(m->seen, "created@0 a=1@1");
}

static void resumed_after_a_kill(void) {
    struct missing m;
    start_missing(&m);
    miss(&m.etcd, m.gate, m.other, change_a, m.base);
    seen_is(m.seen, "created@0 a=1@1 created@1 a=2@3(1) -a@4(2) a=3@5");
    seen_is(m.gate, "created@0 gate=1@2 created@2");
}

static void compacted_meanwhile(void) {
    struct missing m;
    start_missing(&m);
    miss(&m.etcd, m.gate, m.other, compact_a, m.base);
    seen_is(m.seen, "created@0 a=1@1 created@1 compacted@4");
    tools_put(m.other, "a", "4");
    struct etcd_watch_config config = one("a");
    config.revision = m.base + 4;
    struct seen *again = seen_watch(m.client, &config, m.base);
    seen_has(again, "a=4@6");
}

/* Servers of 3.4 forget a deletion that was made at the very revision that is compacted, and say nothing.
 * Such a watch, which would wait for it forever, is told instead. */
static void compacted_at_what_is_next(void) {
    struct etcd_server own;
    etcd_start(&own, NULL);
    struct etcd *client = tools_open(&own, 1), *other = tools_open(&own, 1);
    int64_t base = tools_put(other, "a", "0");
    struct etcd_watch_config config = {.prefix = true};
    struct seen *seen = seen_watch(client, &config, base);
    seen_created(seen);
    miss(&own, seen, other, compact_at_delete, base);
    seen_is(seen, "created@0 gate=1@1 created@1 compacted@2");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
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
    harness_run("cancelled while events come", cancel_while_they_come);
    harness_run("cancelling waits for the callback", cancelling_waits_for_the_callback);
    harness_run("cancelled from callbacks", cancel_from_callbacks);
    harness_run("begun from a callback", begin_from_a_callback);
    harness_run("closed while events come", close_while_they_come);
    harness_run("begun before the server", begun_before_the_server);
    harness_run("resumed after a kill", resumed_after_a_kill);
    harness_run("compacted meanwhile", compacted_meanwhile);
    harness_run("compacted at what is next", compacted_at_what_is_next);
    return harness_finish();
}
