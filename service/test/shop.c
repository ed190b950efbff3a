#include "service/test/shop.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

const char *const shop_kinds[SHOP_KINDS] = {"one Redis", "Sentinel", "a cluster"};

void shop_store_start(struct shop_store *store, enum shop_kind kind) {
    store->kind = kind;
    if (kind == SHOP_REDIS)
        redis_start(&store->redis, NULL);
    else if (kind == SHOP_SENTINEL)
        redis_sentinel_start(&store->sentinel);
    else
        redis_cluster_start(&store->cluster, 3, 0);
}

const struct redis_server *shop_store_of(struct shop_store *store, const char *key) {
    const struct redis_server *server = store->kind == SHOP_REDIS ? &store->redis
                                        : store->kind == SHOP_SENTINEL
                                            ? redis_sentinel_master(&store->sentinel)
                                            : redis_cluster_of(&store->cluster, key);
    CHECK(server);
    return server;
}

void shop_store_flush(struct shop_store *store) {
    if (store->kind == SHOP_CLUSTER)
        redis_cluster_flush(&store->cluster);
    else
        CHECK_STR(redis_command(shop_store_of(store, ""), "FLUSHALL", NULL), "OK");
}

const char *shop_store_url(const struct shop_store *store) {
    return store->kind == SHOP_REDIS      ? harness_format("redis://127.0.0.1:%d", store->redis.port)
           : store->kind == SHOP_SENTINEL ? redis_sentinel_url(&store->sentinel)
                                          : redis_cluster_url(&store->cluster);
}

const char *shop_lock_start(const char *scheme) {
    struct redis_server redis[3];
    struct etcd_server etcd;
    struct zookeeper_server zookeeper;
    int port = 0;
    if (strcmp(scheme, "local") == 0)
        return "local:";
    if (strcmp(scheme, "redlock") == 0) {
        for (int i = 0; i < 3; i++)
            redis_start(&redis[i], "--appendfsync", "no", NULL);
        return harness_format("redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", redis[0].port,
                              redis[1].port, redis[2].port);
    }
    if (strcmp(scheme, "etcd") == 0) {
        etcd_start(&etcd, NULL);
        port = etcd.port;
    } else if (strcmp(scheme, "zookeeper") == 0) {
        zookeeper_start(&zookeeper);
        port = zookeeper.port;
    } else {
        redis_start(&redis[0], "--appendfsync", "no", NULL);
        port = redis[0].port;
    }
    return harness_format("%s://127.0.0.1:%d", scheme, port);
}

void shop_open_on(struct shop *shop, enum shop_kind kind) {
    shop_store_start(&shop->store, kind);
    shop->redis = *shop_store_of(&shop->store, "");
    seckilld_start(&shop->service, 0, "--redis", shop_store_url(&shop->store), NULL);
    shop->port = shop->service.port;
    seckilld_wait_whole(&shop->service);
}

void shop_open(struct shop *shop) {
    shop_open_on(shop, SHOP_REDIS);
}

void shop_open_proxied(struct shop *shop, const char *store_timeout_ms, const char *drain_ms) {
    redis_start(&shop->redis, NULL);
    shop->proxy = proxy_start(shop->redis.port);
    seckilld_start(&shop->service, proxy_port(shop->proxy), "--store-timeout", store_timeout_ms, "--drain",
                   drain_ms, NULL);
    shop->port = shop->service.port;
    seckilld_wait_ready(&shop->service, 200);
}

static bool is_settled(void *redis) {
    return journal_open(redis) == 0;
}

void shop_wait_settled(const struct redis_server *redis) {
    struct redis_server server = *redis;
    CHECK(harness_wait(is_settled, &server, 30000));
}

void shop_wait_unready(int port, const char *reason) {
    struct web_response response;
    for (int64_t until_ms = harness_now_ms() + 20000;; harness_pause_ms(5)) {
        int status = shop_get(port, "/readyz", &response);
        if (status == 503 && strstr(shop_text(&response, "reason"), reason))
            return;
        if (harness_now_ms() >= until_ms)
            FAIL("/readyz says %d %s, nothing of \"%s\"", status, response.body, reason);
    }
}

void shop_close(struct shop *shop) {
    CHECK_INT(seckilld_stop(&shop->service), 0);
}

/* ---- calls ---- */

int shop_get(int port, const char *path, struct web_response *response) {
    return web_call(port, "GET", path, NULL, NULL, response);
}

int shop_admin(int port, const char *method, const char *path, const char *body,
               struct web_response *response) {
    return web_call(port, method, path, SECKILLD_ADMIN, body, response);
}

const char *shop_purchase_body(const char *item, const char *user, int quantity) {
    return harness_format("{\"item\":\"%s\",\"user\":\"%s\",\"quantity\":%d}", item, user, quantity);
}

static const char *raw(const char *path, const char *key, const char *body) {
    return harness_format("POST %s HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: %s\r\n"
                          "Content-Length: %zu\r\n\r\n%s",
                          path, key, strlen(body), body);
}

const char *shop_purchase_raw(const char *item, const char *user, int quantity, const char *key) {
    return raw("/v1/purchases", key, shop_purchase_body(item, user, quantity));
}

const char *shop_basket_raw(const char *user, const char *lines, const char *key) {
    return raw("/v1/baskets", key, shop_basket_body(user, lines));
}

void shop_buy_begin(struct web_conn *conn, int port, const char *item, const char *user, int quantity,
                    const char *key) {
    CHECK(web_open(conn, port));
    web_send_text(conn, shop_purchase_raw(item, user, quantity, key));
}

void shop_check_answer(struct web_conn *conn, int status, const char *type) {
    struct web_response response;
    CHECK_INT(web_read_response(conn, &response), WEB_OK);
    if (type)
        CHECK_PROBLEM(&response, status, type);
    CHECK_INT(response.status, status);
    web_close(conn);
}

int shop_buy(int port, const char *item, const char *user, int quantity, const char *key,
             struct web_response *response) {
    return web_call(port, "POST", "/v1/purchases", harness_format("Idempotency-Key: %s\r\n", key),
                    shop_purchase_body(item, user, quantity), response);
}

const char *shop_basket_body(const char *user, const char *lines) {
    char body[4096];
    int length = snprintf(body, sizeof body, "{\"user\":\"%s\",\"lines\":[", user);
    for (int count = 0; *lines; count++) {
        const char *colon = strchr(lines, ':');
        char *end;
        CHECK(colon);
        long quantity = strtol(colon + 1, &end, 10);
        length +=
            snprintf(body + length, sizeof body - (size_t)length, "%s{\"item\":\"%.*s\",\"quantity\":%ld}",
                     count ? "," : "", (int)(colon - lines), lines, quantity);
        lines = end + (*end == ' ');
    }
    return harness_format("%s]}", body);
}

int shop_basket(int port, const char *user, const char *lines, const char *key,
                struct web_response *response) {
    return web_call(port, "POST", "/v1/baskets", harness_format("Idempotency-Key: %s\r\n", key),
                    shop_basket_body(user, lines), response);
}

int shop_basket_step(int port, const char *basket, const char *step, struct web_response *response) {
    const char *path = harness_format("/v1/baskets/%s%s%s", basket, step ? "/" : "", step ? step : "");
    return web_call(port, step ? "POST" : "GET", path, NULL, NULL, response);
}

int shop_transfer(int port, const char *from, const char *to, int quantity, const char *key,
                  struct web_response *response) {
    const char *body = harness_format("{\"from\":\"%s\",\"to\":\"%s\",\"quantity\":%d}", from, to, quantity);
    return web_call(port, "POST", "/v1/transfers",
                    harness_format(SECKILLD_ADMIN "Idempotency-Key: %s\r\n", key), body, response);
}

int shop_restock(int port, const char *item, int quantity, const char *key, struct web_response *response) {
    return web_call(port, "POST", harness_format("/v1/items/%s/restock", item),
                    harness_format(SECKILLD_ADMIN "Idempotency-Key: %s\r\n", key),
                    harness_format("{\"quantity\":%d}", quantity), response);
}

int shop_order(int port, const char *order, const char *step, struct web_response *response) {
    if (!step)
        return shop_get(port, harness_format("/v1/orders/%s", order), response);
    return web_call(port, "POST", harness_format("/v1/orders/%s/%s", order, step), NULL, "", response);
}

void shop_put(int port, const char *item, const char *terms) {
    struct web_response response;
    const char *path = harness_format("/v1/items/%s", item), *body = harness_format("{%s}", terms);
    int status = shop_admin(port, "PUT", path, body, &response);
    if (status != 201)
        FAIL("PUT %s %s: %d %s", path, body, status, status ? response.body : "");
}

void shop_check_served(int port, const char *item) {
    static int n;
    struct web_response response;
    if (shop_buy(port, item, "other", 1, harness_format("other-%d", n++), &response) != 201)
        FAIL("others get %d %s", response.status, response.body);
}

void shop_check_refused(int port, const char *data, size_t size) {
    struct web_conn conn;
    struct web_response response;
    CHECK(web_open(&conn, port));
    if (web_send_raw(&conn, data, size) == WEB_OK)
        shutdown(conn.fd, SHUT_WR);
    while (web_read_response(&conn, &response) == WEB_OK)
        if (response.status < 400 || response.status == 500)
            FAIL("%.100s: %d", data, response.status);
    web_close(&conn);
}

/* ---- answers ---- */

static void forget(void *arg) {
    json_decref(arg);
}

/* NULL where there is no such member; the body must be a JSON object. */
static const json_t *find(const struct web_response *response, const char *name) {
    json_error_t error;
    json_t *object = json_loadb(response->body, response->len, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(object))
        FAIL("\"%s\" is no JSON object: %s", response->body, error.text);
    harness_defer(forget, object);
    const json_t *value = object;
    char *rest = harness_format("%s", name);
    for (char *part; value && (part = strsep(&rest, "."));)
        value = json_is_array(value) ? json_array_get(value, strtoul(part, NULL, 10))
                                     : json_object_get(value, part);
    return value;
}

const char *shop_text(const struct web_response *response, const char *name) {
    const json_t *value = find(response, name);
    if (!json_is_string(value))
        FAIL("%s has no text \"%s\"", response->body, name);
    return json_string_value(value);
}

long long shop_number(const struct web_response *response, const char *name) {
    const json_t *value = find(response, name);
    if (!json_is_integer(value))
        FAIL("%s has no number \"%s\"", response->body, name);
    return json_integer_value(value);
}

bool shop_has(const struct web_response *response, const char *name) {
    return find(response, name) != NULL;
}

void shop_check_problem(const char *file, int line, const struct web_response *response, int status,
                        const char *type) {
    const char *what = harness_format("the status of %s", response->body ? response->body : "no answer");
    harness_check_int(file, line, what, response->status, status);
    const char *said = shop_text(response, "type"), *slash = strrchr(said, '/');
    harness_check_str(file, line, "the problem's type", slash ? slash + 1 : said, type);
    harness_check_int(file, line, "the problem's status", shop_number(response, "status"), status);
    if (!*shop_text(response, "title") || !*shop_text(response, "detail"))
        harness_fail(file, line, "%s has no title or no detail", response->body);
    harness_check_str(file, line, "the content type", web_header(response, "Content-Type"),
                      "application/problem+json");
    harness_check_str(file, line, "who may keep it", web_header(response, "Cache-Control"), "no-store");
    const char *retry = web_header(response, "Retry-After");
    if (status == 503 && (!retry || strtol(retry, NULL, 10) < 1))
        harness_fail(file, line, "a 503 without Retry-After: %s", response->headers);
}

long long shop_audit(int port, const char *item, const char *name) {
    const char *path = harness_format("/v1/items/%s/audit", item);
    int64_t until_ms = harness_now_ms() + 20000;
    struct web_response response;
    int status;
    /* After the store was away, the worker that is asked may be the last to be ready. */
    while ((status = shop_admin(port, "GET", path, NULL, &response)) == 503 && harness_now_ms() < until_ms)
        harness_pause_ms(5);
    CHECK_INT(status, 200);
    CHECK_HAS(response.body, "\"conserved\":true");
    CHECK_HAS(response.body, "\"oversold\":0");
    return shop_number(&response, name);
}

void shop_check_left(int port, const char *item, int available, int held, int sold) {
    CHECK_INT(shop_audit(port, item, "available"), available);
    CHECK_INT(shop_audit(port, item, "held"), held);
    CHECK_INT(shop_audit(port, item, "sold"), sold);
}

double shop_metric(int port, const char *sample) {
    struct web_response response;
    CHECK_INT(shop_get(port, "/metrics", &response), 200);
    const char *at = strstr(response.body, harness_format("\n%s ", sample));
    if (!at)
        FAIL("/metrics has no %s", sample);
    return strtod(at + 1 + strlen(sample), NULL);
}
