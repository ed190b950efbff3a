#include "loadtest/test/seller.h"

#include <stdlib.h>
#include <string.h>

enum { START_MS = 20000 };

/* A number of GET /counts; -1: there is no answer. */
static int count(const struct seller *seller, const char *name) {
    struct web_response response;
    if (web_call(seller->port, "GET", "/counts", NULL, NULL, &response) != 200)
        return -1;
    const char *at = strstr(response.body, harness_format("\"%s\": ", name));
    CHECK(at);
    return (int)strtol(at + strlen(name) + 4, NULL, 10);
}

int seller_requests(const struct seller *seller) {
    return count(seller, "requests");
}

int seller_orders(const struct seller *seller) {
    return count(seller, "orders");
}

static bool answers(void *seller) {
    return seller_requests(seller) >= 0;
}

struct seller *seller_start_many(int items, int faulty, const char *faults, int stock) {
    struct seller *seller = harness_alloc(sizeof *seller);
    seller->port = harness_free_port();
    const char *argv[16] = {"python3",
                            "-IS",
                            "loadtest/test/seller.py",
                            harness_format("%d", seller->port),
                            harness_format("%d", items),
                            harness_format("%d", faulty),
                            harness_format("%d", stock)};
    int argc = 7;
    char *rest = harness_format("%s", faults);
    for (char *word; (word = strsep(&rest, " "));) {
        if (*word)
            argv[argc++] = word;
    }
    proc_spawn(&seller->proc, argv, NULL, harness_path("seller"));
    if (!harness_wait(answers, seller, START_MS))
        FAIL("the seller does not answer: %s", proc_output(&seller->proc));
    return seller;
}

struct seller *seller_start(const char *faults, int stock) {
    return seller_start_many(1, 1, faults, stock);
}
