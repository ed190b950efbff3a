/* Who may call what: each credential at each call of openapi.json; a buyer's own orders; credentials that
 * change while the service runs. */
#include <ctype.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "service/test/login.h"
#include "service/test/shop.h"

enum { CHANGE_MS = 20000 };

static struct redis_server redis;
static struct seckilld service;

/* Tokens of each role, also an old one. The secret of each is NAME-s3cret. */
static const char *all_tokens(void) {
    return harness_format("%s%s%s%s", login_token_line("web", "shop", "s3cret", ""),
                          login_token_line("deploy", "ops", "s3cret", ""),
                          login_token_line("grafana", "read", "s3cret", ""),
                          login_token_line("past", "ops", "s3cret", " 2020-01-01T00:00:00Z"));
}

/* Neither the log nor an answer may have any of these. */
static const char *const secrets[] = {"s3cret", LOGIN_SECRET, "test-token", "eyJ"};

static void check_log(void *arg) {
    (void)arg;
    const char *log = proc_output(&service.proc);
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
        if (strstr(log, secrets[i]))
            FAIL("the log has %s", secrets[i]);
}

static void open_service(bool buyer_keys) {
    redis_start(&redis, NULL);
    const char *tokens = login_write("tokens", all_tokens()),
               *keys = login_write("keys", login_key_line(LOGIN_KID, LOGIN_SECRET));
    seckilld_start_ready(&service, redis.port, "--workers", "2", "--tokens", tokens,
                         buyer_keys ? "--buyer-keys" : NULL, keys, NULL);
}

static int call(const char *credential, const char *method, const char *path, const char *key,
                const char *body, struct web_response *response) {
    const char *headers = harness_format("%s%s%s%s", credential ? login_bearer(credential) : "",
                                         key ? "Idempotency-Key: " : "", key ? key : "", key ? "\r\n" : "");
    int status = web_call(service.port, method, path, headers, body, response);
    for (size_t i = 0; response && status && i < sizeof secrets / sizeof *secrets; i++)
        if (strstr(response->body, secrets[i]))
            FAIL("an answer has %s: %s", secrets[i], response->body);
    return status;
}

static void put_items(void) {
    shop_put(service.port, "lamp", "\"stock\":1000,\"per_user_limit\":2,\"hold_seconds\":600");
    shop_put(service.port, "phone", "\"stock\":1000,\"hold_seconds\":600");
}

/* ---- each credential at each call ---- */

/* The roles of a credential, in the words of x-roles; "": it is not good. `text` NULL: there is none. */
struct credential {
    const char *what, *text, *roles;
};

/* Whether one of these roles is among those of the call. */
static bool has_role(const json_t *told, const char *roles) {
    size_t i;
    json_t *role;
    json_array_foreach((json_t *)(uintptr_t)told, i, role) {
        if (strstr(roles, json_string_value(role))) /* no role's name is within another's */
            return true;
    }
    return false;
}

static void check_answer(const struct credential *credential, const char *method, const char *path,
                         const json_t *roles) {
    struct web_response response;
    bool all = has_role(roles, "all"), may = all || has_role(roles, credential->roles),
         unknown = strcmp(credential->roles, "") == 0;
    const char *body = strcmp(method, "get") == 0 ? NULL : "{}";
    char *upper = harness_format("%s", method);
    for (char *c = upper; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    int status = call(credential->text, upper, path, "k", body, &response);
    bool none = !credential->text;
    int refusal = may ? 0 : unknown || none ? 401 : 403;
    if (may ? status == 0 || status == 401 || status == 403 : status != refusal)
        FAIL("%s: %s %s is answered %d: %s", credential->what, upper, path, status, response.body);
    if (may)
        return;
    CHECK_PROBLEM(&response, refusal, refusal == 401 ? "unauthorized" : "forbidden");
    if (refusal == 401)
        CHECK_STR(web_header(&response, "WWW-Authenticate"),
                  none ? "Bearer realm=\"seckill\"" : "Bearer realm=\"seckill\", error=\"invalid_token\"");
    if (!body)
        CHECK_INT(call(credential->text, "HEAD", path, NULL, NULL, NULL), status);
}

/* As the service itself says in openapi.json. */
static void check_matrix(const struct credential *credentials, size_t count) {
    struct web_response response;
    const char *key, *method;
    json_t *item, *operation;
    CHECK_INT(call("wrong", "GET", "/openapi.json", NULL, NULL, &response), 200);
    json_t *document = json_loads(response.body, 0, NULL);
    int calls = 0;
    json_object_foreach(json_object_get(document, "paths"), key, item) {
        const char *path = key;
        for (const char *name; (name = strchr(path, '{'));) /* a name in the place of {item} */
            path = harness_format("%.*sx%s", (int)(name - path), path, strchr(name, '}') + 1);
        json_object_foreach(item, method, operation) {
            const json_t *roles = json_object_get(operation, "x-roles");
            for (size_t i = 0; roles && i < count; i++)
                check_answer(&credentials[i], method, path, roles);
            calls += roles != NULL;
        }
    }
    json_decref(document);
    CHECK_INT(calls, 22);
}

/* Everybody but buyers, who have the same credentials with and without keys. */
#define OTHERS                                                                                               \
    {"the shop's token", "web-s3cret", "shop"}, {"a token of operators", "deploy-s3cret", "ops"},            \
        {"a token to read", "grafana-s3cret", "read"},                                                       \
        {"the admin token", "test-token", "buyer shop ops read"}, {"an old token", "past-s3cret", ""},       \
        {"an unknown token", "web-secret", ""}, {                                                            \
        "half a token", "web-s3cre", ""                                                                      \
    }

static void each_call_with_keys(void) {
    open_service(true);
    const char *ticket = login_ticket("ann");
    char *altered = harness_format("%s", ticket);
    *strchr(altered, '.') = altered[0];
    const struct credential credentials[] = {
        OTHERS,
        {"nobody", NULL, ""},
        {"a ticket", ticket, "buyer"},
        {"a ticket with items", login_ticket_with("ann", ",\"items\":[]"), "buyer"},
        {"an altered ticket", altered, ""},
        {"a ticket that is over", login_sign("HS256", LOGIN_KID, LOGIN_SECRET, "{\"sub\":\"ann\",\"exp\":1}"),
         ""},
        {"a ticket of another key",
         login_sign("HS256", "login-2", LOGIN_SECRET, "{\"sub\":\"ann\",\"exp\":4102444800}"), ""},
    };
    check_matrix(credentials, sizeof credentials / sizeof *credentials);
    const char *log = proc_output(&service.proc);
    CHECK_HAS(log,
              "/tokens has 4 tokens: web (shop), deploy (ops), grafana (read), past (ops until 2020-01-01");
    CHECK_HAS(log, "/keys has 1 key: login-1 (HS256)");
    CHECK(!strstr(log, "is the shop"));
    CHECK_HAS(log, "deploy calls PUT /v1/items/x");
    CHECK_HAS(log, "admin calls POST /v1/transfers");
    CHECK(!strstr(log, "grafana calls") && !strstr(log, "deploy calls GET") && !strstr(log, "web calls"));
    check_log(NULL);
}

static void each_call_without_keys(void) {
    open_service(false);
    const struct credential credentials[] = {
        OTHERS,
        {"whoever", NULL, "shop"},
        {"a ticket", login_ticket("ann"), ""},
    };
    check_matrix(credentials, sizeof credentials / sizeof *credentials);
    CHECK_HAS(proc_output(&service.proc),
              harness_format("no --buyer-keys: whoever reaches http://127.0.0.1:%d "
                             "is the shop",
                             service.port));
    check_log(NULL);
}

/* ---- buyers ---- */

static const char *ann, *bob;

static void open_for_buyers(void) {
    open_service(true);
    put_items();
    ann = login_ticket("ann");
    bob = login_ticket("bob");
}

static int buy(const char *credential, const char *body, const char *key, struct web_response *response) {
    return call(credential, "POST", "/v1/purchases", key, body, response);
}

static int order_step(const char *credential, const char *order, const char *step,
                      struct web_response *response) {
    return call(credential, step ? "POST" : "GET",
                harness_format("%s%s%s", order, step ? "/" : "", step ? step : ""), NULL, NULL, response);
}

#define LAMP  "{\"item\":\"lamp\",\"quantity\":1}"
#define PHONE "{\"item\":\"phone\",\"quantity\":1}"

static void whose_orders(void) {
    struct web_response response;
    open_for_buyers();
    CHECK_INT(buy(ann, LAMP, "k", &response), 201);
    CHECK_STR(shop_text(&response, "user"), "ann");
    const char *anns = harness_format("%s", web_header(&response, "Location"));
    CHECK_INT(buy(bob, LAMP, "k", &response), 201); /* the key is the user's */
    CHECK_STR(shop_text(&response, "user"), "bob");
    CHECK(strcmp(web_header(&response, "Location"), anns) != 0);
    CHECK_INT(buy(ann, LAMP, "k", &response), 201);
    CHECK_STR(web_header(&response, "Location"), anns);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");

    CHECK_INT(order_step(ann, anns, NULL, NULL), 200);
    CHECK_INT(order_step("web-s3cret", anns, NULL, NULL), 200);
    CHECK_INT(order_step("grafana-s3cret", anns, NULL, NULL), 200);
    order_step(bob, anns, NULL, &response);
    CHECK_PROBLEM(&response, 404, "unknown-order");
    const char *said = response.body;
    order_step(bob, "/v1/orders/lamp:AAAAAAAAAAAAAAAAAAAAAA", NULL, &response); /* as one that there is not */
    CHECK_STR(response.body, said);
    order_step(bob, anns, "cancel", &response);
    CHECK_PROBLEM(&response, 404, "unknown-order");
    order_step(ann, anns, "confirm", &response);
    CHECK_PROBLEM(&response, 403, "forbidden");
    CHECK_INT(order_step("grafana-s3cret", anns, "cancel", NULL), 403);
    order_step(ann, anns, NULL, &response);
    CHECK_STR(shop_text(&response, "state"), "held");
    CHECK_INT(order_step(ann, anns, "cancel", &response), 200);
    CHECK_STR(shop_text(&response, "state"), "cancelled");
    CHECK_INT(order_step(bob, anns, "cancel", &response), 404); /* also where there is nothing to do */
    CHECK_INT(order_step("web-s3cret", anns, "cancel", NULL), 200);
}

/* While it is being paid, the shop alone may cancel. */
static void an_order_in_payment(void) {
    struct web_response response;
    open_for_buyers();
    CHECK_INT(buy(ann, LAMP, "k", &response), 201);
    const char *order = harness_format("%s", web_header(&response, "Location"));
    CHECK_INT(call(ann, "POST", harness_format("%s/payment", order), NULL, "{\"payment\":\"p\"}", NULL), 403);
    CHECK_INT(
        call("web-s3cret", "POST", harness_format("%s/payment", order), NULL, "{\"payment\":\"p\"}", NULL),
        200);
    CHECK_INT(order_step(bob, order, "cancel", NULL), 404);
    order_step(ann, order, "cancel", &response);
    CHECK_PROBLEM(&response, 409, "in-payment");
    order_step(ann, order, NULL, &response);
    CHECK_STR(shop_text(&response, "state"), "paying");
    CHECK_INT(order_step("web-s3cret", order, "cancel", NULL), 200);
    CHECK_INT(order_step(ann, order, "cancel", NULL), 200); /* it is cancelled by now */
}

static void whose_baskets(void) {
    static const char lines[] =
        "\"lines\":[{\"item\":\"lamp\",\"quantity\":1},{\"item\":\"phone\",\"quantity\":2}]";
    struct web_response response;
    open_for_buyers();
    CHECK_INT(call(ann, "POST", "/v1/baskets", "k", harness_format("{%s}", lines), &response), 201);
    CHECK_STR(shop_text(&response, "user"), "ann");
    const char *basket = harness_format("%s", web_header(&response, "Location")),
               *line = harness_format("/v1/orders/%s", shop_text(&response, "orders.1.order"));
    CHECK_INT(call(bob, "POST", "/v1/baskets", "k", harness_format("{%s}", lines), &response), 201);
    CHECK(strcmp(web_header(&response, "Location"), basket) != 0);
    call(bob, "POST", "/v1/baskets", "k2", harness_format("{\"user\":\"ann\",%s}", lines), &response);
    CHECK_PROBLEM(&response, 403, "forbidden");
    for (int i = 0; i < 2; i++) { /* held, and then confirmed */
        static const char *const states[] = {"held", "confirmed"};
        CHECK_INT(order_step(ann, basket, NULL, &response), 200);
        CHECK_STR(shop_text(&response, "state"), states[i]);
        CHECK_INT(order_step("grafana-s3cret", basket, NULL, NULL), 200);
        CHECK_INT(order_step(ann, line, NULL, NULL), 200);
        CHECK_INT(order_step("web-s3cret", line, NULL, NULL), 200);
        order_step(bob, basket, NULL, &response);
        CHECK_PROBLEM(&response, 404, "unknown-basket");
        order_step(bob, basket, "cancel", &response);
        CHECK_PROBLEM(&response, 404, "unknown-basket");
        order_step(bob, line, NULL, &response);
        CHECK_PROBLEM(&response, 404, "unknown-order");
        order_step(bob, line, "cancel", &response);
        CHECK_PROBLEM(&response, 404, "unknown-order");
        order_step(ann, basket, "confirm", &response);
        CHECK_PROBLEM(&response, 403, "forbidden");
        CHECK_INT(order_step("web-s3cret", basket, "confirm", NULL), 200);
    }
    CHECK_INT(order_step(ann, basket, "cancel", NULL), 409);
}

/* The ticket says who buys, and what. */
static void users_and_items(void) {
    struct web_response response;
    open_for_buyers();
    CHECK_INT(buy(ann, "{\"item\":\"lamp\",\"user\":\"ann\",\"quantity\":1}", "k", &response), 201);
    CHECK_INT(buy(ann, LAMP, "k", &response), 201);
    CHECK_STR(web_header(&response, "Idempotent-Replayed"), "true");
    buy(ann, "{\"item\":\"lamp\",\"user\":\"bob\",\"quantity\":1}", "k2", &response);
    CHECK_PROBLEM(&response, 403, "forbidden");
    buy("web-s3cret", LAMP, "k2", &response); /* the shop must say for whom */
    CHECK_PROBLEM(&response, 400, "invalid-request");
    CHECK_STR(shop_text(&response, "field"), "user");
    call("test-token", "POST", "/v1/baskets", "k2", "{\"lines\":[{\"item\":\"lamp\",\"quantity\":1}]}",
         &response);
    CHECK_PROBLEM(&response, 400, "invalid-request");
    CHECK_STR(shop_text(&response, "field"), "user");
    CHECK_INT(buy("web-s3cret", "{\"item\":\"lamp\",\"user\":\"bob\",\"quantity\":1}", "k", &response), 201);

    const char *only = login_ticket_with("cyd", ",\"items\":[\"phone\",\"desk\"]");
    CHECK_INT(buy(only, PHONE, "k", NULL), 201);
    buy(only, LAMP, "k", &response);
    CHECK_PROBLEM(&response, 403, "forbidden");
    call(only, "POST", "/v1/baskets", "k2",
         "{\"lines\":[{\"item\":\"phone\",\"quantity\":1},{\"item\":\"lamp\",\"quantity\":1}]}", &response);
    CHECK_PROBLEM(&response, 403, "forbidden");
    CHECK_INT(buy(login_ticket_with("cyd", ",\"items\":[]"), PHONE, "k3", NULL), 403);
    CHECK_INT(
        call(only, "POST", "/v1/baskets", "k4", "{\"lines\":[{\"item\":\"phone\",\"quantity\":1}]}", NULL),
        201);
    CHECK_INT(call(only, "GET", "/v1/items/lamp", NULL, NULL, NULL), 200);
    shop_check_left(service.port, "lamp", 998, 2, 0);
    shop_check_left(service.port, "phone", 998, 2, 0);
}

/* One ticket at all connections at once, each with a key of its own: the limit is the user's. */
static void one_ticket_many_times(void) {
    enum { TIMES = 200 };
    static struct web_conn conns[TIMES];
    int sold = 0;
    open_for_buyers();
    for (int i = 0; i < TIMES; i++)
        CHECK(web_open(&conns[i], service.port));
    for (int i = 0; i < TIMES; i++)
        web_send_text(&conns[i], harness_format("POST /v1/purchases HTTP/1.1\r\nHost: shop\r\n%s"
                                                "Idempotency-Key: k-%d\r\nContent-Length: %zu\r\n\r\n" LAMP,
                                                login_bearer(ann), i, strlen(LAMP)));
    for (int i = 0; i < TIMES; i++) {
        struct web_response response;
        CHECK_INT(web_read_response(&conns[i], &response), WEB_OK);
        if (response.status == 201)
            sold++;
        else
            CHECK_PROBLEM(&response, 409, "purchase-limit");
        web_close(&conns[i]);
    }
    CHECK_INT(sold, 2);
    shop_check_left(service.port, "lamp", 998, 2, 0);
}

/* What the first door serves, it serves to the same callers; the rest is not there, whoever asks. */
static void the_first_door(void) {
    int buyers = harness_free_port(), operators = harness_free_port();
    redis_start(&redis, NULL);
    seckilld_start_ready(&service, redis.port, "--listen", harness_format("127.0.0.1:%d", buyers),
                         "--operator-listen", harness_format("127.0.0.1:%d", operators), "--buyer-keys",
                         login_write("keys", login_key_line(LOGIN_KID, LOGIN_SECRET)), "--tokens",
                         login_write("tokens", all_tokens()), NULL);
    put_items();
    const char *ticket = login_ticket("ann");
    const struct {
        const char *credential, *method, *path;
        int status;
    } rows[] = {
        {NULL, "POST", "/v1/purchases", 401},          {"deploy-s3cret", "POST", "/v1/purchases", 403},
        {"past-s3cret", "POST", "/v1/purchases", 401}, {ticket, "POST", "/v1/purchases", 201},
        {NULL, "GET", "/v1/items/lamp", 200},          {NULL, "GET", "/openapi.json", 200},
        {ticket, "GET", "/v1/orders/x", 404},          {NULL, "GET", "/v1/orders/x", 401},
        {NULL, "POST", "/v1/orders/x/confirm", 404},   {"web-s3cret", "POST", "/v1/orders/x/confirm", 404},
        {"test-token", "PUT", "/v1/items/lamp", 404},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *headers = harness_format("%sIdempotency-Key: k\r\n",
                                             rows[i].credential ? login_bearer(rows[i].credential) : "");
        int status = web_call(buyers, rows[i].method, rows[i].path, headers,
                              strcmp(rows[i].method, "GET") == 0 ? NULL : LAMP, NULL);
        if (status != rows[i].status)
            FAIL("%s %s with %.20s is answered %d, not %d", rows[i].method, rows[i].path,
                 rows[i].credential ? rows[i].credential : "nothing", status, rows[i].status);
    }
}

/* ---- files that change ---- */

struct wish {
    const char *credential;
    int status;
};

static bool is_answered(void *arg) {
    const struct wish *wish = arg;
    return call(wish->credential, "GET", "/v1/orders/x", NULL, NULL, NULL) == wish->status;
}

static void wait_answer(const char *credential, int status) {
    struct wish wish = {credential, status};
    if (!harness_wait(is_answered, &wish, CHANGE_MS))
        FAIL("%.40s is not answered %d", credential, status);
}

/* What callers use now: generation i is the token web-i and a ticket by the key login-i. */
enum { CALLERS = 3, GENERATIONS = 3 };
static _Atomic int generation, ended, passed[CALLERS];
static const char *tokens[GENERATIONS], *tickets[GENERATIONS];

/* Calls on and on with the credentials of the generation; each call must be let in. */
static void *caller_run(void *arg) {
    int me = (int)(intptr_t)arg;
    while (!atomic_load(&ended)) {
        int now = atomic_load(&generation);
        const char *const both[] = {tokens[now], tickets[now]};
        for (int i = 0; i < 2; i++) {
            struct web_conn conn;
            char request[1024], answer[64] = "";
            int length = snprintf(request, sizeof request,
                                  "GET /v1/orders/x HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n"
                                  "Authorization: Bearer %s\r\n\r\n",
                                  both[i]);
            CHECK(web_open(&conn, service.port));
            CHECK_INT(web_send_raw(&conn, request, (size_t)length), WEB_OK);
            while (conn.held < sizeof answer - 1) {
                ssize_t got = recv(conn.fd, answer + conn.held, sizeof answer - 1 - conn.held, 0);
                if (got <= 0)
                    break;
                conn.held += (size_t)got;
            }
            web_close(&conn);
            if (strncmp(answer, "HTTP/1.1 404", 12) != 0)
                FAIL("generation %d, credential %d: %s", now, i, answer);
        }
        atomic_store(&passed[me], now + 1);
    }
    return NULL;
}

static bool have_passed(void *arg) {
    (void)arg;
    for (int i = 0; i < CALLERS; i++)
        if (atomic_load(&passed[i]) <= atomic_load(&generation))
            return harness_failed();
    return true;
}

/* The lines of the generations from `first` to `last`. */
static void write_generations(int first, int last) {
    const char *token_lines = "", *key_lines = "";
    for (int i = first; i <= last; i++) {
        token_lines = harness_format("%s%s", token_lines,
                                     login_token_line("web", "shop", harness_format("s3cret-%d", i), ""));
        key_lines =
            harness_format("%s%s", key_lines, login_key_line(harness_format("login-%d", i), LOGIN_SECRET));
    }
    login_write("tokens", token_lines);
    login_write("keys", key_lines);
}

/* The new one is there beside the old one; all callers go over to it; the old one is taken away. */
static void rotation_under_load(void) {
    pthread_t threads[CALLERS];
    open_service(true);
    for (int i = 0; i < GENERATIONS; i++) {
        tokens[i] = harness_format("web-s3cret-%d", i);
        tickets[i] = login_sign("HS256", harness_format("login-%d", i), LOGIN_SECRET,
                                "{\"sub\":\"ann\",\"exp\":4102444800}");
    }
    write_generations(0, 0);
    wait_answer(tokens[0], 404);
    wait_answer(tickets[0], 404);
    for (int i = 0; i < CALLERS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, caller_run, (void *)(intptr_t)i), 0);
    for (int i = 1; i < GENERATIONS; i++) {
        write_generations(i - 1, i);
        wait_answer(tokens[i], 404);
        wait_answer(tickets[i], 404);
        atomic_store(&generation, i);
        CHECK(harness_wait(have_passed, NULL, CHANGE_MS));
        write_generations(i, i);
        wait_answer(tokens[i - 1], 401);
        wait_answer(tickets[i - 1], 401);
        for (int k = 0; k < 20; k++) { /* by each worker */
            CHECK_INT(call(tokens[i - 1], "GET", "/v1/orders/x", NULL, NULL, NULL), 401);
            CHECK_INT(call(tickets[i - 1], "GET", "/v1/orders/x", NULL, NULL, NULL), 401);
        }
    }
    atomic_store(&ended, 1);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    check_log(NULL);
}

static int count(const char *text, const char *piece) {
    int found = 0;
    for (const char *at = text; (at = strstr(at, piece)); at++)
        found++;
    return found;
}

static void bad_files_change_nothing(void) {
    open_service(true);
    const char *ticket = login_ticket("ann");
    login_write("tokens", harness_format("%sweb shop s3cret\n", all_tokens()));
    seckilld_wait_log(&service, "/tokens:5: SHA256 must be 64 hex digits");
    login_write("keys", login_key_line(LOGIN_KID, "s3cret"));
    seckilld_wait_log(&service, "/keys:1: SECRET must be");
    CHECK_INT(call("web-s3cret", "GET", "/v1/orders/x", NULL, NULL, NULL), 404);
    CHECK_INT(call(ticket, "GET", "/v1/orders/x", NULL, NULL, NULL), 404);
    /* Once both are good again, each was complained of once. */
    login_write("tokens", login_token_line("next", "shop", "s3cret", ""));
    login_write("keys", login_key_line("login-2", LOGIN_SECRET));
    wait_answer("next-s3cret", 404);
    wait_answer(ticket, 401);
    CHECK_INT(call("web-s3cret", "GET", "/v1/orders/x", NULL, NULL, NULL), 401);
    const char *log = proc_output(&service.proc);
    CHECK_INT(count(log, "what was read before stays in force"), 2);
    CHECK_HAS(log, "read again: ");
    CHECK_HAS(log, "/tokens has 1 token: next (shop)");
    check_log(NULL);
}

/* At the start a bad file is bad usage. */
static void bad_files_at_the_start(void) {
    static const struct {
        const char *flag, *line, *piece;
        mode_t mode;
    } rows[] = {{"--tokens", "web shop s3cret\n", ":1: SHA256 must be", 0600},
                {"--tokens", "", "chmod 600", 0640},
                {"--buyer-keys", "\nk HS256 s3cret\n", ":2: SECRET must be", 0600},
                {"--buyer-keys", "k ES256 none.pem\n", ":1: FILE.pem: No such file", 0600},
                {"--buyer-keys", "", "chmod 600", 0604}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct proc proc;
        int status;
        const char *path = login_write("bad", rows[i].line);
        CHECK_INT(chmod(path, rows[i].mode), 0);
        proc_spawn(
            &proc,
            (const char *const[]){harness_format("%s/seckilld", harness_build()), rows[i].flag, path, NULL},
            NULL, harness_path("start.log"));
        CHECK(proc_wait(&proc, CHANGE_MS, &status));
        const char *said = proc_output(&proc);
        CHECK_INT(WEXITSTATUS(status), 2);
        CHECK_HAS(said, harness_format("seckilld: %s:", path));
        CHECK_HAS(said, rows[i].piece);
        CHECK(!strstr(said, "s3cret"));
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("each call, with buyer keys", each_call_with_keys);
    harness_run("each call, without buyer keys", each_call_without_keys);
    harness_run("whose orders", whose_orders);
    harness_run("an order in payment", an_order_in_payment);
    harness_run("whose baskets", whose_baskets);
    harness_run("users and items of tickets", users_and_items);
    harness_run("one ticket, many times", one_ticket_many_times);
    harness_run("the first door", the_first_door);
    harness_run("rotation under load", rotation_under_load);
    harness_run("bad files change nothing", bad_files_change_nothing);
    harness_run("bad files at the start", bad_files_at_the_start);
    return harness_finish();
}
