/* Instants: RFC 3339 in and out. */
#include "service/rfc3339.h"

#include <string.h>

#include "test/harness.h"

static void reads(void) {
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01T00:00:00.001Z", 1},
        {"2030-01-31T20:00:00Z", 1896120000000},
        {"2030-01-31t20:00:00z", 1896120000000},
        {"2030-01-31T21:30:00+01:30", 1896120000000},
        {"2030-01-31T12:00:00-08:00", 1896120000000},
        {"2030-02-01T19:59:00+23:59", 1896120000000},
        {"2030-01-31T20:00:00-00:00", 1896120000000},
        {"2030-01-31T20:00:00.5Z", 1896120000500},
        {"2030-01-31T20:00:00.05Z", 1896120000050},
        {"2030-01-31T20:00:00.1239999999999999999999999Z", 1896120000123},
        {"2024-02-29T00:00:00Z", 1709164800000},
        {"2000-02-29T23:59:59.999Z", 951868799999},
        {"2038-01-19T03:14:08Z", 2147483648000},
        {"9999-12-31T23:59:59.999Z", 253402300799999},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t ms = -7;
        if (!rfc3339_read(good[i].text, &ms))
            FAIL("%s is refused", good[i].text);
        if (ms != good[i].ms)
            FAIL("%s is %lld, not %lld", good[i].text, (long long)ms, (long long)good[i].ms);
    }
}

static void refuses(void) {
    /* With | between them. */
    static const char bad[] =
        "|Z|tomorrow|2030|2030-01-31|2030-01-31T20:00Z|2030-01-31T20:00:00|2030-01-31 20:00:00Z|"
        "2030-01-31T20:00:00 Z| 2030-01-31T20:00:00Z|2030-01-31T20:00:00Z |2030-01-31T20:00:00ZZ|"
        "2030-01-31T20:00:00.Z|2030-01-31T20:00:00,5Z|2030-01-31T20:00:00.5|2030-01-31T20:00:00+1:00|"
        "2030-01-31T20:00:00+0100|2030-01-31T20:00:00+01|2030-01-31T20:00:00+24:00|2030-01-31T20:00:00+01:60|"
        "2030-01-31T20:00:00+|2030-00-31T20:00:00Z|2030-13-01T20:00:00Z|2030-01-00T20:00:00Z|"
        "2030-01-32T20:00:00Z|2030-04-31T20:00:00Z|2030-02-29T20:00:00Z|2100-02-29T20:00:00Z|"
        "2024-02-30T20:00:00Z|2030-01-31T24:00:00Z|2030-01-31T20:60:00Z|2016-12-31T23:59:60Z|"
        "1969-12-31T23:59:59Z|1970-01-01T00:00:00+00:01|0000-01-01T00:00:00Z|12030-01-31T20:00:00Z|"
        "+030-01-31T20:00:00Z|-030-01-31T20:00:00Z|2030-1-31T20:00:00Z|2030-01-31T2a:00:00Z|"
        "20300131T200000Z|2030-W05-4T20:00:00Z";
    char *rest = harness_format("%s", bad);
    for (char *text; (text = strsep(&rest, "|"));) {
        int64_t ms = -7;
        if (rfc3339_read(text, &ms))
            FAIL("%s is read as %lld", text, (long long)ms);
        CHECK_INT(ms, -7);
    }
    /* Nothing is read beyond the end, wherever that is. */
    static const char whole[] = "2030-01-31T20:00:00.123+01:00";
    for (size_t length = 0; length < sizeof whole - 1; length++) {
        char *cut = harness_alloc(length + 1);
        int64_t ms;
        memcpy(cut, whole, length);
        CHECK(!rfc3339_read(cut, &ms));
    }
}

static void prints(void) {
    char text[RFC3339_SIZE];
    rfc3339_print(0, text);
    CHECK_STR(text, "1970-01-01T00:00:00.000Z");
    rfc3339_print(1709164800007, text);
    CHECK_STR(text, "2024-02-29T00:00:00.007Z");
    rfc3339_print(253402300799999, text);
    CHECK_STR(text, "9999-12-31T23:59:59.999Z");
}

/* Whatever can be read, and whatever a clock says, is printed as something that reads as the same. */
static void there_and_back(void) {
    uint64_t position = harness_seed();
    for (int i = 0; i < 20000; i++) {
        int64_t ms = (int64_t)(harness_random(&position) % 253402300800000), again = -1;
        char text[RFC3339_SIZE];
        rfc3339_print(ms, text);
        CHECK(rfc3339_read(text, &again));
        CHECK_INT(again, ms);
    }
    static const char *const edges[] = {"9999-12-31T23:59:59-23:59", "1970-01-01T23:59:00+23:59"};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        int64_t ms, again;
        char text[RFC3339_SIZE];
        if (!rfc3339_read(edges[i], &ms))
            continue; /* out of the range that can be told is refused */
        rfc3339_print(ms, text);
        if (!rfc3339_read(text, &again) || again != ms)
            FAIL("%s is read, and told as %s, which is no instant", edges[i], text);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("instants are read", reads);
    harness_run("what is no instant is refused", refuses);
    harness_run("instants are printed", prints);
    harness_run("there and back", there_and_back);
    return harness_finish();
}
