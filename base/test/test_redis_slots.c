/* Slots of keys, and what a cluster says of them. */
#include "base/redis/slots.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/harness.h"

/* By the specification, and by redis-cli CLUSTER KEYSLOT. */
static void test_slots(void) {
    static const struct {
        const char *key;
        int slot;
    } cases[] = {
        {"123456789", 0x31C3 % REDIS_SLOTS},
        {"", 0},
        {"foo", 12182},
        {"{foo}", 12182},
        {"{foo}bar", 12182},
        {"bar{foo}baz{no}", 12182},
        {"foo{}{bar}", 8363},
        {"foo{{bar}}zap", 4015},
        {"{user1000}.following", 3443},
        {"{user1000}.followers", 3443},
        {"{", 4092},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (redis_slot(cases[i].key, strlen(cases[i].key)) != cases[i].slot)
            FAIL("%s: %d, not %d", cases[i].key, redis_slot(cases[i].key, strlen(cases[i].key)),
                 cases[i].slot);
    }
    CHECK_INT(redis_slot("foobar", 3), 12182); /* the length counts, not a NUL */
}

static redisReply *reply_of(const char *text) {
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    CHECK(reader && redisReaderFeed(reader, text, strlen(text)) == REDIS_OK &&
          redisReaderGetReply(reader, &reply) == REDIS_OK && reply);
    redisReaderFree(reader);
    return reply;
}

static bool read_slots_at(struct redis_slots *slots, const char *text, int64_t epoch, int64_t now_ms) {
    redisReply *reply = reply_of(text);
    bool good = redis_slots_read(slots, redis_value_of(reply), "asked", epoch, now_ms);
    freeReplyObject(reply);
    return good;
}

static bool read_slots(struct redis_slots *slots, const char *text) {
    return read_slots_at(slots, text, 0, 0);
}

static const char *owner(const struct redis_slots *slots, int slot) {
    int16_t of = slots->of_slot[slot];
    return of == REDIS_SLOT_NOBODY ? "nobody"
                                   : harness_format("%s:%d", slots->master[of].host, slots->master[of].port);
}

static void test_map(void) {
    static struct redis_slots slots;
    CHECK(read_slots(&slots, "*5\r\n"
                             "*4\r\n:0\r\n:5460\r\n*3\r\n$8\r\n10.0.0.1\r\n:7001\r\n$2\r\nid\r\n"
                             "*3\r\n$8\r\n10.0.0.9\r\n:7009\r\n$2\r\nid\r\n"
                             "*3\r\n:5461\r\n:10000\r\n*4\r\n$-1\r\n:7002\r\n$2\r\nid\r\n*0\r\n"
                             "*3\r\n:10001\r\n:10001\r\n*2\r\n$0\r\n\r\n:7003\r\n"
                             "*3\r\n:10002\r\n:10002\r\n*2\r\n$1\r\n?\r\n:7004\r\n"
                             "*3\r\n:10005\r\n:16383\r\n*2\r\n$8\r\n10.0.0.1\r\n:7001\r\n"));
    CHECK_INT(slots.masters, 3);
    CHECK_STR(owner(&slots, 0), "10.0.0.1:7001");
    CHECK_STR(owner(&slots, 5460), "10.0.0.1:7001");
    CHECK_STR(owner(&slots, 5461), "asked:7002");
    CHECK_STR(owner(&slots, 10001), "asked:7003");
    CHECK_STR(owner(&slots, 10002), "nobody"); /* its host is unknown */
    CHECK_STR(owner(&slots, 10004), "nobody");
    CHECK_STR(owner(&slots, 16383), "10.0.0.1:7001");
}

/* What makes no sense is left out; of nothing but that the old map stays. */
static void test_garbage(void) {
    static const char *const maps[] = {
        "*0\r\n",
        "$-1\r\n",
        ":5\r\n",
        "-ERR This instance has cluster support disabled\r\n",
        "*1\r\n*0\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*3\r\n:-1\r\n:5\r\n*2\r\n$1\r\nh\r\n:7\r\n",
        "*1\r\n*3\r\n:6\r\n:5\r\n*2\r\n$1\r\nh\r\n:7\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:7\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n$1\r\nh\r\n:0\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n$1\r\nh\r\n:65536\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n$3\r\nh h\r\n:7\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n:1\r\n:7\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*1\r\n$1\r\nh\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*0\r\n",
        "*1\r\n*2\r\n:0\r\n:5\r\n",
        "*1\r\n*3\r\n$1\r\n0\r\n:5\r\n*2\r\n$1\r\nh\r\n:7\r\n",
    };
    static struct redis_slots slots;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        slots.masters = 77;
        if (read_slots(&slots, maps[i]))
            FAIL("a map was read from %s", maps[i]);
        CHECK_INT(slots.masters, 77);
    }
    const char *long_host = harness_format("*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n$300\r\n%0300d\r\n:7\r\n", 0);
    CHECK(!read_slots(&slots, long_host));
}

/* More masters than there is room for: the first have their slots, the others nobody. */
static void test_too_many(void) {
    static struct redis_slots slots;
    const char *map = harness_format("*%d\r\n", REDIS_MASTERS_MAX + 5);
    for (int i = 0; i < REDIS_MASTERS_MAX + 5; i++)
        map = harness_format("%s*3\r\n:%d\r\n:%d\r\n*2\r\n$1\r\nh\r\n:%d\r\n", map, i, i, 1000 + i);
    CHECK(read_slots(&slots, map));
    CHECK_INT(slots.masters, REDIS_MASTERS_MAX);
    CHECK_STR(owner(&slots, REDIS_MASTERS_MAX - 1), harness_format("h:%d", 1000 + REDIS_MASTERS_MAX - 1));
    CHECK_STR(owner(&slots, REDIS_MASTERS_MAX), "nobody");
}

/* A map and a redirection each set owners, and only what changes is a move. */
static void test_owners(void) {
    enum { SLOT = 7 };
    static struct redis_slots slots;
    static struct redis_owners owners;
    char a, b, c;
    void *const masters[] = {&a, &b};
    CHECK(read_slots(&slots, "*2\r\n*3\r\n:0\r\n:9\r\n*2\r\n$1\r\na\r\n:1\r\n"
                             "*3\r\n:10\r\n:19\r\n*2\r\n$1\r\nb\r\n:2\r\n"));
    redis_owners_install(&owners, &slots, masters);
    CHECK(owners.of_slot[0] == &a && owners.of_slot[19] == &b && !owners.of_slot[20]);
    CHECK_INT(owners.moves, 20);
    redis_owners_install(&owners, &slots, masters);
    redis_owners_set(&owners, SLOT, &a);
    CHECK_INT(owners.moves, 20);
    redis_owners_set(&owners, SLOT, &c);
    CHECK_INT(owners.moves, 21);
    redis_owners_install(&owners, &slots, masters);
    CHECK(owners.of_slot[SLOT] == &a);
    CHECK_INT(owners.moves, 22);
    redis_owners_forget(&owners, &a);
    CHECK(!owners.of_slot[0] && !owners.of_slot[9] && owners.of_slot[10] == &b);
    CHECK_INT(owners.moves, 32);
}

static int64_t epoch_of(const char *text) {
    redisReply *reply = reply_of(text);
    int64_t epoch = redis_slots_epoch(redis_value_of(reply));
    freeReplyObject(reply);
    return epoch;
}

static void test_epochs(void) {
    CHECK_INT(epoch_of("$46\r\ncluster_size:3\r\ncluster_current_epoch:12\r\na:5\r\n\r\n"), 12);
    CHECK_INT(epoch_of("$16\r\ncluster_size:3\r\n\r\n"), 0);
    CHECK_INT(epoch_of("-ERR This instance has cluster support disabled\r\n"), 0);
    CHECK_INT(epoch_of("*0\r\n"), 0);
    CHECK_INT(redis_slots_epoch(NULL), 0);
}

/* A server that stood still tells an older map, and is not believed; a cluster that was made anew is, once
 * all maps have been older for some time. */
static void test_older_maps(void) {
    enum { LATER = REDIS_OLDER_MS };
    static const struct {
        int64_t epoch, now_ms;
        bool believed;
    } maps[] = {
        {5, 1000, true},
        {4, 2000, false},
        {4, 1999 + LATER, false},
        {5, 2000 + LATER, true},  /* as old as the last one */
        {4, 3000 + LATER, false}, /* the time begins again */
        {4, 3000 + 2 * LATER, true},
        {3, 4000 + 2 * LATER, false},
        {0, 5000 + 2 * LATER, true}, /* it does not say */
        {1, 6000 + 2 * LATER, true},
    };
    static struct redis_slots slots;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        const char *map = harness_format("*1\r\n*3\r\n:0\r\n:9\r\n*2\r\n$1\r\nh\r\n:%zu\r\n", i + 1);
        if (read_slots_at(&slots, map, maps[i].epoch, maps[i].now_ms) != maps[i].believed)
            FAIL("map %zu is %s", i, maps[i].believed ? "not believed" : "believed");
        if (maps[i].believed)
            CHECK_INT(slots.epoch, maps[i].epoch);
        CHECK_INT(slots.master[0].port == (int)i + 1, maps[i].believed);
    }
}

/* A call, or a slot, begins the time anew. */
static void test_idle_servers(void) {
    enum { LATER = REDIS_SERVER_IDLE_MS };
    int64_t idle_since_ms = 0;
    CHECK(!redis_server_is_over(&idle_since_ms, false, 500));
    CHECK(!redis_server_is_over(&idle_since_ms, true, 1000));
    CHECK(!redis_server_is_over(&idle_since_ms, true, 999 + LATER));
    CHECK(!redis_server_is_over(&idle_since_ms, false, 1000 + LATER));
    CHECK(!redis_server_is_over(&idle_since_ms, true, 2000 + LATER));
    CHECK(!redis_server_is_over(&idle_since_ms, true, 1999 + 2 * LATER));
    CHECK(redis_server_is_over(&idle_since_ms, true, 2000 + 2 * LATER));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("slots of keys", test_slots);
    harness_run("a map", test_map);
    harness_run("maps that make no sense", test_garbage);
    harness_run("more masters than there is room for", test_too_many);
    harness_run("owners", test_owners);
    harness_run("epochs", test_epochs);
    harness_run("maps that are older than the last one", test_older_maps);
    harness_run("servers without a slot", test_idle_servers);
    return harness_finish();
}
