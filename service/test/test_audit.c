/* Audits of a large item, from outside: for clients who leave, and at the end. */
#include <signal.h>
#include <string.h>

#include "service/test/shop.h"

enum { LARGE = 30000 };

#define AUDIT "/v1/items/x/audit"

static void put_large(const struct redis_server *redis, int port) {
    static const char script[] = "local orders = {}\n"
                                 "for i = ARGV[1] + 0, ARGV[1] + ARGV[2] - 1 do\n"
                                 "  orders[#orders + 1] = string.format('%022d', i)\n"
                                 "  orders[#orders + 1] = 'c 1 old' .. i .. ' 1700000000000'\n"
                                 "end\n"
                                 "redis.call('HSET', KEYS[1], unpack(orders))\n"
                                 "redis.call('HINCRBY', KEYS[1], 'sold', ARGV[2])\n"
                                 "return redis.call('HINCRBY', KEYS[1], 'available', -ARGV[2])\n";
    enum { STEP = 2000 };
    shop_put(port, "x", "\"stock\":1000000");
    for (int i = 0; i < LARGE; i += STEP)
        redis_integer(redis, "EVAL", script, "1", stock_key("x"), harness_format("%d", i),
                      harness_format("%d", STEP), NULL);
}

static void begin_audit(struct web_conn *conn, int port) {
    CHECK(web_open(conn, port));
    web_send_text(conn, "GET " AUDIT " HTTP/1.1\r\nHost: x\r\n" SECKILLD_ADMIN "\r\n");
}

/* SIGTERM while the audit is under way. */
static void end_meanwhile(const struct proc *proc) {
    harness_pause_ms(20);
    kill(proc->pid, SIGTERM);
}

static void check_ended(struct proc *proc) {
    int status;
    CHECK(proc_wait(proc, 20000, &status));
    CHECK_INT(status, 0);
}

static void clients_who_leave(void) {
    enum { LEAVERS = 30 };
    struct shop shop;
    struct web_conn conn;
    struct web_response response;
    shop_open(&shop);
    put_large(&shop.redis, shop.port);
    for (int i = 0; i < LEAVERS; i++) {
        begin_audit(&conn, shop.port);
        if (i % 2)
            harness_pause_ms(5);
        web_close(&conn);
    }
    CHECK_INT(shop_admin(shop.port, "GET", AUDIT, NULL, &response), 200);
    CHECK_HAS(response.body, "\"conserved\":true,\"exact\":true,\"off_by\":0,");
    CHECK_INT(shop_number(&response, "orders"), LARGE);
    shop_check_served(shop.port, "x");
    shop_close(&shop);
}

/* One that is in flight at SIGTERM has its answer. */
static void at_the_end(void) {
    struct shop shop;
    struct web_conn conn;
    struct web_response response;
    shop_open(&shop);
    put_large(&shop.redis, shop.port);
    begin_audit(&conn, shop.port);
    end_meanwhile(&shop.service.proc);
    CHECK_INT(web_read_response(&conn, &response), WEB_OK);
    CHECK_INT(response.status, 200);
    CHECK_INT(shop_number(&response, "orders"), LARGE);
    check_ended(&shop.service.proc);
}

/* One that is not done when the time for that is up hears so, and keeps nobody waiting. */
static void past_the_end(void) {
    struct shop shop;
    struct web_conn conn;
    shop_open_proxied(&shop, "20000", "100");
    put_large(&shop.redis, shop.port);
    proxy_set(shop.proxy, PROXY_DELAY, 300, NULL);
    begin_audit(&conn, shop.port);
    end_meanwhile(&shop.service.proc);
    shop_check_answer(&conn, 503, "store-unavailable");
    check_ended(&shop.service.proc);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("clients who leave", clients_who_leave);
    harness_run("at the end", at_the_end);
    harness_run("past the end", past_the_end);
    return harness_finish();
}
