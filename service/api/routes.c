/* The routes: which handler answers a method and a path, and who may call it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openapi.json.h"
#include "service/api/http_api.h"
#include "service/log.h"

/* ---- the calls of operators that have no file of their own: /livez, /metrics and /openapi.json ---- */

static void livez_get(struct http_request *request, const char *name, const struct caller *caller) {
    (void)caller;
    (void)name;
    static const char body[] = "{\"status\":\"ok\"}";
    http_answer(request, 200, "application/json", body, sizeof body - 1, NULL);
}

static void metrics_get(struct http_request *request, const char *name, const struct caller *caller) {
    (void)caller;
    (void)name;
    struct service *service = request_thread(request)->service;
    struct lock_switch_state lock_switch;
    struct pool_metrics pool;
    size_t length = 0;
    lock_switch_read_state(service->lock_switch, &lock_switch);
    pool_read_metrics(service->pool, &pool);
    char *text = metrics_print(service, &pool, &lock_switch, &length);
    http_answer(request, text ? 200 : 503, "text/plain; version=0.0.4; charset=utf-8", text ? text : "",
                length, NULL);
    free(text);
}

static void openapi_get(struct http_request *request, const char *name, const struct caller *caller) {
    (void)caller;
    (void)name;
    http_answer(request, 200, "application/json", openapi_json, sizeof openapi_json - 1, NULL);
}

/* ---- the routes ---- */

enum { ALL = 0, BUYER = ROLE_BUYER, SHOP = ROLE_SHOP, OPS = ROLE_OPS, READ = ROLE_READ, BY_TIME = 1 << 8 };

_Static_assert((ROLES_ALL & BY_TIME) == 0, "a flag of its own");

static const struct route {
    const char *method, *path;
    routes_fn *fn;
    /* The roles that may make the call, or ALL: then no credentials are asked for. BY_TIME: it is served once
     * the store's clock is known. */
    unsigned who;
    bool for_buyers; /* served where only buyers' calls are */
} routes[] = {
    {"POST", "/v1/purchases", purchases_post, BUYER | SHOP, true},
    {"POST", "/v1/baskets", baskets_post, BUYER | SHOP | BY_TIME, true},
    {"GET", "/v1/baskets/*", baskets_get, BUYER | SHOP | READ, true},
    {"POST", "/v1/baskets/*/confirm", baskets_confirm, SHOP | BY_TIME, false},
    {"POST", "/v1/baskets/*/cancel", baskets_cancel, BUYER | SHOP | BY_TIME, true},
    {"POST", "/v1/transfers", transfers_post, OPS, false},
    {"GET", "/v1/items/*", items_get, ALL, true},
    {"PUT", "/v1/items/*", items_put, OPS, false},
    {"POST", "/v1/items/*/restock", items_restock, OPS, false},
    {"GET", "/v1/items/*/audit", items_audit, OPS | READ, false},
    {"GET", "/v1/audit", items_audit_all, OPS | READ, false},
    {"GET", "/v1/orders/*", orders_get, BUYER | SHOP | READ, true},
    {"POST", "/v1/orders/*/payment", orders_pay, SHOP | BY_TIME, false},
    {"POST", "/v1/orders/*/confirm", orders_confirm, SHOP | BY_TIME, false},
    {"POST", "/v1/orders/*/return", orders_return, SHOP, false},
    {"POST", "/v1/orders/*/cancel", orders_cancel, BUYER | SHOP | BY_TIME, true},
    {"PUT", "/v1/lock", locks_put, OPS, false},
    {"GET", "/v1/lock", locks_get, OPS, false},
    {"GET", "/livez", livez_get, ALL, false},
    {"GET", "/readyz", readyz_get, ALL, false},
    {"GET", "/metrics", metrics_get, ALL, false},
    {"GET", "/openapi.json", openapi_get, ALL, true},
};

/* Compares a path with that of a route, and copies the segment at the *. */
static bool route_matches(const char *pattern, const char *path, char name[HTTP_PATH_MAX]) {
    name[0] = '\0';
    const char *star = strchr(pattern, '*');
    if (!star)
        return strcmp(pattern, path) == 0;
    size_t before = (size_t)(star - pattern);
    if (strncmp(pattern, path, before) != 0)
        return false;
    size_t length = strcspn(path + before, "/");
    if (length == 0 || strcmp(star + 1, path + before + length) != 0)
        return false;
    memcpy(name, path + before, length);
    name[length] = '\0';
    return true;
}

/* Whether the request log has the call, whoever makes it: it has those of operators and of the shop, but not
 * those that programs repeat every few seconds. */
static bool routes_is_recorded(const struct route *route) {
    return !route->for_buyers && route->fn != livez_get && route->fn != readyz_get &&
           route->fn != metrics_get;
}

/* Finds out who calls. If that caller may not make the call, answers and returns false. */
static bool routes_admit(struct worker *worker, struct http_request *request, const struct route *route,
                         struct caller *caller) {
    const char *header = NULL;
    size_t length = 0;
    unsigned roles = route->who & ROLES_ALL;
    caller_clear(caller);
    if (!roles)
        return true;
    int count = http_request_header(request, "Authorization", &header, &length);
    const char *why = count > 1 ? "the header Authorization is there more than once"
                                : auth_identify(worker->auth, count ? header : NULL, length, caller);
    if (!why && caller->name[0]) {
        memcpy(request->who, caller->name, sizeof caller->name);
        request->recorded = true;
    }
    if (!why && (caller->roles & roles))
        return true;
    if (why || caller_is_anonymous(caller))
        problem_answer_unauthorized(request, why);
    else
        problem_answer(request, PROBLEM_FORBIDDEN,
                       caller_owner(caller) ? "a buyer's ticket does not admit to this call"
                                            : "the token has another role than this call needs");
    return false;
}

/* Names in the log who changes something as an operator. In JSON each call has a line when it is answered. */
static void routes_log_operator(const struct http_request *request, const struct route *route,
                                const struct caller *caller) {
    char path[160];
    if (log_is_json() || route->who != OPS || strcmp(route->method, "GET") == 0)
        return;
    log_print_plain(path, sizeof path, request->path);
    log_info("%s calls %s %s", caller->name, request->method, path);
}

/* `buyers`: only their routes exist. */
static void routes_dispatch(struct worker *worker, struct http_request *request, bool buyers) {
    const char *method = request->method, *path = request->path;
    char name[HTTP_PATH_MAX], allow[64] = "";
    const struct route *found = NULL;
    struct caller caller;
    for (size_t i = 0; i < sizeof routes / sizeof *routes && !found; i++) {
        if ((buyers && !routes[i].for_buyers) || !route_matches(routes[i].path, path, name))
            continue;
        bool get = strcmp(routes[i].method, "GET") == 0;
        if (strcmp(routes[i].method, method) == 0 || (get && strcmp(method, "HEAD") == 0))
            found = &routes[i];
        else
            snprintf(allow + strlen(allow), sizeof allow - strlen(allow), "%s%s%s", allow[0] ? ", " : "",
                     routes[i].method, get ? ", HEAD" : "");
    }
    request->recorded = found && routes_is_recorded(found);
    if (!worker->thread.inventory) /* the time for the drain is up */
        problem_answer(request, PROBLEM_OVERLOADED, "the service is shutting down; nothing was done");
    else if (!found && allow[0] && !buyers)
        problem_answer_method(request, allow);
    else if (!found)
        problem_answer(request, PROBLEM_NOT_FOUND, "there is nothing here; see /openapi.json");
    else if (request->too_large)
        problem_answer(request, PROBLEM_TOO_LARGE, "a body is at most 16384 bytes");
    else if (request->encoded)
        problem_answer(request, PROBLEM_UNSUPPORTED_ENCODING,
                       "send the body as it is, without Content-Encoding");
    else if (!routes_admit(worker, request, found, &caller))
        return;
    else if ((found->who & BY_TIME) && !store_clock_is_known(&worker->thread.service->clock))
        problem_answer_status(request, INVENTORY_UNAVAILABLE);
    else {
        routes_log_operator(request, found, &caller);
        found->fn(request, name, &caller);
    }
}

void routes_handle(void *ctx, struct http_request *request) {
    routes_dispatch(ctx, request, false);
}

void routes_handle_buyers(void *ctx, struct http_request *request) {
    routes_dispatch(ctx, request, true);
}
