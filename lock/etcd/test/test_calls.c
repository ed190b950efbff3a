/* Each call of libetcd, asked of one server. */
#include <stdlib.h>
#include <string.h>

#include "lock/etcd/test/tools.h"

static struct etcd_server server;
static struct etcd *etcd;

/* ---- asking; what is not answered fails the test, and replies live as long as it ---- */

static void free_reply(void *reply) {
    etcd_reply_free(reply);
}

static struct etcd_reply *ask(const struct etcd_op *op) {
    char error[ETCD_ERROR_SIZE] = "";
    struct etcd_call call = {.error = error, .error_size = sizeof error};
    struct etcd_reply *reply = NULL;
    enum etcd_status status = etcd_do(etcd, op, &call, &reply);
    if (status != ETCD_OK)
        FAIL("%s: %s", etcd_status_text(status), error);
    CHECK_STR(error, "");
    harness_defer(free_reply, reply);
    CHECK_INT(reply->kind, op->kind);
    CHECK(reply->revision > 0 && reply->cluster_id && reply->member_id && reply->raft_term);
    return reply;
}

#define RANGE(...)  ask(&(struct etcd_op){ETCD_RANGE, .range = {__VA_ARGS__}})
#define PUT(...)    ask(&(struct etcd_op){ETCD_PUT, .put = {__VA_ARGS__}})
#define DELETE(...) ask(&(struct etcd_op){ETCD_DELETE, .del = {__VA_ARGS__}})
#define TXN(...)    ask(&(struct etcd_op){ETCD_TXN, .txn = {__VA_ARGS__}})
#define T           etcd_text

static struct etcd_bytes bytes(const void *data, size_t size) {
    return (struct etcd_bytes){data, size};
}

static bool same(struct etcd_bytes a, struct etcd_bytes b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static char *text_of(struct etcd_bytes some) {
    return harness_format("%.*s", (int)some.size, some.size ? (const char *)some.data : "");
}

/* "key=value key=value" */
static const char *pairs(const struct etcd_reply *reply) {
    const char *text = "";
    for (size_t i = 0; i < reply->kv_count; i++)
        text = harness_format("%s%s%s=%s", text, i ? " " : "", text_of(reply->kvs[i].key),
                              text_of(reply->kvs[i].value));
    return text;
}

static const char *keys(const struct etcd_reply *reply) {
    const char *text = "";
    for (size_t i = 0; i < reply->kv_count; i++)
        text = harness_format("%s%s%s", text, i ? " " : "", text_of(reply->kvs[i].key));
    return text;
}

/* A store without keys. */
static void begin(void) {
    DELETE(.prefix = true);
    CHECK_INT(RANGE(.prefix = true, .count_only = true)->count, 0);
}

static int64_t put(const char *key, const char *value) {
    return PUT(.key = T(key), .value = T(value))->revision;
}

/* ---- ranges ---- */

static void ranges(void) {
    begin();
    static const char *const names[] = {"a", "p", "p/1", "p/2", "p/3", "p0", "q"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put(names[i], names[i]);
    CHECK_STR(pairs(RANGE(.key = T("p"))), "p=p");
    CHECK_STR(keys(RANGE(.key = T("nothing"))), "");
    CHECK_STR(keys(RANGE(.key = T("p/"), .prefix = true)), "p/1 p/2 p/3");
    CHECK_STR(keys(RANGE(.key = T("p"), .prefix = true)), "p p/1 p/2 p/3 p0");
    CHECK_STR(keys(RANGE(.key = T("x"), .prefix = true)), "");
    CHECK_STR(keys(RANGE(.prefix = true)), "a p p/1 p/2 p/3 p0 q");
    CHECK_STR(keys(RANGE(.key = T("p/2"), .end = T("q"))), "p/2 p/3 p0");
    CHECK_STR(keys(RANGE(.key = T("p/3"), .end = bytes("", 1))), "p/3 p0 q"); /* to the end of all */
    CHECK_STR(keys(RANGE(.key = T("q"), .end = T("a"))), "");
    CHECK_INT(RANGE(.key = T("p"))->count, 1);
    CHECK(!RANGE(.key = T("p"))->more);
    CHECK_STR(pairs(RANGE(.key = T("p/"), .prefix = true, .serializable = true)), "p/1=p/1 p/2=p/2 p/3=p/3");
}

static void parts_of_ranges(void) {
    begin();
    for (int i = 0; i < 5; i++)
        put(harness_format("k%d", i), "value");
    struct etcd_reply *reply = RANGE(.key = T("k"), .prefix = true, .limit = 2);
    CHECK_STR(keys(reply), "k0 k1");
    CHECK(reply->more);
    CHECK_INT(reply->count, 5);
    reply = RANGE(.key = T("k"), .prefix = true, .limit = 5);
    CHECK(!reply->more);
    CHECK_INT(reply->kv_count, 5);
    reply = RANGE(.key = T("k"), .prefix = true, .keys_only = true);
    CHECK_STR(pairs(reply), "k0= k1= k2= k3= k4=");
    CHECK_INT(reply->kvs[4].version, 1);
    reply = RANGE(.key = T("k"), .prefix = true, .count_only = true);
    CHECK_INT(reply->kv_count, 0);
    CHECK_INT(reply->count, 5);
}

static void the_past(void) {
    begin();
    int64_t first = put("a", "1"), second = put("a", "2"), third = put("b", "3");
    CHECK_INT(second, first + 1);
    CHECK_STR(pairs(RANGE(.prefix = true, .revision = first)), "a=1");
    CHECK_STR(pairs(RANGE(.prefix = true, .revision = second)), "a=2");
    CHECK_STR(pairs(RANGE(.prefix = true, .revision = third)), "a=2 b=3");
    struct etcd_reply *reply = RANGE(.key = T("a"), .revision = first);
    CHECK_INT(reply->revision, third); /* the store's */
    CHECK_INT(reply->kvs[0].version, 1);
    reply = RANGE(.key = T("a"));
    CHECK_INT(reply->kvs[0].version, 2);
    CHECK_INT(reply->kvs[0].create_revision, first);
    CHECK_INT(reply->kvs[0].mod_revision, second);
    CHECK_INT(reply->kvs[0].lease, 0);
}

/* Three keys that stand in another order by each target. */
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
    begin();
    put("3", "a");
    put("1", "c");
    put("2", "b");
    put("3", "a");
    put("3", "a");
    put("1", "c");
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct etcd_range range = {.prefix = true, .sort_by = orders[i].by, .order = ETCD_ASCENDING};
        CHECK_STR(keys(ask(&(struct etcd_op){ETCD_RANGE, .range = range})), orders[i].ascending);
        range.order = ETCD_DESCENDING;
        CHECK_STR(keys(ask(&(struct etcd_op){ETCD_RANGE, .range = range})), orders[i].descending);
        range.limit = 1;
        CHECK_STR(keys(ask(&(struct etcd_op){ETCD_RANGE, .range = range})),
                  harness_format("%.1s", orders[i].descending));
    }
}

static void between_revisions(void) {
    begin();
    int64_t first = put("a", "");
    put("b", "");
    put("c", "");
    int64_t fourth = put("a", "");
    CHECK_STR(keys(RANGE(.prefix = true, .min_mod_revision = first + 2)), "a c");
    CHECK_STR(keys(RANGE(.prefix = true, .max_mod_revision = fourth - 1)), "b c");
    CHECK_STR(keys(RANGE(.prefix = true, .min_create_revision = first + 1)), "b c");
    CHECK_STR(keys(RANGE(.prefix = true, .max_create_revision = first + 1)), "a b");
}

/* ---- puts and deletes ---- */

static void puts_(void) {
    begin();
    int64_t lease = tools_grant(etcd, 1000), other = tools_grant(etcd, 1000);
    struct etcd_reply *reply = PUT(.key = T("a"), .value = T("1"), .prev = true, .lease = lease);
    CHECK_INT(reply->kv_count, 0);
    reply = PUT(.key = T("a"), .value = T("2"), .prev = true, .ignore_lease = true);
    CHECK_STR(pairs(reply), "a=1");
    CHECK_INT(reply->kvs[0].lease, lease);
    CHECK_INT(reply->kvs[0].version, 1);
    CHECK_INT(RANGE(.key = T("a"))->kvs[0].lease, lease);
    CHECK_INT(PUT(.key = T("a"), .ignore_value = true, .lease = other)->kv_count, 0);
    reply = RANGE(.key = T("a"));
    CHECK_STR(pairs(reply), "a=2");
    CHECK_INT(reply->kvs[0].lease, other);
    CHECK_INT(reply->kvs[0].version, 3);
    put("a", "");
    reply = RANGE(.key = T("a"));
    CHECK_STR(pairs(reply), "a=");
    CHECK_INT(reply->kvs[0].lease, 0);
    const struct etcd_put nothing_there = {.key = T("b"), .ignore_value = true};
    CHECK_STATUS(etcd_put(etcd, &nothing_there, NULL, NULL), ETCD_INVALID);
}

static void deletes(void) {
    begin();
    for (int i = 0; i < 6; i++)
        put(harness_format("k%d", i), "v");
    put("l", "w");
    struct etcd_reply *reply = DELETE(.key = T("k0"));
    CHECK_INT(reply->count, 1);
    CHECK_INT(reply->kv_count, 0);
    CHECK_INT(DELETE(.key = T("k0"))->count, 0);
    reply = DELETE(.key = T("k1"), .prev = true);
    CHECK_INT(reply->count, 1);
    CHECK_STR(pairs(reply), "k1=v");
    reply = DELETE(.key = T("k2"), .end = T("k4"), .prev = true);
    CHECK_INT(reply->count, 2);
    CHECK_STR(pairs(reply), "k2=v k3=v");
    CHECK_INT(DELETE(.key = T("k"), .prefix = true)->count, 2);
    CHECK_STR(pairs(RANGE(.prefix = true)), "l=w");
    CHECK_INT(DELETE(.prefix = true)->count, 1);
}

static void compacts(void) {
    begin();
    int64_t first = put("a", "1"), second = put("a", "2"), third = put("a", "3");
    CHECK_STATUS(etcd_compact(etcd, second, false, NULL), ETCD_OK);
    struct etcd_range range = {.key = T("a"), .revision = first};
    CHECK_STATUS(etcd_range(etcd, &range, NULL, NULL), ETCD_COMPACTED);
    CHECK_STR(pairs(RANGE(.key = T("a"), .revision = second)), "a=2");
    CHECK_STATUS(etcd_compact(etcd, second, true, NULL), ETCD_COMPACTED);
    CHECK_STATUS(etcd_compact(etcd, third, true, NULL), ETCD_OK);
    range.revision = second;
    CHECK_STATUS(etcd_range(etcd, &range, NULL, NULL), ETCD_COMPACTED);
    CHECK_STATUS(etcd_compact(etcd, third + 1, false, NULL), ETCD_FUTURE);
    CHECK_STR(pairs(RANGE(.key = T("a"))), "a=3");
}

/* ---- transactions ---- */

static bool holds(const struct etcd_compare *compares, size_t count) {
    struct etcd_reply *reply = TXN(.compares = compares, .compare_count = count);
    CHECK_INT(reply->reply_count, 0);
    return reply->succeeded;
}

static bool number_holds(enum etcd_target target, const char *key, enum etcd_relation relation,
                         int64_t number) {
    const struct etcd_compare compare = {
        .key = T(key), .target = target, .relation = relation, .number = number};
    return holds(&compare, 1);
}

/* `number` is what is there. */
static void check_relations(enum etcd_target target, const char *key, int64_t number) {
    for (int64_t off = -1; off <= 1; off++) {
        CHECK_INT(number_holds(target, key, ETCD_EQUAL, number + off), off == 0);
        CHECK_INT(number_holds(target, key, ETCD_NOT_EQUAL, number + off), off != 0);
        CHECK_INT(number_holds(target, key, ETCD_GREATER, number + off), off < 0);
        CHECK_INT(number_holds(target, key, ETCD_LESS, number + off), off > 0);
    }
}

static void compares_numbers(void) {
    begin();
    int64_t lease = tools_grant(etcd, 1000);
    int64_t created = put("a", "1");
    put("a", "2");
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
    return holds(&compare, 1);
}

static void compares_values(void) {
    begin();
    put("a", "m");
    static const char *const values[] = {"a", "m", "z"};
    for (int i = 0; i < 3; i++) {
        CHECK_INT(value_holds(T("a"), false, ETCD_EQUAL, values[i]), i == 1);
        CHECK_INT(value_holds(T("a"), false, ETCD_NOT_EQUAL, values[i]), i != 1);
        CHECK_INT(value_holds(T("a"), false, ETCD_GREATER, values[i]), i < 1);
        CHECK_INT(value_holds(T("a"), false, ETCD_LESS, values[i]), i > 1);
    }
    /* What is not there has no value, not even an empty one. */
    for (enum etcd_relation relation = ETCD_EQUAL; relation <= ETCD_NOT_EQUAL; relation++)
        CHECK(!value_holds(T("nothing"), false, relation, ""));
    put("e", "");
    CHECK(value_holds(T("e"), false, ETCD_EQUAL, ""));
}

static void compares_ranges(void) {
    begin();
    put("k1", "v");
    put("k2", "v");
    put("k3", "w");
    CHECK(value_holds(T("k"), true, ETCD_GREATER, "u"));
    CHECK(!value_holds(T("k"), true, ETCD_EQUAL, "v"));
    CHECK(!value_holds((struct etcd_bytes){NULL, 0}, true, ETCD_EQUAL, "v"));
    struct etcd_compare compare = {
        .key = T("k1"), .end = T("k3"), .target = ETCD_VALUE, .relation = ETCD_EQUAL, .value = T("v")};
    CHECK(holds(&compare, 1));
    compare.end = T("k4");
    CHECK(!holds(&compare, 1));
    /* Nobody is in it. */
    const struct etcd_compare empty = {.key = T("x"), .prefix = true, .target = ETCD_VERSION};
    CHECK(holds(&empty, 1));
    const struct etcd_compare two[] = {empty, compare};
    CHECK(!holds(two, 2));
    CHECK(holds(two, 1));
    CHECK(holds(NULL, 0));
}

static void txns(void) {
    begin();
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
    struct etcd_reply *reply = ask(&txn);
    CHECK(reply->succeeded);
    CHECK_INT(reply->reply_count, 3);
    CHECK_INT(reply->replies[0].kind, ETCD_PUT);
    CHECK_INT(reply->replies[2].kind, ETCD_RANGE);
    CHECK_STR(pairs(&reply->replies[2]), "a=1 b=2");
    CHECK_INT(reply->replies[2].count, 2);
    for (size_t i = 0; i < 3; i++) {
        const struct etcd_reply *inner = &reply->replies[i];
        CHECK(!inner->revision && !inner->cluster_id && !inner->member_id && !inner->raft_term);
    }
    CHECK_INT(reply->replies[2].kvs[0].mod_revision, reply->revision); /* all at one */
    CHECK_INT(reply->replies[2].kvs[1].mod_revision, reply->revision);
    reply = ask(&txn);
    CHECK(!reply->succeeded);
    CHECK_INT(reply->reply_count, 3);
    CHECK_STR(pairs(&reply->replies[0]), "a=1");
    CHECK_INT(reply->replies[1].kind, ETCD_DELETE);
    CHECK_INT(reply->replies[1].count, 2);
    CHECK_STR(pairs(&reply->replies[1]), "a=1 b=2");
    CHECK_INT(reply->replies[2].kv_count, 0);
    CHECK_STR(pairs(RANGE(.prefix = true)), "c=3");
}

static void nested_txns(void) {
    begin();
    put("a", "1");
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
    CHECK_STR(pairs(&reply->replies[1].replies[1].replies[0]), "a=2 b=2");
    CHECK_STR(pairs(RANGE(.prefix = true)), "a=2 b=2");
    reply = TXN(.then = outer, .then_count = 2);
    CHECK(!reply->replies[1].succeeded);
    CHECK_STR(pairs(RANGE(.prefix = true)), "a=2 b=2 c=3");
}

static void empty_txn(void) {
    int64_t before = RANGE(.prefix = true, .count_only = true)->revision;
    struct etcd_reply *reply = TXN();
    CHECK(reply->succeeded);
    CHECK_INT(reply->reply_count, 0);
    CHECK_INT(reply->revision, before);
}

/* ---- leases ---- */

static struct etcd_lease_info *look(int64_t id, bool with_keys) {
    struct etcd_lease_info *info = NULL;
    CHECK_STATUS(etcd_lease_look(etcd, id, with_keys, NULL, &info), ETCD_OK);
    return info;
}

static void leases(void) {
    begin();
    int64_t id = 0, ttl_s = 0, own = 0x123456789abcdef;
    CHECK_STATUS(etcd_lease_grant(etcd, 100, own, NULL, &id, &ttl_s), ETCD_OK);
    CHECK_INT(id, own);
    CHECK_INT(ttl_s, 100);
    id = ttl_s = -7;
    CHECK_STATUS(etcd_lease_grant(etcd, 100, own, NULL, &id, &ttl_s), ETCD_EXISTS);
    CHECK(id == -7 && ttl_s == -7);
    CHECK_STATUS(etcd_lease_grant(etcd, 50, 0, NULL, &id, NULL), ETCD_OK);
    CHECK(id != 0 && id != own);
    PUT(.key = T("b"), .lease = own);
    PUT(.key = bytes("a\0", 2), .lease = own);
    PUT(.key = T("c"), .lease = id);
    struct etcd_lease_info *info = look(own, true);
    CHECK_INT(info->granted_ttl_s, 100);
    CHECK(info->ttl_s > 60 && info->ttl_s <= 100);
    CHECK_INT(info->key_count, 2);
    bool a_first = info->keys[0].size == 2;
    CHECK(same(info->keys[a_first ? 0 : 1], bytes("a\0", 2)) && same(info->keys[a_first ? 1 : 0], T("b")));
    etcd_lease_info_free(info);
    info = look(own, false);
    CHECK_INT(info->key_count, 0);
    etcd_lease_info_free(info);
    CHECK_STATUS(etcd_lease_revoke(etcd, own, NULL), ETCD_OK);
    CHECK_STR(keys(RANGE(.prefix = true)), "c");
    CHECK_STATUS(etcd_lease_revoke(etcd, own, NULL), ETCD_NOT_FOUND);
    struct etcd_lease_info *untouched = NULL;
    CHECK_STATUS(etcd_lease_look(etcd, own, true, NULL, &untouched), ETCD_NOT_FOUND);
    CHECK(!untouched);
    etcd_lease_info_free(NULL);
    CHECK_STATUS(etcd_lease_grant(etcd, 100, -5, NULL, &id, NULL), ETCD_OK);
    CHECK_INT(id, -5);
    CHECK_STATUS(etcd_lease_revoke(etcd, -5, NULL), ETCD_OK);
}

/* Within its last second a lease has 0 seconds left, and lives. */
static void a_lease_of_a_second(void) {
    int64_t id, ttl_s;
    CHECK_STATUS(etcd_lease_grant(etcd, 1, 0, NULL, &id, &ttl_s), ETCD_OK);
    CHECK_INT(ttl_s, 1);
    struct etcd_lease_info *info = look(id, false);
    CHECK_INT(info->ttl_s, 0);
    CHECK_INT(info->granted_ttl_s, 1);
    etcd_lease_info_free(info);
}

static void leases_of_a_slow_server(void) {
    struct etcd_server slow;
    etcd_start(&slow, "--election-timeout", "2000", "--heartbeat-interval", "200", NULL);
    struct etcd *client = tools_open(&slow, 1);
    int64_t id, ttl_s;
    CHECK_STATUS(etcd_lease_grant(client, 1, 0, NULL, &id, &ttl_s), ETCD_OK);
    CHECK_INT(ttl_s, 3);
}

static bool lease_is_gone(void *id) {
    struct etcd_lease_info *info;
    enum etcd_status status = etcd_lease_look(etcd, *(int64_t *)id, false, NULL, &info);
    if (status == ETCD_OK)
        etcd_lease_info_free(info);
    return status == ETCD_NOT_FOUND;
}

static void a_lease_runs_out(void) {
    begin();
    int64_t id = tools_grant(etcd, 1);
    PUT(.key = T("a"), .lease = id);
    CHECK(harness_wait(lease_is_gone, &id, PATIENCE_MS));
    CHECK_STATUS(etcd_lease_revoke(etcd, id, NULL), ETCD_NOT_FOUND);
    CHECK_STR(keys(RANGE(.prefix = true)), "");
}

/* ---- the cluster, and its lock service ---- */

static void members(void) {
    struct etcd_members *list = NULL;
    CHECK_STATUS(etcd_member_list(etcd, NULL, &list), ETCD_OK);
    CHECK_INT(list->count, 1);
    const struct etcd_member *member = &list->members[0];
    CHECK_STR(member->name, server.name);
    CHECK_INT(member->client_url_count, 1);
    CHECK_STR(member->client_urls[0], harness_format("http://%s:%d", server.host, server.port));
    CHECK_INT(member->peer_url_count, 1);
    CHECK_STR(member->peer_urls[0], harness_format("http://%s:%d", server.peer_host, server.peer_port));
    CHECK(!member->is_learner);
    CHECK_INT(etcd_endpoint_count(etcd), 1);
    struct etcd_member_status status;
    CHECK_STATUS(etcd_member_look(etcd, 0, NULL, &status), ETCD_OK);
    CHECK(status.member_id == member->id && status.leader_id == member->id && !status.is_learner);
    CHECK(status.raft_term > 0 && status.raft_index >= status.raft_applied_index && status.db_size > 0);
    CHECK(status.raft_applied_index > 0 && status.db_size_in_use > 0);
    CHECK(strncmp(status.version, "3.", 2) == 0);
    CHECK_INT(put("a", ""), status.revision + 1);
    CHECK_INT(RANGE(.key = T("a"))->member_id, member->id);
    etcd_members_free(list);
    etcd_members_free(NULL);
    status.revision = -7;
    CHECK_STATUS(etcd_member_look(etcd, 1, NULL, &status), ETCD_INVALID);
    CHECK_INT(status.revision, -7);
}

static void locks(void) {
    begin();
    int64_t ours = tools_grant(etcd, 1000), other = tools_grant(etcd, 1000), revision = 0;
    struct etcd_bytes *key = NULL, *its = NULL;
    CHECK_STATUS(etcd_lock(etcd, bytes("l\0k", 3), ours, NULL, &key, &revision), ETCD_OK);
    CHECK(key->size > 3 && memcmp(key->data, "l\0k/", 4) == 0);
    struct etcd_reply *reply = RANGE(.key = *key);
    CHECK_INT(reply->kv_count, 1);
    CHECK_INT(reply->kvs[0].lease, ours);
    CHECK(revision >= reply->kvs[0].create_revision);
    const struct etcd_call soon = {.deadline_ns = tools_in_ms(200)};
    int64_t untouched = -7;
    CHECK_STATUS(etcd_lock(etcd, bytes("l\0k", 3), other, &soon, &its, &untouched), ETCD_UNKNOWN);
    CHECK(!its && untouched == -7);
    CHECK_STATUS(etcd_unlock(etcd, *key, NULL), ETCD_OK);
    CHECK_INT(RANGE(.key = *key)->count, 0);
    CHECK_STATUS(etcd_lock(etcd, bytes("l\0k", 3), other, NULL, &its, &revision), ETCD_OK);
    CHECK_STATUS(etcd_unlock(etcd, *its, NULL), ETCD_OK);
    etcd_lock_key_free(its);
    etcd_lock_key_free(key);
    etcd_lock_key_free(NULL);
    CHECK_STATUS(etcd_lease_revoke(etcd, other, NULL), ETCD_OK);
    CHECK_STATUS(etcd_lock(etcd, T("l"), other, NULL, &key, &revision), ETCD_NOT_FOUND);
}

/* ---- bytes ---- */

static void check_bytes(struct etcd_bytes key, struct etcd_bytes value) {
    PUT(.key = key, .value = value);
    struct etcd_reply *reply = RANGE(.key = key);
    CHECK_INT(reply->kv_count, 1);
    CHECK(same(reply->kvs[0].key, key));
    CHECK(same(reply->kvs[0].value, value));
}

static void any_bytes(void) {
    begin();
    check_bytes(bytes("\0", 1), bytes("\0\0", 2));
    check_bytes(bytes("\0\0", 2), bytes("", 0));
    check_bytes(bytes("a\0b", 3), bytes("\xff\0\xfe", 3));
    check_bytes(bytes("\xff", 1), bytes(NULL, 0));
    uint8_t all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    check_bytes(bytes(all, sizeof all), bytes(all, sizeof all));
    CHECK_INT(RANGE(.prefix = true)->kv_count, 5);
    /* One NUL, of the keys that begin with it. */
    CHECK_INT(RANGE(.key = bytes("\0", 1), .prefix = true)->kv_count, 3);
    const struct etcd_compare compare = {
        .key = bytes("a\0b", 3), .target = ETCD_VALUE, .value = bytes("\xff\0\xfe", 3)};
    CHECK(holds(&compare, 1));
}

/* The last byte of a prefix may be one that nothing comes after. */
static void prefixes_of_ff(void) {
    begin();
    static const struct {
        const char *data;
        size_t size;
    } names[] = {{"a", 1},         {"a\xfe\xff", 3},  {"a\xff", 2},       {"a\xff\0", 3},
                 {"a\xff\xff", 3}, {"a\xff\xffz", 4}, {"b", 1},           {"\xfe", 1},
                 {"\xff", 1},      {"\xff\xff", 2},   {"\xff\xff\xff", 3}};
    enum { NAMES = sizeof names / sizeof *names };
    for (int i = 0; i < NAMES; i++)
        PUT(.key = bytes(names[i].data, names[i].size), .value = bytes(names[i].data, names[i].size));
    /* Each as a prefix, against what memcmp says. */
    for (int i = 0; i < NAMES; i++) {
        int64_t want = 0;
        for (int j = 0; j < NAMES; j++)
            want +=
                names[j].size >= names[i].size && memcmp(names[j].data, names[i].data, names[i].size) == 0;
        struct etcd_bytes prefix = bytes(names[i].data, names[i].size);
        struct etcd_reply *reply = RANGE(.key = prefix, .prefix = true);
        CHECK_INT(reply->count, want);
        for (size_t j = 0; j < reply->kv_count; j++)
            CHECK(memcmp(reply->kvs[j].key.data, prefix.data, prefix.size) == 0);
        const struct etcd_compare compare = {
            .key = prefix, .prefix = true, .target = ETCD_VALUE, .relation = ETCD_LESS, .value = prefix};
        CHECK(!holds(&compare, 1));
    }
    CHECK_INT(DELETE(.key = bytes("a\xff", 2), .prefix = true)->count, 4);
    CHECK_INT(DELETE(.key = bytes("\xff\xff", 2), .prefix = true)->count, 2);
    CHECK_INT(RANGE(.prefix = true)->count, NAMES - 6);
}

static void large_values(void) {
    begin();
    size_t size = 1 << 20;
    char *value = harness_alloc(size);
    for (size_t i = 0; i < size; i++)
        value[i] = (char)(i * 7 + i / 251);
    check_bytes(T("a"), bytes(value, size));
    check_bytes(T("b"), bytes(value, size));
    check_bytes(bytes(value, 200000), T("of a long key"));
    CHECK_INT(RANGE(.prefix = true)->kv_count, 3);
    for (int i = 0; i < 8; i++)
        check_bytes(T(harness_format("c%d", i)), bytes(value, size));
    struct etcd_reply *reply = RANGE(.key = T("c"), .prefix = true); /* more than gRPC takes unless told */
    CHECK_INT(reply->kv_count, 8);
    for (int i = 0; i < 8; i++)
        CHECK(same(reply->kvs[i].value, bytes(value, size)));
}

static void many_keys(void) {
    begin();
    enum { KEYS = 10000, AT_ONCE = 100 };
    struct etcd_op ops[AT_ONCE];
    for (int i = 0; i < KEYS; i += AT_ONCE) {
        for (int j = 0; j < AT_ONCE; j++)
            ops[j] = (struct etcd_op){ETCD_PUT, .put = {.key = T(harness_format("key-%05d", i + j)),
                                                        .value = T(harness_format("value of %d", i + j))}};
        CHECK_INT(TXN(.then = ops, .then_count = AT_ONCE)->reply_count, AT_ONCE);
    }
    struct etcd_reply *reply = RANGE(.key = T("key-"), .prefix = true);
    CHECK_INT(reply->kv_count, KEYS);
    CHECK_INT(reply->count, KEYS);
    for (int i = 0; i < KEYS; i++) {
        CHECK_STR(text_of(reply->kvs[i].key), harness_format("key-%05d", i));
        CHECK_STR(text_of(reply->kvs[i].value), harness_format("value of %d", i));
    }
    CHECK_INT(DELETE(.key = T("key-"), .prefix = true, .prev = true)->kv_count, KEYS);
}

/* ---- what is not wanted, and what is not answered ---- */

static void what_is_not_wanted(void) {
    begin();
    const struct etcd_put put_a = {.key = T("a"), .value = T("1")};
    const struct etcd_range range = {.key = T("a")};
    const struct etcd_txn txn = {.then = NULL};
    const struct etcd_delete del = {.key = T("a")};
    CHECK_STATUS(etcd_put(etcd, &put_a, NULL, NULL), ETCD_OK);
    CHECK_STATUS(etcd_range(etcd, &range, NULL, NULL), ETCD_OK);
    CHECK_STATUS(etcd_txn(etcd, &txn, NULL, NULL), ETCD_OK);
    CHECK_STATUS(etcd_delete(etcd, &del, NULL, NULL), ETCD_OK);
    CHECK_STATUS(etcd_lease_grant(etcd, 10, 0, NULL, NULL, NULL), ETCD_OK);
    etcd_reply_free(NULL);
}

/* Of these a server of 3.4 dies, or takes them for true; they are not sent. */
static void what_is_never_sent(void) {
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {.error = error, .error_size = sizeof error};
    const struct etcd_op range = {ETCD_RANGE, .range = {.prefix = true, .sort_by = ETCD_LEASE}};
    const struct etcd_compare compare = {.key = T("a"), .target = ETCD_KEY};
    const struct etcd_op inner = {ETCD_TXN, .txn = {.otherwise = &range, .otherwise_count = 1}};
    const struct etcd_op compared = {ETCD_TXN, .txn = {.compares = &compare, .compare_count = 1}};
    const struct etcd_op outer = {ETCD_TXN, .txn = {.then = &inner, .then_count = 1}};
    CHECK_STATUS(etcd_do(etcd, &range, &call, NULL), ETCD_INVALID);
    CHECK_HAS(error, "no such order");
    CHECK_STATUS(etcd_do(etcd, &outer, NULL, NULL), ETCD_INVALID);
    CHECK_STATUS(etcd_do(etcd, &compared, NULL, NULL), ETCD_INVALID);
    CHECK(proc_running(&server.proc));
    /* As deep as it goes, and deeper. */
    struct etcd_op deep[102] = {{ETCD_RANGE, .range = {.key = T("a")}}};
    for (int i = 1; i < 102; i++)
        deep[i] = (struct etcd_op){ETCD_TXN, .txn = {.then = &deep[i - 1], .then_count = 1}};
    begin();
    put("a", "1");
    const struct etcd_reply *reply = ask(&deep[101]);
    while (reply->kind == ETCD_TXN)
        reply = &reply->replies[0];
    CHECK_STR(pairs(reply), "a=1");
    const struct etcd_txn too_deep = {.then = &deep[101], .then_count = 1};
    CHECK_STATUS(etcd_txn(etcd, &too_deep, NULL, NULL), ETCD_INVALID);
}

static void outputs_of_failures(void) {
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {.error = error, .error_size = sizeof error};
    struct etcd_reply mark, *reply = &mark;
    const struct etcd_put no_key = {.value = T("1")};
    const struct etcd_range range = {.key = T("a"), .revision = INT64_MAX};
    CHECK_STATUS(etcd_put(etcd, &no_key, &call, &reply), ETCD_INVALID);
    CHECK(reply == &mark);
    CHECK_HAS(error, "key is not provided");
    CHECK_STATUS(etcd_range(etcd, &range, &call, &reply), ETCD_FUTURE);
    CHECK(reply == &mark);
    CHECK_HAS(error, "future revision");
    /* An error that has no room, or little. */
    char small[4] = "xyz";
    const struct etcd_call short_call = {.error = small, .error_size = sizeof small};
    CHECK_STATUS(etcd_range(etcd, &range, &short_call, &reply), ETCD_FUTURE);
    CHECK_INT(small[3], 0);
    CHECK(strcmp(small, "xyz") != 0);
    const struct etcd_call no_room = {.error = small, .error_size = 0};
    CHECK_STATUS(etcd_range(etcd, &range, &no_room, &reply), ETCD_FUTURE);
}

/* It is memory of the caller's, whatever became of the client. */
static void replies_outlive_their_client(void) {
    begin();
    char error[ETCD_ERROR_SIZE];
    const struct etcd_config config = {.endpoints = tools_endpoints(&server, 1)};
    struct etcd *client;
    CHECK_STATUS(etcd_open(&config, &client, error, sizeof error), ETCD_OK);
    put("a", harness_repeat('x', 100000));
    const struct etcd_range range = {.key = T("a")};
    struct etcd_reply *reply;
    CHECK_STATUS(etcd_range(client, &range, NULL, &reply), ETCD_OK);
    etcd_close(client);
    CHECK(same(reply->kvs[0].value, T(harness_repeat('x', 100000))));
    etcd_reply_free(reply);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    etcd_start(&server, NULL);
    etcd = tools_open(&server, 1);
    harness_run("ranges: one key, from and to, prefixes, all", ranges);
    harness_run("ranges: limit, keys only, count only", parts_of_ranges);
    harness_run("ranges as of a revision", the_past);
    harness_run("ranges in each order", sorted);
    harness_run("ranges between revisions", between_revisions);
    harness_run("puts", puts_);
    harness_run("deletes", deletes);
    harness_run("compactions", compacts);
    harness_run("compares with numbers", compares_numbers);
    harness_run("compares with values", compares_values);
    harness_run("compares with ranges", compares_ranges);
    harness_run("transactions", txns);
    harness_run("transactions in transactions", nested_txns);
    harness_run("a transaction of nothing", empty_txn);
    harness_run("leases", leases);
    harness_run("a lease in its last second", a_lease_of_a_second);
    harness_run("leases of a server that gives more than asked for", leases_of_a_slow_server);
    harness_run("a lease runs out", a_lease_runs_out);
    harness_run("members", members);
    harness_run("the server's lock service", locks);
    harness_run("keys and values of any bytes", any_bytes);
    harness_run("prefixes that end in 0xff", prefixes_of_ff);
    harness_run("values of a megabyte", large_values);
    harness_run("ten thousand keys in an answer", many_keys);
    harness_run("what is not wanted may be left out", what_is_not_wanted);
    harness_run("what ends servers is not sent", what_is_never_sent);
    harness_run("a failure leaves outputs untouched", outputs_of_failures);
    harness_run("replies outlive their client", replies_outlive_their_client);
    return harness_finish();
}
