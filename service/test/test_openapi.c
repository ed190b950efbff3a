/* openapi.json: no linter finds fault with it; its calls are those of the code, with their problems and
 * headers, every problem there is stands in it and in the README, and answers have no members that it does
 * not tell. */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "service/api/http_api.h"
#include "service/test/shop.h"
#include "test/harness.h"

static const char document[] = "service/api/openapi.json";

/* What the linter says of the file; its exit status is the result. */
static int lint(const char *path, const char **said) {
    struct proc proc;
    int status = -1;
    proc_spawn(&proc, (const char *const[]){"node", "test/npm/lint.js", path, NULL},
               (const char *const[]){"NODE_PATH=build/npm/node_modules", NULL},
               harness_format("%s/lint.log", harness_dir()));
    CHECK(proc_wait(&proc, 60000, &status));
    *said = proc_output(&proc);
    return status;
}

static void linted(void) {
    const char *said;
    if (lint(document, &said) != 0)
        FAIL("%s (or it is not there: make tests installs it)", said);
    /* It finds what is wrong. */
    const char *path = harness_format("%s/bad.json", harness_dir());
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    fputs("{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"t\",\"version\":\"1\"},\"paths\":{}}", file);
    CHECK_INT(fclose(file), 0);
    CHECK(lint(path, &said) != 0);
    CHECK_HAS(said, "info-license");
}

static void forget(void *arg) {
    json_decref(arg);
}

static json_t *load(void) {
    json_error_t error;
    json_t *api = json_load_file(document, JSON_REJECT_DUPLICATES, &error);
    if (!api)
        FAIL("%s:%d: %s", document, error.line, error.text);
    harness_defer(forget, api);
    return api;
}

static const json_t *within(const json_t *value, const char *const *names) {
    for (; *names; names++)
        value = json_object_get(value, *names);
    return value;
}

#define WITHIN(value, ...) within(value, (const char *const[]){__VA_ARGS__, NULL})

static bool in_word(char c) {
    return isalpha((unsigned char)c) || c == '-';
}

/* Behind the first place where the text has it as a word of its own; NULL where it has not. */
static const char *find_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++)
        if ((at == text || !in_word(at[-1])) && !in_word(at[length]))
            return at + length;
    return NULL;
}

/* How many of these responses have the problem; each must have it under its status: 404 by the key, 4XX with
 * the status behind it, "not-found (404". */
static int count_in(const json_t *responses, const char *name, int status) {
    const char *key;
    json_t *response;
    int count = 0;
    json_object_foreach((json_t *)(uintptr_t)responses, key, response) {
        const char *text = json_string_value(json_object_get(response, "description"));
        const char *types = text ? strstr(text, "type: ") : NULL,
                   *behind = types ? find_word(types, name) : NULL;
        if (!behind)
            continue;
        const char *place = isdigit((unsigned char)key[0]) ? key : behind + 2;
        if (strtol(place, NULL, 10) != status)
            FAIL("%s is no %d under %s: %s", name, status, key, text);
        count++;
    }
    return count;
}

static void problems_told(void) {
    const json_t *api = load(), *components = json_object_get(api, "components");
    const json_t *types = WITHIN(components, "schemas", "Problem", "properties", "type", "enum");
    static char readme[1 << 17];
    FILE *file = fopen("docs/sell.md", "re");
    CHECK(file != NULL);
    readme[fread(readme, 1, sizeof readme - 1, file)] = '\0';
    fclose(file);
    CHECK_INT((long long)json_array_size(types), PROBLEMS);
    for (int i = 0; i < PROBLEMS; i++) {
        const char *name = problem_types[i].name, *path;
        int status = problem_types[i].status;
        CHECK_STR(json_string_value(json_array_get(types, (size_t)i)), harness_format("/problems/%s", name));
        int count = count_in(json_object_get(components, "responses"), name, status);
        json_t *item, *operation;
        json_object_foreach(json_object_get(api, "paths"), path, item) {
            const char *method;
            json_object_foreach(item, method, operation) count +=
                count_in(json_object_get(operation, "responses"), name, status);
        }
        if (count == 0)
            FAIL("%s does not name %s", document, name);
        if (!strstr(readme, harness_format("`%s`", name)))
            FAIL("docs/sell.md does not name %s", name);
    }
}

/* ---- calls ---- */

/* The document's path of a route's, whose * is any name; NULL where it has none. */
static const json_t *find_path(const json_t *api, const char *route) {
    const char *path;
    json_t *item;
    size_t before = strcspn(route, "*");
    json_object_foreach((json_t *)(uintptr_t)json_object_get(api, "paths"), path, item) {
        const char *brace = strchr(path, '{');
        if (!brace && strcmp(path, route) == 0)
            return item;
        if (brace && route[before] && (size_t)(brace - path) == before && strncmp(path, route, before) == 0 &&
            strcmp(strchr(brace, '}') + 1, route + before + 1) == 0)
            return item;
    }
    return NULL;
}

static bool is_method(const char *name) {
    return strcmp(name, "parameters") != 0;
}

/* The roles as the table in routes.c has them, "BUYER | SHOP | BY_TIME", and as the document has: the same,
 * in the same order. */
static bool are_roles(const json_t *told, const char *who) {
    char text[64] = "";
    size_t i;
    json_t *role;
    json_array_foreach((json_t *)(uintptr_t)told, i, role) {
        size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, "%s%s", i ? " | " : "", json_string_value(role));
    }
    size_t length = strlen(text);
    return length > 0 && strncasecmp(text, who, length) == 0 &&
           (!who[length] || strcmp(who + length, " | BY_TIME") == 0);
}

static void check_route(const json_t *api, const char *method, const char *route, const char *who,
                        bool keyed) {
    char name[8] = "";
    for (size_t i = 0; method[i]; i++)
        name[i] = (char)tolower((unsigned char)method[i]);
    const json_t *call = json_object_get(find_path(api, route), name);
    if (!call)
        FAIL("%s does not tell %s %s", document, method, route);
    const json_t *responses = json_object_get(call, "responses"), *own = json_object_get(call, "parameters");
    const char *parameter = json_string_value(json_object_get(json_array_get(own, 0), "name"));
    bool all = strcmp(who, "ALL") == 0;
    const json_t *security = json_object_get(call, "security");
    if (!are_roles(json_object_get(call, "x-roles"), who))
        FAIL("%s %s: x-roles are not %s", method, route, who);
    if ((security == NULL) != all || (json_object_get(responses, "401") == NULL) != all ||
        (json_object_get(responses, "403") == NULL) != all)
        FAIL("%s %s: whether it needs credentials", method, route);
    if (!all && (json_array_size(security) == 2) != (strstr(who, "SHOP") != NULL))
        FAIL("%s %s: whether it needs none where callers without them are the shop", method, route);
    bool settles = strstr(route, "/confirm") || strstr(route, "/cancel"); /* which takes no lock */
    if (settles && count_in(responses, "lock-unavailable", 503))
        FAIL("%s %s: lock-unavailable", method, route);
    if (keyed != (parameter && strcmp(parameter, "Idempotency-Key") == 0))
        FAIL("%s %s: whether it takes an Idempotency-Key", method, route);
}

/* Those of the table in routes.c, and no others. */
static void calls_told(void) {
    static const char *const keyed[] = {"purchases_post", "baskets_post", "transfers_post", "items_restock",
                                        "orders_return"};
    const json_t *api = load();
    char line[200], method[8], route[64], handler[32], who[64];
    int routes = 0, calls = 0;
    FILE *file = fopen("service/api/routes.c", "re");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, " {\"%7[A-Z]\", \"%63[^\"]\", %31[a-z_], %63[A-Z_ |]", method, route, handler,
                   who) != 4)
            continue;
        bool takes_key = false;
        for (size_t i = 0; i < sizeof keyed / sizeof *keyed; i++)
            takes_key |= strcmp(handler, keyed[i]) == 0;
        check_route(api, method, route, who, takes_key);
        routes++;
    }
    fclose(file);
    const char *path, *name;
    json_t *item, *call;
    json_object_foreach(json_object_get(api, "paths"), path, item) {
        json_object_foreach(item, name, call) calls += is_method(name);
    }
    CHECK(routes > 0);
    CHECK_INT(calls, routes);
}

/* ---- what a response tells ---- */

static int status_of(const char *name) {
    for (int i = 0; i < PROBLEMS; i++)
        if (strcmp(problem_types[i].name, name) == 0)
            return problem_types[i].status;
    return 0;
}

/* Every word after "type: " that is in no brackets is a problem, and one of that status. */
static void check_types(const char *where, const char *key, const char *types) {
    char name[32];
    int depth = 0;
    for (size_t length = 0;; types++) {
        depth += *types == '(';
        if (depth == 0 && in_word(*types) && length < sizeof name - 1) {
            name[length++] = *types;
        } else if (length) {
            name[length] = '\0';
            length = 0;
            int status = status_of(name);
            if (!status || (isdigit((unsigned char)key[1]) ? strtol(key, NULL, 10) != status
                                                           : key[0] - '0' != status / 100))
                FAIL("%s, %s: %s is no problem of it", where, key, name);
        }
        depth -= *types == ')';
        if (!*types)
            return;
    }
}

static void check_responses(const json_t *shared, const char *where, const json_t *responses) {
    static const char *const headers[][2] = {{"401", "WWW-Authenticate"}, {"503", "Retry-After"}};
    const char *key;
    json_t *response;
    json_object_foreach((json_t *)(uintptr_t)responses, key, response) {
        const char *reference = json_string_value(json_object_get(response, "$ref"));
        if (reference)
            response = json_object_get(shared, strrchr(reference, '/') + 1);
        const char *text = json_string_value(json_object_get(response, "description"));
        const char *types = text ? strstr(text, "type: ") : NULL;
        for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
            if (strcmp(key, headers[i][0]) == 0 && !WITHIN(response, "headers", headers[i][1]))
                FAIL("%s, %s: no %s", where, key, headers[i][1]);
        if (types)
            check_types(where, key, types + 6);
        if (text && !json_object_get(response, "content"))
            FAIL("%s, %s: not told what it has", where, key);
    }
}

static void responses_told(void) {
    const json_t *api = load(), *shared = WITHIN(api, "components", "responses");
    const char *path, *name;
    json_t *item, *call;
    json_object_foreach(json_object_get(api, "paths"), path, item) {
        json_object_foreach(item, name, call) {
            if (is_method(name))
                check_responses(shared, harness_format("%s %s", name, path),
                                json_object_get(call, "responses"));
        }
    }
    check_types("Refused", "4XX",
                strstr(json_string_value(WITHIN(shared, "Refused", "description")), "type: ") + 6);
    check_types("Unable", "5XX",
                strstr(json_string_value(WITHIN(shared, "Unable", "description")), "type: ") + 6);
}

/* ---- members ---- */

/* Those of the answer are those of the schema, but for these that it may lack. */
static void check_members(const json_t *api, const char *schema, const char *lacks,
                          const struct web_response *response) {
    json_error_t error;
    json_t *answer = json_loadb(response->body, response->len, 0, &error), *value;
    const json_t *properties = WITHIN(api, "components", "schemas", schema, "properties");
    const char *name;
    CHECK(answer != NULL && properties != NULL);
    harness_defer(forget, answer);
    json_object_foreach(answer, name, value) {
        if (!json_object_get(properties, name))
            FAIL("%s: no %s is told, of %s", schema, name, response->body);
    }
    json_object_foreach((json_t *)(uintptr_t)properties, name, value) {
        if (!json_object_get(answer, name) && !find_word(lacks, name))
            FAIL("%s: there is no %s in %s", schema, name, response->body);
    }
}

static void members_told(void) {
    const json_t *api = load();
    struct web_response got;
    struct shop shop;
    shop_open(&shop);
    CHECK_INT(shop_get(shop.port, "/openapi.json", &got), 200);
    CHECK_STR(web_header(&got, "Content-Type"), "application/json");
    json_t *served = json_loadb(got.body, got.len, JSON_REJECT_DUPLICATES, NULL);
    harness_defer(forget, served);
    CHECK(json_equal(served, api));
    CHECK_INT(
        shop_admin(shop.port, "PUT", "/v1/items/a",
                   "{\"stock\":9,\"starts_at\":\"2020-01-01T00:00:00Z\",\"ends_at\":\"2099-01-01T00:00:00Z\","
                   "\"hold_seconds\":600}",
                   &got),
        201);
    check_members(api, "Item", "", &got);
    CHECK_INT(shop_admin(shop.port, "PUT", "/v1/items/a", "{\"stock\":8}", &got), 409);
    check_members(api, "Problem", "field available left refund_due limit starts_at ends_at line item", &got);
    shop_put(shop.port, "b", "\"stock\":9");
    CHECK_INT(shop_buy(shop.port, "a", "u", 1, "k", &got), 201);
    check_members(api, "Order", "settled_at payment returned late refund_due", &got);
    CHECK_INT(shop_basket(shop.port, "u", "a:1 b:1", "k", &got), 201);
    check_members(api, "Basket", "", &got);
    CHECK_INT(shop_basket(shop.port, "u", "b:1 a:100", "k2", &got), 409);
    check_members(api, "Problem", "field left refund_due limit starts_at ends_at differs", &got);
    CHECK_INT(shop_transfer(shop.port, "a", "b", 1, "k", &got), 200);
    check_members(api, "Transfer", "", &got);
    CHECK_INT(shop_restock(shop.port, "a", 1, "k", &got), 200);
    check_members(api, "Restock", "", &got);
    CHECK_INT(shop_admin(shop.port, "GET", "/v1/items/a/audit", NULL, &got), 200);
    check_members(api, "Audit", "", &got);
    CHECK_INT(shop_admin(shop.port, "GET", "/v1/audit", NULL, &got), 200);
    check_members(api, "AuditSum", "", &got);
    CHECK_INT(shop_get(shop.port, "/readyz", &got), 200);
    check_members(api, "Health", "", &got);
    CHECK_INT(shop_admin(shop.port, "PUT", "/v1/lock", "{\"lock\":\"local:\"}", &got), 200);
    check_members(api, "Lock", "reachable problem", &got);
    shop_close(&shop);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("the linter finds nothing", linted);
    harness_run("every problem is told", problems_told);
    harness_run("every call is told", calls_told);
    harness_run("every response is told", responses_told);
    harness_run("every member is told", members_told);
    return harness_finish();
}
