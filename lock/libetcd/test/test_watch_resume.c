/* Watches of a server that restarts. */
#include <string.h>

#include "lock/libetcd/test/recorder.h"

static void started_before_server(void) {
    struct etcd_server later;
    etcd_start(&later, NULL);
    etcd_kill(&later);
    struct etcd *etcd = tools_open(&later, 1);
    struct recorder *recorder = recorder_watch_key(etcd, "a", 1);
    struct recorder *cancelled = recorder_watch_key(etcd, "a", 1);
    harness_pause_ms(20);
    recorder_cancel(cancelled);
    CHECK_INT(recorder->calls, 0);
    etcd_restart(&later);
    recorder_created(recorder);
    tools_put(etcd, "a", "1");
    recorder_is(recorder, "created@0 a=1@1");
}

/* While the loop is blocked, the server is killed and restarted; then `change` happens without the watch. */
static void miss(struct etcd_server *etcd, struct recorder *gate, struct etcd *other,
                 void (*change)(struct etcd *other, int64_t base), int64_t base) {
    recorder_hold(gate);
    tools_put(other, "gate", "1");
    recorder_wait_held(gate);
    etcd_kill(etcd);
    etcd_restart(etcd);
    change(other, base);
    recorder_release(gate);
}

static void change_a(struct etcd *other, int64_t base) {
    (void)base;
    tools_put(other, "a", "2");
    recorder_delete(other, "a");
    tools_put(other, "a", "3");
}

static void compact_a(struct etcd *other, int64_t base) {
    change_a(other, base);
    CHECK_STATUS(etcd_compact(other, base + 4, true, NULL), ETCD_OK);
}

static void compact_at_delete(struct etcd *other, int64_t base) {
    recorder_delete(other, "a");
    CHECK_STATUS(etcd_compact(other, base + 2, true, NULL), ETCD_OK);
}

struct missing {
    struct etcd_server etcd;
    struct etcd *client, *other;
    int64_t base;
    struct recorder *gate, *recorder;
};

static void start_missing(struct missing *m) {
    etcd_start(&m->etcd, NULL);
    m->client = tools_open(&m->etcd, 1);
    m->other = tools_open(&m->etcd, 1);
    m->base = recorder_revision(m->other);
    struct etcd_watch_config config = recorder_key("a");
    config.prev = true;
    m->gate = recorder_watch_key(m->client, "gate", m->base);
    m->recorder = recorder_watch(m->client, &config, m->base);
    recorder_created(m->gate);
    recorder_created(m->recorder);
    tools_put(m->other, "a", "1");
    recorder_is(m->recorder, "created@0 a=1@1");
}

static void resumed_after_a_kill(void) {
    struct missing m;
    start_missing(&m);
    miss(&m.etcd, m.gate, m.other, change_a, m.base);
    recorder_is(m.recorder, "created@0 a=1@1 created@1 a=2@3(1) -a@4(2) a=3@5");
    recorder_is(m.gate, "created@0 gate=1@2 created@2");
}

static void compacted_meanwhile(void) {
    struct missing m;
    start_missing(&m);
    miss(&m.etcd, m.gate, m.other, compact_a, m.base);
    recorder_is(m.recorder, "created@0 a=1@1 created@1 compacted@4");
    tools_put(m.other, "a", "4");
    struct etcd_watch_config config = recorder_key("a");
    config.revision = m.base + 4;
    struct recorder *again = recorder_watch(m.client, &config, m.base);
    recorder_has(again, "a=4@6");
    /* A watch that is over is not resumed. */
    etcd_kill(&m.etcd);
    etcd_restart(&m.etcd);
    recorder_has(again, "a=4@6 created@6");
    recorder_is(m.recorder, "created@0 a=1@1 created@1 compacted@4");
}

static void compact_the_first_five(struct etcd *other, int64_t base) {
    CHECK_STATUS(etcd_compact(other, base + 5, true, NULL), ETCD_OK);
    tools_put(other, "quiet", "1");
}

static bool has_progressed_by_five(void *arg) {
    struct recorder *recorder = arg;
    pthread_mutex_lock(&recorder->mutex);
    bool so = recorder->progress_revision >= recorder->base + 5;
    pthread_mutex_unlock(&recorder->mutex);
    return so;
}

/* A compaction costs nothing to a watch that was only told progress. */
static void resumed_after_its_progress(void) {
    struct etcd_server own;
    etcd_start(&own, "--experimental-watch-progress-notify-interval", "100ms", NULL);
    struct etcd *client = tools_open(&own, 1), *other = tools_open(&own, 1);
    int64_t base = recorder_revision(other);
    struct recorder *gate = recorder_watch_key(client, "gate", base);
    struct recorder *no_progress = recorder_watch_key(client, "quiet", base);
    struct etcd_watch_config config = recorder_key("quiet");
    config.progress = true;
    struct recorder *quiet = recorder_watch(client, &config, base);
    recorder_created(quiet);
    for (int i = 0; i < 5; i++)
        tools_put(other, "a", "1");
    CHECK(harness_wait(has_progressed_by_five, quiet, PATIENCE_MS));
    miss(&own, gate, other, compact_the_first_five, base);
    recorder_has(quiet, "quiet=1@7");
    CHECK_INT(quiet->events, 1);
    CHECK(!strstr(quiet->text, "compacted"));
    recorder_is(no_progress, "created@0 created@0 compacted@5");
}

/* A server of version 3.4 silently forgets a deletion at exactly the compacted revision. A watch that would
 * wait for it for ever reports a compaction instead. */
static void compacted_at_next_revision(void) {
    struct etcd_server own;
    etcd_start(&own, NULL);
    struct etcd *client = tools_open(&own, 1), *other = tools_open(&own, 1);
    int64_t base = tools_put(other, "a", "0");
    struct etcd_watch_config config = {.prefix = true};
    struct recorder *recorder = recorder_watch(client, &config, base);
    recorder_created(recorder);
    miss(&own, recorder, other, compact_at_delete, base);
    recorder_is(recorder, "created@0 gate=1@1 created@1 compacted@2");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("started before the server", started_before_server);
    harness_run("resumed after a kill", resumed_after_a_kill);
    harness_run("compacted meanwhile", compacted_meanwhile);
    harness_run("resumed after its progress", resumed_after_its_progress);
    harness_run("compacted at the next revision", compacted_at_next_revision);
    return harness_finish();
}
