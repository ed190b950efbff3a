/* The back-off between two attempts of seckill-load. */
#include "loadtest/http/retry_backoff.h"
#include "test/harness.h"

/* After n failures: between a half and the whole of 5 ms * 2^(n - 1), but of no more than the limit. */
static void check_limit(uint64_t max_ns) {
    uint64_t random = harness_seed();
    for (unsigned failures = 1; failures < 100; failures++) {
        uint64_t whole_ns = failures < 20 ? RETRY_BACKOFF_MIN_NS << (failures - 1) : max_ns;
        whole_ns = whole_ns < max_ns ? whole_ns : max_ns;
        uint64_t least_ns = UINT64_MAX, most_ns = 0;
        for (int i = 0; i < 1000; i++) {
            uint64_t wait_ns = retry_backoff_ns(failures, max_ns, &random);
            CHECK(wait_ns >= whole_ns / 2 && wait_ns < whole_ns);
            least_ns = wait_ns < least_ns ? wait_ns : least_ns;
            most_ns = wait_ns > most_ns ? wait_ns : most_ns;
        }
        CHECK(most_ns - least_ns > whole_ns / 4); /* spread over the half that is random */
    }
}

static void test_backoff(void) {
    check_limit(RETRY_BACKOFF_MAX_NS);
    check_limit(RETRY_PAUSE_MAX_NS);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("back-off: doubles up to its limit, half of it random", test_backoff);
    return harness_finish();
}
