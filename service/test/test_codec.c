/* What the request codec lets through and what it refuses, and that what it writes is JSON. */
#include "service/api/http_api.h"

#include <jansson.h>
#include <string.h>

#include "test/harness.h"

/* The text with " for each '. */
static const char *json(const char *text) {
    char *copy = harness_format("%s", text);
    for (char *quote = copy; (quote = strchr(quote, '\''));)
        *quote = '"';
    return copy;
}

/* ---- plain purchases ---- */

/* Also reads it plainly, if it is plain: that must be the same. */
static bool read_purchase(const char *body, size_t length, struct codec_purchase *purchase,
                          struct codec_error *error) {
    bool good = codec_read_purchase(body, length, purchase, error);
    struct codec_purchase plain = {.quantity = -7};
    if (!codec_read_plain_purchase(body, length, &plain)) {
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
    static const struct {
        const char *body;
        bool plain;
    } rows[] = {
        {"{'item':'a','user':'u','quantity':1}", true},
        {"{'quantity':1000,'user':'A.b_c-9','item':'x'}", true},
        {"{'item': 'a', 'user': 'u', 'quantity': 10}", true},
        {"{'item':'a','user':'auth0|ann+1=~:x@example.org','quantity':1}", true},
        {"{'item':'a@b','user':'u','quantity':1}", false},
        {"\r\n{\n\t'user' : 'u' ,\n\t'item' : 'a' ,\n\t'quantity' : 25\n}\n", true},
        {"{'item':'a','item':'u','quantity':1}", false},
        {"{'item':'a','quantity':1}", true},
        {"{'quantity':1,'item':'a'}", true},
        {"{'item':'a','user':'','quantity':1}", false},
        {"{'item':'a','user':'u'}", false},
        {"{'user':'u','quantity':1}", false},
        {"{'item':'a','quantity':1,}", false},
        {"{'item':'a','quantity':1,'item':'a'}", false},
        {"{'quantity':1,'quantity':1,'user':'u'}", false},
        {"{'item':'a','user':'u','uses':'u'}", false},
        {"{'item':'a','uses':'u','quantity':1}", false},
        {"{'item':'a','user':'u','quantity':01}", false},
        {"{'item':'a','user':'u','quantity':1001}", false},
        {"{'item':'a','user':'u','quantity':}", false},
        {"{'item':'a','user':'u','quantity':1.0}", false},
        {"{'item':'a','user':'u','quantity':1}x", false},
        {"{'item':'a','user':'u','quantity':1,}", false},
    };
    struct codec_purchase purchase;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *body = json(rows[i].body);
        if (codec_read_plain_purchase(body, strlen(body), &purchase) != rows[i].plain)
            FAIL("whether %s is plain", body);
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

/* ---- what is read ---- */

static void purchases(void) {
    const char *longest = harness_repeat('z', 64);
    const struct {
        const char *body, *item, *user;
        int64_t quantity;
    } good[] = {
        {"{'item':'a','user':'u','quantity':1}", "a", "u", 1},
        {"{'quantity':2,'item':'a'}", "a", "", 2},
        {"{'quantity':2,'item':'\\u0061'}", "a", "", 2},
        {" {\t'quantity' : 1000 , 'user':'A.b_c-9',\n'item':'x' }\r\n ", "x", "A.b_c-9", 1000},
        {"{'item':'\\u0061b','user':'u','quantity':7}", "ab", "u", 7},
        {harness_format("{'item':'%s','user':'%s%s','quantity':5}", longest, longest, longest), longest,
         harness_repeat('z', 128), 5},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct codec_purchase purchase;
        struct codec_error error;
        const char *body = json(good[i].body);
        if (!read_purchase(body, strlen(body), &purchase, &error))
            FAIL("%s refused: %s %s", body, error.field, error.detail);
        CHECK_STR(purchase.item, good[i].item);
        CHECK_STR(purchase.user, good[i].user);
        CHECK_INT(purchase.quantity, good[i].quantity);
    }
}

static struct inventory_item accept_item(const char *text) {
    struct inventory_item item = {.item = "name", .strategy = INVENTORY_LUA};
    struct codec_error error;
    const char *body = json(text);
    if (!codec_read_item(body, strlen(body), &item, &error))
        FAIL("%s refused: %s %s", body, error.field, error.detail);
    CHECK_STR(item.item, "name");
    return item;
}

static void items(void) {
    struct inventory_item item = accept_item("{'stock':100}");
    CHECK_INT(item.initial, 100);
    CHECK(item.limit == 0 && item.hold_ms == 0 && item.starts_ms == 0 && item.ends_ms == 0);
    CHECK_INT(item.strategy, INVENTORY_LUA);
    item = accept_item("{'stock':0,'per_user_limit':3,'hold_seconds':600,'strategy':'decr',"
                       "'starts_at':'2030-01-31T20:00:00Z','ends_at':'2030-01-31T21:00:00.5+01:00'}");
    CHECK(item.initial == 0 && item.limit == 3 && item.hold_ms == 600000);
    CHECK_INT(item.starts_ms, 1896120000000);
    CHECK_INT(item.ends_ms, 1896120000500);
    CHECK_INT(item.strategy, INVENTORY_DECR);
    CHECK_INT(accept_item("{'stock':1000000000}").initial, 1000000000);
    CHECK_INT(accept_item("{'stock':1,'per_user_limit':0}").limit, 0);
    CHECK_INT(accept_item("{'stock':1,'strategy':'naive'}").strategy, INVENTORY_NAIVE);
}

/* The epoch stands for "no bound" within: as a bound it must not become none. */
static void a_sale_that_ended_at_the_epoch(void) {
    struct inventory_item item = {.item = "name"};
    struct codec_error error;
    static const char body[] = "{\"stock\":1,\"ends_at\":\"1970-01-01T00:00:00Z\"}";
    if (codec_read_item(body, sizeof body - 1, &item, &error))
        CHECK(item.ends_ms != 0);
    else
        CHECK_STR(error.field, "ends_at");
}

static void restocks_and_nothing(void) {
    static const char *const empty[] = {"", "{}", " { } "};
    struct codec_error error;
    int64_t quantity;
    CHECK(codec_read_restock("{\"quantity\":1}", 14, &quantity, &error) && quantity == 1);
    CHECK(codec_read_restock("{\"quantity\":1000000000}", 23, &quantity, &error) && quantity == 1000000000);
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        CHECK(codec_read_nothing(empty[i], strlen(empty[i]), NULL, &error));
}

/* ---- what is refused ---- */

enum reader { PURCHASE, ITEM, RESTOCK, BASKET, TRANSFER, LOCK, NOTHING };

/* Whether the reader takes it. What it refuses leaves the result untouched. */
static bool is_read(enum reader reader, const char *body, size_t length, struct codec_error *error) {
    struct codec_purchase purchase = {.item = "untouched", .quantity = -7};
    struct inventory_item item = {.item = "name", .initial = -7};
    struct inventory_transaction transaction;
    char url[CODEC_URL_SIZE];
    int64_t quantity = -7;
    bool read = false;
    switch (reader) {
    case PURCHASE: read = read_purchase(body, length, &purchase, error); break;
    case ITEM: read = codec_read_item(body, length, &item, error); break;
    case RESTOCK: read = codec_read_restock(body, length, &quantity, error); break;
    case BASKET: return codec_read_basket(body, length, &transaction, error);
    case TRANSFER: return codec_read_transfer(body, length, &transaction, error);
    case LOCK: return codec_read_lock(body, length, url, error);
    case NOTHING: return codec_read_nothing(body, length, NULL, error);
    }
    if (!read) {
        CHECK_STR(purchase.item, "untouched");
        CHECK(purchase.quantity == -7 && item.initial == -7 && quantity == -7);
    }
    return read;
}

static void refuse_bytes(enum reader reader, const char *body, size_t length, const char *field) {
    struct codec_error error;
    /* Of exactly this size, so that a sanitizer sees a read past its end. */
    const char *copy = memcpy(harness_alloc(length), body, length);
    if (is_read(reader, copy, length, &error))
        FAIL("%.200s accepted", body);
    if (strcmp(error.field, field) != 0)
        FAIL("%.200s: \"%s\" is blamed (%s), not \"%s\"", body, error.field, error.detail, field);
    CHECK(error.detail[0] != '\0');
    CHECK(!strpbrk(error.detail, "\"\\"));
}

static void refuse(enum reader reader, const char *text, const char *field) {
    const char *body = json(text);
    refuse_bytes(reader, body, strlen(body), field);
}

static const struct {
    enum reader reader;
    const char *body, *field;
} refusals[] = {
    {PURCHASE, "", "body"},
    {PURCHASE, "null", "body"},
    {PURCHASE, "[]", "body"},
    {PURCHASE, "{", "body"},
    {PURCHASE, "[{'item':'i','user':'u','quantity':1}]", "body"},
    {PURCHASE, "\xef\xbb\xbf{}", "body"},
    {PURCHASE, "{'item':'i','user':'u','quantity':1,}", "body"},
    {PURCHASE, "{'item':'i','user':'u','quantity':1}x", "body"},
    {PURCHASE, "{'item':'i','user':'u','quantity':1} // bought", "body"},
    {PURCHASE, "{'item':'i','user':'u','\\u0075ser':'v','quantity':1}", "body"},
    {PURCHASE, "{}", "item"},
    {PURCHASE, "{'user':'u','quantity':1}", "item"},
    {PURCHASE, "{'item':'i','user':'','quantity':1}", "user"},
    {PURCHASE, "{'item':'i','user':'u'}", "quantity"},
    {PURCHASE, "{'item':'i','user':'u','quantity':1,'coupon':'free'}", "coupon"},
    {PURCHASE, "{'item':'i','user':'u','quantity':1,'Item':'i'}", "Item"},
    {PURCHASE, "{'item':'i','user':'u','quantity':1,'a\\'b':1}", "a?b"},
    {PURCHASE, "{'item':'i','user':'u','quantity':1,'':1}", "body"},
    /* Bytes that are no text. */
    {PURCHASE, "{'item':'i\\u0000','user':'u','quantity':1}", "body"},
    {PURCHASE, "{'item':'\xff','user':'u','quantity':1}", "body"},
    {PURCHASE, "{'item':'\xc0\xaf','user':'u','quantity':1}", "body"},
    {PURCHASE, "{'item':'\xed\xa0\x80','user':'u','quantity':1}", "body"},
    {PURCHASE, "{'item':'\\ud800','user':'u','quantity':1}", "body"},
    {PURCHASE, "{'item\\u0000':'i','user':'u','quantity':1}", "body"},
    {PURCHASE, "{'item':'a\tb','user':'u','quantity':1}", "body"},
    {ITEM, "{}", "stock"},
    {ITEM, "{'stock':1,'ends_at':'2030-02-29T00:00:00Z'}", "ends_at"},
    {ITEM, "{'stock':1,'starts_at':'2030-01-02T00:00:00Z','ends_at':'2030-01-02T00:00:00Z'}", "ends_at"},
    {ITEM, "{'stock':1,'starts_at':'2030-01-02T00:00:00Z','ends_at':'2030-01-01T00:00:00Z'}", "ends_at"},
    {ITEM, "{'stock':1,'item':'x'}", "item"},
    {ITEM, "{'stock':1,'sold':5}", "sold"},
    {ITEM, "{'stock':1,'stock':2}", "stock"},
    {ITEM, "{'stock':1} {}", "body"},
    {ITEM, "", "body"},
    {RESTOCK, "{}", "quantity"},
    {RESTOCK, "{'quantity':1,'item':'x'}", "item"},
    {RESTOCK, "{'quantity':1,'quantity':1}", "quantity"},
    {BASKET, "{'user':'ann','lines':[]}", "lines"},
    {BASKET, "{'user':'ann','lines':{}}", "lines"},
    {BASKET, "{'user':'ann'}", "lines"},
    {BASKET, "{'user':'','lines':[{'item':'a','quantity':1}]}", "user"},
    {BASKET, "{'user':'a b','lines':[{'item':'a','quantity':1}]}", "user"},
    {BASKET, "{'user':'ann','lines':[1]}", "lines[0]"},
    {BASKET, "{'user':'ann','lines':[{'item':'a','quantity':1},[]]}", "lines[1]"},
    {BASKET, "{'user':'ann','lines':[{'item':'a','quantity':1},{'item':'a','quantity':0}]}",
     "lines[1].quantity"},
    {BASKET, "{'user':'ann','lines':[{'item':'a','quantity':1.0}]}", "lines[0].quantity"},
    {BASKET, "{'user':'ann','lines':[{'item':'','quantity':1}]}", "lines[0].item"},
    {BASKET, "{'user':'ann','lines':[{'quantity':1}]}", "lines[0].item"},
    {BASKET, "{'user':'ann','lines':[{'item':'a','quantity':1,'x':1}]}", "lines[0].x"},
    {BASKET, "{'user':'ann','lines':[{'item':'a','quantity':1,'item':'a'}]}", "item"},
    {BASKET, "{'user':'ann','lines':[{'item':'a','quantity':1}],'x':1}", "x"},
    {BASKET, "{'user':'ann','lines':[{'item':'a','quantity':1}]} ,", "body"},
    {BASKET, "", "body"},
    {TRANSFER, "{'from':'a','to':'b'}", "quantity"},
    {TRANSFER, "{'from':'a','quantity':1}", "to"},
    {TRANSFER, "{'from':'a','to':'a','quantity':1}", "to"},
    {TRANSFER, "{'from':'a','to':'b','quantity':-1}", "quantity"},
    {TRANSFER, "{'from':'a/','to':'b','quantity':1}", "from"},
    {TRANSFER, "{'from':'a','to':'b','quantity':1,'user':'ann'}", "user"},
    {LOCK, "{'lock':'local:\\u0000'}", "body"},
    {LOCK, "{'lock':null}", "lock"},
    {LOCK, "{}", "lock"},
    {LOCK, "[]", "body"},
    {LOCK, "", "body"},
    {LOCK, "{'lock':'local:','lock':'local:'}", "lock"},
    {LOCK, "{'lock':'local:','epoch':7}", "epoch"},
    {LOCK, "{'lock':'local:'} x", "body"},
    {NOTHING, "[]", "body"},
    {NOTHING, " ", "body"},
    {NOTHING, "{", "body"},
    {NOTHING, "{'force':true}", "force"},
};

static void refused_bodies(void) {
    static const char nul[] = "{\"item\":\"i\",\"user\":\"u\",\"quantity\":1}\0";
    static const char within[] = "{\"item\":\"i\0j\",\"user\":\"u\",\"quantity\":1}";
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        refuse(refusals[i].reader, refusals[i].body, refusals[i].field);
    for (size_t cut = 0; cut < sizeof nul - 2; cut++)
        refuse_bytes(PURCHASE, nul, cut, "body");
    refuse_bytes(PURCHASE, nul, sizeof nul - 1, "body");
    refuse_bytes(PURCHASE, within, sizeof within - 1, "body");
    static const char single[] = "{'item':'i'}";
    refuse_bytes(PURCHASE, single, sizeof single - 1, "body");
    refuse(PURCHASE, harness_repeat('[', 16384), "body");
    refuse(PURCHASE,
           harness_format("{'item':%s%s,'user':'u','quantity':1}", harness_repeat('[', 500),
                          harness_repeat(']', 500)),
           "item");
    refuse(PURCHASE, harness_format("{'item':'i','user':'u','quantity':1,'%s':1}", harness_repeat('f', 300)),
           harness_repeat('f', 31));
    const char *lines = "{'item':'a','quantity':1}";
    for (int i = 1; i < INVENTORY_LINES_MAX + 1; i++)
        lines = harness_format("%s,{'item':'a','quantity':1}", lines);
    refuse(BASKET, harness_format("{'user':'ann','lines':[%s]}", lines), "lines");
    refuse(LOCK, harness_format("{'lock':'redis://%s'}", harness_repeat('h', 600)), "lock");
}

/* Values of a field, with | between them. */
static const struct {
    enum reader reader;
    const char *before, *values, *after, *field;
} bad_values[] = {
#define NAMES "''|'a b'|'a/b'|'{a}'|'a\\n'|'\\''|5|null|['a']|true|'\xc3\xa9'|'*'|'\\u00e9'|{'a':'a'}|'`'|"
    {PURCHASE, "{'item':",
     NAMES "'a:b'|'a+'|'a@'|'~'|'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'",
     ",'user':'u','quantity':1}", "item"},
    {PURCHASE, "{'item':'i','user':",
     NAMES "'a,b'|'a#'|'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'",
     ",'quantity':1}", "user"},
    {PURCHASE, "{'item':'i','user':'u','quantity':",
     "0|-1|1001|1.0|1e2|1E0|0.5|'1'|null|true|[1]|{}|-0|2147483648|4294967297|9223372036854775807|1.0e0|"
     "-9223372036854775808",
     "}", "quantity"},
    /* Numbers that no 64 bits hold, and what are no numbers of JSON. */
    {PURCHASE, "{'item':'i','user':'u','quantity':",
     "9223372036854775808|18446744073709551617|1e999|01|+1|0x1|1.|.5|NaN|Infinity|1_0|--1", "}", "body"},
    {ITEM, "{'stock':", "-1|1000000001|1.5|1e2|'100'|null", "}", "stock"},
    {ITEM, "{'stock':1,'per_user_limit':", "-1|1.0|null|1000001", "}", "per_user_limit"},
    {ITEM, "{'stock':1,'hold_seconds':", "-1|0.5|9223372036854775807", "}", "hold_seconds"},
    {ITEM, "{'stock':1,'strategy':", "'best'|1|null", "}", "strategy"},
    {ITEM, "{'stock':1,'starts_at':", "1|null|'tomorrow'", "}", "starts_at"},
    {RESTOCK, "{'quantity':", "0|1000000001|-5|1.0|'5'|[5]|null", "}", "quantity"},
};

static void refused_values(void) {
    for (size_t i = 0; i < sizeof bad_values / sizeof *bad_values; i++) {
        char *rest = harness_format("%s", bad_values[i].values);
        for (char *value; (value = strsep(&rest, "|"));)
            refuse(bad_values[i].reader,
                   harness_format("%s%s%s", bad_values[i].before, value, bad_values[i].after),
                   bad_values[i].field);
    }
}

/* What is wrong, and where: the misspelt field, not the one that it should have been. */
static void purchase_blame(void) {
    static const char *const bad[][3] = {
        {"{'itme':'i','user':'u','quantity':1}", "itme", "unknown field; there are item, user, quantity"},
        {"{'\u00fcber':'i'}", "??ber", "unknown field; there are item, user, quantity"},
        {"{'item':'i','user':'u',\n 'user':'v'}", "user", "is there twice (line 2, column 7)"},
        {"{'a name of many letters':1,'a name of many letters':1}", "body",
         "there is a field twice (line 1, column 52)"},
        {"{'item':'i',}", "body", "not valid JSON (line 1, column 13)"},
        {"{'item':'i'", "body", "not valid JSON: it ends too early (line 1, column 11)"},
        {"{} {}", "body", "not valid JSON: there is more behind its end (line 1, column 4)"},
        {"{'item':'\\u0000'}", "body", "a text or a name has a NUL in it (line 1, column 16)"},
        {"{'item':'\xff'}", "body", "not valid JSON: not UTF-8 (line 1, column 9)"},
        {"{'quantity':99999999999999999999}", "body", "a number is too large (line 1, column 32)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct codec_purchase purchase;
        struct codec_error error;
        const char *body = json(bad[i][0]);
        CHECK(!codec_read_purchase(body, strlen(body), &purchase, &error));
        CHECK_STR(error.field, bad[i][1]);
        CHECK_STR(error.detail, bad[i][2]);
    }
}

/* ---- what is written ---- */

static void forget(void *object) {
    json_decref(object);
}

static const json_t *parse(const char *body, size_t length) {
    json_error_t error;
    CHECK(length > 0 && length < CODEC_HEALTH_SIZE);
    json_t *object = json_loadb(body, length, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        FAIL("%.*s is no JSON: %s", (int)length, body, error.text);
    harness_defer(forget, object);
    return object;
}

static const char *text_of(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

static void check_most(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    CHECK(json_is_integer(value));
    CHECK_INT(json_integer_value(value), INT64_MAX);
}

static void answers_at_their_longest(void) {
    char body[CODEC_BODY_SIZE];
    const long long most = INT64_MAX, last_ms = 253402300799999;
    struct inventory_order order = {
        .quantity = 1000, .state = INVENTORY_STATE_CANCELLED, .expires_ms = last_ms};
    memcpy(order.item, harness_repeat('i', 64), 65);
    memcpy(order.user, harness_repeat('u', 128), 129);
    memset(order.id, 'o', sizeof order.id - 1);
    const json_t *read = parse(body, codec_write_order(body, &order));
    CHECK_STR(text_of(read, "order"), order.id);
    CHECK_STR(text_of(read, "state"), "cancelled");
    CHECK_STR(text_of(read, "expires_at"), "9999-12-31T23:59:59.999Z");
    struct inventory_item item = {.initial = most,
                                  .available = most,
                                  .held = most,
                                  .sold = most,
                                  .limit = most,
                                  .hold_ms = most,
                                  .starts_ms = last_ms,
                                  .ends_ms = last_ms,
                                  .strategy = INVENTORY_OPTIMISTIC};
    memcpy(item.item, order.item, 65);
    read = parse(body, codec_write_item(body, &item));
    check_most(read, "stock");
    CHECK_STR(text_of(read, "strategy"), "optimistic");
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
    CHECK(json_is_false(json_object_get(read, "conserved")) && json_is_false(json_object_get(read, "exact")));
    check_most(read, "off_by");
    check_most(read, "oversold");
    struct inventory_restock restock = {.quantity = 1000, .stock = most, .available = most};
    check_most(parse(body, codec_write_restock(body, item.item, &restock)), "stock");
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
    const json_t *read = parse(body, codec_write_health(body, &health, false, "ok", "ok"));
    const json_t *servers = json_object_get(json_object_get(read, "durability"), "servers");
    CHECK_INT(json_array_size(servers), INVENTORY_SERVERS_TOLD);
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        CHECK_HAS(text_of(json_array_get(servers, i), "its_death_loses"), losses[i]);
}

static void health_with_odd_texts(void) {
    char body[CODEC_HEALTH_SIZE];
    struct inventory_health health = {.ready = true,
                                      .version = "7.0.15",
                                      .role = "master",
                                      .appendonly = "yes",
                                      .appendfsync = "always",
                                      .eviction = "noeviction"};
    const json_t *read = parse(body, codec_write_health(body, &health, false, "ok", "ok"));
    CHECK(json_is_true(json_object_get(read, "ready")));
    read = parse(body, codec_write_health(body, &health, true, "ok", "ok"));
    CHECK(json_is_false(json_object_get(read, "ready")) && text_of(read, "reason"));
    /* The store's own words, whatever they are. */
    const char *const odd[] = {"\"quoted\\", "\xff\xfe", "line\nbreak", harness_repeat('\x01', 255),
                               harness_repeat('r', 255)};
    health.ready = false;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        memset(health.reason, 0, sizeof health.reason);
        memcpy(health.reason, odd[i], strlen(odd[i]));
        read = parse(body, codec_write_health(body, &health, false, "ok", "ok"));
        CHECK(json_is_false(json_object_get(read, "ready")));
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("plain purchases, and what is not plain", plain);
    harness_run("nearly plain purchases", nearly_plain);
    harness_run("purchases are read", purchases);
    harness_run("items are read", items);
    harness_run("a sale that ended at the epoch", a_sale_that_ended_at_the_epoch);
    harness_run("restocks, and calls without a body", restocks_and_nothing);
    harness_run("bodies are refused, and a field is blamed", refused_bodies);
    harness_run("values are refused, and their field is blamed", refused_values);
    harness_run("purchases: what is wrong is told", purchase_blame);
    harness_run("answers at their longest are JSON", answers_at_their_longest);
    harness_run("health of many servers", health_of_many_servers);
    harness_run("health with odd texts is JSON", health_with_odd_texts);
    return harness_finish();
}
