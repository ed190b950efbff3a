/* Three instances behind deploy/haproxy.cfg as it is: they are restarted and killed below a crowd, which
 * hears of nothing but 201 and 409. `instances[i].port` is where an instance serves everything. */
#include <signal.h>
#include <string.h>

#include "service/test/crowd.h"
#include "service/test/login.h"
#include "service/test/shop.h"

enum { INSTANCES = 3, THREADS = 24, STEP = 300, STOCK = 3000, MANY = 1000000 };

struct site {
    struct seckilld instances[INSTANCES];
    /* Before the doors of each instance, that for buyers and that for operators; NULL: none. */
    struct proxy *proxies[INSTANCES], *operator_proxies[INSTANCES];
    struct proc haproxy;
    int port, operator_port; /* HAProxy's */
};

static bool serves(void *arg) {
    return web_call(((struct site *)arg)->port, "GET", "/v1/items/phone", NULL, NULL, NULL) == 200;
}

enum { AS_IT_IS = 0 };

/* With an item that has STOCK units. `per_address`: requests of one address in ten seconds, or AS_IT_IS: as
 * the file says. */
static void open_site(struct site *site, int redis_port, bool proxies, int per_address,
                      const char *store_timeout) {
    const char *env[2 * INSTANCES + 4] = {NULL};
    int set = 0;
    for (int i = 0; i < INSTANCES; i++) {
        int buyers = harness_free_port(), operators = harness_free_port();
        seckilld_start(&site->instances[i], redis_port, "--workers", "1", "--store-timeout", store_timeout,
                       "--listen", harness_format("127.0.0.1:%d", buyers), "--operator-listen",
                       harness_format("127.0.0.1:%d", operators), NULL);
        seckilld_wait_ready(&site->instances[i], 200);
        site->proxies[i] = proxies ? proxy_start(buyers) : NULL;
        site->operator_proxies[i] = proxies ? proxy_start(operators) : NULL;
        env[set++] =
            harness_format("SECKILL_%d=127.0.0.1:%d", i + 1, proxies ? proxy_port(site->proxies[i]) : buyers);
        env[set++] = harness_format("SECKILL_OPERATOR_%d=127.0.0.1:%d", i + 1,
                                    proxies ? proxy_port(site->operator_proxies[i]) : operators);
    }
    shop_put(site->instances[0].port, "phone", harness_format("\"stock\":%d", STOCK));
    site->port = harness_free_port();
    site->operator_port = harness_free_port();
    env[set++] = harness_format("SECKILL_PUBLIC=127.0.0.1:%d", site->port);
    env[set++] = harness_format("SECKILL_OPERATOR=127.0.0.1:%d", site->operator_port);
    if (per_address != AS_IT_IS)
        env[set++] = harness_format("SECKILL_PER_ADDRESS=%d", per_address);
    const char *argv[] = {"haproxy", "-f", "deploy/haproxy.cfg", NULL};
    proc_spawn(&site->haproxy, argv, env, harness_format("%s/haproxy.log", harness_dir()));
    CHECK(harness_wait(serves, site, 20000));
}

/* The store has been promoted: an instance that is started then does not sell for some seconds. */
static void open_after_failover(struct site *site) {
    struct redis_server first, redis, replica;
    redis_start(&first, NULL);
    redis_start_replica(&redis, &first);
    redis_wait_copied(&first, &redis);
    CHECK_STR(redis_command(&redis, "REPLICAOF", "NO", "ONE", NULL), "OK");
    redis_start_replica(&replica, &redis);
    redis_wait_copied(&redis, &replica);
    open_site(site, redis.port, false, MANY, "1000");
}

static struct crowd *open_doors(const struct site *site) {
    struct crowd_plan plan = {.ports = {site->port},
                              .item = "phone",
                              .prefix = "k",
                              .threads = THREADS,
                              .purchases = MANY,
                              .pause_ms = 10}; /* the restarts take a minute */
    return crowd_start(&plan);
}

/* All units are sold, each to one who was told so, and nobody heard of the restarts. */
static void close_doors(struct site *site, struct crowd *crowd) {
    crowd_stop(crowd);
    crowd_join(crowd);
    crowd_check_answers(crowd, "sold-out");
    int sold = crowd_count(crowd, 201);
    CHECK(sold > 0 && sold <= STOCK);
    CHECK_INT(shop_audit(site->instances[0].port, "phone", "sold"), sold);
    crowd_check_orders(crowd, site->instances[0].port); /* HAProxy may find none ready for a moment */
}

static bool buys_here(void *arg) {
    return shop_metric(((struct seckilld *)arg)->port, "seckill_batches_total") +
               shop_metric(((struct seckilld *)arg)->port, "seckill_checks_total") >
           0;
}

struct readiness {
    int port;
    int64_t since_ms; /* 0: it is not ready */
};

static bool is_ready_for_a_second(void *arg) {
    struct readiness *readiness = arg;
    if (shop_get(readiness->port, "/readyz", NULL) != 200)
        readiness->since_ms = 0;
    else if (readiness->since_ms == 0)
        readiness->since_ms = harness_now_ms();
    return readiness->since_ms && harness_now_ms() - readiness->since_ms >= 1000;
}

/* The first is ended, started, and waited for, as docs/grow.md says. The second is killed, and waited for
 * until HAProxy sends it purchases. The third is killed and started at once, by what watches over it, before
 * HAProxy finds that it was gone. Nobody waits for one that does not sell yet, or hears so. */
static void restarts(void) {
    enum way { ENDED, KILLED, STARTED_AT_ONCE };
    struct site site;
    open_after_failover(&site);
    struct crowd *crowd = open_doors(&site);
    for (int i = ENDED; i <= STARTED_AT_ONCE; i++) {
        struct seckilld *instance = &site.instances[i];
        crowd_wait(crowd, crowd_answered(crowd) + STEP);
        if (i == ENDED)
            CHECK_INT(seckilld_stop(instance), 0);
        else
            seckilld_kill(instance);
        if (i != STARTED_AT_ONCE)
            crowd_wait(crowd, crowd_answered(crowd) + STEP);
        seckilld_restart(instance);
        struct readiness readiness = {.port = instance->port};
        CHECK(i == KILLED ? harness_wait(buys_here, instance, 20000)
                          : harness_wait(is_ready_for_a_second, &readiness, 20000));
    }
    close_doors(&site, crowd);
}

static void cut_next(struct proxy *const proxies[INSTANCES]) {
    for (int i = 0; i < INSTANCES; i++)
        proxy_set(proxies[i], PROXY_CUT, 0, NULL);
}

static bool is_replayed(const struct web_response *response) {
    return strstr(response->headers, "idempotent-replayed: true"); /* HAProxy writes names in lower case */
}

/* The answer to a purchase is lost. The buyer gets it from another instance, which may lose it too; there are
 * three retries. */
static void a_lost_answer(void) {
    enum { TRIES = 200 };
    struct redis_server redis;
    struct site site;
    struct web_response response = {.status = 0};
    redis_start(&redis, NULL);
    open_site(&site, redis.port, true, MANY, "1000");
    shop_put(site.instances[0].port, "held", "\"stock\":1000,\"hold_seconds\":600");
    int tries = 0;
    do {
        cut_next(site.proxies);
        CHECK_INT(shop_buy(site.port, "held", "ann", 1, harness_format("k%d", tries), &response), 201);
    } while (!is_replayed(&response) && ++tries < TRIES);
    CHECK(tries < TRIES);
    /* Without a key, what was sent is not sent again. */
    const char *order = shop_text(&response, "order");
    int status = 200;
    for (tries = 0; status == 200 && tries < TRIES; tries++) {
        cut_next(site.proxies);
        status = shop_order(site.port, order, "cancel", &response);
    }
    CHECK_INT(status, 502);
    CHECK_STR(shop_text(&response, "type"), "/problems/store-unavailable");
    /* An audit may take minutes: it is not begun again by another instance. The answer to a health check may
     * be lost first. */
    for (status = tries = 0; status != 502 && tries < TRIES; tries++) {
        cut_next(site.operator_proxies);
        status = web_call(site.operator_port, "GET", "/v1/audit", SECKILLD_ADMIN, NULL, NULL);
    }
    CHECK_INT(status, 502);
}

/* ---- one site, that the tests from here on share ---- */

static struct redis_server redis;
static struct site site;

static void check_passes(int port, const char *method, const char *path, const char *headers,
                         const char *body) {
    int status = web_call(port, method, path, headers, body, NULL);
    if (status != 200 && status != 201)
        FAIL("%s %s is answered %d", method, path, status);
}

static void what_buyers_may_ask(void) {
    struct web_response order, basket;
    shop_put(site.instances[0].port, "held", "\"stock\":10,\"hold_seconds\":600");
    CHECK_INT(shop_buy(site.port, "held", "ann", 1, "k", &order), 201);
    CHECK_INT(shop_basket(site.port, "ann", "held:1", "k", &basket), 201);
    const char *id = strchr(shop_text(&order, "order"), ':') + 1, *base = shop_text(&basket, "basket");
    const char *const calls[][2] = {
        {"GET", "/openapi.json"},
        {"GET", "/v1/items/held"},
        {"GET", "/v1/items/held?utm_source=mail"},
        {"GET", "http://shop.example/v1/items/held"},
        {"GET", harness_format("/v1/orders/held:%s", id)},
        {"GET", harness_format("/v1/orders/held%%3A%s", id)}, /* as some libraries write it */
        {"POST", harness_format("/v1/orders/held%%3a%s/cancel", id)},
        {"GET", harness_format("/v1/baskets/%s", base)},
        {"POST", harness_format("/v1/baskets/%s/cancel", base)},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        check_passes(site.port, calls[i][0], calls[i][1], "Host: shop.example\r\n", NULL);
    static const char *const names[] = {"metrics", "confirm"}; /* are names of items, too */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        shop_put(site.instances[0].port, names[i], "\"stock\":1");
        check_passes(site.port, "GET", harness_format("/v1/items/%s", names[i]), NULL, NULL);
    }
    /* The shop confirms what was paid. */
    CHECK_INT(shop_buy(site.port, "held", "bob", 1, "k", &order), 201);
    CHECK_INT(shop_order(site.operator_port, shop_text(&order, "order"), "confirm", NULL), 200);
}

/* Whatever token goes with it, and however the path is spelled. */
static void what_buyers_may_not_ask(void) {
    static const char calls[] =
        "GET /metrics|HEAD /metrics|GET /readyz|GET /livez|GET /%6detrics|GET /%6Detrics|"
        "GET //metrics|GET /./metrics|GET /v1/../metrics|GET /v1/items/../../metrics|"
        "GET /openapi.json/../metrics|GET /v1/items/phone/../../../metrics|"
        "GET /v1/items/..%2f..%2fmetrics|GET /metrics?/v1/items/phone|GET /metrics;/openapi.json|"
        "GET http://shop.example/metrics|GET http://shop.example/%6detrics|"
        "GET https://shop.example//metrics|GET http://shop.example/v1/items/phone/../../metrics|"
        "GET /v1/lock|GET /v1/%6cock|GET /v1/items/phone/audit|GET /v1/items/phone%2faudit|"
        "POST /v1/items/phone/restock|POST /v1/transfers|POST /v1/%74ransfers|PUT /v1/items/another|"
        "POST /v1/orders/phone:x/confirm|PUT /v1/lock|DELETE /v1/items/phone|POST /openapi.json|OPTIONS *";
    struct web_response response;
    char *rest = harness_format("%s", calls);
    for (char *call; (call = strsep(&rest, "|"));) {
        struct web_conn conn;
        bool head = strncmp(call, "HEAD", 4) == 0;
        CHECK(web_open(&conn, site.port));
        web_send_text(&conn,
                      harness_format("%s HTTP/1.1\r\nHost: shop.example\r\n" SECKILLD_ADMIN "\r\n", call));
        CHECK_INT(head ? web_read_head(&conn, &response) : web_read_response(&conn, &response), WEB_OK);
        /* a %2F is no /, so this asks for an item whose name is wrong */
        bool item = response.status == 400 && strstr(call, "%2f");
        if (!item && (response.status != 404 || (!head && !strstr(response.body, "/problems/not-found"))))
            FAIL("%s is answered %d: %s", call, response.status, response.body);
        web_close(&conn);
    }
    /* The operator has a door of their own. */
    check_passes(site.operator_port, "GET", "/metrics", NULL, NULL);
    check_passes(site.operator_port, "GET", "/readyz", NULL, NULL);
    check_passes(site.operator_port, "PUT", "/v1/items/another", SECKILLD_ADMIN, "{\"stock\":1}");
    CHECK_INT(web_call(site.operator_port, "PUT", "/v1/items/third", NULL, "{\"stock\":1}", NULL), 401);
}

/* One address has only so many connections; when it closes one it may make another. */
static void its_connections(void) {
    enum { MOST = 100 };
    struct web_conn conns[MOST], more;
    struct web_response response;
    for (int i = 0; i < MOST; i++) {
        CHECK(web_open(&conns[i], site.port));
        CHECK_INT(web_request(&conns[i], "GET", "/v1/items/phone", NULL, NULL, &response), WEB_OK);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(web_open(&more, site.port));
        CHECK_INT(web_request(&more, "GET", "/v1/items/phone", NULL, NULL, &response), WEB_CLOSED);
        web_close(&more);
    }
    CHECK_INT(web_request(&conns[1], "GET", "/v1/items/phone", NULL, NULL, &response), WEB_OK);
    web_close(&conns[0]);
    CHECK(harness_wait(serves, &site, 10000));
    for (int i = 1; i < MOST; i++)
        web_close(&conns[i]);
}

/* A store that stalls for more than a second takes no instance out: they are asked for their health
 * meanwhile, and are waited for. */
static void a_store_that_stalls(void) {
    struct web_conn buyer;
    size_t before = strlen(proc_output(&site.haproxy)); /* by the tests before this one */
    redis_pause(&redis);
    shop_buy_begin(&buyer, site.port, "phone", "ann", 1, "stalled");
    harness_pause_ms(1700);
    redis_resume(&redis);
    shop_check_answer(&buyer, 201, NULL);
    CHECK(!strstr(proc_output(&site.haproxy) + before, "is DOWN"));
}

struct said {
    const struct site *site;
    size_t before;
    const char *what;
};

static bool is_said(void *arg) {
    const struct said *said = arg;
    return strstr(proc_output(&said->site->haproxy) + said->before, said->what) != NULL;
}

/* An instance that stands still is sent nothing more. */
static void an_instance_that_stands_still(void) {
    struct said said = {&site, strlen(proc_output(&site.haproxy)), "is DOWN"};
    proc_kill(&site.instances[0].proc, SIGSTOP);
    CHECK(harness_wait(is_said, &said, 20000));
    for (int i = 0; i < 30; i++)
        CHECK_INT(shop_buy(site.port, "phone", "ann", 1, harness_format("still-%d", i), NULL), 201);
    proc_kill(&site.instances[0].proc, SIGCONT);
    said.what = "is UP";
    CHECK(harness_wait(is_said, &said, 20000));
}

/* ---- a site of its own ---- */

static void its_own_answers(void) {
    struct redis_server own_redis;
    struct site own;
    struct web_response response;
    redis_start(&own_redis, NULL);
    open_site(&own, own_redis.port, false, AS_IT_IS, "1000");
    CHECK_INT(shop_get(own.port, "/metrics", &response), 404);
    CHECK_STR(shop_text(&response, "type"), "/problems/not-found");
    CHECK_INT(shop_get(own.port, "/openapi.json", NULL), 200);
    for (int i = 0; i < INSTANCES; i++)
        CHECK_INT(seckilld_stop(&own.instances[i]), 0);
    CHECK_INT(shop_buy(own.port, "phone", "ann", 1, "k", &response), 503);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    for (int i = 0; i < 200; i++) { /* and some before these; all in less than ten seconds */
        shop_get(own.port, "/v1/items/phone", &response);
        CHECK(response.status == 503 || i >= 150);
    }
    CHECK_PROBLEM(&response, 429, "overloaded");
}

/* ---- buyers who share an address, before instances that are not there ---- */

static bool answers(void *arg) {
    return shop_get(*(int *)arg, "/openapi.json", NULL) == 503;
}

static int ask_with(int port, const char *ticket) {
    return web_call(port, "GET", "/v1/items/phone", login_bearer(ticket), NULL, NULL);
}

/* A ticket of this user that the login has not signed. */
static const char *forged(const char *user) {
    return login_sign("HS256", LOGIN_KID, "a secret that the login has not",
                      harness_format("{\"sub\":\"%s\"}", user));
}

enum { PER_BUYER = 20, PER_ADDRESS = 60 };

/* Starts HAProxy with this key of tickets; returns the port of buyers. */
static int start_without_instances(struct proc *haproxy, const char *key) {
    int port = harness_free_port();
    const char *env[] = {harness_format("SECKILL_PUBLIC=127.0.0.1:%d", port),
                         harness_format("SECKILL_OPERATOR=127.0.0.1:%d", harness_free_port()),
                         harness_format("SECKILL_1=127.0.0.1:%d", harness_free_port()),
                         harness_format("SECKILL_2=127.0.0.1:%d", harness_free_port()),
                         harness_format("SECKILL_3=127.0.0.1:%d", harness_free_port()),
                         harness_format("SECKILL_OPERATOR_1=127.0.0.1:%d", harness_free_port()),
                         harness_format("SECKILL_OPERATOR_2=127.0.0.1:%d", harness_free_port()),
                         harness_format("SECKILL_OPERATOR_3=127.0.0.1:%d", harness_free_port()),
                         harness_format("SECKILL_PER_BUYER=%d", PER_BUYER),
                         harness_format("SECKILL_PER_ADDRESS=%d", PER_ADDRESS),
                         "SECKILL_TICKET_ALG=HS256",
                         harness_format("SECKILL_TICKET_KEY=%s", key),
                         NULL};
    proc_spawn(haproxy, (const char *const[]){"haproxy", "-f", "deploy/haproxy.cfg", NULL}, env,
               harness_format("%s/haproxy-%d.log", harness_dir(), port));
    CHECK(harness_wait(answers, &port, 20000));
    return port;
}

/* What needs no token is refused by HAProxy itself, in case an instance serves everything at its only port.
 */
static void what_needs_no_token(void) {
    static const char *const calls[] = {"POST /v1/orders/phone:x/confirm",
                                        "POST /v1/orders/phone:x/payment",
                                        "POST /v1/orders/phone:x/return",
                                        "POST /v1/orders/phone:x/%72eturn",
                                        "POST /v1/baskets/x/confirm",
                                        "GET /metrics",
                                        "GET /readyz",
                                        "GET /livez"};
    struct proc haproxy;
    int port = start_without_instances(&haproxy, LOGIN_SECRET);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const char *path = strchr(calls[i], ' ') + 1;
        const char *method = harness_format("%.*s", (int)(path - 1 - calls[i]), calls[i]);
        CHECK_INT(web_call(port, method, path, NULL, NULL, NULL), 404);
    }
    CHECK_INT(web_call(port, "POST", "/v1/orders/phone:x/cancel", NULL, NULL, NULL), 503);
}

/* An empty key is none: with it anybody could sign. */
static void an_empty_key(void) {
    struct proc haproxy;
    int port = start_without_instances(&haproxy, ""), refused = 0;
    for (int i = 0; i < 2 * PER_ADDRESS; i++)
        refused += ask_with(port, login_forge("{\"alg\":\"HS256\"}", harness_format("{\"sub\":\"u%d\"}", i),
                                              "", 0)) == 429;
    CHECK(refused >= PER_ADDRESS);
}

/* Each buyer has a rate of his own, and keeps it whatever the others do; who has no good ticket shares the
 * address's, whatever name he gives. */
static void rates_of_buyers(void) {
    struct proc haproxy;
    int port = start_without_instances(&haproxy, LOGIN_SECRET), refused = 0;
    /* A cheater with a new name each time, and as a victim. */
    for (int i = 0; i < 2 * PER_ADDRESS; i++)
        refused += ask_with(port, forged(i % 2 ? "ann" : harness_format("u%d", i))) == 429;
    CHECK(refused >= PER_ADDRESS);
    CHECK_INT(shop_get(port, "/v1/items/phone", NULL), 429);
    for (int i = 0; i < 2; i++) {
        const char *ticket = login_ticket(i ? "bob" : "ann");
        for (int k = 0; k < PER_BUYER; k++)
            CHECK_INT(ask_with(port, ticket), 503);
        CHECK_INT(ask_with(port, ticket), 429);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("instances are ended, killed, and started at once after a failover", restarts);
    harness_run("a lost answer, and a lost audit", a_lost_answer);
    harness_run("its own answers", its_own_answers);
    harness_run("what needs no token", what_needs_no_token);
    harness_run("rates of buyers", rates_of_buyers);
    harness_run("an empty key of tickets", an_empty_key);
    if (*harness_dir()) {
        redis_start(&redis, NULL);
        open_site(&site, redis.port, false, MANY, "10000");
    }
    harness_run("what buyers may ask", what_buyers_may_ask);
    harness_run("what buyers may not ask", what_buyers_may_not_ask);
    harness_run("connections of one address", its_connections);
    harness_run("a store that stalls", a_store_that_stalls);
    harness_run("an instance that stands still", an_instance_that_stands_still);
    return harness_finish();
}
