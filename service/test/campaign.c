#include "service/test/campaign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/test/shop.h"

enum {
    RETRY_MS = 120000, /* longer than an instance stands still */
    PACE_MS = 5,
    ENDS = 5, /* the item that does */
};

const struct campaign_terms campaign_items[CAMPAIGN_ITEMS] = {
    {"plain", "\"stock\":100000", 100000, false, false, false},
    {"lamp", "\"stock\":150", 150, false, false, false},
    {"held", "\"stock\":100000,\"hold_seconds\":600", 100000, true, false, false},
    {"brief", "\"stock\":100,\"hold_seconds\":1", 100, true, true, false},
    {"limited", "\"stock\":100000,\"per_user_limit\":3,\"hold_seconds\":600", 100000, true, false, true},
    {"ends", "\"stock\":100000", 100000, false, false, false}};

/* ---- asking ---- */

static unsigned dice(struct client *client, unsigned sides) {
    return (unsigned)(harness_random(&client->random) % sides);
}

static void fault(struct client *client, const struct deed *deed, const char *what, int status) {
    if (client->fault[0])
        return;
    snprintf(client->fault, sizeof client->fault, "%s of %s (%s, %c): %d %.300s", what, deed->key, deed->id,
             deed->state ? deed->state : '-', status, client->caller.body);
    client->faulted = *deed;
}

/* Until there is an answer that is one. */
static int ask(struct client *client, const struct deed *deed, const char *path, const char *key,
               const char *body) {
    int64_t until_ms = harness_now_ms() + RETRY_MS;
    client->unsure = false;
    for (int status = 0;;) {
        int port = client->campaign->services[dice(client, CAMPAIGN_SERVICES)].port;
        status = caller_call(&client->caller, port, "POST", path, key, body);
        atomic_fetch_add(&client->campaign->attempts, 1);
        atomic_fetch_add(&client->campaign->answers, status != 0 && status != 503);
        if (status != 0 && status != 503)
            return status;
        client->unsure = true;
        if (harness_now_ms() >= until_ms) {
            fault(client, deed, path, status); /* it is not answered */
            return status;
        }
        harness_pause_ms(CAMPAIGN_PAUSE_MS);
    }
}

static const char *const paths[] = {
    [PURCHASE] = "/v1/purchases", [BASKET] = "/v1/baskets", [TRANSFER] = "/v1/transfers"};

static void print_body(const struct deed *deed, char *out, size_t size) {
    int quantity = deed->line[0].quantity, length;
    const char *item = campaign_items[deed->line[0].item].name;
    switch (deed->kind) {
    case PURCHASE:
        snprintf(out, size, "{\"item\":\"%s\",\"user\":\"u%d\",\"quantity\":%d}", item, deed->user, quantity);
        return;
    case TRANSFER:
        snprintf(out, size, "{\"from\":\"%s\",\"to\":\"%s\",\"quantity\":%d}", item,
                 campaign_items[deed->line[1].item].name, quantity);
        return;
    case RESTOCK: snprintf(out, size, "{\"quantity\":%d}", quantity); return;
    case BASKET: break;
    }
    length = snprintf(out, size, "{\"user\":\"u%d\",\"lines\":[", deed->user);
    for (int i = 0; i < deed->lines; i++)
        length += snprintf(out + length, size - (size_t)length, "%s{\"item\":\"%s\",\"quantity\":%d}",
                           i ? "," : "", campaign_items[deed->line[i].item].name, deed->line[i].quantity);
    snprintf(out + length, size - (size_t)length, "]}");
}

static int send_deed(struct client *client, const struct deed *deed) {
    char body[512], path[96];
    print_body(deed, body, sizeof body);
    snprintf(path, sizeof path, "/v1/items/%s/restock", campaign_items[deed->line[0].item].name);
    return ask(client, deed, deed->kind == RESTOCK ? path : paths[deed->kind], deed->key, body);
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
        deed->unsure |= client->unsure;
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
    int status = ask(client, deed, path, NULL, "");
    caller_text(&client->caller, "\"type\":\"/problems/", type, sizeof type);
    bool missing = strncmp(type, "unknown-", strlen("unknown-")) == 0 && client->campaign->may_miss;
    bool open = missing || (client->unsure && strcmp(type, "order-expired") == 0);
    deed->wanted = open ? confirm ? 'c' : 'x' : '\0';
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
    int first = (int)dice(client, CAMPAIGN_ITEMS);
    deed->lines = deed->kind == BASKET ? 2 + (int)dice(client, 2) : deed->kind == TRANSFER ? 2 : 1;
    for (int i = 0; i < deed->lines; i++) {
        deed->line[i].item = (first + i) % CAMPAIGN_ITEMS;
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
                          .user = (int)dice(client, CAMPAIGN_USERS)};
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
    while (!atomic_load(&client->campaign->stopped) && client->count < CAMPAIGN_DEEDS_MAX &&
           !client->fault[0]) {
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

/* What was refused, had expired, or was not known, may have been done by an attempt before, whose answer came
 * to nobody; or by the instance that stood still. */
void campaign_ask_again(struct client *client) {
    for (int i = 0; i < client->count; i++) {
        struct deed *deed = &client->deeds[i];
        if (!deed->state && (deed->unsure || client->campaign->may_miss))
            note(client, deed, send_deed(client, deed));
        else if (deed->wanted)
            settle(client, deed, deed->wanted == 'c');
    }
    caller_close(&client->caller);
}

static void end(void *arg) {
    campaign_stop(arg);
}

/* The machine is as busy as the other campaigns beside it make it: a store may be slow already. */
static void put_item(int port, const char *item, const char *terms) {
    const char *path = harness_format("/v1/items/%s", item), *body = harness_format("{%s}", terms);
    int64_t until_ms = harness_now_ms() + RETRY_MS;
    int status;
    while ((status = shop_admin(port, "PUT", path, body, NULL)) == 503 && harness_now_ms() < until_ms)
        harness_pause_ms(CAMPAIGN_PAUSE_MS);
    CHECK(status == 201 || status == 200);
}

/* Half of the items are sold by the default strategy. */
static void put_items(int port, uint64_t *random) {
    static const char *const strategies[] = {"batch", "batch", "lua", "optimistic"};
    char ends[32];
    time_t soon = time(NULL) + 4;
    struct tm utc;
    strftime(ends, sizeof ends, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&soon, &utc));
    for (int i = 0; i < CAMPAIGN_ITEMS; i++) {
        const char *until = i == ENDS ? harness_format(",\"ends_at\":\"%s\"", ends) : "",
                   *strategy = strategies[harness_random(random) % (sizeof strategies / sizeof *strategies)];
        put_item(port, campaign_items[i].name,
                 harness_format("%s%s,\"strategy\":\"%s\"", campaign_items[i].terms, until, strategy));
    }
}

struct campaign *campaign_start(const struct seckilld services[CAMPAIGN_SERVICES], uint64_t seed,
                                bool may_miss) {
    struct campaign *campaign = harness_alloc(sizeof *campaign);
    uint64_t random = seed;
    campaign->services = services;
    campaign->may_miss = may_miss;
    put_items(services[0].port, &random);
    harness_defer(end, campaign);
    for (int i = 0; i < CAMPAIGN_CLIENTS; i++) {
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

void campaign_stop(struct campaign *campaign) {
    atomic_store(&campaign->stopped, true);
    for (int i = 0; !campaign->joined && i < CAMPAIGN_CLIENTS; i++)
        pthread_join(campaign->clients[i].thread, NULL);
    campaign->joined = true;
}
