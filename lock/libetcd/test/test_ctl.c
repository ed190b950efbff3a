/* libetcd against etcdctl: the same random operations, each on a keyspace of its own, get the same answers;
 * and what one has written the other reads.
 *
 * What is counted is operations that both have done and whose answers were compared. A start of etcdctl takes
 * some 15 ms, so all but two hundred of them are in transactions, a hundred in each: there every operation
 * has an answer of its own. Of a transaction's two halves only the one that was done counts, and its compares
 * do not count. Reading everything through both now and then counts as one, though it compares all
 * fields of hundreds of keys. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "lock/libetcd/test/tools.h"

enum { WANTED = 10000, BATCH = 100, LINES = 100, SCRIPTS = 2, KEYS = 40, LEASES = 3 };

static struct etcd_server server;
static struct etcd *etcd;
static uint64_t position;
static int64_t leases[LEASES]; /* with the keys of both */
static int compared;

static unsigned below(unsigned n) {
    return (unsigned)(harness_random(&position) % n);
}

/* ---- an operation, of no keyspace yet ---- */

enum { OURS = 'o', THEIRS = 't' }; /* of libetcd, of etcdctl */

struct step {
    const char *value;
    enum etcd_kind kind;
    unsigned key, end;
    enum { ONE, RANGE_, PREFIX } extent;
    int lease; /* -1: none */
    unsigned limit;
    enum etcd_order order;
    enum etcd_target sort_by;
    char half; /* of the keyspace: no transaction deletes in the one where it puts */
    bool prev, keys_only, serializable;
};

static const char *random_value(void) {
    static const char letters[] = "abc 0123456789xyz_.";
    char *value = harness_alloc(40);
    unsigned size = below(4) ? below(39) : 0;
    for (unsigned i = 0; i < size; i++)
        value[i] = letters[below(sizeof letters - 1)];
    return value;
}

static struct step random_step(char put_half) {
    struct step step = {.kind = (enum etcd_kind)below(3), .key = below(KEYS), .lease = -1};
    step.half = "xy"[below(2)];
    if (step.kind == ETCD_PUT)
        step.half = put_half;
    else if (step.kind == ETCD_DELETE && put_half)
        step.half = put_half == 'x' ? 'y' : 'x';
    step.end = step.key + below(KEYS / 4);
    step.extent = below(step.kind == ETCD_DELETE ? 20 : 3) < 2 ? RANGE_ : below(8) ? ONE : PREFIX;
    step.value = random_value();
    if (below(3) == 0)
        step.lease = (int)below(LEASES);
    step.limit = below(3) ? 0 : below(8);
    step.order = (enum etcd_order)below(3);
    step.sort_by = (enum etcd_target)below(5);
    step.prev = below(2) == 0;
    step.keys_only = below(4) == 0;
    step.serializable = below(4) == 0;
    return step;
}

static const char *key_of(const struct step *step, char space, unsigned number) {
    return harness_format("%c/%c%02u", space, step->half, number);
}

/* One digit short of a key: ten keys begin with it. */
static const char *first_of(const struct step *step, char space) {
    const char *key = key_of(step, space, step->key);
    return step->extent == PREFIX ? harness_format("%.4s", key) : key;
}

static struct etcd_op as_op(const struct step *step) {
    struct etcd_op op = {.kind = step->kind};
    struct etcd_bytes key = etcd_text(first_of(step, OURS)), end = {NULL, 0};
    if (step->extent == RANGE_)
        end = etcd_text(key_of(step, OURS, step->end));
    if (step->kind == ETCD_RANGE)
        op.range = (struct etcd_range){.key = key,
                                       .end = end,
                                       .prefix = step->extent == PREFIX,
                                       .limit = step->limit,
                                       .order = step->order,
                                       .sort_by = step->sort_by,
                                       .keys_only = step->keys_only,
                                       .serializable = step->serializable};
    else if (step->kind == ETCD_PUT)
        op.put = (struct etcd_put){.key = etcd_text(key_of(step, OURS, step->key)),
                                   .value = etcd_text(step->value),
                                   .lease = step->lease < 0 ? 0 : leases[step->lease],
                                   .prev = step->prev};
    else
        op.del = (struct etcd_delete){
            .key = key, .end = end, .prefix = step->extent == PREFIX, .prev = step->prev};
    return op;
}

/* As etcdctl's command line has it, and its transactions. */
static const char *as_text(const struct step *step) {
    static const char *const orders[] = {"", " --order ASCEND", " --order DESCEND"};
    static const char *const targets[] = {"KEY", "VERSION", "CREATE", "MODIFY", "VALUE"};
    const char *prev = step->prev ? " --prev-kv" : "";
    if (step->kind == ETCD_PUT)
        return harness_format(
            "put %s \"%s\"%s%s", key_of(step, THEIRS, step->key), step->value, prev,
            step->lease < 0 ? "" : harness_format(" --lease=%llx", (unsigned long long)leases[step->lease]));
    const char *keys = first_of(step, THEIRS);
    if (step->extent == RANGE_)
        keys = harness_format("%s %s", keys, key_of(step, THEIRS, step->end));
    if (step->extent == PREFIX)
        keys = harness_format("%s --prefix", keys);
    if (step->kind == ETCD_DELETE)
        return harness_format("del %s%s", keys, prev);
    return harness_format("get %s --limit %u --sort-by %s%s%s%s", keys, step->limit, targets[step->sort_by],
                          orders[step->order], step->keys_only ? " --keys-only" : "",
                          step->serializable ? " --consistency=s" : "");
}

/* ---- what both say ---- */

static const char *decode(const char *base64) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = harness_alloc(strlen(base64) + 1), *end = text;
    unsigned bits = 0, count = 0;
    for (; *base64 && *base64 != '='; base64++) {
        bits = bits << 6 | (unsigned)(strchr(digits, *base64) - digits);
        count += 6;
        if (count >= 8) {
            count -= 8;
            *end++ = (char)(bits >> count);
        }
    }
    return text;
}

static const char *text_in(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? decode(text) : "";
}

static int64_t number_in(const json_t *object, const char *name) {
    return json_integer_value(json_object_get(object, name));
}

static const char *text_of(struct etcd_bytes bytes) {
    return harness_format("%.*s", (int)bytes.size, bytes.size ? (const char *)bytes.data : "");
}

/* `same_space`: both have looked at the same keys, and not each at its own; their revisions are the same
 * then.
 */
static void compare_kvs(const json_t *list, const struct etcd_reply *reply, bool same_space) {
    CHECK_INT(reply->kv_count, json_array_size(list));
    for (size_t i = 0; i < reply->kv_count; i++) {
        const json_t *kv = json_array_get(list, i);
        const struct etcd_kv *ours = &reply->kvs[i];
        int skipped = same_space ? 0 : 1;
        CHECK_STR(text_of(ours->key) + skipped, text_in(kv, "key") + skipped);
        CHECK_STR(text_of(ours->value), text_in(kv, "value"));
        CHECK_INT(ours->version, number_in(kv, "version"));
        CHECK_INT(ours->lease, number_in(kv, "lease"));
        if (same_space) {
            CHECK_INT(ours->create_revision, number_in(kv, "create_revision"));
            CHECK_INT(ours->mod_revision, number_in(kv, "mod_revision"));
        }
    }
}

static void compare_answers(enum etcd_kind kind, const json_t *answer, const struct etcd_reply *reply) {
    CHECK_INT(reply->kind, kind);
    if (kind == ETCD_RANGE) {
        CHECK_INT(reply->count, number_in(answer, "count"));
        CHECK_INT(reply->more, json_is_true(json_object_get(answer, "more")));
        compare_kvs(json_object_get(answer, "kvs"), reply, false);
    } else if (kind == ETCD_DELETE) {
        CHECK_INT(reply->count, number_in(answer, "deleted"));
        compare_kvs(json_object_get(answer, "prev_kvs"), reply, false);
    } else {
        json_t *list = json_array(), *prev = json_object_get(answer, "prev_kv");
        if (prev)
            json_array_append(list, prev);
        compare_kvs(list, reply, false);
        json_decref(list);
    }
    compared++;
}

static void forget_json(void *json) {
    json_decref(json);
}

static json_t *parse(char *text) {
    json_error_t error;
    /* Numbers of 64 bits without a sign are too large for jansson. Here they are all the same. */
    for (char *at = text; (at = strstr(at, "er_id\":"));) {
        at += strlen("er_id\":");
        size_t digits = strspn(at, "0123456789");
        memset(at, ' ', digits);
        *at = '0';
    }
    json_t *json = json_loads(text, 0, &error);
    if (!json)
        FAIL("%s: %.200s", error.text, text);
    harness_defer(forget_json, json);
    return json;
}

static void free_reply(void *reply) {
    etcd_reply_free(reply);
}

static struct etcd_reply *ask(const struct etcd_op *op) {
    char error[ETCD_ERROR_SIZE] = "";
    const struct etcd_call call = {.error = error, .error_size = sizeof error};
    struct etcd_reply *reply = NULL;
    enum etcd_status status = etcd_do(etcd, op, &call, &reply);
    if (status != ETCD_OK)
        FAIL("%s: %s", etcd_status_text(status), error);
    harness_defer(free_reply, reply);
    return reply;
}

/* What a shell prints, with `input` beside it. */
static char *run(const char *command, const char *input) {
    static int count;
    struct proc proc;
    int status;
    const char *file = harness_format("%s/input-%d", harness_dir(), ++count);
    FILE *stream = fopen(file, "we");
    CHECK(stream && fputs(input, stream) >= 0 && fclose(stream) == 0);
    const char *argv[] = {"sh", "-c", harness_format("%s <%s", command, file), NULL};
    const char *env[] = {"ETCDCTL_API=3", harness_format("ETCDCTL_ENDPOINTS=%s", tools_endpoints(&server, 1)),
                         "ETCDCTL_WRITE_OUT=json", NULL};
    proc_spawn(&proc, argv, env, harness_format("%s.said", file));
    CHECK(proc_wait(&proc, 60000, &status));
    if (status != 0)
        FAIL("%s: %s", command, proc_output(&proc));
    return proc_output(&proc);
}

/* Everything there is, of both keyspaces, as of a revision (0: now). */
static void compare_all(int64_t revision) {
    const struct etcd_op all = {ETCD_RANGE, .range = {.prefix = true, .revision = revision}};
    const json_t *theirs =
        parse(run(harness_format("etcdctl get '' --prefix --rev %lld", (long long)revision), ""));
    compare_kvs(json_object_get(theirs, "kvs"), ask(&all), true);
    compared++;
}

/* ---- one command for each operation ---- */

static void single_operations(void) {
    struct step steps[LINES];
    const char *script = "set -e\n";
    for (int i = 0; i < LINES; i++) {
        steps[i] = random_step("xy"[below(2)]);
        script = harness_format("%setcdctl %s\n", script, as_text(&steps[i]));
    }
    char *line = run("sh -s", script);
    for (int i = 0; i < LINES; i++) {
        char *next = line + strcspn(line, "\n");
        *next = '\0';
        const struct etcd_op op = as_op(&steps[i]);
        compare_answers(op.kind, parse(line), ask(&op));
        line = next + 1;
    }
    compare_all(0);
}

/* ---- transactions ---- */

/* About a key, in both languages. Revisions are not the same in both keyspaces, but for those of what is not
 * there. etcdctl 3.4 dies of a compare with a lease. */
static const char *random_compare(struct etcd_compare *compare, char half) {
    static const char *const names[] = {"", "ver", "create", "mod", "val"};
    static const char *const relations[] = {"=", ">", "<", "!="};
    const struct step step = {.half = half};
    unsigned key = below(KEYS);
    *compare = (struct etcd_compare){.key = etcd_text(key_of(&step, OURS, key)),
                                     .target = (enum etcd_target)(1 + below(4)),
                                     .relation = (enum etcd_relation)below(4)};
    const char *value = "0";
    if (compare->target == ETCD_VERSION)
        value = harness_format("%u", below(4));
    if (compare->target == ETCD_VALUE)
        value = random_value();
    compare->value = etcd_text(value);
    compare->number = strtoll(value, NULL, 10);
    return harness_format("%s(\"%s\") %s \"%s\"\n", names[compare->target], key_of(&step, THEIRS, key),
                          relations[compare->relation], value);
}

static const char *random_half(struct step *steps, struct etcd_op *ops) {
    const char *text = "";
    char put_half = "xy"[below(2)];
    bool is_put[KEYS] = {false};
    for (int i = 0; i < BATCH; i++) {
        do
            steps[i] = random_step(put_half);
        while (steps[i].kind == ETCD_PUT && is_put[steps[i].key]);
        if (steps[i].kind == ETCD_PUT)
            is_put[steps[i].key] = true;
        ops[i] = as_op(&steps[i]);
        text = harness_format("%s%s\n", text, as_text(&steps[i]));
    }
    return text;
}

static const json_t *inside(const json_t *txn, size_t i, enum etcd_kind kind) {
    static const char *const names[] = {"ResponseRange", "ResponsePut", "ResponseDeleteRange"};
    const json_t *response =
        json_object_get(json_array_get(json_object_get(txn, "responses"), i), "Response");
    const json_t *found = NULL;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)response, name, value) {
        if (strcasecmp(name, names[kind]) == 0 ||
            strcasecmp(name, harness_format("response_%s", &names[kind][8])) == 0)
            found = value;
    }
    CHECK(found != NULL);
    return found;
}

static void a_transaction(void) {
    struct step then_steps[BATCH], else_steps[BATCH];
    struct etcd_op then[BATCH], otherwise[BATCH];
    struct etcd_compare compares[3];
    unsigned count = below(4);
    const char *text = "";
    for (unsigned i = 0; i < count; i++)
        text = harness_format("%s%s", text, random_compare(&compares[i], "xy"[below(2)]));
    const char *then_text = random_half(then_steps, then);
    const char *else_text = random_half(else_steps, otherwise);
    const json_t *theirs =
        parse(run("etcdctl txn", harness_format("%s\n%s\n%s\n", text, then_text, else_text)));
    const struct etcd_op op = {ETCD_TXN, .txn = {compares, count, then, BATCH, otherwise, BATCH}};
    const struct etcd_reply *ours = ask(&op);
    CHECK_INT(ours->succeeded, json_is_true(json_object_get(theirs, "succeeded")));
    CHECK_INT(ours->reply_count, BATCH);
    const struct etcd_op *done = ours->succeeded ? then : otherwise;
    for (size_t i = 0; i < BATCH; i++)
        compare_answers(done[i].kind, inside(theirs, i, done[i].kind), &ours->replies[i]);
    if (below(4) == 0)
        compare_all(below(2) ? 0 : number_in(json_object_get(theirs, "header"), "revision"));
}

static void transactions(void) {
    for (int i = 0; i < 10 && compared < WANTED; i++)
        a_transaction();
}

/* ---- leases ---- */

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *sorted(const char **keys, size_t count) {
    const char *text = "";
    qsort(keys, count, sizeof *keys, by_text);
    for (size_t i = 0; i < count; i++)
        text = harness_format("%s%s ", text, keys[i]);
    return text;
}

static void compare_lease(int64_t id) {
    const char *ours[4 * KEYS], *theirs[4 * KEYS];
    struct etcd_lease_info *info;
    const json_t *said =
        parse(run(harness_format("etcdctl lease timetolive %llx --keys", (unsigned long long)id), ""));
    CHECK_STATUS(etcd_lease_time_to_live(etcd, id, true, NULL, &info), ETCD_OK);
    CHECK_INT(info->granted_ttl_s, number_in(said, "granted-ttl"));
    CHECK(info->ttl_s <= number_in(said, "ttl") && number_in(said, "ttl") - info->ttl_s < 60);
    const json_t *keys = json_object_get(said, "keys");
    CHECK_INT(info->key_count, json_array_size(keys));
    for (size_t i = 0; i < info->key_count; i++) {
        ours[i] = text_of(info->keys[i]);
        theirs[i] = decode(json_string_value(json_array_get(keys, i)));
    }
    CHECK_STR(sorted(ours, info->key_count), sorted(theirs, info->key_count));
    etcd_lease_info_free(info);
    compared++;
}

/* Granted by one and looked at by the other; so revoked. */
static void leases_of_both(void) {
    for (int i = 0; i < LEASES; i++)
        compare_lease(leases[i]);
    struct etcd_lease_info *info;
    run(harness_format("etcdctl lease revoke %llx", (unsigned long long)leases[0]), "");
    CHECK_STATUS(etcd_lease_time_to_live(etcd, leases[0], false, NULL, &info), ETCD_NOT_FOUND);
    CHECK_STATUS(etcd_lease_revoke(etcd, leases[1], NULL), ETCD_OK);
    const json_t *said =
        parse(run(harness_format("etcdctl lease timetolive %llx", (unsigned long long)leases[1]), ""));
    CHECK_INT(number_in(said, "ttl"), -1);
    compared += 2;
    compare_all(0);
}

static void grant_leases(void) {
    leases[0] = tools_grant(etcd, 10000);
    leases[1] = number_in(parse(run("etcdctl lease grant 20000", "")), "ID");
    leases[2] = tools_grant(etcd, 30000);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    position = harness_seed();
    etcd_start(&server, NULL);
    etcd = tools_open(&server, 1);
    grant_leases();
    for (int i = 0; i < SCRIPTS; i++)
        harness_run("single operations", single_operations);
    while (compared < WANTED && !harness_failed())
        harness_run("transactions of a hundred", transactions);
    harness_run("leases", leases_of_both);
    return harness_finish();
}
