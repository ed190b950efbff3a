/* The routes: which handler answers a method and a path, and who may call it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openapi.json.h"
#include "service/api/http_api.h"

/* ---- the calls of operators that have no file of their own: /livez, /metrics and /openapi.json ---- */

static void livez_get(struct http_request *request, const char *name) {
    (void)name;
    static const char body[] = "{\"status\":\"ok\"}";
    http_answer(request, 200, "application/json", body, sizeof body - 1, NULL);
}

static void metrics_get(struct http_request *request, const char *name) {
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

static void openapi_get(struct http_request *request, const char *name) {
    (void)name;
    http_answer(request, 200, "application/json", openapi_json, sizeof openapi_json - 1, NULL);
}

/* ---- the routes ---- */

static const struct route {
    const char *method, *path;
    routes_fn *fn;
    enum { ANYBODY, ADMIN, BY_TIME } of; /* BY_TIME: for anybody, once the store's clock is known */
    bool for_buyers;                     /* served where only buyers' calls are */
} routes[] = {
    {"POST", "/v1/purchases", purchases_post, ANYBODY, true},
    {"POST", "/v1/baskets", baskets_post, BY_TIME, true},
    {"GET", "/v1/baskets/*", baskets_get, ANYBODY, true},
    {"POST", "/v1/baskets/*/confirm", baskets_confirm, BY_TIME, false},
    {"POST", "/v1/baskets/*/cancel", baskets_cancel, BY_TIME, true},
    {"POST", "/v1/transfers", transfers_post, ADMIN, false},
    {"GET", "/v1/items/*", items_get, ANYBODY, true},
    {"PUT", "/v1/items/*", items_put, ADMIN, false},
    {"POST", "/v1/items/*/restock", items_restock, ADMIN, false},
    {"GET", "/v1/items/*/audit", items_audit, ADMIN, false},
    {"GET", "/v1/audit", items_audit_all, ADMIN, false},
    {"GET", "/v1/orders/*", orders_get, ANYBODY, true},
    {"POST", "/v1/orders/*/payment", orders_pay, BY_TIME, false},
    {"POST", "/v1/orders/*/confirm", orders_confirm, BY_TIME, false},
    {"POST", "/v1/orders/*/return", orders_return, ANYBODY, false},
    {"POST", "/v1/orders/*/cancel", orders_cancel, BY_TIME, true},
    {"PUT", "/v1/lock", locks_put, ADMIN, false},
    {"GET", "/v1/lock", locks_get, ADMIN, false},
    {"GET", "/livez", livez_get, ANYBODY, false},
    {"GET", "/readyz", readyz_get, ANYBODY, false},
    {"GET", "/metrics", metrics_get, ANYBODY, false},
    {"GET", "/openapi.json", openapi_get, ANYBODY, true},
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

/* Notes who calls, and whether the request log has the call: it has those of operators and of the shop, but
 * not those that programs repeat every few seconds. */
static void route_note(const struct service *service, struct http_request *request,
                       const struct route *route) {
    bool polled = route->fn == livez_get || route->fn == readyz_get || route->fn == metrics_get;
    if (admin_token_is_in(service, request))
        memcpy(request->who, "admin", sizeof "admin");
    request->recorded = !polled && (!route->for_buyers || *request->who);
}

/* `buyers`: only their routes exist. */
static void routes_dispatch(struct worker *worker, struct http_request *request, bool buyers) {
    const char *method = request->method, *path = request->path;
    char name[HTTP_PATH_MAX], allow[64] = "";
    const struct route *found = NULL;
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
    if (found)
        route_note(worker->thread.service, request, found);
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
    else if (found->of == ADMIN && !*request->who)
        problem_answer(request, PROBLEM_UNAUTHORIZED,
                       "this call needs Authorization: Bearer and the admin token");
    else if (found->of == BY_TIME && !store_clock_is_known(&worker->thread.service->clock))
        problem_answer_status(request, INVENTORY_UNAVAILABLE);
    else
        found->fn(request, name);
}

void routes_handle(void *ctx, struct http_request *request) {
    routes_dispatch(ctx, request, false);
}

void routes_handle_buyers(void *ctx, struct http_request *request) {
    routes_dispatch(ctx, request, true);
}
