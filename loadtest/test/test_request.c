/* Which requests a load plans, and how each looks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/request_plan.h"
#include "test/harness.h"

/* ---- the plan ---- */

static struct plan plan;

static void forget(void *unused) {
    (void)unused;
    plan_free(&plan);
}

static struct planned_request planned_for(uint32_t key) {
    struct planned_request planned;
    plan_of_key(&plan, key, &planned);
    return planned;
}

static void begin(const struct options *options) {
    CHECK(plan_init(&plan, options));
    harness_defer(forget, NULL);
}

static void test_plan_names(void) {
    static const struct {
        unsigned items;
        uint32_t item, count;
        const char *name;
    } cases[] = {{0, 0, 1, "demo"}, {100000, 0, 100000, "demo-0"}, {100000, 99999, 100000, "demo-99999"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options = {.item = "demo", .items = cases[i].items};
        char name[ITEM_NAME_SIZE];
        CHECK_INT(item_count(&options), cases[i].count);
        item_name(&options, cases[i].item, name);
        CHECK_STR(name, cases[i].name);
        CHECK(item_is(&options, cases[i].item, name, strlen(name)));
        CHECK(!item_is(&options, cases[i].item, "demo-99999", strlen(name) - 1));
        CHECK(!item_is(&options, cases[i].item, "demo-999999", strlen(name) + 1));
        CHECK(!item_is(&options, cases[i].item, NULL, 0));
    }
}

/* Each item is drawn by its weight, within seven standard deviations. */
static void check_zipf(double exponent, uint32_t items) {
    enum { KEYS = 400000 };
    struct options options = {.item = "demo", .items = items, .zipf = exponent, .seed = harness_seed()};
    unsigned *counts = harness_alloc(items * sizeof *counts);
    double sum = 0;
    begin(&options);
    for (uint32_t i = 0; i < items; i++)
        sum += pow(i + 1.0, -exponent);
    for (uint32_t key = 0; key < KEYS; key++)
        counts[planned_for(key).items[0]]++;
    for (uint32_t i = 0; i < items; i++) {
        double expected = KEYS * pow(i + 1.0, -exponent) / sum;
        if (fabs(counts[i] - expected) > 7 * sqrt(expected) + 7)
            FAIL("item %u of %u, exponent %g: drawn %u times, expected %g", i, items, exponent, counts[i],
                 expected);
    }
    plan_free(&plan);
}

static void test_plan_zipf(void) {
    check_zipf(0, 1000); /* evenly */
    check_zipf(1, 1);
    check_zipf(1, 2);
    check_zipf(0.01, 10);
    check_zipf(0.8, 1000);
    check_zipf(1.2, 100000);
    check_zipf(5, 100);
}

/* The same seed draws the same items, another seed others. */
static void check_seed(struct options options) {
    enum { KEYS = 1000 };
    struct plan other;
    int equal = 0;
    begin(&options);
    struct options next = options;
    next.seed++;
    CHECK(plan_init(&other, &next));
    for (uint32_t key = 0; key < KEYS; key++) {
        struct planned_request again = {.count = 0};
        struct planned_request elsewhere;
        struct planned_request first = planned_for(key);
        planned_for(key + 1);
        plan_of_key(&plan, key, &again);
        CHECK_INT(again.kind, first.kind);
        CHECK_INT(again.count, first.count);
        CHECK(memcmp(again.items, first.items, first.count * sizeof first.items[0]) == 0);
        plan_of_key(&other, key, &elsewhere);
        equal += elsewhere.kind == first.kind && elsewhere.items[0] == first.items[0];
    }
    plan_free(&plan);
    plan_free(&other);
    CHECK(equal < KEYS / 10);
}

static void test_plan_seed(void) {
    uint64_t seed = harness_seed();
    check_seed((struct options){.items = 100, .seed = seed});
    check_seed((struct options){.items = 1000, .seed = seed, .zipf = 0.5});
    check_seed((struct options){.items = 100, .seed = seed, .basket_lines = 32, .transfers = 30});
}

/* Of each kind there is its share, within four percent; a basket's lines are any items, a transfer is between
 * two different ones, whatever their weights. */
static void test_plan_kinds(void) {
    enum { KEYS = 10000 };
    static const struct {
        unsigned items, basket_lines, purchases, transfers;
        double zipf;
        int shares[REQUEST_KINDS]; /* percent */
    } cases[] = {
        {0, 0, 0, 0, 0, {[REQUEST_PURCHASE] = 100}},
        {3, 5, 0, 0, 0, {[REQUEST_BASKET] = 100}},
        {2, 0, 0, 30, 5, {[REQUEST_PURCHASE] = 70, [REQUEST_TRANSFER] = 30}},
        {2, 0, 0, 100, 5, {[REQUEST_TRANSFER] = 100}},
        {5, 4, 50, 20, 0, {[REQUEST_PURCHASE] = 50, [REQUEST_BASKET] = 30, [REQUEST_TRANSFER] = 20}},
        {5, 4, 80, 20, 0, {[REQUEST_PURCHASE] = 80, [REQUEST_TRANSFER] = 20}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options = {.item = "demo",
                                  .items = cases[i].items,
                                  .seed = harness_seed(),
                                  .basket_lines = cases[i].basket_lines,
                                  .purchases = cases[i].purchases,
                                  .transfers = cases[i].transfers,
                                  .zipf = cases[i].zipf};
        const unsigned lines[REQUEST_KINDS] = {1, cases[i].basket_lines, 2};
        int counts[REQUEST_KINDS] = {0};
        begin(&options);
        for (uint32_t key = 0; key < KEYS; key++) {
            struct planned_request planned = planned_for(key);
            counts[planned.kind]++;
            CHECK_INT(planned.count, lines[planned.kind]);
            for (unsigned line = 0; line < planned.count; line++)
                CHECK(planned.items[line] < item_count(&options));
            CHECK(planned.kind != REQUEST_TRANSFER || planned.items[0] != planned.items[1]);
        }
        for (int kind = 0; kind < REQUEST_KINDS; kind++) {
            int share = cases[i].shares[kind];
            CHECK_INT(plan_has(&plan, (enum request_kind)kind), share > 0);
            CHECK(share % 100 == 0 ? counts[kind] == share * KEYS / 100
                                   : abs(counts[kind] - share * KEYS / 100) < KEYS / 25);
        }
        plan_free(&plan);
    }
}

/* The lines of a basket are drawn one by one, also twice the same; and transfers by weight, too. */
static void test_plan_lines(void) {
    struct options options = {.items = 3, .seed = harness_seed(), .basket_lines = 5};
    int seen[3] = {0}, twice = 0, from_first = 0;
    begin(&options);
    for (uint32_t key = 0; key < 1000; key++) {
        struct planned_request planned = planned_for(key);
        for (unsigned i = 0; i < planned.count; i++) {
            seen[planned.items[i]]++;
            twice += i > 0 && planned.items[i] == planned.items[i - 1];
        }
    }
    CHECK(seen[0] > 1000 && seen[1] > 1000 && seen[2] > 1000 && twice > 500);
    plan_free(&plan);
    options = (struct options){.items = 2, .seed = harness_seed(), .transfers = 100, .zipf = 5};
    begin(&options);
    for (uint32_t key = 0; key < 1000; key++)
        from_first += planned_for(key).items[0] == 0;
    CHECK(from_first > 900);
}

/* ---- a request ---- */

/* The request of this kind for these items, with key `key` and user 5; checks its Content-Length. */
static const char *render(enum request_kind kind, const char *host, struct options options, uint32_t key,
                          struct planned_request planned) {
    static struct request_template form;
    static char request[POOL_REQUEST_SIZE];
    options.item = options.item ? options.item : "demo";
    request_template_init(&form, kind, host, &options, "0123456789abcdef");
    size_t length = request_render(&form, key, 5, &planned, request);
    CHECK(length <= sizeof request);
    const char *text = harness_format("%.*s", (int)length, request);
    CHECK_HAS(text, harness_format("\r\nContent-Length: %zu\r\n", strlen(strstr(text, "\r\n\r\n") + 4)));
    return text;
}

static const char *body_of(const char *text) {
    return strstr(text, "\r\n\r\n") + 4;
}

static void test_purchase(void) {
    struct planned_request one = {.count = 1};
    CHECK_STR(
        render(REQUEST_PURCHASE, "h:1", (struct options){.quantity = 12}, 4294967295, one),
        "POST /v1/purchases HTTP/1.1\r\nHost: h:1\r\nContent-Type: application/json\r\nContent-Length: 48\r\n"
        "Idempotency-Key: sl-0123456789abcdef-4294967295\r\n\r\n"
        "{\"item\":\"demo\",\"user\":\"u00000005\",\"quantity\":12}");
    CHECK_HAS(render(REQUEST_PURCHASE, "h:1", (struct options){.quantity = 12}, 7, one),
              "abcdef-0000000007\r\n");
    char user[USER_NAME_SIZE];
    user_name(99999999, user);
    CHECK_STR(user, "u99999999");
}

/* A purchase of one of several items: the number is filled up behind it. */
static void test_items(void) {
    static const struct {
        unsigned items, item;
        const char *want;
    } cases[] = {{101, 100, "{\"item\":\"demo-100\",\"user\":\"u00000005\",\"quantity\":1}"},
                 {101, 42, "{\"item\":\"demo-42\" ,\"user\":\"u00000005\",\"quantity\":1}"},
                 {101, 0, "{\"item\":\"demo-0\"  ,\"user\":\"u00000005\",\"quantity\":1}"},
                 {1, 0, "{\"item\":\"demo-0\",\"user\":\"u00000005\",\"quantity\":1}"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_STR(
            body_of(render(REQUEST_PURCHASE, "h:1", (struct options){.items = cases[i].items, .quantity = 1},
                           1, (struct planned_request){.count = 1, .items = {cases[i].item}})),
            cases[i].want);
}

static void test_basket(void) {
    const char *text = render(REQUEST_BASKET, "h:1",
                              (struct options){.items = 11, .quantity = 3, .basket_lines = 3, .token = "t"},
                              8, (struct planned_request){.count = 3, .items = {10, 2, 2}});
    CHECK_HAS(text, "POST /v1/baskets HTTP/1.1\r\n");
    CHECK_HAS(text, "\r\nIdempotency-Key: sl-0123456789abcdef-0000000008\r\n");
    CHECK(!strstr(text, "Authorization"));
    CHECK_STR(body_of(text), "{\"user\":\"u00000005\",\"lines\":[{\"item\":\"demo-10\",\"quantity\":3},"
                             "{\"item\":\"demo-2\" ,\"quantity\":3},{\"item\":\"demo-2\" ,\"quantity\":3}]}");
}

static void test_transfer(void) {
    const char *text = render(REQUEST_TRANSFER, "h:1",
                              (struct options){.items = 11, .quantity = 3, .transfers = 5, .token = "secret"},
                              9, (struct planned_request){.count = 2, .items = {10, 2}});
    CHECK_HAS(text, "POST /v1/transfers HTTP/1.1\r\n");
    CHECK_HAS(text, "\r\nAuthorization: Bearer secret\r\n");
    CHECK_HAS(text, "\r\nIdempotency-Key: sl-0123456789abcdef-0000000009\r\n");
    CHECK_STR(body_of(text), "{\"from\":\"demo-10\",\"to\":\"demo-2\" ,\"quantity\":3}");
}

/* Everything has its greatest length. */
static void test_largest(void) {
    const char *host = harness_repeat('h', sizeof((struct target *)0)->host - 1);
    struct options options = {
        .item = harness_repeat('i', OPTIONS_ITEM - 6),
        .items = 100000,
        .quantity = 1000,
        .basket_lines = OPTIONS_LINES,
        .token = harness_repeat('t', 512),
    };
    struct planned_request planned = {.count = OPTIONS_LINES};
    planned.items[OPTIONS_LINES - 1] = 99999;
    const char *body = body_of(render(REQUEST_BASKET, host, options, 0, planned));
    CHECK_HAS(body, "iiii-99999\",\"quantity\":1000}]}");
    CHECK(strlen(body) > 2900);
    CHECK_HAS(body_of(render(REQUEST_TRANSFER, host, options, 0, planned)), ",\"quantity\":1000}");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("plan: names of items", test_plan_names);
    harness_run("plan: items as often as their weights say", test_plan_zipf);
    harness_run("plan: the seed decides", test_plan_seed);
    harness_run("plan: kinds of requests, and their lines", test_plan_kinds);
    harness_run("plan: the items of lines and transfers", test_plan_lines);
    harness_run("request: a purchase", test_purchase);
    harness_run("request: a purchase of one of several items", test_items);
    harness_run("request: a basket", test_basket);
    harness_run("request: a transfer", test_transfer);
    harness_run("request: the largest", test_largest);
    return harness_finish();
}
