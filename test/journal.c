#include "test/journal.h"

enum { PARTS = 8 };

static long long sum(const struct redis_server *redis, const char *command, const char *what) {
    long long count = 0;
    for (int part = 0; part < PARTS; part++)
        count += redis_integer(redis, command, harness_format("seckill:{baskets:%d}:%s", part, what), NULL);
    return count;
}

long long journal_open(const struct redis_server *redis) {
    return sum(redis, "ZCARD", "open");
}

long long journal_count(const struct redis_server *redis) {
    return sum(redis, "HLEN", "journal");
}

void journal_set_epoch(const struct redis_server *redis, const char *epoch) {
    for (int part = 0; part < PARTS; part++)
        redis_command(redis, "SET", harness_format("seckill:{baskets:%d}:epoch", part), epoch, NULL);
}
