#include "lock/test/takers.h"

#include <string.h>

struct stage stage;

static int64_t read_clock(void *ctx) {
    (void)ctx;
    return stage.clock_ns;
}

void taker_at_point(void *ctx, const char *point, const char *key) {
    struct taker *taker = ctx;
    void (*meanwhile)(struct taker * i) = taker->meanwhile;
    if (point && !strchr(point, ' ')) /* where none breaks */
        return;
    CHECK_INT(strlen(key), 1);
    taker->point = point;
    taker->meanwhile = NULL;
    if (meanwhile)
        meanwhile(taker);
}

const char *stage_url(const char *variant, int ttl_ms) {
    return harness_format("redis://127.0.0.1:%d?variant=%s&ttl=%d", stage.port, variant, ttl_ms);
}

bool taker_open_url(struct taker *taker, const char *url) {
    struct lock_config config = {
        .now_ns = read_clock, .at_point = taker_at_point, .ctx = taker, .teaching = true};
    char error[LOCK_ERROR_SIZE];
    *taker = (struct taker){.got = false};
    return lock_open(url, &config, &taker->lock, error, sizeof error) == LOCK_OK;
}

static void close_taker(void *taker) {
    lock_close(((struct taker *)taker)->lock);
}

void taker_open(struct taker *taker) {
    CHECK(taker_open_url(taker, stage_url(stage.variant, TTL_MS)));
    harness_defer(close_taker, taker);
}

bool taker_try(struct taker *taker) {
    enum lock_status status = lock_try(taker->lock, "k", &taker->grant);
    taker->got = status == LOCK_OK;
    if (!taker->got)
        tools_check_status(status, LOCK_BUSY);
    return taker->got;
}

enum lock_status taker_release(struct taker *taker) {
    taker->got = false;
    return lock_release(taker->lock, &taker->grant);
}

void stage_begin(void) {
    stage.port = stage.redis.port;
    stage.clock_ns = 1000000000000;
    redis_command(&stage.redis, "FLUSHALL", NULL);
}

void stage_expire(void) {
    if (redis_integer(&stage.redis, "PTTL", "lock:{k}", NULL) >= 0)
        redis_command(&stage.redis, "PEXPIRE", "lock:{k}", "0", NULL);
}

void stage_time_passes(void) {
    stage.clock_ns += (int64_t)TTL_MS * 1000000;
    stage_expire();
}
