/* The service from outside, as buyers and the admin see it: calls, and what each answer must look like. */
#ifndef SERVICE_TEST_SHOP_H
#define SERVICE_TEST_SHOP_H

#include "test/harness.h"

/* The three kinds of store: one contract. */
enum shop_kind { SHOP_REDIS, SHOP_SENTINEL, SHOP_CLUSTER, SHOP_KINDS };
extern const char *const shop_kinds[SHOP_KINDS];

struct shop_store {
    enum shop_kind kind;
    union {
        struct redis_server redis;
        struct redis_sentinel sentinel;
        struct redis_cluster cluster;
    };
};

void shop_store_start(struct shop_store *store, enum shop_kind kind);
/* Empties it. */
void shop_store_flush(struct shop_store *store);
/* For --redis. */
const char *shop_store_url(const struct shop_store *store);
/* The server that has the key. */
const struct redis_server *shop_store_of(struct shop_store *store, const char *key);

/* Starts what the lock of a scheme needs: "local", "redis", "redlock", "etcd", "zookeeper". Returns its URL,
 * without options. */
const char *shop_lock_start(const char *scheme);

struct shop {
    struct shop_store store;
    struct redis_server redis; /* the store, where it is one Redis */
    struct proxy *proxy;       /* before it; NULL: none */
    struct seckilld service;
    int port; /* the service's */
};

/* A store and a service on it; shop_open(): one Redis. */
void shop_open_on(struct shop *shop, enum shop_kind kind);
void shop_open(struct shop *shop);
/* On one Redis behind a proxy, with these bounds. */
void shop_open_proxied(struct shop *shop, const char *store_timeout_ms, const char *drain_ms);
/* Ends the service, which must do so with status 0; with a sanitizer that also means: no leak, no race. */
void shop_close(struct shop *shop);

/* ---- calls on connections of their own; each returns the status, 0 without an answer. `response` may be
 * NULL. ---- */

int shop_get(int port, const char *path, struct web_response *response);
int shop_admin(int port, const char *method, const char *path, const char *body,
               struct web_response *response);
int shop_buy(int port, const char *item, const char *user, int quantity, const char *key,
             struct web_response *response);
int shop_restock(int port, const char *item, int quantity, const char *key, struct web_response *response);
/* GET /v1/orders/{order}, or POST …/confirm, …/cancel; `step` NULL: GET. */
int shop_order(int port, const char *order, const char *step, struct web_response *response);

/* A basket of `user` with these lines, "phone:1 lamp:2"; the body of that. */
int shop_basket(int port, const char *user, const char *lines, const char *key,
                struct web_response *response);
const char *shop_basket_body(const char *user, const char *lines);
/* GET /v1/baskets/{basket}, or POST …/confirm, …/cancel; `step` NULL: GET. */
int shop_basket_step(int port, const char *basket, const char *step, struct web_response *response);
int shop_transfer(int port, const char *from, const char *to, int quantity, const char *key,
                  struct web_response *response);

/* Sends a purchase over a new connection, and does not wait. */
void shop_buy_begin(struct web_conn *conn, int port, const char *item, const char *user, int quantity,
                    const char *key);
/* The answer that comes, which must be this problem; `type` NULL: no problem. Closes the connection. */
void shop_check_answer(struct web_conn *conn, int status, const char *type);

/* Puts an item on sale; `terms` are the body's members. It must be new. */
void shop_put(int port, const char *item, const char *terms);

/* The body of a purchase, and the whole of one, and of a basket, as it goes over the wire. */
const char *shop_purchase_body(const char *item, const char *user, int quantity);
const char *shop_purchase_raw(const char *item, const char *user, int quantity, const char *key);
const char *shop_basket_raw(const char *user, const char *lines, const char *key);

/* Somebody else is served as ever: buys a unit of `item`. */
void shop_check_served(int port, const char *item);

/* Sends it, and looks what comes: answers that are no success, or the end. */
void shop_check_refused(int port, const char *data, size_t size);

/* Waits until no basket or transfer is unfinished. */
void shop_wait_settled(const struct redis_server *redis);

/* Waits until /readyz answers 503 with this in its reason. */
void shop_wait_unready(int port, const char *reason);

/* ---- answers ---- */

/* A member of the JSON object; "a.b" for a member of a member, "a.0" for the first element of an array. It
 * must be there and of that type. */
const char *shop_text(const struct web_response *response, const char *name);
long long shop_number(const struct web_response *response, const char *name);
bool shop_has(const struct web_response *response, const char *name);

/* Everything that a problem has: the status, in the body too, the type, title, detail, the content type, and
 * Retry-After with a 503. */
#define CHECK_PROBLEM(response, status, type) shop_check_problem(__FILE__, __LINE__, response, status, type)
void shop_check_problem(const char *file, int line, const struct web_response *response, int status,
                        const char *type);

/* A member of the item's audit, which must be conserved and without oversale. */
long long shop_audit(int port, const char *item, const char *name);

/* What its audit counts. */
void shop_check_left(int port, const char *item, int available, int held, int sold);

/* The value of a sample in /metrics, e.g. `seckill_http_responses_total{class="2xx"}`. */
double shop_metric(int port, const char *sample);

#endif
