#include "loadtest/judge/fetch_books.h"

#include <jansson.h>
#include <stdio.h>
#include <uv.h>

#include "loadtest/judge/answer_body.h"

/* An audit counts all orders. Twelve million take two minutes, or longer beside the audits of other items. */
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

/* ---- the audits ---- */

struct audits {
    const struct options *options;
    struct progress *progress;
    struct books *books;   /* of each item */
    uint32_t begun;        /* items whose audit was requested */
    uint32_t read;         /* items whose audit was read */
    struct pool_work work; /* each audit that is read extends its deadline_ns; 0: an audit failed for good */
    uint64_t began_ns;
    uint64_t limit_ns;
    uint64_t exact_until_ns;  /* inexact audits are requested again until then; 0: no audit was inexact */
    enum fetch_status status; /* of the last failure */
};

static bool audit_next(void *self, uint64_t now_ns, uint64_t *job) {
    struct audits *audits = self;
    (void)now_ns;
    if (audits->begun == item_count(audits->options))
        return false;
    *job = audits->begun++;
    return true;
}

static size_t audit_render(void *self, uint64_t job, const struct target *target, char *request) {
    const struct audits *audits = self;
    const char *token = audits->options->token;
    char item[ITEM_NAME_SIZE];
    item_name(audits->options, (uint32_t)job, item);
    return (size_t)snprintf(request, POOL_REQUEST_SIZE,
                            "GET /v1/items/%s/audit HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n", item, target->host,
                            token ? "Authorization: Bearer " : "", token ? token : "", token ? "\r\n" : "");
}

/* Reads the JSON answer to GET /v1/items/{item}/audit. */
static bool audit_parse(const char *json, size_t length, struct books *books) {
    json_t *root = json_loadb(json, length, 0, NULL);
    struct books read = {0};
    int conserved = 0;
    int exact = 1; /* other sellers may leave it out */
    long long held = 0;
    long long sold = 0;
    bool good =
        json_unpack(root, "{s:b, s?b, s:I, s:I, s:I, s:I, s:I, s:I}", "conserved", &conserved, "exact",
                    &exact, "stock", &read.stock, "available", &read.available, "held", &read.held, "sold",
                    &read.sold, "orders", &read.orders, "oversold", &read.oversold) == 0;
    read.has_counters =
        json_unpack(json_object_get(root, "counters"), "{s:I, s:I}", "held", &held, "sold", &sold) == 0;
    read.conserved = conserved != 0;
    read.exact = exact != 0;
    read.counted = held + sold;
    json_decref(root);
    if (good)
        *books = read;
    return good;
}

static enum fetch_status audit_read(const struct pool_answer *answer, struct books *books) {
    const struct response *response = answer->response;
    if (!response)
        return answer->result == CONNECTION_NOT_SENT ? FETCH_NO_CONNECTION : FETCH_NO_ANSWER;
    switch (response->status) {
    case 200:
        if (!audit_parse(response->body, response->body_length, books))
            return FETCH_UNREADABLE;
        return books->exact ? FETCH_OK : FETCH_INEXACT;
    case 401:
    case 403: return FETCH_UNAUTHORIZED;
    case 404: return FETCH_NO_ITEM;
    default: return FETCH_REFUSED;
    }
}

static bool audit_answered(void *self, const struct pool_answer *answer) {
    struct audits *audits = self;
    if (audits->work.deadline_ns == 0)
        return true;
    enum fetch_status status = audit_read(answer, &audits->books[answer->job]);
    if (status == FETCH_OK) {
        audits->read++;
        audits->work.deadline_ns = answer->answered_ns + audits->limit_ns;
        return true;
    }
    audits->status = status;
    if (status == FETCH_INEXACT) { /* after a late change, such as a hold that expires */
        if (audits->exact_until_ns == 0)
            audits->exact_until_ns = answer->answered_ns + audits->limit_ns;
        if (audits->work.deadline_ns < audits->exact_until_ns)
            audits->work.deadline_ns = audits->exact_until_ns;
        return false;
    }
    if (!answer->response || answer->response->status >= 500)
        return false;
    audits->work.deadline_ns = 0;
    return true;
}

static void audit_show(void *self, uint64_t now_ns) {
    struct audits *audits = self;
    progress_show(audits->progress, now_ns, "waiting for the audits: %u of %u items, %.0f s", audits->read,
                  item_count(audits->options), (double)(now_ns - audits->began_ns) / 1e9);
}

enum fetch_status fetch_books(struct connection_pool *pool, const struct options *options, uint64_t limit_ns,
                              struct progress *progress, struct books *books) {
    struct audits audits = {
        .options = options,
        .progress = progress,
        .books = books,
        .began_ns = uv_hrtime(),
        .limit_ns = limit_ns,
        .status = FETCH_NO_ANSWER,
    };
    audits.work = (struct pool_work){
        .self = &audits,
        .next = audit_next,
        .render = audit_render,
        .answered = audit_answered,
        .tick = audit_show,
        .timeout_ns = AUDIT_TIMEOUT_NS,
        .deadline_ns = audits.began_ns + limit_ns,
    };
    connection_pool_run(pool, &audits.work);
    return audits.read == item_count(options) ? FETCH_OK : audits.status;
}

struct books books_sum(const struct books *books, uint32_t count) {
    struct books sum = {.conserved = true, .has_counters = true};
    for (uint32_t i = 0; i < count; i++) {
        sum.conserved = sum.conserved && books[i].conserved;
        sum.stock += books[i].stock;
        sum.available += books[i].available;
        sum.held += books[i].held;
        sum.sold += books[i].sold;
        sum.orders += books[i].orders;
        sum.oversold += books[i].oversold;
        sum.has_counters = sum.has_counters && books[i].has_counters;
        sum.counted += books[i].counted;
    }
    return sum;
}

/* ---- the orders ---- */

struct check {
    const struct plan *plan;
    struct request_log *log;
    struct progress *progress;
    size_t cursor;
    uint64_t last_ns; /* when an order was last answered */
};

static bool order_can_be_asked(const struct check *check, size_t index) {
    const struct log_order *order = &check->log->orders[index];
    struct planned_request planned;
    plan_of_key(check->plan, check->log->lines[order->line].key, &planned);
    return planned.kind != REQUEST_TRANSFER && !order->extra && !order->absent;
}

static bool order_next(void *self, uint64_t now_ns, uint64_t *job) {
    struct check *check = self;
    if (now_ns > check->last_ns + check->plan->options->settle_ns)
        return false;
    while (check->cursor < check->log->order_count && !order_can_be_asked(check, check->cursor))
        check->cursor++;
    *job = check->cursor;
    return check->cursor++ < check->log->order_count;
}

static size_t order_render(void *self, uint64_t job, const struct target *target, char *request) {
    const struct check *check = self;
    return (size_t)snprintf(request, POOL_REQUEST_SIZE, "GET /v1/orders/%s HTTP/1.1\r\nHost: %s\r\n\r\n",
                            request_log_order_id(check->log, &check->log->orders[job]), target->host);
}

static enum order_check order_compare(const struct check *check, const struct log_order *order,
                                      const struct response *response) {
    const struct log_line *line = &check->log->lines[order->line];
    struct body body;
    char user[USER_NAME_SIZE];
    struct planned_request planned;
    if (!body_read(response->body, response->body_length, &body))
        return ORDER_UNCHECKED;
    plan_of_key(check->plan, line->key, &planned);
    user_name(line->user, user);
    if (!body_text_is(body.order, request_log_order_id(check->log, order)) ||
        !item_is(check->plan->options, planned.items[order->part], body.item.bytes, body.item.length) ||
        !body_text_is(body.user, user) || body.quantity != check->plan->options->quantity ||
        (order->confirmed && !body_text_is(body.state, "confirmed")))
        return ORDER_DIFFERENT;
    bool returned = body_text_is(body.state, "cancelled") || body_text_is(body.state, "expired") ||
                    body_text_is(body.state, "returned");
    return returned ? ORDER_RETURNED : ORDER_FOUND;
}

static bool order_answered(void *self, const struct pool_answer *answer) {
    struct check *check = self;
    struct log_order *order = &check->log->orders[answer->job];
    const struct response *response = answer->response;
    if (!response || (response->status != 200 && response->status != 404))
        return answer->answered_ns > check->last_ns + check->plan->options->settle_ns;
    check->last_ns = answer->answered_ns;
    order->check = (uint8_t)(response->status == 404 ? ORDER_MISSING : order_compare(check, order, response));
    return true;
}

static void order_show(void *self, uint64_t now_ns) {
    struct check *check = self;
    progress_show(check->progress, now_ns, "checking orders: %zu of %zu", check->cursor,
                  check->log->order_count);
}

void fetch_orders(struct connection_pool *pool, const struct plan *plan, struct request_log *log,
                  struct progress *progress) {
    struct check check = {
        .plan = plan,
        .log = log,
        .progress = progress,
        .last_ns = uv_hrtime(),
    };
    struct pool_work work = {
        .self = &check,
        .next = order_next,
        .render = order_render,
        .answered = order_answered,
        .tick = order_show,
        .timeout_ns = plan->options->timeout_ns,
        .deadline_ns = UINT64_MAX,
    };
    connection_pool_run(pool, &work);
}
