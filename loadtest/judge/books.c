#include <stdio.h>

#include "loadtest/http/request.h"
#include "loadtest/judge/books.h"
#include "loadtest/plan/item.h"
#include "loadtest/report/report_json.h"

/* An hour. It counts all orders: twelve million take two minutes, and longer beside those of other items. */
#define AUDIT_TIMEOUT_NS UINT64_C(3600000000000)

const char *audit_text(enum audit_status status) {
    switch (status) {
    case AUDIT_OK: return "no error";
    case AUDIT_NO_CONNECTION: return "cannot connect: is seckilld running? try `make run`";
    case AUDIT_UNAUTHORIZED:
        return "the audit is refused (401): give --token or SECKILL_ADMIN_TOKEN, the token that the seller "
               "was started with, or that is in the file which its log names";
    case AUDIT_NO_ITEM:
        return "no such item (404): put it on sale first, with PUT /v1/items/{item} (with --items "
               "N: NAME-0 to NAME-(N-1))";
    case AUDIT_REFUSED: return "the audit was answered with an error: see the seller's log";
    case AUDIT_NO_ANSWER: return "the audit was not answered: is this a seller, and is it alive?";
    case AUDIT_INEXACT:
        return "the audit was never exact: others buy as well, or holds end still; try when it is quiet";
    case AUDIT_UNREADABLE: return "the audit's answer is not what GET /v1/items/{item}/audit should say";
    }
    return "unknown status";
}

struct fetch {
    const struct options *options;
    const struct client_target *targets;
    struct progress *progress;
    struct books *books;   /* of each item */
    uint32_t begun;        /* items that were asked for */
    uint32_t read;         /* of these: answered with books */
    struct pool_work work; /* its deadline moves on with each books that are read; 0: it is no use going on */
    uint64_t began_ns;
    uint64_t patience_ns;
    uint64_t exact_until_ns;  /* so long books that are not exact are asked for again; 0: there were none */
    enum audit_status status; /* of what failed last */
};

static bool next_fetch(void *self, uint64_t now_ns, uint64_t *job) {
    struct fetch *fetch = self;
    (void)now_ns;
    if (fetch->begun == item_count(fetch->options)) {
        return false;
    }
    *job = fetch->begun++;
    return true;
}

static size_t render_fetch(void *self, uint64_t job, unsigned target, char *request) {
    const struct fetch *fetch = self;
    const char *token = fetch->options->token;
    char item[ITEM_NAME];
    item_name(fetch->options, (uint32_t)job, item);
    return (size_t)snprintf(request, CLIENT_REQUEST,
                            "GET /v1/items/%s/audit HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n", item,
                            fetch->targets[target].host, token != NULL ? "Authorization: Bearer " : "",
                            token != NULL ? token : "", token != NULL ? "\r\n" : "");
}

static enum audit_status read_fetch(const struct pool_answer *answer, struct books *books) {
    const struct response *response = answer->response;
    if (response == NULL) {
        return answer->result == CLIENT_NOT_SENT ? AUDIT_NO_CONNECTION : AUDIT_NO_ANSWER;
    }
    switch (response->status) {
    case 200:
        if (!codec_read_books(response->body, response->body_length, books)) {
            return AUDIT_UNREADABLE;
        }
        return books->exact ? AUDIT_OK : AUDIT_INEXACT;
    case 401:
    case 403: return AUDIT_UNAUTHORIZED;
    case 404: return AUDIT_NO_ITEM;
    default: return AUDIT_REFUSED;
    }
}

/* What comes late, as a hold that ends, may change an item while it is audited. */
static void ask_again(struct fetch *fetch, uint64_t now_ns) {
    if (fetch->exact_until_ns == 0) {
        fetch->exact_until_ns = now_ns + fetch->patience_ns;
    }
    if (fetch->work.deadline_ns < fetch->exact_until_ns) {
        fetch->work.deadline_ns = fetch->exact_until_ns;
    }
}

static bool answered_fetch(void *self, const struct pool_answer *answer) {
    struct fetch *fetch = self;
    if (fetch->work.deadline_ns == 0) {
        return true;
    }
    enum audit_status status = read_fetch(answer, &fetch->books[answer->job]);
    if (status == AUDIT_OK) {
        fetch->read++;
        fetch->work.deadline_ns = answer->answered_ns + fetch->patience_ns;
        return true;
    }
    fetch->status = status;
    if (status == AUDIT_INEXACT) {
        ask_again(fetch, answer->answered_ns);
        return false;
    }
    if (answer->response != NULL && answer->response->status < 500) {
        fetch->work.deadline_ns = 0;
        return true;
    }
    return false;
}

static void show_fetch(void *self, uint64_t now_ns) {
    struct fetch *fetch = self;
    if (progress_due(fetch->progress, now_ns)) {
        progress_show(fetch->progress, "waiting for the books: %u of %u items, %.0f s", fetch->read,
                      item_count(fetch->options), (double)(now_ns - fetch->began_ns) / 1e9);
    }
}

enum audit_status audit_fetch(struct pool *pool, const struct options *options,
                              const struct client_target *targets, uint64_t patience_ns,
                              struct progress *progress, struct books *books) {
    struct fetch fetch = {
        .options = options,
        .targets = targets,
        .progress = progress,
        .books = books,
        .began_ns = uv_hrtime(),
        .patience_ns = patience_ns,
        .status = AUDIT_NO_ANSWER,
    };
    fetch.work = (struct pool_work){
        .self = &fetch,
        .next = next_fetch,
        .render = render_fetch,
        .answered = answered_fetch,
        .tick = show_fetch,
        .timeout_ns = AUDIT_TIMEOUT_NS,
        .deadline_ns = fetch.began_ns + patience_ns,
    };
    pool_run(pool, &fetch.work);
    return fetch.read == item_count(options) ? AUDIT_OK : fetch.status;
}

struct check {
    const struct options *options;
    const struct demand *demand;
    const struct client_target *targets;
    struct ledger *ledger;
    struct progress *progress;
    size_t cursor;
    uint64_t last_ns; /* when an order was last answered */
};

static bool can_be_asked(const struct check *check, size_t index) {
    const struct ledger_order *order = &check->ledger->orders[index];
    struct wish wish;
    demand_of_key(check->demand, check->ledger->lines[order->line].key, &wish);
    return wish.kind != DEMAND_TRANSFER && !order->extra && !order->absent;
}

static bool next_check(void *self, uint64_t now_ns, uint64_t *job) {
    struct check *check = self;
    if (now_ns > check->last_ns + check->options->settle_ns) {
        return false;
    }
    while (check->cursor < check->ledger->order_count && !can_be_asked(check, check->cursor)) {
        check->cursor++;
    }
    *job = check->cursor;
    return check->cursor++ < check->ledger->order_count;
}

static size_t render_check(void *self, uint64_t job, unsigned target, char *request) {
    const struct check *check = self;
    return (size_t)snprintf(request, CLIENT_REQUEST, "GET /v1/orders/%s HTTP/1.1\r\nHost: %s\r\n\r\n",
                            ledger_order_id(check->ledger, &check->ledger->orders[job]),
                            check->targets[target].host);
}

static enum ledger_check compare(const struct check *check, const struct ledger_order *order,
                                 const struct response *response) {
    const struct ledger_line *line = &check->ledger->lines[order->line];
    char item[ITEM_NAME];
    char user[REQUEST_USER_DIGITS + 2];
    struct wish wish;
    demand_of_key(check->demand, line->key, &wish);
    item_name(check->options, wish.items[order->part], item);
    request_user(line->user, user);
    struct codec_order bought = {
        .id = ledger_order_id(check->ledger, order),
        .item = item,
        .user = user,
        .quantity = check->options->quantity,
        .confirmed = order->confirmed,
    };
    return codec_check_order(response->body, response->body_length, &bought);
}

static bool answered_check(void *self, const struct pool_answer *answer) {
    struct check *check = self;
    struct ledger_order *order = &check->ledger->orders[answer->job];
    const struct response *response = answer->response;
    if (response == NULL || (response->status != 200 && response->status != 404)) {
        return answer->answered_ns > check->last_ns + check->options->settle_ns;
    }
    check->last_ns = answer->answered_ns;
    if (response->status == 404) {
        order->check = LEDGER_MISSING;
        return true;
    }
    order->check = (uint8_t)compare(check, order, response);
    return true;
}

static void show_check(void *self, uint64_t now_ns) {
    struct check *check = self;
    if (progress_due(check->progress, now_ns)) {
        progress_show(check->progress, "checking orders: %zu of %zu", check->cursor,
                      check->ledger->order_count);
    }
}

void audit_check_orders(struct pool *pool, const struct demand *demand, const struct client_target *targets,
                        struct ledger *ledger, struct progress *progress) {
    struct check check = {
        .options = demand->options,
        .demand = demand,
        .targets = targets,
        .ledger = ledger,
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
    pool_run(pool, &work);
}
