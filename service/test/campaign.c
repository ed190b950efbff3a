#include "service/test/campaign.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/test/caller.h"
#include "service/test/shop.h"

enum {
    CLIENTS = 12,
    DEEDS_MAX = 4000, /* of a client */
    USERS = 40,
    LINES_MAX = 3,
    LIMIT = 3,
    RETRY_MS = 120000, /* longer than an instance stands still */
    SETTLE_MS = 30000,
    PAUSE_MS = 20,
    PACE_MS = 5
};

/* What is on sale. `limited` has a limit that a user meets; the holds of `brief` expire while it is sold;
 * `ends` ends within the sale. */
static const struct {
    const char *name, *terms;
    int stock;
    bool holds, brief, limited;
} items[CAMPAIGN_ITEMS] = {
    {"plain", "\"stock\":100000", 100000, false, false, false},
    {"lamp", "\"stock\":150", 150, false, false, false},
    {"held", "\"stock\":100000,\"hold_seconds\":600", 100000, true, false, false},
    {"brief", "\"stock\":100,\"hold_seconds\":1", 100, true, true, false},
    {"limited", "\"stock\":100000,\"per_user_limit\":3,\"hold_seconds\":600", 100000, true, false, true},
    {"ends", "\"stock\":100000,\"ends_at\":\"%s\"", 100000, false, false, false}};
enum { ENDS = 5, ITEMS = CAMPAIGN_ITEMS };

enum deed_kind { PURCHASE, BASKET, TRANSFER, RESTOCK };

/* Something that was asked for, and the last that was said of it. */
struct deed {
    enum deed_kind kind;
    char state;  /* h c x e: as an order was acknowledged last; d: done; 0: it was refused */
    char wanted; /* c x: it was to become that, and the answer was that it is not known */
    char key[40], id[96];
    int lines, user;
    struct {
        int item, quantity;
    } line[LINES_MAX]; /* of a transfer: from and to */
};

struct client {
    struct campaign *campaign;
    pthread_t thread;
    uint64_t random;
    struct caller caller;
    int number, count;
    char fault[512]; /* an answer that must never be given, unless it is told that `faulted` was lost */
    char faulted[96];
    struct deed deeds[DEEDS_MAX];
};

struct campaign {
    const struct seckilld *services;
    atomic_bool stopped;
    atomic_int answers, attempts, running;
    bool joined, may_miss;
    struct client clients[CLIENTS];
};

/* ---- asking ---- */

static unsigned dice(struct client *client, unsigned sides) {
    return (unsigned)(harness_random(&client->random) % sides);
}

/* Until there is an answer that is one. */
static int ask(struct client *client, const char *path, const char *key, const char *body) {
    int64_t until_ms = harness_now_ms() + RETRY_MS;
    for (int status = 0;;) {
        int port = client->campaign->services[dice(client, CAMPAIGN_SERVICES)].port;
        status = caller_call(&client->caller, port, "POST", path, key, body);
        atomic_fetch_add(&client->campaign->attempts, 1);
        atomic_fetch_add(&client->campaign->answers, status != 0 && status != 503);
        if (status != 0 && status != 503)
            return status;
        if (harness_now_ms() >= until_ms) {
            snprintf(client->fault, sizeof client->fault, "%s is not answered: %d %.300s", path, status,
                     client->caller.body);
            return status;
        }
        harness_pause_ms(PAUSE_MS);
    }
}

static void fault(struct client *client, const struct deed *deed, const char *what, int status) {
    if (client->fault[0])
        return;
    snprintf(client->fault, sizeof client->fault, "%s of %s (%s, %c): %d %.300s", what, deed->key, deed->id,
             deed->state ? deed->state : '-', status, client->caller.body);
    stpcpy(client->faulted, deed->id);
}

static const char *const paths[] = {
    [PURCHASE] = "/v1/purchases", [BASKET] = "/v1/baskets", [TRANSFER] = "/v1/transfers"};

static void print_body(const struct deed *deed, char *out, size_t size) {
    int quantity = deed->line[0].quantity, length;
    const char *item = items[deed->line[0].item].name;
    switch (deed->kind) {
    case PURCHASE:
        snprintf(out, size, "{\"item\":\"%s\",\"user\":\"u%d\",\"quantity\":%d}", item, deed->user, quantity);
        return;
    case TRANSFER:
        snprintf(out, size, "{\"from\":\"%s\",\"to\":\"%s\",\"quantity\":%d}", item,
                 items[deed->line[1].item].name, quantity);
        return;
    case RESTOCK: snprintf(out, size, "{\"quantity\":%d}", quantity); return;
    case BASKET: break;
    }
    length = snprintf(out, size, "{\"user\":\"u%d\",\"lines\":[", deed->user);
    for (int i = 0; i < deed->lines; i++)
        length += snprintf(out + length, size - (size_t)length, "%s{\"item\":\"%s\",\"quantity\":%d}",
                           i ? "," : "", items[deed->line[i].item].name, deed->line[i].quantity);
    snprintf(out + length, size - (size_t)length, "]}");
}

static int send_deed(struct client *client, const struct deed *deed) {
    char body[512], path[96];
    print_body(deed, body, sizeof body);
    snprintf(path, sizeof path, "/v1/items/%s/restock", items[deed->line[0].item].name);
    return ask(client, deed->kind == RESTOCK ? path : paths[deed->kind], deed->key, body);
}

/* ---- deeds ---- */

static char state_told(const struct client *client) {
    char text[16] = "";
    caller_text(&client->caller, "\"state\":\"", text, sizeof text);
    return strcmp(text, "held") == 0        ? 'h'
           : strcmp(text, "confirmed") == 0 ? 'c'
           : strcmp(text, "cancelled") == 0 ? 'x'
           : strcmp(text, "expired") == 0   ? 'e'
                                            : '?';
}

/* An answer to the same request for the second time, or for the first. */
static void note(struct client *client, struct deed *deed, int status) {
    static const char *const names[] = {[PURCHASE] = "\"order\":\"",
                                        [BASKET] = "\"basket\":\"",
                                        [TRANSFER] = "\"transfer\":\"",
                                        [RESTOCK] = ""};
    char id[sizeof deed->id] = "";
    bool done = status == 200 || status == 201;
    if (!done) {
        if (deed->state && status == 409 && client->campaign->may_miss)
            return;
        if (deed->state)
            fault(client, deed, "a retry", status);
        else if (status != 409 && status != 422)
            fault(client, deed, "a request", status);
        return;
    }
    if (deed->kind != RESTOCK)
        caller_text(&client->caller, names[deed->kind], id, sizeof id);
    if (!deed->state) {
        stpcpy(deed->id, id);
        deed->state = deed->kind == PURCHASE || deed->kind == BASKET ? state_told(client) : 'd';
    } else if (strcmp(id, deed->id) != 0) {
        fault(client, deed, "another answer to a retry", status);
    }
}

/* Confirms or cancels a hold. */
static void settle(struct client *client, struct deed *deed, bool confirm) {
    char path[160], type[64] = "";
    snprintf(path, sizeof path, "/v1/%s/%s/%s", deed->kind == BASKET ? "baskets" : "orders", deed->id,
             confirm ? "confirm" : "cancel");
    int status = ask(client, path, NULL, "");
    caller_text(&client->caller, "\"type\":\"/problems/", type, sizeof type);
    bool missing = strncmp(type, "unknown-", strlen("unknown-")) == 0 && client->campaign->may_miss;
    deed->wanted = missing ? confirm ? 'c' : 'x' : '\0';
    if (missing)
        return;
    if (status == 200)
        deed->state = confirm ? 'c' : 'x';
    else if (strcmp(type, "order-expired") == 0)
        deed->state = 'e';
    else
        fault(client, deed, confirm ? "confirm" : "cancel", status);
}

static void choose_lines(struct client *client, struct deed *deed) {
    int first = (int)dice(client, ITEMS);
    deed->lines = deed->kind == BASKET ? 2 + (int)dice(client, 2) : deed->kind == TRANSFER ? 2 : 1;
    for (int i = 0; i < deed->lines; i++) {
        deed->line[i].item = (first + i) % ITEMS;
        deed->line[i].quantity = 1 + (int)dice(client, 2);
    }
    deed->line[1].quantity = deed->kind == TRANSFER ? deed->line[0].quantity : deed->line[1].quantity;
}

static void act(struct client *client) {
    struct deed *deed = &client->deeds[client->count];
    unsigned kind = dice(client, 100);
    *deed = (struct deed){.kind = kind < 60   ? PURCHASE
                                  : kind < 80 ? BASKET
                                  : kind < 93 ? TRANSFER
                                              : RESTOCK,
                          .user = (int)dice(client, USERS)};
    snprintf(deed->key, sizeof deed->key, "c%d-%d", client->number, client->count++);
    choose_lines(client, deed);
    note(client, deed, send_deed(client, deed));
    if (deed->state == 'h' && dice(client, 4) > 0)
        settle(client, deed, dice(client, 3) > 0);
}

/* The same again, and with the same key something else. */
static void repeat(struct client *client) {
    struct deed *deed = &client->deeds[dice(client, (unsigned)client->count)], other = *deed;
    if (!deed->state)
        return;
    note(client, deed, send_deed(client, deed));
    other.line[0].quantity += 5;
    int status = send_deed(client, &other);
    if (status != 422 && !client->campaign->may_miss)
        fault(client, deed, "another request with its key", status);
}

static void *run(void *arg) {
    struct client *client = arg;
    while (!atomic_load(&client->campaign->stopped) && client->count < DEEDS_MAX && !client->fault[0]) {
        if (client->count > 0 && dice(client, 8) == 0)
            repeat(client);
        else
            act(client);
        harness_pause_ms(PACE_MS);
    }
    caller_close(&client->caller);
    atomic_fetch_sub(&client->campaign->running, 1);
    return NULL;
}

const char *campaign_item(int i) {
    return items[i].name;
}

static void end(void *arg) {
    campaign_stop(arg);
}

struct campaign *campaign_start(const struct seckilld services[CAMPAIGN_SERVICES], uint64_t seed,
                                bool may_miss) {
    struct campaign *campaign = harness_alloc(sizeof *campaign);
    char terms[160], ends[32];
    time_t soon = time(NULL) + 4;
    struct tm utc;
    campaign->services = services;
    campaign->may_miss = may_miss;
    strftime(ends, sizeof ends, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&soon, &utc));
    for (int i = 0; i < ITEMS; i++) {
        if (i == ENDS)
            snprintf(terms, sizeof terms, "\"stock\":100000,\"ends_at\":\"%s\"", ends);
        shop_put(services[0].port, items[i].name, i == ENDS ? terms : items[i].terms);
    }
    harness_defer(end, campaign);
    for (int i = 0; i < CLIENTS; i++) {
        struct client *client = &campaign->clients[i];
        client->campaign = campaign;
        client->caller = (struct caller)CALLER_NEW;
        client->random = seed + (uint64_t)i * 7919;
        client->number = i;
        atomic_fetch_add(&campaign->running, 1);
        CHECK_INT(pthread_create(&client->thread, NULL, run, client), 0);
    }
    return campaign;
}

int campaign_answers(const struct campaign *campaign) {
    return atomic_load(&campaign->answers);
}

int campaign_attempts(const struct campaign *campaign) {
    return atomic_load(&campaign->attempts);
}

bool campaign_has_ended(const struct campaign *campaign) {
    return atomic_load(&campaign->running) == 0;
}

void campaign_stop(struct campaign *campaign) {
    atomic_store(&campaign->stopped, true);
    for (int i = 0; !campaign->joined && i < CLIENTS; i++)
        pthread_join(campaign->clients[i].thread, NULL);
    campaign->joined = true;
}

/* ---- judging ---- */

struct judging {
    struct campaign_result *result;
    int port;
    int64_t until_ms; /* by then all is settled */
    const struct campaign *campaign;
    long long stock[ITEMS];             /* as it was acknowledged */
    long long sold[ITEMS], held[ITEMS]; /* by the orders as they are now */
    long long had[USERS];               /* of `limited`, by them */
};

static bool is_told(const struct judging *judging, const char *name) {
    static const char words[] = "a failover of the store lost";
    for (int i = 0; i < CAMPAIGN_SERVICES; i++) {
        const char *output = proc_output(&judging->campaign->services[i].proc);
        for (const char *at = strstr(output, words); at; at = strstr(at + 1, words)) {
            const char *found = strstr(at, name);
            if (found && found < at + strcspn(at, "\n"))
                return true;
        }
    }
    return false;
}

static void wrong(struct judging *judging, const char *name, const char *what) {
    struct campaign_result *result = judging->result;
    bool told = is_told(judging, name);
    result->lost++;
    result->told += told;
    if (told)
        snprintf(result->last_told, sizeof result->last_told, "%s: %.200s", name, what);
    else if (!result->first[0])
        snprintf(result->first, sizeof result->first, "%s: %.400s", name, what);
}

static bool is_brief(const struct deed *deed) {
    bool brief = false;
    for (int i = 0; i < deed->lines; i++)
        brief |= items[deed->line[i].item].brief;
    return brief;
}

/* What the deed must be by now. Holds of a second are over. */
static const char *state_due(const struct deed *deed) {
    switch (deed->state) {
    case 'c': return "confirmed";
    case 'x': return "cancelled";
    case 'e': return "expired";
    default: return is_brief(deed) ? "expired" : "held";
    }
}

/* The store may rest still. */
static int read_path(const struct judging *judging, const char *path, struct web_response *response) {
    int status;
    while ((status = shop_admin(judging->port, "GET", path, NULL, response)) == 503 &&
           harness_now_ms() < judging->until_ms)
        harness_pause_ms(PAUSE_MS);
    return status;
}

/* Reads an order or basket that is `due` to be in this state: once its hold is over, if that is it. */
static int read_state(const struct judging *judging, const char *due, const char *path,
                      struct web_response *response) {
    for (;; harness_pause_ms(PAUSE_MS)) {
        int status = read_path(judging, path, response);
        if (status != 200 || strcmp(shop_text(response, "state"), "held") != 0 || strcmp(due, "held") == 0 ||
            harness_now_ms() >= judging->until_ms)
            return status;
    }
}

static bool is_over(const char *state) {
    return strcmp(state, "cancelled") == 0 || strcmp(state, "expired") == 0;
}

/* Counts what the order has, too. Of a basket that was told to be another now, lines that have no units may
 * say so in either way. */
static void judge_order(struct judging *judging, const struct deed *deed, int line, const char *order,
                        const char *due) {
    struct web_response response;
    int status = read_state(judging, due, harness_format("/v1/orders/%s", order), &response);
    if (status != 200) {
        wrong(judging, order, harness_format("%s, and now %d %s", due, status, response.body));
        return;
    }
    int item = deed->line[line].item;
    long long quantity = shop_number(&response, "quantity");
    const char *state = shop_text(&response, "state");
    bool sold = strcmp(state, "confirmed") == 0, held = strcmp(state, "held") == 0;
    judging->sold[item] += sold ? quantity : 0;
    judging->held[item] += held ? quantity : 0;
    judging->had[deed->user] += (sold || held) && items[item].limited ? quantity : 0;
    bool as_due = strcmp(state, due) == 0 || (is_over(state) && is_over(due) && is_told(judging, deed->id));
    if (!as_due || quantity != deed->line[line].quantity ||
        strcmp(shop_text(&response, "item"), items[item].name) != 0 ||
        strcmp(shop_text(&response, "user"), harness_format("u%d", deed->user)) != 0)
        wrong(judging, order,
              harness_format("%s, %d, and now %s", due, deed->line[line].quantity, response.body));
}

/* Its lines are as it is, whatever became of it. */
static void judge_basket(struct judging *judging, const struct deed *deed) {
    struct web_response response;
    const char *due = state_due(deed);
    int status = read_state(judging, due, harness_format("/v1/baskets/%s", deed->id), &response), lines = 0;
    if (status != 200) {
        wrong(judging, deed->id, harness_format("%s, and now %d %s", due, status, response.body));
        return;
    }
    const char *state = harness_format("%s", shop_text(&response, "state"));
    if (strcmp(state, due) != 0)
        wrong(judging, deed->id, harness_format("%s, and now %s", due, state));
    const char *body = harness_format("%s", response.body);
    for (const char *at = body; lines < deed->lines && (at = strstr(at, "\"order\":\"")); lines++) {
        at += strlen("\"order\":\"");
        judge_order(judging, deed, lines, harness_format("%.*s", (int)strcspn(at, "\""), at), state);
    }
    if (lines < deed->lines)
        wrong(judging, deed->id, harness_format("%d lines, and now %s", deed->lines, body));
}

static void judge_deed(struct judging *judging, const struct deed *deed) {
    int item = deed->line[0].item, quantity = deed->line[0].quantity;
    switch (deed->kind) {
    case PURCHASE: judge_order(judging, deed, 0, deed->id, state_due(deed)); return;
    case BASKET: judge_basket(judging, deed); return;
    case TRANSFER:
        judging->stock[item] -= quantity;
        judging->stock[deed->line[1].item] += quantity;
        return;
    case RESTOCK: judging->stock[item] += quantity; return;
    }
}

/* The restocks, and halves of transfers, that are noted not to fit any more. An order that is, was judged
 * before. */
static void judge_shortage(struct judging *judging, int i, const struct redis_server *server) {
    const char *key = harness_format("seckill:{%s}:shortage", items[i].name);
    char *names = harness_format("%s", redis_command(server, "HKEYS", key, NULL) + 1);
    for (char *name; (name = strsep(&names, " ]"));) {
        const char *record = *name ? redis_command(server, "HGET", key, name, NULL) : "c";
        const char *digits = record + strcspn(record, "0123456789");
        bool send = strncmp(record, "send ", 5) == 0;
        if (*name && (send || digits == record || strncmp(record, "receive ", 8) == 0)) {
            judging->stock[i] -= (send ? -1 : 1) * strtoll(digits, NULL, 10);
            wrong(judging, harness_format("%s:%s", items[i].name, name), record);
        }
    }
}

/* Every unit is where an order that somebody knows has it, or for sale. */
static void judge_item(struct judging *judging, int i) {
    struct campaign_result *result = judging->result;
    struct web_response response;
    const char *path = harness_format("/v1/items/%s/audit", items[i].name);
    CHECK_INT(read_path(judging, path, &response), 200);
    long long stock = shop_number(&response, "stock"), sold = shop_number(&response, "sold"),
              held = shop_number(&response, "held"), available = shop_number(&response, "available");
    bool good = strstr(response.body, "\"conserved\":true") && shop_number(&response, "oversold") == 0 &&
                shop_number(&response, "over_limit") == 0 && available >= 0 &&
                stock == available + sold + held && stock == judging->stock[i] && sold == judging->sold[i] &&
                held == judging->held[i];
    if (!good && !result->first[0])
        snprintf(result->first, sizeof result->first,
                 "the books of %s, which should be stock %lld, sold %lld, held %lld: %.300s", items[i].name,
                 judging->stock[i], judging->sold[i], judging->held[i], response.body);
}

/* No basket and no transfer is torn, but for what was told, and the journal knows whose all units are. */
static void judge_together(struct judging *judging) {
    struct campaign_result *result = judging->result;
    struct web_response response;
    CHECK_INT(read_path(judging, "/v1/audit", &response), 200);
    bool good = shop_number(&response, "unknown") == 0 &&
                (result->told > 0 || strstr(response.body, "\"conserved\":true"));
    if (!good && !result->first[0])
        snprintf(result->first, sizeof result->first, "all items together: %.300s", response.body);
}

static void judge_client(struct judging *judging, const struct client *client) {
    struct campaign_result *result = judging->result;
    if (client->fault[0] && !result->first[0] && !(client->faulted[0] && is_told(judging, client->faulted)))
        snprintf(result->first, sizeof result->first, "%s", client->fault);
    result->asked += client->count;
    for (int i = 0; i < client->count; i++) {
        result->acknowledged += client->deeds[i].state != 0;
        if (client->deeds[i].state)
            judge_deed(judging, &client->deeds[i]);
    }
}

/* What was refused, or was not known, may have been done by the instance that stood still, whose answer came
 * to nobody. */
static void ask_again(struct client *client) {
    for (int i = 0; i < client->count; i++) {
        struct deed *deed = &client->deeds[i];
        if (!deed->state)
            note(client, deed, send_deed(client, deed));
        else if (deed->wanted)
            settle(client, deed, deed->wanted == 'c');
    }
    caller_close(&client->caller);
}

static void judge_all(struct judging *judging, campaign_find_fn *find, void *ctx) {
    struct campaign_result *result = judging->result;
    for (int i = 0; i < ITEMS; i++)
        judging->stock[i] = items[i].stock;
    for (int i = 0; i < CLIENTS; i++)
        judge_client(judging, &judging->campaign->clients[i]);
    for (int i = 0; i < ITEMS; i++) {
        judge_shortage(judging, i, find(ctx, harness_format("{%s}", items[i].name)));
        judge_item(judging, i);
    }
    judge_together(judging);
    for (int i = 0; i < USERS; i++) {
        if (judging->had[i] > LIMIT && !result->first[0])
            snprintf(result->first, sizeof result->first, "u%d has %lld units, and may have %d", i,
                     judging->had[i], LIMIT);
    }
}

/* What was begun is finished, and what was torn is mended, in the background: so it may take a while until
 * all is well. */
void campaign_judge(struct campaign *campaign, campaign_find_fn *find, void *ctx,
                    struct campaign_result *result) {
    int64_t until_ms = harness_now_ms() + SETTLE_MS;
    for (int i = 0; campaign->may_miss && i < CLIENTS; i++)
        ask_again(&campaign->clients[i]);
    do {
        struct judging judging = {
            .result = result, .campaign = campaign, .port = campaign->services[0].port, .until_ms = until_ms};
        *result = (struct campaign_result){.asked = 0};
        judge_all(&judging, find, ctx);
        harness_pause_ms(result->first[0] ? 1000 : 0);
    } while (result->first[0] && harness_now_ms() < until_ms);
}
