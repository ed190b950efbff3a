#include <stdio.h>

#include "loadtest/http/request.h"
#include "loadtest/judge/body.h"
#include "loadtest/judge/fetch.h"
#include "loadtest/plan/item.h"

/* An audit counts all orders: twelve million take two minutes, and longer beside the audits of other items.
 */
#define AUDIT_TIMEOUT_NS UINT64_C(3600000000000)

const char *fetch_text(enum fetch_status status) {
    static const char *const texts[] = {
        [FETCH_OK] = "no error",
        [FETCH_NO_CONNECTION] = "cannot connect: is seckilld running? try `make run`",
        [FETCH_UNAUTHORIZED] =
            "the audit is refused (401): set --token or SECKILL_ADMIN_TOKEN to the token of the seller; if "
            "it was started without one, its log names the file with the token",
        [FETCH_NO_ITEM] = "no such item (404): put it on sale first, with PUT /v1/items/{item} (with "
                          "--items N: NAME-0 to NAME-(N-1))",
        [FETCH_REFUSED] = "the audit failed: see the seller's log",
        [FETCH_NO_ANSWER] = "the audit was not answered: does a seller run there?",
        [FETCH_UNREADABLE] = "the answer is not an audit as GET /v1/items/{item}/audit returns it",
        [FETCH_INEXACT] = "the audit was never exact: others buy too, or holds expire; try again when nobody "
                          "sells",
    };
    return texts[status];
}

struct fetch {
    const struct options *options;
    struct progress *progress;
    struct books *books;   /* of each item */
    uint32_t begun;        /* items whose audit was requested */
    uint32_t read;         /* items whose audit was read */
    struct pool_work work; /* each audit that is read extends its deadline; 0: an audit failed for good */
    uint64_t began_ns;
    uint64_t limit_ns;
    uint64_t exact_until_ns;  /* inexact audits are requested again until then; 0: there was none */
    enum fetch_status status; /* of the last failure */
};

static bool next_fetch(void *self, uint64_t now_ns, uint64_t *job) {
    struct fetch *fetch = self;
    (void)now_ns;
    if (fetch->begun == item_count(fetch->options))
        return false;
    *job = fetch->begun++;
    return true;
}

static size_t render_fetch(void *self, uint64_t job, const struct target *target, char *request) {
    const struct fetch *fetch = self;
    const char *token = fetch->options->token;
    char item[ITEM_NAME];
    item_name(fetch->options, (uint32_t)job, item);
    return (size_t)snprintf(request, REQUEST_SIZE,
                            "GET /v1/items/%s/audit HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n", item, target->host,
                            token != NULL ? "Authorization: Bearer " : "", token != NULL ? token : "",
                            token != NULL ? "\r\n" : "");
}

static enum fetch_status read_fetch(const struct pool_answer *answer, struct books *books) {
    const struct response *response = answer->response;
    if (response == NULL)
        return answer->result == CONNECTION_NOT_SENT ? FETCH_NO_CONNECTION : FETCH_NO_ANSWER;
    switch (response->status) {
    case 200:
        if (!books_read(response->body, response->body_length, books))
            return FETCH_UNREADABLE;
        return books->exact ? FETCH_OK : FETCH_INEXACT;
    case 401:
    case 403: return FETCH_UNAUTHORIZED;
    case 404: return FETCH_NO_ITEM;
    default: return FETCH_REFUSED;
    }
}

static bool answered_fetch(void *self, const struct pool_answer *answer) {
    struct fetch *fetch = self;
    if (fetch->work.deadline_ns == 0)
        return true;
    enum fetch_status status = read_fetch(answer, &fetch->books[answer->job]);
    if (status == FETCH_OK) {
        fetch->read++;
        fetch->work.deadline_ns = answer->answered_ns + fetch->limit_ns;
        return true;
    }
    fetch->status = status;
    if (status == FETCH_INEXACT) { /* after a late change, such as a hold that expires */
        if (fetch->exact_until_ns == 0)
            fetch->exact_until_ns = answer->answered_ns + fetch->limit_ns;
        if (fetch->work.deadline_ns < fetch->exact_until_ns)
            fetch->work.deadline_ns = fetch->exact_until_ns;
        return false;
    }
    if (answer->response == NULL || answer->response->status >= 500)
        return false;
    fetch->work.deadline_ns = 0;
    return true;
}

static void show_fetch(void *self, uint64_t now_ns) {
    struct fetch *fetch = self;
    progress_show(fetch->progress, now_ns, "waiting for the audits: %u of %u items, %.0f s", fetch->read,
                  item_count(fetch->options), (double)(now_ns - fetch->began_ns) / 1e9);
}

enum fetch_status fetch_books(struct connection_pool *pool, const struct options *options, uint64_t limit_ns,
                              struct progress *progress, struct books *books) {
    struct fetch fetch = {
        .options = options,
        .progress = progress,
        .books = books,
        .began_ns = uv_hrtime(),
        .limit_ns = limit_ns,
        .status = FETCH_NO_ANSWER,
    };
    fetch.work = (struct pool_work){
        .self = &fetch,
        .next = next_fetch,
        .render = render_fetch,
        .answered = answered_fetch,
        .tick = show_fetch,
        .timeout_ns = AUDIT_TIMEOUT_NS,
        .deadline_ns = fetch.began_ns + limit_ns,
    };
    connection_pool_run(pool, &fetch.work);
    return fetch.read == item_count(options) ? FETCH_OK : fetch.status;
}

struct check {
    const struct options *options;
    const struct demand *demand;
    struct request_log *log;
    struct progress *progress;
    size_t cursor;
    uint64_t last_ns; /* when an order was last answered */
};

static bool can_be_asked(const struct check *check, size_t index) {
    const struct log_order *order = &check->log->orders[index];
    struct wish wish;
    demand_of_key(check->demand, check->log->lines[order->line].key, &wish);
    return wish.kind != DEMAND_TRANSFER && !order->extra && !order->absent;
}

static bool next_check(void *self, uint64_t now_ns, uint64_t *job) {
    struct check *check = self;
    if (now_ns > check->last_ns + check->options->settle_ns)
        return false;
    while (check->cursor < check->log->order_count && !can_be_asked(check, check->cursor))
        check->cursor++;
    *job = check->cursor;
    return check->cursor++ < check->log->order_count;
}

static size_t render_check(void *self, uint64_t job, const struct target *target, char *request) {
    const struct check *check = self;
    return (size_t)snprintf(request, REQUEST_SIZE, "GET /v1/orders/%s HTTP/1.1\r\nHost: %s\r\n\r\n",
                            request_log_order_id(check->log, &check->log->orders[job]), target->host);
}

static enum order_check compare(const struct check *check, const struct log_order *order,
                                const struct response *response) {
    const struct log_line *line = &check->log->lines[order->line];
    struct body body;
    char user[REQUEST_USER_DIGITS + 2];
    struct wish wish;
    if (!body_read(response->body, response->body_length, &body))
        return ORDER_UNCHECKED;
    demand_of_key(check->demand, line->key, &wish);
    request_user(line->user, user);
    if (!body_text_is(body.order, request_log_order_id(check->log, order)) ||
        !item_is(check->options, wish.items[order->part], body.item.bytes, body.item.length) ||
        !body_text_is(body.user, user) || body.quantity != check->options->quantity ||
        (order->confirmed && !body_text_is(body.state, "confirmed")))
        return ORDER_DIFFERENT;
    bool returned = body_text_is(body.state, "cancelled") || body_text_is(body.state, "expired");
    return returned ? ORDER_RETURNED : ORDER_FOUND;
}

static bool answered_check(void *self, const struct pool_answer *answer) {
    struct check *check = self;
    struct log_order *order = &check->log->orders[answer->job];
    const struct response *response = answer->response;
    if (response == NULL || (response->status != 200 && response->status != 404))
        return answer->answered_ns > check->last_ns + check->options->settle_ns;
    check->last_ns = answer->answered_ns;
    order->check = (uint8_t)(response->status == 404 ? ORDER_MISSING : compare(check, order, response));
    return true;
}

static void show_check(void *self, uint64_t now_ns) {
    struct check *check = self;
    progress_show(check->progress, now_ns, "checking orders: %zu of %zu", check->cursor,
                  check->log->order_count);
}

void fetch_orders(struct connection_pool *pool, const struct demand *demand, struct request_log *log,
                  struct progress *progress) {
    struct check check = {
        .options = demand->options,
        .demand = demand,
        .log = log,
        .progress = progress,
        .last_ns = uv_hrtime(),
    };
    struct pool_work work = {
        .self = &check,
        .next = next_check,
        .render = render_check,
        .answered = answered_check,
        .tick = show_check,
        .timeout_ns = demand->options->timeout_ns,
        .deadline_ns = UINT64_MAX,
    };
    connection_pool_run(pool, &work);
}
