/* Digits, compared with printf()'s. */
#include "base/decimal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "test/harness.h"

static void check(uint64_t number) {
    char wanted[DECIMAL_SIZE], got[DECIMAL_SIZE];
    snprintf(wanted, sizeof wanted, "%" PRIu64, number);
    char *end = decimal_append(got, number);
    CHECK_STR(got, wanted);
    CHECK(end == got + strlen(wanted));
}

static void test_decimal(void) {
    for (uint64_t number = 0; number < 20000; number++)
        check(number);
    for (uint64_t power = 10; power <= UINT64_MAX / 10; power *= 10) {
        check(power - 1);
        check(power);
    }
    check(UINT64_MAX);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("digits", test_decimal);
    return harness_finish();
}
