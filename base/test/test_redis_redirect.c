/* What errors mean for a call, how long it pauses, and how it is written. */
#include "base/redis/redirect.h"

#include <stdlib.h>
#include <string.h>

#include "base/redis/resp.h"
#include "test/harness.h"

static void test_redirects(void) {
    static const struct {
        const char *error;
        enum redis_meaning want;
        int slot;
        const char *host;
        int port;
    } cases[] = {
        {"MOVED 3999 127.0.0.1:6381", REDIS_MOVED, 3999, "127.0.0.1", 6381},
        {"ASK 0 127.0.0.1:6381", REDIS_ASK, 0, "127.0.0.1", 6381},
        {"MOVED 16383 fe80::1:6381", REDIS_MOVED, 16383, "fe80::1", 6381},
        {"MOVED 1 shop.example:6381", REDIS_MOVED, 1, "shop.example", 6381},
        {"MOVED 1 :6381", REDIS_MOVED, 1, "asked", 6381},
        {"MOVED 16384 h:1", REDIS_REFUSED, 0, "", 0},
        {"MOVED -1 h:1", REDIS_REFUSED, 0, "", 0},
        {"MOVED 1 ?:1", REDIS_REFUSED, 0, "", 0},
        {"MOVED 1 h:0", REDIS_REFUSED, 0, "", 0},
        {"MOVED 1 h:65536", REDIS_REFUSED, 0, "", 0},
        {"MOVED 1 h:1x", REDIS_REFUSED, 0, "", 0},
        {"MOVED 1 h h:1", REDIS_REFUSED, 0, "", 0},
        {"MOVED 1 h", REDIS_REFUSED, 0, "", 0},
        {"MOVED 1", REDIS_REFUSED, 0, "", 0},
        {"MOVED ", REDIS_REFUSED, 0, "", 0},
        {"MOVED", REDIS_REFUSED, 0, "", 0},
        {"ASKING", REDIS_REFUSED, 0, "", 0},
        {"", REDIS_REFUSED, 0, "", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct redis_redirect read = {.slot = 77, .to = {.port = 77}};
        if (redis_error_read(cases[i].error, "asked", &read) != cases[i].want)
            FAIL("\"%s\" is read wrongly", cases[i].error);
        bool redirect = cases[i].want != REDIS_REFUSED;
        CHECK_INT(read.slot, redirect ? cases[i].slot : 77);
        CHECK_INT(read.to.port, redirect ? cases[i].port : 77);
        CHECK_STR(read.to.host, cases[i].host);
        CHECK(redis_error_read(cases[i].error, "asked", NULL) == cases[i].want);
    }
}

static void test_other_errors(void) {
    static const struct {
        const char *error;
        enum redis_meaning want;
    } cases[] = {
        {"NOSCRIPT No matching script. Please use EVAL.", REDIS_NO_SCRIPT},
        {"TRYAGAIN Multiple keys request during rehashing of slot", REDIS_LATER},
        {"CLUSTERDOWN Hash slot not served", REDIS_LATER},
        {"LOADING Redis is loading the dataset in memory", REDIS_LATER},
        {"MASTERDOWN Link with MASTER is down", REDIS_IS_REPLICA},
        {"READONLY You can't write against a read only replica.", REDIS_IS_REPLICA},
        {"ERR Error running script: @user_script:3: -READONLY You can't write", REDIS_IS_REPLICA},
        {"NOREPLICAS Not enough good replicas to write.", REDIS_REFUSED},
        {"OOM command not allowed when used memory > 'maxmemory'.", REDIS_REFUSED},
        {"ERR unknown command", REDIS_REFUSED},
        {"not sent", REDIS_REFUSED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (redis_error_read(cases[i].error, "asked", NULL) != cases[i].want)
            FAIL("\"%s\" is read wrongly", cases[i].error);
    }
}

/* Each pause is twice the one before, up to the last; the jitter is half of it, up or down. */
static void test_backoff(void) {
    static const int pauses[] = {5, 10, 20, 40, 80, 160, 160, 160};
    int pause_ms = 0;
    for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
        pause_ms = redis_backoff_next(&redis_backoff_call, pause_ms);
        CHECK_INT(pause_ms, pauses[i]);
    }
    CHECK_INT(redis_backoff_jitter(160, 0), 80);
    CHECK_INT(redis_backoff_jitter(160, 159), 239);
    CHECK_INT(redis_backoff_jitter(160, 160), 80);
    CHECK_INT(redis_backoff_jitter(5, UINT32_MAX), 2);
    CHECK_INT(redis_backoff_next(&redis_backoff_connect, 0), 20);
    CHECK_INT(redis_backoff_next(&redis_backoff_connect, 640), 1000);
}

static void test_commands(void) {
    struct redis_output output = {.length = 0};
    const char *set[] = {"SET", "a", ""}, *get[] = {"GET", harness_repeat('k', 1000)};
    CHECK_INT(redis_output_append(&output, 3, set), 4 + 9 + 7 + 6);
    CHECK(redis_output_append(&output, 2, get) > 1000);
    const char *want = harness_format("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n"
                                      "*2\r\n$3\r\nGET\r\n$1000\r\n%s\r\n",
                                      get[1]);
    CHECK_INT(output.length, strlen(want));
    CHECK(memcmp(output.bytes, want, output.length) == 0);
    CHECK(redis_command_size(2, get) >= output.length - 26);
    free(output.bytes);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("redirections", test_redirects);
    harness_run("other errors", test_other_errors);
    harness_run("pauses", test_backoff);
    harness_run("commands", test_commands);
    return harness_finish();
}
