/* What the request codec lets through and what it refuses, and that what it writes is JSON. */
#include "service/api/codec.h"

#include <jansson.h>
#include <string.h>

#include "test/harness.h"

/* ---- purchases ---- */

static bool read_purchase(const char *body, size_t length, struct codec_purchase *purchase,
                          struct codec_error *error) {
    /* Of exactly this size, so that a sanitizer sees a read past its end. */
    char *copy = harness_alloc(length);
    memcpy(copy, body, length);
    bool good = codec_read_purchase(copy, length, purchase, error);
    struct codec_purchase plain = {.quantity = -7};
    if (!codec_read_plain_purchase(copy, length, &plain)) {
        CHECK_INT(plain.quantity, -7);
        return good;
    }
    if (!good)
        FAIL("%.200s is plain, but the parser refuses it: %s %s", body, error->field, error->detail);
    CHECK_STR(plain.item, purchase->item);
    CHECK_STR(plain.user, purchase->user);
    CHECK_INT(plain.quantity, purchase->quantity);
    return good;
}

/* What clients send is plain, or reading it so would be for nothing. */
static void plain(void) {
    static const char *const bodies[] = {
        "{\"item\":\"a\",\"user\":\"u\",\"quantity\":1}",
        "{\"quantity\":1000,\"user\":\"A.b_c-9\",\"item\":\"x\"}",
        "{\"item\": \"a\", \"user\": \"u\", \"quantity\": 10}",
        "\r\n{\n\t\"user\" : \"u\" ,\n\t\"item\" : \"a\" ,\n\t\"quantity\" : 25\n}\n",
    };
    struct codec_purchase purchase;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        if (!codec_read_plain_purchase(bodies[i], strlen(bodies[i]), &purchase))
            FAIL("%s is not plain", bodies[i]);
    }
    CHECK_STR(purchase.user, "u");
    CHECK_INT(purchase.quantity, 25);
}

static void not_plain(void) {
    static const char *const bodies[] = {
        "{\"item\":\"a\",\"item\":\"u\",\"quantity\":1}",
        "{\"quantity\":1,\"quantity\":1,\"user\":\"u\"}",
        "{\"item\":\"a\",\"user\":\"u\",\"uses\":\"u\"}",
        "{\"item\":\"a\",\"uses\":\"u\",\"quantity\":1}",
        "{\"item\":\"a\",\"user\":\"u\",\"quantity\":01}",
        "{\"item\":\"a\",\"user\":\"u\",\"quantity\":1001}",
        "{\"item\":\"a\",\"user\":\"u\",\"quantity\":}",
        "{\"item\":\"a\",\"user\":\"u\",\"quantity\":1.0}",
        "{\"item\":\"a\",\"user\":\"u\",\"quantity\":1}x",
        "{\"item\":\"a\",\"user\":\"u\",\"quantity\":1,}",
    };
    struct codec_purchase purchase;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        if (codec_read_plain_purchase(bodies[i], strlen(bodies[i]), &purchase))
            FAIL("%s is taken for plain", bodies[i]);
    }
}

/* Plain bodies with a few bytes changed: read_purchase() compares the two readers. */
static void nearly_plain(void) {
    static const char bytes[] = "{}\":, \n\t\\0123456789.-+eEaiu[]\0\x80x";
    static const char start[] = " {\"item\":\"lamp\", \"user\":\"u-1\",\"quantity\":12}\n";
    uint64_t seed = harness_seed();
    int read = 0;
    for (int round = 0; round < 100000; round++) {
        char body[sizeof start];
        memcpy(body, start, sizeof start);
        size_t from = 0, to = sizeof start - 1;
        for (uint64_t i = 0, changes = harness_random(&seed) % 4; i < changes; i++)
            body[harness_random(&seed) % to] = bytes[harness_random(&seed) % (sizeof bytes - 1)];
        if (harness_random(&seed) % 4 == 0)
            from = harness_random(&seed) % 3;
        if (harness_random(&seed) % 4 == 0)
            to -= harness_random(&seed) % 3;
        struct codec_purchase purchase;
        struct codec_error error;
        read += codec_read_plain_purchase(body + from, to - from, &purchase);
        read_purchase(body + from, to - from, &purchase, &error);
    }
    CHECK(read > 10000 && read < 90000);
}

static void accept_purchase(const char *body, const char *item, const char *user, int64_t quantity) {
    struct codec_purchase purchase;
    struct codec_error error;
    if (!read_purchase(body, strlen(body), &purchase, &error))
        FAIL("%s refused: %s %s", body, error.field, error.detail);
    CHECK_STR(purchase.item, item);
    CHECK_STR(purchase.user, user);
    CHECK_INT(purchase.quantity, quantity);
}

static void refuse_bytes(const char *body, size_t length, const char *field) {
    struct codec_purchase purchase = {.item = "untouched", .quantity = -7};
    struct codec_error error;
    if (read_purchase(body, length, &purchase, &error))
        FAIL("%.200s accepted", body);
    if (strcmp(error.field, field) != 0)
        FAIL("%.200s: \"%s\" is blamed (%s), not \"%s\"", body, error.field, error.detail, field);
    CHECK(error.detail[0] != '\0');
    CHECK(!strpbrk(error.detail, "\"\\"));
    CHECK_STR(purchase.item, "untouched");
    CHECK_INT(purchase.quantity, -7);
}

static void refuse_purchase(const char *body, const char *field) {
    refuse_bytes(body, strlen(body), field);
}

#define BUY(item, user, quantity) "{\"item\":" item ",\"user\":" user ",\"quantity\":" quantity "}"

static void purchases(void) {
    accept_purchase(BUY("\"a\"", "\"u\"", "1"), "a", "u", 1);
    accept_purchase(" {\t\"quantity\" : 1000 , \"user\":\"A.b_c-9\",\n\"item\":\"x\" }\r\n ", "x", "A.b_c-9",
                    1000);
    accept_purchase(BUY("\"\\u0061b\"", "\"u\"", "7"), "ab", "u", 7);
    const char *longest = harness_repeat('z', 64);
    accept_purchase(harness_format(BUY("\"%s\"", "\"%s\"", "5"), longest, longest), longest, longest, 5);
}

static void purchase_names(void) {
    const char *const bad[] = {"\"\"",          "\"a b\"",      "\"a/b\"", "\"a:b\"", "\"{a}\"",
                               "\"a\\n\"",      "\"\\\"\"",     "5",       "null",    "[\"a\"]",
                               "true",          "\"\xc3\xa9\"", "\"a+\"",  "\"*\"",   "\"\\u00e9\"",
                               "{\"a\":\"a\"}", "\"a@\"",       "\"`\""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        refuse_purchase(harness_format(BUY("%s", "\"u\"", "1"), bad[i]), "item");
        refuse_purchase(harness_format(BUY("\"i\"", "%s", "1"), bad[i]), "user");
    }
    refuse_purchase(harness_format(BUY("\"%s\"", "\"u\"", "1"), harness_repeat('a', 65)), "item");
    refuse_purchase(harness_format(BUY("\"i\"", "\"%s\"", "1"), harness_repeat('a', 65)), "user");
    refuse_purchase("{\"user\":\"u\",\"quantity\":1}", "item");
    refuse_purchase("{\"item\":\"i\",\"quantity\":1}", "user");
}

static void purchase_quantities(void) {
    const char *const bad[] = {"0",          "-1",
                               "1001",       "1.0",
                               "1e2",        "1E0",
                               "0.5",        "\"1\"",
                               "null",       "true",
                               "[1]",        "{}",
                               "-0",         "2147483648",
                               "4294967297", "9223372036854775807",
                               "1.0e0",      "-9223372036854775808"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse_purchase(harness_format(BUY("\"i\"", "\"u\"", "%s"), bad[i]), "quantity");
    refuse_purchase("{\"item\":\"i\",\"user\":\"u\"}", "quantity");
    /* Numbers that no 64 bits hold, and what are no numbers of JSON. */
    const char *const worse[] = {"9223372036854775808",
                                 "18446744073709551617",
                                 "1e999",
                                 "01",
                                 "+1",
                                 "0x1",
                                 "1.",
                                 ".5",
                                 "NaN",
                                 "Infinity",
                                 "1_0",
                                 "--1"};
    for (size_t i = 0; i < sizeof worse / sizeof *worse; i++)
        refuse_purchase(harness_format(BUY("\"i\"", "\"u\"", "%s"), worse[i]), "body");
}

static void purchase_shapes(void) {
    const char *good = BUY("\"i\"", "\"u\"", "1");
    const char *const bad[] = {"",
                               " ",
                               "null",
                               "1",
                               "\"text\"",
                               "[]",
                               "{",
                               "}",
                               "nonsense",
                               "{'item':'i'}",
                               "[" BUY("\"i\"", "\"u\"", "1") "]",
                               "\xef\xbb\xbf{}",
                               "{\"item\":\"i\",\"user\":\"u\",\"quantity\":1,}",
                               "{\"item\":\"i\",\"user\":\"u\",\"quantity\":1} // bought",
                               "{\"item\":\"i\",\"user\":\"u\",\"\\u0075ser\":\"v\",\"quantity\":1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse_purchase(bad[i], "body");
    refuse_purchase(harness_format("%sx", good), "body");
    refuse_purchase(harness_format("%s%s", good, good), "body");
    refuse_purchase("{}", "item");
    for (size_t cut = 0; cut < strlen(good); cut++)
        refuse_bytes(good, cut, "body");
    refuse_purchase(harness_repeat('[', 16384), "body");
    refuse_purchase(harness_format("{\"item\":%s%s,\"user\":\"u\",\"quantity\":1}", harness_repeat('[', 500),
                                   harness_repeat(']', 500)),
                    "item");
}

static void purchase_fields(void) {
    refuse_purchase("{\"item\":\"i\",\"user\":\"u\",\"quantity\":1,\"coupon\":\"free\"}", "coupon");
    refuse_purchase("{\"item\":\"i\",\"user\":\"u\",\"quantity\":1,\"Item\":\"i\"}", "Item");
    refuse_purchase("{\"item\":\"i\",\"user\":\"u\",\"quantity\":1,\"a\\\"b\":1}", "a?b");
    refuse_purchase("{\"item\":\"i\",\"user\":\"u\",\"quantity\":1,\"\":1}", "body");
    refuse_purchase(
        harness_format("{\"item\":\"i\",\"user\":\"u\",\"quantity\":1,\"%s\":1}", harness_repeat('f', 300)),
        harness_repeat('f', 31));
}

/* What is wrong, and where: the misspelt field, not the one that it should have been. */
static void purchase_blame(void) {
    static const char *const bad[][3] = {
        {"{\"itme\":\"i\",\"user\":\"u\",\"quantity\":1}", "itme",
         "unknown field; there are item, user, quantity"},
        {"{\"\u00fcber\":\"i\"}", "??ber", "unknown field; there are item, user, quantity"},
        {"{\"item\":\"i\",\"user\":\"u\",\n \"user\":\"v\"}", "user", "is there twice (line 2, column 7)"},
        {"{\"a name of many letters\":1,\"a name of many letters\":1}", "body",
         "there is a field twice (line 1, column 52)"},
        {"{\"item\":\"i\",}", "body", "not valid JSON (line 1, column 13)"},
        {"{\"item\":\"i\"", "body", "not valid JSON: it ends too early (line 1, column 11)"},
        {"{} {}", "body", "not valid JSON: there is more behind its end (line 1, column 4)"},
        {"{\"item\":\"\\u0000\"}", "body", "a text or a name has a NUL in it (line 1, column 16)"},
        {"{\"item\":\"\xff\"}", "body", "not valid JSON: not UTF-8 (line 1, column 9)"},
        {"{\"quantity\":99999999999999999999}", "body", "a number is too large (line 1, column 32)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct codec_purchase purchase;
        struct codec_error error;
        CHECK(!codec_read_purchase(bad[i][0], strlen(bad[i][0]), &purchase, &error));
        CHECK_STR(error.field, bad[i][1]);
        CHECK_STR(error.detail, bad[i][2]);
    }
}

static void bytes_that_are_no_text(void) {
    const char nul[] = "{\"item\":\"i\",\"user\":\"u\",\"quantity\":1}\0";
    refuse_bytes(nul, sizeof nul - 1, "body");
    const char within[] = "{\"item\":\"i\0j\",\"user\":\"u\",\"quantity\":1}";
    refuse_bytes(within, sizeof within - 1, "body");
    const char *const bad[] = {"{\"item\":\"i\\u0000\",\"user\":\"u\",\"quantity\":1}",
                               "{\"item\":\"\xff\",\"user\":\"u\",\"quantity\":1}",
                               "{\"item\":\"\xc0\xaf\",\"user\":\"u\",\"quantity\":1}",
                               "{\"item\":\"\xed\xa0\x80\",\"user\":\"u\",\"quantity\":1}",
                               "{\"item\":\"\\ud800\",\"user\":\"u\",\"quantity\":1}",
                               "{\"item\\u0000\":\"i\",\"user\":\"u\",\"quantity\":1}",
                               "{\"item\":\"a\tb\",\"user\":\"u\",\"quantity\":1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse_purchase(bad[i], "body");
}

/* ---- items ---- */

static struct inventory_item accept_item(const char *body) {
    struct inventory_item item = {.item = "name"};
    struct codec_error error;
    if (!codec_read_item(body, strlen(body), INVENTORY_LUA, &item, &error))
        FAIL("%s refused: %s %s", body, error.field, error.detail);
    CHECK_STR(item.item, "name");
    return item;
}

static void refuse_item(const char *body, const char *field) {
    struct inventory_item item = {.item = "name", .initial = -7};
    struct codec_error error;
    if (codec_read_item(body, strlen(body), INVENTORY_BATCH, &item, &error))
        FAIL("%s accepted", body);
    if (strcmp(error.field, field) != 0)
        FAIL("%s: \"%s\" is blamed, not \"%s\"", body, error.field, field);
    CHECK_INT(item.initial, -7);
}

static void items(void) {
    struct inventory_item item = accept_item("{\"stock\":100}");
    CHECK_INT(item.initial, 100);
    CHECK(item.limit == 0 && item.hold_ms == 0 && item.starts_ms == 0 && item.ends_ms == 0);
    CHECK_INT(item.strategy, INVENTORY_LUA);
    item = accept_item("{\"stock\":0,\"per_user_limit\":3,\"hold_seconds\":600,\"strategy\":\"decr\","
                       "\"starts_at\":\"2030-01-31T20:00:00Z\",\"ends_at\":\"2030-01-31T21:00:00.5+01:00\"}");
    CHECK(item.initial == 0 && item.limit == 3 && item.hold_ms == 600000);
    CHECK_INT(item.starts_ms, 1896120000000);
    CHECK_INT(item.ends_ms, 1896120000500);
    CHECK_INT(item.strategy, INVENTORY_DECR);
    CHECK_INT(accept_item("{\"stock\":1000000000}").initial, 1000000000);
    CHECK_INT(accept_item("{\"stock\":1,\"per_user_limit\":0}").limit, 0);
    CHECK_INT(accept_item("{\"stock\":1,\"strategy\":\"naive\"}").strategy, INVENTORY_NAIVE);
}

static void items_refused(void) {
    static const struct {
        const char *body, *field;
    } bad[] = {
        {"{}", "stock"},
        {"{\"stock\":-1}", "stock"},
        {"{\"stock\":1000000001}", "stock"},
        {"{\"stock\":1.5}", "stock"},
        {"{\"stock\":1e2}", "stock"},
        {"{\"stock\":\"100\"}", "stock"},
        {"{\"stock\":null}", "stock"},
        {"{\"stock\":1,\"per_user_limit\":-1}", "per_user_limit"},
        {"{\"stock\":1,\"per_user_limit\":1.0}", "per_user_limit"},
        {"{\"stock\":1,\"per_user_limit\":null}", "per_user_limit"},
        {"{\"stock\":1,\"per_user_limit\":1000001}", "per_user_limit"},
        {"{\"stock\":1,\"hold_seconds\":-1}", "hold_seconds"},
        {"{\"stock\":1,\"hold_seconds\":0.5}", "hold_seconds"},
        {"{\"stock\":1,\"hold_seconds\":9223372036854775807}", "hold_seconds"},
        {"{\"stock\":1,\"strategy\":\"best\"}", "strategy"},
        {"{\"stock\":1,\"strategy\":1}", "strategy"},
        {"{\"stock\":1,\"strategy\":null}", "strategy"},
        {"{\"stock\":1,\"starts_at\":1}", "starts_at"},
        {"{\"stock\":1,\"starts_at\":null}", "starts_at"},
        {"{\"stock\":1,\"starts_at\":\"tomorrow\"}", "starts_at"},
        {"{\"stock\":1,\"ends_at\":\"2030-02-29T00:00:00Z\"}", "ends_at"},
        {"{\"stock\":1,\"starts_at\":\"2030-01-02T00:00:00Z\",\"ends_at\":\"2030-01-02T00:00:00Z\"}",
         "ends_at"},
        {"{\"stock\":1,\"starts_at\":\"2030-01-02T00:00:00Z\",\"ends_at\":\"2030-01-01T00:00:00Z\"}",
         "ends_at"},
        {"{\"stock\":1,\"item\":\"x\"}", "item"},
        {"{\"stock\":1,\"sold\":5}", "sold"},
        {"{\"stock\":1,\"stock\":2}", "stock"},
        {"{\"stock\":1} {}", "body"},
        {"", "body"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse_item(bad[i].body, bad[i].field);
}

/* The epoch stands for "no bound" within: as a bound it must not become none. */
static void a_sale_that_ended_at_the_epoch(void) {
    struct inventory_item item = {.item = "name"};
    struct codec_error error;
    static const char body[] = "{\"stock\":1,\"ends_at\":\"1970-01-01T00:00:00Z\"}";
    if (codec_read_item(body, sizeof body - 1, INVENTORY_BATCH, &item, &error))
        CHECK(item.ends_ms != 0);
    else
        CHECK_STR(error.field, "ends_at");
}

/* ---- restocks, and calls without a body ---- */

static bool read_restock(const char *body, int64_t *quantity, struct codec_error *error) {
    return codec_read_restock(body, strlen(body), quantity, error);
}

static void restocks(void) {
    struct codec_error error;
    int64_t quantity = -7;
    CHECK(read_restock("{\"quantity\":1}", &quantity, &error) && quantity == 1);
    CHECK(read_restock("{\"quantity\":1000000000}", &quantity, &error) && quantity == 1000000000);
    const char *const bad[] = {
        "{\"quantity\":0}",     "{\"quantity\":1000000001}", "{\"quantity\":-5}",  "{\"quantity\":1.0}", "{}",
        "{\"quantity\":\"5\"}", "{\"quantity\":[5]}",        "{\"quantity\":null}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(!read_restock(bad[i], &quantity, &error));
        CHECK_STR(error.field, "quantity");
    }
    CHECK(!read_restock("{\"quantity\":1,\"item\":\"x\"}", &quantity, &error));
    CHECK_STR(error.field, "item");
    CHECK(!read_restock("{\"quantity\":1,\"quantity\":1}", &quantity, &error));
    CHECK_STR(error.field, "quantity");
    CHECK_INT(quantity, 1000000000);
}

static void nothing(void) {
    struct codec_error error;
    CHECK(codec_read_nothing("", 0, &error));
    CHECK(codec_read_nothing("{}", 2, &error));
    CHECK(codec_read_nothing(" { } ", 5, &error));
    CHECK(!codec_read_nothing("[]", 2, &error));
    CHECK_STR(error.field, "body");
    CHECK(!codec_read_nothing("null", 4, &error));
    CHECK(!codec_read_nothing(" ", 1, &error));
    CHECK(!codec_read_nothing("{\"force\":true}", 14, &error));
    CHECK_STR(error.field, "force");
}

/* ---- what is written ---- */

static json_t *parse(const char *body, size_t length) {
    json_error_t error;
    CHECK(length > 0 && length < CODEC_HEALTH_SIZE);
    json_t *object = json_loadb(body, length, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        FAIL("%.*s is no JSON: %s", (int)length, body, error.text);
    return object;
}

static void check_member(json_t *object, const char *name, long long want) {
    const json_t *value = json_object_get(object, name);
    CHECK(json_is_integer(value));
    CHECK_INT(json_integer_value(value), want);
}

static void answers_at_their_longest(void) {
    char body[CODEC_BODY_SIZE];
    const long long most = INT64_MAX;
    struct inventory_order order = {
        .quantity = 1000, .state = INVENTORY_STATE_CANCELLED, .expires_ms = 253402300799999};
    memcpy(order.item, harness_repeat('i', 64), 65);
    memcpy(order.user, harness_repeat('u', 64), 65);
    memset(order.id, 'o', sizeof order.id - 1);
    json_t *read = parse(body, codec_write_order(body, &order));
    CHECK_STR(json_string_value(json_object_get(read, "order")), order.id);
    CHECK_STR(json_string_value(json_object_get(read, "state")), "cancelled");
    CHECK_STR(json_string_value(json_object_get(read, "expires_at")), "9999-12-31T23:59:59.999Z");
    json_decref(read);
    struct inventory_item item = {.initial = most,
                                  .available = most,
                                  .held = most,
                                  .sold = most,
                                  .limit = most,
                                  .hold_ms = most,
                                  .starts_ms = 253402300799999,
                                  .ends_ms = 253402300799999};
    memcpy(item.item, order.item, 65);
    item.strategy = INVENTORY_OPTIMISTIC;
    read = parse(body, codec_write_item(body, &item));
    check_member(read, "stock", most);
    CHECK_STR(json_string_value(json_object_get(read, "strategy")), "optimistic");
    json_decref(read);
    struct inventory_audit audit = {.item = item,
                                    .oversold = most,
                                    .holds = most,
                                    .user_units = most,
                                    .over_limit = most,
                                    .unreadable = most,
                                    .off_by = most};
    audit.units[INVENTORY_STATE_HELD] = audit.units[INVENTORY_STATE_CONFIRMED] = most;
    audit.orders[INVENTORY_STATE_HELD] = audit.orders[INVENTORY_STATE_EXPIRED] = most;
    read = parse(body, codec_write_audit(body, &audit));
    CHECK(json_is_false(json_object_get(read, "conserved")));
    CHECK(json_is_false(json_object_get(read, "exact")));
    check_member(read, "off_by", most);
    check_member(read, "oversold", most);
    json_decref(read);
    struct inventory_restock restock = {.quantity = 1000, .stock = most, .available = most};
    read = parse(body, codec_write_restock(body, item.item, &restock));
    check_member(read, "stock", most);
    json_decref(read);
}

/* As long as it can be. */
static void health_of_many_servers(void) {
    char body[CODEC_HEALTH_SIZE];
    struct inventory_health health = {.replicas = 1, .server_count = INVENTORY_SERVERS_TOLD};
    const char *losses[] = {"no replica follows", "nothing that was acknowledged", "unless",
                            "what its replicas have not got yet"};
    memset(health.reason, 'r', sizeof health.reason - 1);
    for (int i = 0; i < INVENTORY_SERVERS_TOLD; i++) {
        memset(health.servers[i].address, 'a', sizeof health.servers[i].address - 1);
        health.servers[i].replicas = health.servers[i].proven = i % 3;
    }
    health.servers[3].replicas = 1; /* follows, and has proved nothing */
    json_t *read = parse(body, codec_write_health(body, &health, false, "ok", "ok"));
    json_t *servers = json_object_get(json_object_get(read, "durability"), "servers");
    CHECK_INT(json_array_size(servers), INVENTORY_SERVERS_TOLD);
    for (size_t i = 0; i < 4; i++)
        CHECK_HAS(json_string_value(json_object_get(json_array_get(servers, i), "its_death_loses")),
                  losses[i]);
    json_decref(read);
}

static void health_with_odd_texts(void) {
    char body[CODEC_HEALTH_SIZE];
    struct inventory_health health = {.ready = true,
                                      .version = "7.0.15",
                                      .role = "master",
                                      .appendonly = "yes",
                                      .appendfsync = "always",
                                      .eviction = "noeviction"};
    json_t *read = parse(body, codec_write_health(body, &health, false, "ok", "ok"));
    CHECK(json_is_true(json_object_get(read, "ready")));
    json_decref(read);
    read = parse(body, codec_write_health(body, &health, true, "ok", "ok"));
    CHECK(json_is_false(json_object_get(read, "ready")));
    CHECK(json_is_string(json_object_get(read, "reason")));
    json_decref(read);
    /* The store's own words, whatever they are. */
    const char *const odd[] = {"\"quoted\\", "\xff\xfe", "line\nbreak", harness_repeat('\x01', 255),
                               harness_repeat('r', 255)};
    health.ready = false;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        memset(health.reason, 0, sizeof health.reason);
        memcpy(health.reason, odd[i], strlen(odd[i]));
        read = parse(body, codec_write_health(body, &health, false, "ok", "ok"));
        CHECK(json_is_false(json_object_get(read, "ready")));
        json_decref(read);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("plain purchases", plain);
    harness_run("what is not plain", not_plain);
    harness_run("nearly plain purchases", nearly_plain);
    harness_run("purchases are read", purchases);
    harness_run("purchases: names", purchase_names);
    harness_run("purchases: quantities", purchase_quantities);
    harness_run("purchases: shapes", purchase_shapes);
    harness_run("purchases: unknown fields", purchase_fields);
    harness_run("purchases: what is wrong is told", purchase_blame);
    harness_run("bytes that are no text", bytes_that_are_no_text);
    harness_run("items are read", items);
    harness_run("items are refused", items_refused);
    harness_run("a sale that ended at the epoch", a_sale_that_ended_at_the_epoch);
    harness_run("restocks", restocks);
    harness_run("calls without a body", nothing);
    harness_run("answers at their longest are JSON", answers_at_their_longest);
    harness_run("health of many servers", health_of_many_servers);
    harness_run("health with odd texts is JSON", health_with_odd_texts);
    return harness_finish();
}
