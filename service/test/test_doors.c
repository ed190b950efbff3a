/* Two doors: with --operator-listen the first address serves what buyers call, and the second everything. */
#include <ctype.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>

#include "service/test/crowd.h"
#include "service/test/shop.h"

static struct redis_server redis;
static struct seckilld service;
static int buyers; /* the port of the first door; the service's own is that of the second */

static void open_doors(const char *option, const char *value, const char *workers) {
    int operators = harness_free_port();
    buyers = harness_free_port();
    redis_start(&redis, NULL);
    seckilld_start_ready(&service, redis.port, "--listen", harness_format("127.0.0.1:%d", buyers),
                         "--operator-listen", harness_format("127.0.0.1:%d", operators), "--workers", workers,
                         option, value, NULL);
    CHECK_INT(service.port, operators);
    shop_put(service.port, "phone", "\"stock\":1000,\"hold_seconds\":600");
}

/* What the design gives to buyers. */
static bool is_for_buyers(const char *method, const char *path) {
    static const char *const calls[] = {"post /v1/purchases",       "post /v1/baskets",
                                        "get /v1/items/{item}",     "get /v1/orders/{order}",
                                        "get /v1/baskets/{basket}", "post /v1/orders/{order}/cancel",
                                        "get /openapi.json",        "post /v1/baskets/{basket}/cancel"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i], harness_format("%s %s", method, path)) == 0)
            return true;
    return false;
}

/* Whether the answer is that of a path which nobody serves. */
static bool is_nothing_here(const struct web_response *response) {
    return response->status == 404 && strstr(response->body, "/problems/not-found");
}

static void check_call(int port, const char *method, const char *path, bool served) {
    struct web_response response;
    web_call(port, method, path, SECKILLD_ADMIN, NULL, &response);
    if (response.status == 0 || is_nothing_here(&response) == served)
        FAIL("%s %s at port %d (buyers: %d) is answered %d: %s", method, path, port, buyers, response.status,
             response.body);
}

/* Each call of openapi.json, with the admin token, at both doors. */
static void each_call_at_both_doors(void) {
    struct web_response response;
    const char *key;
    json_t *item;
    open_doors(NULL, NULL, "2");
    CHECK_INT(shop_get(buyers, "/openapi.json", &response), 200);
    json_t *document = json_loads(response.body, 0, NULL), *paths = json_object_get(document, "paths");
    int calls = 0, for_buyers = 0;
    json_object_foreach(paths, key, item) {
        const char *method;
        json_t *operation;
        json_object_foreach(item, method, operation) {
            if (!json_object_get(operation, "responses"))
                continue;
            bool ours = is_for_buyers(method, key);
            char *upper = harness_format("%s", method);
            for (char *c = upper; *c; c++)
                *c = (char)toupper((unsigned char)*c);
            const char *path = key;
            for (const char *name; (name = strchr(path, '{'));) /* a name in the place of {item} */
                path = harness_format("%.*sx%s", (int)(name - path), path, strchr(name, '}') + 1);
            check_call(service.port, upper, path, true);
            check_call(buyers, upper, path, ours);
            calls++;
            for_buyers += ours;
        }
    }
    json_decref(document);
    CHECK_INT(calls, 22);
    CHECK_INT(for_buyers, 8);
}

/* However it is spelled, and with whatever method. */
static void other_spellings(void) {
    static const char calls[] =
        "HEAD /metrics|GET /%6detrics|GET //metrics|GET /./metrics|GET /v1/items/../../metrics|"
        "GET /v1/items/..%2f..%2fmetrics|GET /metrics?/v1/items/phone|GET /metrics;/openapi.json|"
        "GET http://shop.example/metrics|GET http://shop.example/%6detrics|GET /v1/%6cock|"
        "GET /v1/items/phone%2faudit|POST /v1/%74ransfers|DELETE /v1/items/phone|POST /openapi.json|"
        "PUT /v1/items/phone|DELETE /v1/purchases|POST /v1/orders/phone:x/confirm|"
        "POST /v1/orders/phone%3ax/confirm|POST /v1/orders/phone:x/c%6fnfirm|GET /readyz|GET /livez";
    struct web_response response;
    open_doors(NULL, NULL, "2");
    char *rest = harness_format("%s", calls);
    for (char *call; (call = strsep(&rest, "|"));) {
        struct web_conn conn;
        bool head = strncmp(call, "HEAD", 4) == 0;
        CHECK(web_open(&conn, buyers));
        web_send_text(&conn,
                      harness_format("%s HTTP/1.1\r\nHost: shop.example\r\n" SECKILLD_ADMIN "\r\n", call));
        CHECK_INT(head ? web_read_head(&conn, &response) : web_read_response(&conn, &response), WEB_OK);
        bool item = strstr(call, "%2f"); /* a %2F is no /, so this asks for an item whose name is wrong */
        if (response.status != (item ? 400 : 404) || (!head && !item && !is_nothing_here(&response)))
            FAIL("%s is answered %d: %s", call, response.status, response.body);
        web_close(&conn);
    }
    CHECK_INT(shop_get(service.port, "/metrics", NULL), 200);
    CHECK_INT(shop_get(service.port, "/livez", NULL), 200);
    CHECK_INT(web_call(service.port, "DELETE", "/v1/purchases", NULL, NULL, &response), 405);
}

/* A buyer buys and cancels at the first door; the shop confirms at the second. Both see the same. */
static void one_sale(void) {
    struct web_response response;
    open_doors(NULL, NULL, "2");
    CHECK_INT(shop_buy(buyers, "phone", "ann", 1, "k1", &response), 201);
    const char *order = harness_format("%s", shop_text(&response, "order"));
    CHECK_INT(shop_order(buyers, order, NULL, NULL), 200);
    CHECK_INT(shop_order(buyers, order, "confirm", NULL), 404);
    CHECK_INT(shop_order(service.port, order, "confirm", &response), 200);
    CHECK_STR(shop_text(&response, "state"), "confirmed");
    CHECK_INT(shop_buy(buyers, "phone", "bob", 1, "k2", &response), 201);
    CHECK_INT(shop_order(buyers, shop_text(&response, "order"), "cancel", NULL), 200);
    CHECK_INT(shop_buy(service.port, "phone", "ann", 1, "k1", &response), 201); /* a replay */
    CHECK_STR(shop_text(&response, "order"), order);
    CHECK_INT(shop_audit(service.port, "phone", "sold"), 1);
}

/* Buyers who take all places of their door keep nobody from the other, which has more of them. */
static void a_crowded_door(void) {
    enum { PLACES = 8, OPERATORS = 32 };
    struct web_conn conns[PLACES], more, operators[OPERATORS];
    struct web_response response;
    open_doors("--connections", "8", "1");
    for (int i = 0; i < PLACES; i++) {
        CHECK(web_open(&conns[i], buyers));
        CHECK_INT(web_request(&conns[i], "GET", "/v1/items/phone", NULL, NULL, &response), WEB_OK);
    }
    CHECK(web_open_at(&more, "127.0.0.1", buyers, 300));
    CHECK(web_request(&more, "GET", "/v1/items/phone", NULL, NULL, &response) !=
          WEB_OK); /* it waits for a place */
    for (int i = 0; i < OPERATORS; i++) {
        CHECK(web_open_at(&operators[i], "127.0.0.1", service.port,
                          3000)); /* a silent one loses its place after 5 s */
        CHECK_INT(web_request(&operators[i], "GET", "/readyz", NULL, NULL, &response), WEB_OK);
    }
    for (int i = 0; i < OPERATORS; i++)
        web_close(&operators[i]);
    for (int i = 0; i < PLACES; i++)
        web_close(&conns[i]);
    web_close(&more);
}

/* SIGTERM: what is in flight at each door is answered, and who is idle there is not waited for. */
static void a_drain(void) {
    int ports[2], status;
    struct web_conn idle[2], buying[2];
    struct web_response response;
    open_doors("--drain", "60000", "2");
    ports[0] = buyers;
    ports[1] = service.port;
    for (int i = 0; i < 2; i++) {
        CHECK(web_open(&idle[i], ports[i]));
        CHECK_INT(web_request(&idle[i], "GET", "/v1/items/phone", NULL, NULL, &response), WEB_OK);
    }
    redis_pause(&redis);
    for (int i = 0; i < 2; i++)
        shop_buy_begin(&buying[i], ports[i], "phone", "bob", 1, harness_format("k%d", i));
    proc_kill(&service.proc, SIGTERM);
    seckilld_wait_log(&service, "draining");
    for (int i = 0; i < 2; i++)
        CHECK_INT(web_read_end(&idle[i]), WEB_CLOSED);
    CHECK(!proc_wait(&service.proc, 700, &status)); /* two turns of its housekeeping */
    redis_resume(&redis);
    for (int i = 0; i < 2; i++)
        shop_check_answer(&buying[i], 201, NULL);
    CHECK(proc_wait(&service.proc, 20000, &status));
    CHECK_INT(status, 0);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("each call at both doors", each_call_at_both_doors);
    harness_run("other spellings at the buyers' door", other_spellings);
    harness_run("one sale through two doors", one_sale);
    harness_run("a crowded door", a_crowded_door);
    harness_run("a drain", a_drain);
    return harness_finish();
}
