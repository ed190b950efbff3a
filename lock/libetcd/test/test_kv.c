/* Keys, values and transactions, on one server. */
#include <string.h>

#include "lock/libetcd/test/requests.h"

/* ---- ranges ---- */

static void ranges(void) {
    static const char *const names[] = {"a", "p", "p/1", "p/2", "p/3", "p0", "q"};
    static const struct {
        struct etcd_range range;
        const char *keys;
    } ranges[] = {
        {{.key = {"p", 1}}, "p"},
        {{.key = {"nothing", 7}}, ""},
        {{.key = {"p/", 2}, .prefix = true}, "p/1 p/2 p/3"},
        {{.key = {"p/", 2}, .prefix = true, .serializable = true}, "p/1 p/2 p/3"},
        {{.key = {"p", 1}, .prefix = true}, "p p/1 p/2 p/3 p0"},
        {{.key = {"x", 1}, .prefix = true}, ""},
        {{.prefix = true}, "a p p/1 p/2 p/3 p0 q"},
        {{.key = {"p/2", 3}, .end = {"q", 1}}, "p/2 p/3 p0"},
        {{.key = {"p/3", 3}, .end = {"", 1}}, "p/3 p0 q"}, /* to the end of the store */
        {{.key = {"q", 1}, .end = {"a", 1}}, ""},
    };
    request_clear();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        request_put(names[i], names[i]);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        CHECK_STR(request_keys(request_op(&(struct etcd_op){ETCD_RANGE, .range = ranges[i].range})),
                  ranges[i].keys);
    struct etcd_reply *reply = RANGE(.key = T("p"));
    CHECK_STR(request_pairs(reply), "p=p");
    CHECK(reply->count == 1 && !reply->more);
}

static void parts_of_ranges(void) {
    request_clear();
    for (int i = 0; i < 5; i++)
        request_put(harness_format("k%d", i), "value");
    struct etcd_reply *reply = RANGE(.key = T("k"), .prefix = true, .limit = 2);
    CHECK_STR(request_keys(reply), "k0 k1");
    CHECK(reply->more);
    CHECK_INT(reply->count, 5);
    reply = RANGE(.key = T("k"), .prefix = true, .limit = 5);
    CHECK(!reply->more);
    CHECK_INT(reply->kv_count, 5);
    reply = RANGE(.key = T("k"), .prefix = true, .keys_only = true);
    CHECK_STR(request_pairs(reply), "k0= k1= k2= k3= k4=");
    CHECK_INT(reply->kvs[4].version, 1);
    reply = RANGE(.key = T("k"), .prefix = true, .count_only = true);
    CHECK_INT(reply->kv_count, 0);
    CHECK_INT(reply->count, 5);
}

static void ranges_at_past_revision(void) {
    request_clear();
    int64_t first = request_put("a", "1"), second = request_put("a", "2"), third = request_put("b", "3");
    CHECK_INT(second, first + 1);
    CHECK_STR(request_pairs(RANGE(.prefix = true, .revision = first)), "a=1");
    CHECK_STR(request_pairs(RANGE(.prefix = true, .revision = second)), "a=2");
    CHECK_STR(request_pairs(RANGE(.prefix = true, .revision = third)), "a=2 b=3");
    struct etcd_reply *reply = RANGE(.key = T("a"), .revision = first);
    CHECK_INT(reply->revision, third); /* the store's */
    CHECK_INT(reply->kvs[0].version, 1);
    reply = RANGE(.key = T("a"));
    CHECK_INT(reply->kvs[0].version, 2);
    CHECK_INT(reply->kvs[0].create_revision, first);
    CHECK_INT(reply->kvs[0].mod_revision, second);
    CHECK_INT(reply->kvs[0].lease, 0);
}

/* Three keys whose order differs for each target. */
static void sorted(void) {
    static const struct {
        enum etcd_target by;
        const char *ascending, *descending;
    } orders[] = {
        {ETCD_KEY, "1 2 3", "3 2 1"},
        {ETCD_VERSION, "2 1 3", "3 1 2"},
        {ETCD_CREATE_REVISION, "3 1 2", "2 1 3"},
        {ETCD_MOD_REVISION, "2 3 1", "1 3 2"},
        {ETCD_VALUE, "3 2 1", "1 2 3"},
    };
    request_clear();
    request_put("3", "a");
    request_put("1", "c");
    request_put("2", "b");
    request_put("3", "a");
    request_put("3", "a");
    request_put("1", "c");
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct etcd_range range = {.prefix = true, .sort_by = orders[i].by, .order = ETCD_ASCENDING};
        CHECK_STR(request_keys(request_op(&(struct etcd_op){ETCD_RANGE, .range = range})),
                  orders[i].ascending);
        range.order = ETCD_DESCENDING;
        CHECK_STR(request_keys(request_op(&(struct etcd_op){ETCD_RANGE, .range = range})),
                  orders[i].descending);
        range.limit = 1;
        CHECK_STR(request_keys(request_op(&(struct etcd_op){ETCD_RANGE, .range = range})),
                  harness_format("%.1s", orders[i].descending));
    }
}

static void between_revisions(void) {
    request_clear();
    int64_t first = request_put("a", "");
    request_put("b", "");
    request_put("c", "");
    int64_t fourth = request_put("a", "");
    CHECK_STR(request_keys(RANGE(.prefix = true, .min_mod_revision = first + 2)), "a c");
    CHECK_STR(request_keys(RANGE(.prefix = true, .max_mod_revision = fourth - 1)), "b c");
    CHECK_STR(request_keys(RANGE(.prefix = true, .min_create_revision = first + 1)), "b c");
    CHECK_STR(request_keys(RANGE(.prefix = true, .max_create_revision = first + 1)), "a b");
}

/* ---- puts and deletes ---- */

static void puts_(void) {
    request_clear();
    int64_t lease = tools_grant(requests.etcd, 1000), other = tools_grant(requests.etcd, 1000);
    struct etcd_reply *reply = PUT(.key = T("a"), .value = T("1"), .prev = true, .lease = lease);
    CHECK_INT(reply->kv_count, 0);
    reply = PUT(.key = T("a"), .value = T("2"), .prev = true, .ignore_lease = true);
    CHECK_STR(request_pairs(reply), "a=1");
    CHECK_INT(reply->kvs[0].lease, lease);
    CHECK_INT(reply->kvs[0].version, 1);
    CHECK_INT(RANGE(.key = T("a"))->kvs[0].lease, lease);
    CHECK_INT(PUT(.key = T("a"), .ignore_value = true, .lease = other)->kv_count, 0);
    reply = RANGE(.key = T("a"));
    CHECK_STR(request_pairs(reply), "a=2");
    CHECK_INT(reply->kvs[0].lease, other);
    CHECK_INT(reply->kvs[0].version, 3);
    request_put("a", "");
    reply = RANGE(.key = T("a"));
    CHECK_STR(request_pairs(reply), "a=");
    CHECK_INT(reply->kvs[0].lease, 0);
    const struct etcd_put nothing_there = {.key = T("b"), .ignore_value = true};
    CHECK_STATUS(etcd_put(requests.etcd, &nothing_there, NULL, NULL), ETCD_INVALID);
}

static void deletes(void) {
    request_clear();
    for (int i = 0; i < 6; i++)
        request_put(harness_format("k%d", i), "v");
    request_put("l", "w");
    struct etcd_reply *reply = DELETE(.key = T("k0"));
    CHECK_INT(reply->count, 1);
    CHECK_INT(reply->kv_count, 0);
    CHECK_INT(DELETE(.key = T("k0"))->count, 0);
    reply = DELETE(.key = T("k1"), .prev = true);
    CHECK_INT(reply->count, 1);
    CHECK_STR(request_pairs(reply), "k1=v");
    reply = DELETE(.key = T("k2"), .end = T("k4"), .prev = true);
    CHECK_INT(reply->count, 2);
    CHECK_STR(request_pairs(reply), "k2=v k3=v");
    CHECK_INT(DELETE(.key = T("k"), .prefix = true)->count, 2);
    CHECK_STR(request_pairs(RANGE(.prefix = true)), "l=w");
    CHECK_INT(DELETE(.prefix = true)->count, 1);
}

static void compacts(void) {
    request_clear();
    int64_t first = request_put("a", "1"), second = request_put("a", "2"), third = request_put("a", "3");
    CHECK_STATUS(etcd_compact(requests.etcd, second, false, NULL), ETCD_OK);
    struct etcd_range range = {.key = T("a"), .revision = first};
    CHECK_STATUS(etcd_range(requests.etcd, &range, NULL, NULL), ETCD_COMPACTED);
    CHECK_STR(request_pairs(RANGE(.key = T("a"), .revision = second)), "a=2");
    CHECK_STATUS(etcd_compact(requests.etcd, second, true, NULL), ETCD_COMPACTED);
    CHECK_STATUS(etcd_compact(requests.etcd, third, true, NULL), ETCD_OK);
    range.revision = second;
    CHECK_STATUS(etcd_range(requests.etcd, &range, NULL, NULL), ETCD_COMPACTED);
    CHECK_STATUS(etcd_compact(requests.etcd, third + 1, false, NULL), ETCD_FUTURE);
    CHECK_STR(request_pairs(RANGE(.key = T("a"))), "a=3");
}

/* ---- bytes ---- */

static void check_bytes(struct etcd_bytes key, struct etcd_bytes value) {
    PUT(.key = key, .value = value);
    struct etcd_reply *reply = RANGE(.key = key);
    CHECK_INT(reply->kv_count, 1);
    CHECK(request_same(reply->kvs[0].key, key));
    CHECK(request_same(reply->kvs[0].value, value));
}

static void any_bytes(void) {
    request_clear();
    check_bytes(request_bytes("\0", 1), request_bytes("\0\0", 2));
    check_bytes(request_bytes("\0\0", 2), request_bytes("", 0));
    check_bytes(request_bytes("a\0b", 3), request_bytes("\xff\0\xfe", 3));
    check_bytes(request_bytes("\xff", 1), request_bytes(NULL, 0));
    uint8_t all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    check_bytes(request_bytes(all, sizeof all), request_bytes(all, sizeof all));
    CHECK_INT(RANGE(.prefix = true)->kv_count, 5);
    /* The prefix is one NUL byte. */
    CHECK_INT(RANGE(.key = request_bytes("\0", 1), .prefix = true)->kv_count, 3);
    const struct etcd_compare compare = {
        .key = request_bytes("a\0b", 3), .target = ETCD_VALUE, .value = request_bytes("\xff\0\xfe", 3)};
    CHECK(request_holds(&compare, 1));
}

/* The last byte of a prefix may be 0xff, which cannot grow. */
static void prefixes_of_ff(void) {
    request_clear();
    static const struct {
        const char *data;
        size_t size;
    } names[] = {{"a", 1},         {"a\xfe\xff", 3},  {"a\xff", 2},       {"a\xff\0", 3},
                 {"a\xff\xff", 3}, {"a\xff\xffz", 4}, {"b", 1},           {"\xfe", 1},
                 {"\xff", 1},      {"\xff\xff", 2},   {"\xff\xff\xff", 3}};
    enum { NAMES = sizeof names / sizeof *names };
    for (int i = 0; i < NAMES; i++)
        PUT(.key = request_bytes(names[i].data, names[i].size),
            .value = request_bytes(names[i].data, names[i].size));
    /* Each name as a prefix, compared with memcmp(). */
    for (int i = 0; i < NAMES; i++) {
        int64_t want = 0;
        for (int j = 0; j < NAMES; j++)
            want +=
                names[j].size >= names[i].size && memcmp(names[j].data, names[i].data, names[i].size) == 0;
        struct etcd_bytes prefix = request_bytes(names[i].data, names[i].size);
        struct etcd_reply *reply = RANGE(.key = prefix, .prefix = true);
        CHECK_INT(reply->count, want);
        for (size_t j = 0; j < reply->kv_count; j++)
            CHECK(memcmp(reply->kvs[j].key.data, prefix.data, prefix.size) == 0);
        const struct etcd_compare compare = {
            .key = prefix, .prefix = true, .target = ETCD_VALUE, .relation = ETCD_LESS, .value = prefix};
        CHECK(!request_holds(&compare, 1));
    }
    CHECK_INT(DELETE(.key = request_bytes("a\xff", 2), .prefix = true)->count, 4);
    CHECK_INT(DELETE(.key = request_bytes("\xff\xff", 2), .prefix = true)->count, 2);
    CHECK_INT(RANGE(.prefix = true)->count, NAMES - 6);
}

static void large_values(void) {
    request_clear();
    size_t size = 1 << 20;
    char *value = harness_alloc(size);
    for (size_t i = 0; i < size; i++)
        value[i] = (char)(i * 7 + i / 251);
    check_bytes(T("a"), request_bytes(value, size));
    check_bytes(T("b"), request_bytes(value, size));
    check_bytes(request_bytes(value, 200000), T("of a long key"));
    CHECK_INT(RANGE(.prefix = true)->kv_count, 3);
    for (int i = 0; i < 8; i++)
        check_bytes(T(harness_format("c%d", i)), request_bytes(value, size));
    struct etcd_reply *reply = RANGE(.key = T("c"), .prefix = true); /* more than gRPC's default limit */
    CHECK_INT(reply->kv_count, 8);
    for (int i = 0; i < 8; i++)
        CHECK(request_same(reply->kvs[i].value, request_bytes(value, size)));
}

/* ---- transactions ---- */

static bool number_holds(enum etcd_target target, const char *key, enum etcd_relation relation,
                         int64_t number) {
    const struct etcd_compare compare = {
        .key = T(key), .target = target, .relation = relation, .number = number};
    return request_holds(&compare, 1);
}

/* `number`: the value in the store. */
static void check_relations(enum etcd_target target, const char *key, int64_t number) {
    for (int64_t off = -1; off <= 1; off++) {
        CHECK_INT(number_holds(target, key, ETCD_EQUAL, number + off), off == 0);
        CHECK_INT(number_holds(target, key, ETCD_NOT_EQUAL, number + off), off != 0);
        CHECK_INT(number_holds(target, key, ETCD_GREATER, number + off), off < 0);
        CHECK_INT(number_holds(target, key, ETCD_LESS, number + off), off > 0);
    }
}

static void compares_numbers(void) {
    request_clear();
    int64_t lease = tools_grant(requests.etcd, 1000);
    int64_t created = request_put("a", "1");
    request_put("a", "2");
    int64_t changed = PUT(.key = T("a"), .value = T("3"), .lease = lease)->revision;
    check_relations(ETCD_VERSION, "a", 3);
    check_relations(ETCD_CREATE_REVISION, "a", created);
    check_relations(ETCD_MOD_REVISION, "a", changed);
    check_relations(ETCD_LEASE, "a", lease);
    check_relations(ETCD_VERSION, "nothing", 0);
    check_relations(ETCD_CREATE_REVISION, "nothing", 0);
    check_relations(ETCD_MOD_REVISION, "nothing", 0);
    check_relations(ETCD_LEASE, "nothing", 0);
}

static bool value_holds(struct etcd_bytes key, bool prefix, enum etcd_relation relation, const char *value) {
    const struct etcd_compare compare = {
        .key = key, .prefix = prefix, .target = ETCD_VALUE, .relation = relation, .value = T(value)};
    return request_holds(&compare, 1);
}

static void compares_values(void) {
    request_clear();
    request_put("a", "m");
    static const char *const values[] = {"a", "m", "z"};
    for (int i = 0; i < 3; i++) {
        CHECK_INT(value_holds(T("a"), false, ETCD_EQUAL, values[i]), i == 1);
        CHECK_INT(value_holds(T("a"), false, ETCD_NOT_EQUAL, values[i]), i != 1);
        CHECK_INT(value_holds(T("a"), false, ETCD_GREATER, values[i]), i < 1);
        CHECK_INT(value_holds(T("a"), false, ETCD_LESS, values[i]), i > 1);
    }
    /* A key that does not exist has no value, not even an empty one. */
    for (enum etcd_relation relation = ETCD_EQUAL; relation <= ETCD_NOT_EQUAL; relation++)
        CHECK(!value_holds(T("nothing"), false, relation, ""));
    request_put("e", "");
    CHECK(value_holds(T("e"), false, ETCD_EQUAL, ""));
}

static void compares_ranges(void) {
    request_clear();
    request_put("k1", "v");
    request_put("k2", "v");
    request_put("k3", "w");
    CHECK(value_holds(T("k"), true, ETCD_GREATER, "u"));
    CHECK(!value_holds(T("k"), true, ETCD_EQUAL, "v"));
    CHECK(!value_holds((struct etcd_bytes){NULL, 0}, true, ETCD_EQUAL, "v"));
    struct etcd_compare compare = {
        .key = T("k1"), .end = T("k3"), .target = ETCD_VALUE, .relation = ETCD_EQUAL, .value = T("v")};
    CHECK(request_holds(&compare, 1));
    compare.end = T("k4");
    CHECK(!request_holds(&compare, 1));
    /* The range has no keys. */
    const struct etcd_compare empty = {.key = T("x"), .prefix = true, .target = ETCD_VERSION};
    CHECK(request_holds(&empty, 1));
    const struct etcd_compare two[] = {empty, compare};
    CHECK(!request_holds(two, 2));
    CHECK(request_holds(two, 1));
    CHECK(request_holds(NULL, 0));
}

static void txns(void) {
    request_clear();
    const struct etcd_compare absent = {.key = T("a"), .target = ETCD_CREATE_REVISION};
    const struct etcd_op then[] = {
        {ETCD_PUT, .put = {.key = T("a"), .value = T("1")}},
        {ETCD_PUT, .put = {.key = T("b"), .value = T("2")}},
        {ETCD_RANGE, .range = {.prefix = true}},
    };
    const struct etcd_op otherwise[] = {
        {ETCD_RANGE, .range = {.key = T("a")}},
        {ETCD_DELETE, .del = {.prefix = true, .prev = true}},
        {ETCD_PUT, .put = {.key = T("c"), .value = T("3"), .prev = true}},
    };
    const struct etcd_op txn = {ETCD_TXN, .txn = {&absent, 1, then, 3, otherwise, 3}};
    struct etcd_reply *reply = request_op(&txn);
    CHECK(reply->succeeded);
    CHECK_INT(reply->reply_count, 3);
    CHECK_INT(reply->replies[0].kind, ETCD_PUT);
    CHECK_INT(reply->replies[2].kind, ETCD_RANGE);
    CHECK_STR(request_pairs(&reply->replies[2]), "a=1 b=2");
    CHECK_INT(reply->replies[2].count, 2);
    for (size_t i = 0; i < 3; i++) {
        const struct etcd_reply *inner = &reply->replies[i];
        CHECK(!inner->revision && !inner->cluster_id && !inner->member_id && !inner->raft_term);
    }
    CHECK_INT(reply->replies[2].kvs[0].mod_revision, reply->revision); /* all at one revision */
    CHECK_INT(reply->replies[2].kvs[1].mod_revision, reply->revision);
    reply = request_op(&txn);
    CHECK(!reply->succeeded);
    CHECK_INT(reply->reply_count, 3);
    CHECK_STR(request_pairs(&reply->replies[0]), "a=1");
    CHECK_INT(reply->replies[1].kind, ETCD_DELETE);
    CHECK_INT(reply->replies[1].count, 2);
    CHECK_STR(request_pairs(&reply->replies[1]), "a=1 b=2");
    CHECK_INT(reply->replies[2].kv_count, 0);
    CHECK_STR(request_pairs(RANGE(.prefix = true)), "c=3");
}

static void nested_txns(void) {
    request_clear();
    request_put("a", "1");
    const struct etcd_compare is_1 = {.key = T("a"), .target = ETCD_VALUE, .value = T("1")};
    const struct etcd_op innermost[] = {{ETCD_RANGE, .range = {.prefix = true}}};
    const struct etcd_op deep = {ETCD_TXN, .txn = {.then = innermost, .then_count = 1}};
    const struct etcd_op inner[] = {{ETCD_PUT, .put = {.key = T("b"), .value = T("2")}}, deep};
    const struct etcd_op other[] = {{ETCD_PUT, .put = {.key = T("c"), .value = T("3")}}};
    /* The put of "a" comes first, and yet the inner compare still finds "1". */
    const struct etcd_op outer[] = {
        {ETCD_PUT, .put = {.key = T("a"), .value = T("2")}},
        {ETCD_TXN, .txn = {&is_1, 1, inner, 2, other, 1}},
    };
    struct etcd_reply *reply = TXN(.then = outer, .then_count = 2);
    CHECK(reply->succeeded);
    CHECK_INT(reply->reply_count, 2);
    CHECK_INT(reply->replies[1].kind, ETCD_TXN);
    CHECK(reply->replies[1].succeeded);
    CHECK_INT(reply->replies[1].revision, 0);
    CHECK_INT(reply->replies[1].reply_count, 2);
    CHECK_INT(reply->replies[1].replies[1].kind, ETCD_TXN);
    CHECK_STR(request_pairs(&reply->replies[1].replies[1].replies[0]), "a=2 b=2");
    CHECK_STR(request_pairs(RANGE(.prefix = true)), "a=2 b=2");
    reply = TXN(.then = outer, .then_count = 2);
    CHECK(!reply->replies[1].succeeded);
    CHECK_STR(request_pairs(RANGE(.prefix = true)), "a=2 b=2 c=3");
}

static void empty_txn(void) {
    int64_t before = RANGE(.prefix = true, .count_only = true)->revision;
    struct etcd_reply *reply = TXN();
    CHECK(reply->succeeded);
    CHECK_INT(reply->reply_count, 0);
    CHECK_INT(reply->revision, before);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    etcd_start(&requests.server, NULL);
    requests.etcd = tools_open(&requests.server, 1);
    harness_run("ranges: one key, from and to, prefixes, all", ranges);
    harness_run("ranges: limit, keys only, count only", parts_of_ranges);
    harness_run("ranges at a past revision", ranges_at_past_revision);
    harness_run("ranges in each order", sorted);
    harness_run("ranges between revisions", between_revisions);
    harness_run("puts", puts_);
    harness_run("deletes", deletes);
    harness_run("compactions", compacts);
    harness_run("keys and values of any bytes", any_bytes);
    harness_run("prefixes that end in 0xff", prefixes_of_ff);
    harness_run("values of a megabyte", large_values);
    harness_run("compares with numbers", compares_numbers);
    harness_run("compares with values", compares_values);
    harness_run("compares with ranges", compares_ranges);
    harness_run("transactions", txns);
    harness_run("transactions in transactions", nested_txns);
    harness_run("an empty transaction", empty_txn);
    return harness_finish();
}
