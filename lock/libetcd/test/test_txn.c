/* Transactions, on one server. */
#include <stdlib.h>
#include <string.h>

#include "lock/libetcd/test/requests.h"

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
    harness_run("compares with numbers", compares_numbers);
    harness_run("compares with values", compares_values);
    harness_run("compares with ranges", compares_ranges);
    harness_run("transactions", txns);
    harness_run("transactions in transactions", nested_txns);
    harness_run("an empty transaction", empty_txn);
    return harness_finish();
}
