/* The lock in force: one for all services of a store. (test_basket_switch.c switches it under load.) */
#include <signal.h>
#include <string.h>

#include "service/log.h"
#include "service/test/shop.h"

#define RECORD    "seckill:{baskets}:lock"
#define INSTANCES "seckill:{baskets}:instances"

enum { PATIENCE_MS = 20000 };

static struct redis_server redis, locks; /* the store, and one for locks alone */
static struct seckilld services[3];

static const char *in_redis(const char *options) {
    return harness_format("redis://127.0.0.1:%d%s", locks.port, options);
}

static void open_stores(void) {
    redis_start(&redis, "--appendfsync", "no", NULL);
    redis_start(&locks, NULL);
}

static void open_service(int i, const char *lock, const char *ttl, const char *work_delay) {
    seckilld_start_ready(&services[i], redis.port, "--teaching", "--lock", lock, "--lock-ttl", ttl,
                         "--work-delay", work_delay, "--drain", "500", "--workers", "2", NULL);
}

static void put_on_sale(int i) {
    shop_put(services[i].port, "x", "\"stock\":1000000,\"strategy\":\"locked\"");
}

/* ---- how it stands ---- */

struct wanted {
    int service;
    const char *state, *lock;
    int epoch;
    struct web_response response;
};

static bool is_so(void *arg) {
    struct wanted *wanted = arg;
    CHECK_INT(shop_admin(services[wanted->service].port, "GET", "/v1/lock", NULL, &wanted->response), 200);
    return strcmp(shop_text(&wanted->response, "state"), wanted->state) == 0 &&
           strcmp(shop_text(&wanted->response, "lock"), wanted->lock) == 0 &&
           shop_number(&wanted->response, "epoch") == wanted->epoch;
}

/* Waits until it stands so. */
static void wait_state(int service, const char *state, int epoch, const char *lock) {
    struct wanted wanted = {.service = service, .state = state, .epoch = epoch, .lock = lock};
    if (!harness_wait(is_so, &wanted, PATIENCE_MS))
        FAIL("not %s, %d, %s but %s", state, epoch, lock, wanted.response.body);
}

static const char *lock_body(const char *url) {
    return harness_format("{\"lock\":\"%s\"}", url);
}

static int put_lock(int service, const char *url, struct web_response *response) {
    return shop_admin(services[service].port, "PUT", "/v1/lock", lock_body(url), response);
}

/* The same, whose answer is not waited for. */
static void put_lock_begin(int service, const char *url, struct web_conn *conn) {
    const char *body = lock_body(url);
    CHECK(web_open(conn, services[service].port));
    conn->timeout_ms = PATIENCE_MS;
    web_send_text(conn, harness_format("PUT /v1/lock HTTP/1.1\r\nHost: x\r\n%sContent-Length: %zu\r\n\r\n%s",
                                       SECKILLD_ADMIN, strlen(body), body));
}

static double stale(int service) {
    return shop_metric(services[service].port, "seckill_purchases_total{outcome=\"stale\"}");
}

/* ---- switching ---- */

/* The answer must be this problem, whose body has the text. */
static void check_end(struct web_conn *conn, int status, const char *type, const char *has) {
    struct web_response response;
    CHECK_INT(web_read_response(conn, &response), WEB_OK);
    CHECK_PROBLEM(&response, status, type);
    CHECK_HAS(response.body, has);
    web_close(conn);
}

static bool has_read(void *arg) {
    (void)arg;
    return strcmp(redis_command(&redis, "EXISTS", stock_key("x:token"), NULL), "1") == 0;
}

/* One service is stopped in the middle of a purchase, another dies: both may have grants, and are waited for.
 * When the first wakes up it writes nothing, and follows. */
static void the_stopped_and_the_dead(void) {
    struct web_conn buyer, switcher, early;
    struct web_response response;
    open_stores();
    for (int i = 0; i < 3; i++)
        open_service(i, in_redis(""), "300", i == 0 ? "500" : "0");
    for (int i = 0; i < 3; i++)
        wait_state(i, "in-force", 1, in_redis(""));
    put_on_sale(0);
    shop_buy_begin(&buyer, services[0].port, "x", "paused", 1, "paused");
    CHECK(harness_wait(has_read, NULL, PATIENCE_MS));
    proc_kill(&services[0].proc, SIGSTOP);
    seckilld_kill(&services[2]);
    put_lock_begin(1, in_redis("?variant=watchdog"), &switcher);
    wait_state(1, "switching", 2, in_redis("?variant=watchdog"));
    CHECK_INT(shop_admin(services[1].port, "GET", "/v1/lock", NULL, &response), 200);
    CHECK_INT(shop_number(&response, "behind"), 2);
    CHECK_INT(shop_metric(services[1].port, "seckill_lock_epoch"), 0);
    /* A caller that comes meanwhile gets a grant neither of the old lock nor of the new one. */
    shop_buy_begin(&early, services[1].port, "x", "early", 1, "early");
    check_end(&early, 503, "lock-unavailable", "no lock is in force");
    CHECK_INT(web_read_response(&switcher, &response), WEB_OK);
    CHECK_INT(response.status, 200);
    CHECK_INT(shop_number(&response, "behind"), 0);
    CHECK_INT(shop_number(&response, "instances"), 1);
    CHECK_INT(shop_buy(services[1].port, "x", "quick", 1, "quick", NULL), 201);
    proc_kill(&services[0].proc, SIGCONT);
    shop_check_answer(&buyer, 503, "overloaded");
    CHECK_INT(stale(0), 1);
    CHECK_INT(shop_audit(services[1].port, "x", "orders"), 1);
    wait_state(0, "in-force", 2, in_redis("?variant=watchdog"));
    CHECK_INT(shop_buy(services[0].port, "x", "paused", 1, "paused", NULL), 201);
    CHECK_INT(shop_audit(services[1].port, "x", "orders"), 2);
    web_close(&switcher);
}

static bool is_reachable(void *arg) {
    struct web_response response;
    (void)arg;
    CHECK_INT(shop_get(services[0].port, "/metrics", &response), 200);
    return strstr(response.body, "\nseckill_lock_reachable 1\n");
}

/* What is known of the old lock is not told of the new one, which is not open as long as the old has a user.
 */
static void not_open_yet(void) {
    struct web_conn buyer, switcher;
    struct wanted wanted = {.service = 0, .state = "in-force", .epoch = 2, .lock = "local:"};
    struct web_response response;
    open_stores();
    open_service(0, in_redis(""), "10000", "1500");
    wait_state(0, "in-force", 1, in_redis(""));
    put_on_sale(0);
    shop_buy_begin(&buyer, services[0].port, "x", "u", 1, "k");
    CHECK(harness_wait(has_read, NULL, PATIENCE_MS));
    CHECK(harness_wait(is_reachable, NULL, PATIENCE_MS));
    put_lock_begin(0, "local:", &switcher);
    wait_state(0, "switching", 2, "local:");
    CHECK_INT(shop_admin(services[0].port, "GET", "/v1/lock", NULL, &response), 200);
    CHECK_STR(shop_text(&response, "state"), "switching");
    CHECK(!shop_has(&response, "reachable"));
    CHECK_INT(shop_get(services[0].port, "/metrics", &response), 200);
    CHECK(!strstr(response.body, "seckill_lock_reachable"));
    shop_check_answer(&buyer, 201, NULL);
    shop_check_answer(&switcher, 200, NULL);
    CHECK(harness_wait(is_so, &wanted, PATIENCE_MS));
    CHECK_INT(seckilld_stop(&services[0]), 0);
}

/* Somebody lives, for the store at least, and has not given up the old lock. */
static void add_ghost(void) {
    redis_command(&redis, "HSET", INSTANCES, "ghost", "1 99999999999999 1", NULL);
}

/* A caller that waits is told that the switch goes on, and which instance is behind. */
static void it_takes_too_long(void) {
    struct web_response response;
    redis_start(&redis, "--appendfsync", "no", NULL);
    open_service(0, "local:", "100", "0");
    wait_state(0, "in-force", 1, "local:");
    add_ghost();
    put_lock(0, "none:", &response);
    CHECK_PROBLEM(&response, 503, "overloaded");
    CHECK_HAS(response.body, "the switch goes on");
    CHECK_HAS(response.body, "ghost");
    wait_state(0, "switching", 2, "none:");
    redis_command(&redis, "HDEL", INSTANCES, "ghost", NULL);
    wait_state(0, "in-force", 2, "none:");
}

/* The store of the lock hangs, or is gone, and buyers wait for it: what they want is had from another. */
static void away_from_a_dead_store(void) {
    struct web_conn buyers[2];
    struct web_response response;
    open_stores();
    for (int i = 0; i < 2; i++)
        open_service(i, in_redis(""), "20000", "0");
    put_on_sale(0);
    CHECK_INT(shop_buy(services[0].port, "x", "u", 1, "k0", NULL), 201);
    CHECK_INT(shop_buy(services[1].port, "x", "u", 1, "k1", NULL), 201);
    redis_pause(&locks);
    for (int i = 0; i < 2; i++) {
        shop_buy_begin(&buyers[i], services[i].port, "x", "u", 1, "again");
    }
    CHECK_INT(put_lock(0, "local:", &response), 200);
    CHECK_STR(shop_text(&response, "lock"), "local:");
    for (int i = 0; i < 2; i++) {
        CHECK_INT(web_read_response(&buyers[i], &response), WEB_OK);
        CHECK(response.status == 201 || response.status == 503); /* it gave up before the switch */
        web_close(&buyers[i]);
        CHECK_INT(shop_buy(services[i].port, "x", "u", 1, "again", NULL), 201);
        CHECK_INT(seckilld_stop(&services[i]), 0);
    }
    CHECK_INT(stock_orders(&redis, "x"), 3);
}

/* Whoever still waits for a switch when the service ends is answered, and so are those who wait for a lock.
 */
static void the_end_in_the_middle(void) {
    struct web_conn first, second, buyer;
    redis_start(&redis, "--appendfsync", "no", NULL);
    for (int i = 0; i < 2; i++)
        open_service(i, "local:", "60000", "0");
    put_on_sale(0);
    wait_state(0, "in-force", 1, "local:");
    add_ghost();
    put_lock_begin(0, "none:", &first);
    wait_state(0, "switching", 2, "none:");
    wait_state(1, "switching", 2, "none:");
    shop_buy_begin(&buyer, services[0].port, "x", "u", 1, "k");
    put_lock_begin(0, "local:?ttl=5000", &second);
    check_end(&first, 503, "overloaded", "another switch came after");
    CHECK_INT(seckilld_stop(&services[0]), 0);
    check_end(&second, 503, "overloaded", "goes on without it");
    shop_check_answer(&buyer, 503, "lock-unavailable");
    CHECK_INT(redis_integer(&redis, "HLEN", INSTANCES, NULL), 2); /* the ghost, and the one that goes on */
    redis_command(&redis, "HDEL", INSTANCES, "ghost", NULL);
    wait_state(1, "in-force", 3, "local:?ttl=5000");
    CHECK_INT(shop_buy(services[1].port, "x", "u", 1, "k", NULL), 201);
}

/* ---- starting ---- */

static void with_another_lock(void) {
    redis_start(&redis, "--appendfsync", "no", NULL);
    open_service(0, "local:", "300", "0");
    wait_state(0, "in-force", 1, "local:");
    open_service(1, "none:", "300", "0");
    wait_state(1, "in-force", 1, "local:");
    CHECK_HAS(proc_output(&services[1].proc), "--lock is not used: other instances go by local:");
    CHECK(!strstr(proc_output(&services[0].proc), "--lock is not used"));
    CHECK_INT(seckilld_stop(&services[0]), 0);
    CHECK_INT(seckilld_stop(&services[1]), 0);
    CHECK_INT(redis_integer(&redis, "HLEN", INSTANCES, NULL), 0); /* they have left */
    seckilld_restart(&services[1]);                               /* nobody else is there now */
    wait_state(1, "in-force", 2, "none:");
    seckilld_kill(&services[1]);
    seckilld_restart(&services[1]); /* needs to wait for nobody: it goes by the same lock */
    wait_state(1, "in-force", 2, "none:");
    CHECK_STR(redis_command(&redis, "HGET", RECORD, "epoch", NULL), "2");
}

/* The process starts and answers; what needs a lock waits for the store. */
static void no_store(void) {
    struct web_response response;
    redis_start(&redis, "--appendfsync", "no", NULL);
    redis_kill(&redis);
    seckilld_start(&services[0], redis.port, "--teaching", "--lock", "local:", NULL);
    wait_state(0, "none", 0, "local:");
    put_lock(0, "none:", &response);
    CHECK_PROBLEM(&response, 503, "store-unavailable");
    redis_restart(&redis);
    wait_state(0, "in-force", 1, "local:");
    /* What cannot tell the others that it lives grants nothing. */
    redis_pause(&redis);
    wait_state(0, "none", 1, "local:");
    CHECK_INT(shop_metric(services[0].port, "seckill_lock_epoch"), 0);
    redis_resume(&redis);
    wait_state(0, "in-force", 1, "local:");
    CHECK_INT(seckilld_stop(&services[0]), 0);
}

/* ---- what cannot be ---- */

static int count(const char *text, const char *piece) {
    int found = 0;
    for (; (text = strstr(text, piece)); text++)
        found++;
    return found;
}

/* One of two cannot open the lock: it says so, does nothing under a lock, and holds nobody up. */
static void not_here(void) {
    struct web_response response;
    redis_start(&redis, "--appendfsync", "no", NULL);
    open_service(0, "local:", "300", "0");
    put_on_sale(0);
    shop_put(services[0].port, "y", "\"stock\":1");
    seckilld_start(&services[1], redis.port, "--workers", "1", NULL);
    wait_state(1, "in-force", 1, "local:");
    CHECK_INT(put_lock(1, "none:", &response), 400); /* which is why it is asked first */
    CHECK_HAS(response.body, "for lessons");
    CHECK_HAS(response.body, "--teaching");
    CHECK_INT(put_lock(0, "none:", &response), 200);
    wait_state(1, "none", 2, "none:");
    CHECK_INT(shop_get(services[1].port, "/readyz", &response), 200);
    CHECK_HAS(shop_text(&response, "baskets"), "unavailable: this lock is for lessons");
    shop_transfer(services[1].port, "x", "y", 1, "k", &response);
    CHECK_PROBLEM(&response, 503, "lock-unavailable");
    CHECK_INT(shop_buy(services[0].port, "x", "u", 1, "first", NULL), 201);
    CHECK_STR(redis_command(&redis, "HSET", RECORD, "lock", "bogus://:hunter2@h", "epoch", "3", NULL), "0");
    wait_state(0, "none", 3, "bogus://h");
    wait_state(1, "none", 3, "bogus://h");
    shop_buy(services[0].port, "x", "u", 1, "second", &response);
    CHECK_PROBLEM(&response, 503, "lock-unavailable");
    CHECK_HAS(response.body, "no lock is in force");
    /* What is unfinished needs no lock to be finished. */
    CHECK_INT(redis_integer(&redis, "ZADD", "seckill:{baskets:3}:open", "1", "b:nobodys", NULL), 1);
    shop_wait_settled(&redis);
    CHECK_INT(put_lock(0, "local:", &response), 200);
    wait_state(1, "in-force", 4, "local:");
    CHECK_INT(shop_buy(services[0].port, "x", "u", 1, "second", NULL), 201);
    CHECK_INT(count(proc_output(&services[1].proc), "cannot be opened here"), 2);
    CHECK(!strstr(proc_output(&services[0].proc), "hunter2"));
    CHECK_INT(seckilld_stop(&services[0]), 0);
    CHECK_INT(seckilld_stop(&services[1]), 0);
}

static void bad_requests(void) {
    static const char *const bad[][2] = {{"{\"lock\":\"consul://h\"}", "lock"},
                                         {"{\"lock\":\"\"}", "lock"},
                                         {"{\"lock\":\"etcd://h?ca=/no\\\"where\"}", "lock"},
                                         {"{\"lock\":\"redis://h?x=\\u2026\\n\"}", "lock"},
                                         {"", "body"}};
    struct web_response response;
    redis_start(&redis, "--appendfsync", "no", NULL);
    open_service(0, "local:", "300", "0");
    wait_state(0, "in-force", 1, "local:");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        shop_admin(services[0].port, "PUT", "/v1/lock", bad[i][0], &response);
        CHECK_PROBLEM(&response, 400, "invalid-request");
        CHECK_STR(shop_text(&response, "field"), bad[i][1]);
    }
    put_lock(0, harness_format("redis://127.0.0.1:%d?renew=on", redis.port), &response);
    CHECK_PROBLEM(&response, 400, "invalid-request");
    CHECK_HAS(shop_text(&response, "detail"), "renew is not for a service");
    wait_state(0, "in-force", 1, "local:");
}

/* A password goes into the store, and nowhere else. */
static void passwords(void) {
    struct web_response response;
    redis_start(&redis, "--appendfsync", "no", NULL);
    redis_start(&locks, "--requirepass", "hunter2", NULL);
    const char *url = harness_format("redis://:hunter2@127.0.0.1:%d", locks.port);
    for (int i = 0; i < 2; i++)
        open_service(i, url, "300", "0");
    put_on_sale(0);
    for (int i = 0; i < 2; i++)
        wait_state(i, "in-force", 1, in_redis(""));
    CHECK_INT(put_lock(0, url, &response), 200);
    CHECK_STR(shop_text(&response, "lock"), in_redis(""));
    wait_state(1, "in-force", 2, in_redis(""));
    CHECK_INT(shop_buy(services[1].port, "x", "u", 1, "k", NULL), 201);
    CHECK_STR(redis_command(&redis, "HGET", RECORD, "lock", NULL), url);
    CHECK_INT(put_lock(0, "redis://:hunter2@h:x", &response), 400);
    CHECK(!strstr(response.body, "hunter2"));
    CHECK_INT(put_lock(0, "redis://:hunter2@127.0.0.1:1", &response), 503);
    CHECK(!strstr(response.body, "hunter2"));
    CHECK_INT(put_lock(0, harness_format("%s?ttl=400", url), &response), 200);
    CHECK_STR(shop_text(&response, "lock"), in_redis("?ttl=400"));
    wait_state(1, "in-force", 3, in_redis("?ttl=400"));
    for (int i = 0; i < 2; i++) {
        CHECK_INT(shop_get(services[i].port, "/metrics", &response), 200);
        CHECK(!strstr(response.body, "hunter2"));
        CHECK_INT(seckilld_stop(&services[i]), 0);
        CHECK_HAS(proc_output(&services[i].proc),
                  harness_format("switching to the lock %s,", in_redis("?ttl=400")));
        CHECK(!strstr(proc_output(&services[i].proc), "hunter2"));
    }
}

static void what_is_shown_of_a_url(void) {
    const char *const urls[][2] = {
        {"local:", "local:"},
        {"none:?ttl=50", "none:?ttl=50"},
        {"redis://h:1/2?ttl=50&variant=set-del", "redis://h:1/2?variant=set-del&ttl=50"},
        {"etcd://h?key=f&ttl=50&ca=variant=x", "etcd://h?ttl=50"},
        {"redis://h?ttl=50@h&variant=x", "redis://"},
        {"etcd://me:hunter2@a:1,b,[::1]:2?ca=f", "etcd://a:1,b,[::1]:2"},
        {"redlock://:hunter2@a,:hunter2@b", "redlock://b"},
        {"redis://:hunt,er2@h", "redis://h"},
        {"redis://:hunt?er2@h", "redis://"},
        {"redis://:hunt?variant=er2@h", "redis://"},
        {"redis:hunter2@h", "redis:h"},
        {"hunter2", ""},
        {"", ""},
        {"redis://\"\\\n", "redis://___"},
        {harness_format("redis://%s", harness_repeat('h', 600)),
         harness_format("redis://%s", harness_repeat('h', LOG_LOCK_SIZE - 1 - 8))}};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        char shown[LOG_LOCK_SIZE];
        log_print_lock(shown, urls[i][0]);
        CHECK_STR(shown, urls[i][1]);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("what is shown of a URL", what_is_shown_of_a_url);
    harness_run("the stopped and the dead", the_stopped_and_the_dead);
    harness_run("not open yet", not_open_yet);
    harness_run("it takes too long", it_takes_too_long);
    harness_run("away from a dead store", away_from_a_dead_store);
    harness_run("the end in the middle", the_end_in_the_middle);
    harness_run("with another lock", with_another_lock);
    harness_run("no store", no_store);
    harness_run("not here", not_here);
    harness_run("bad requests", bad_requests);
    harness_run("passwords", passwords);
    return harness_finish();
}
