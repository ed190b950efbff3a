/* What a campaign was told is compared with the books. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/test/campaign.h"
#include "service/test/shop.h"

enum { SETTLE_MS = 30000 };

struct judging {
    struct campaign_result *result;
    int port;
    bool gave_up; /* something was not settled in time: nothing is waited for any more */
    const struct campaign *campaign;
    long long stock[CAMPAIGN_ITEMS];                      /* as it was acknowledged */
    long long sold[CAMPAIGN_ITEMS], held[CAMPAIGN_ITEMS]; /* by the orders as they are now */
    long long had[CAMPAIGN_USERS];                        /* of `limited`, by them */
    long long twice; /* units of transfers that were told to stand twice: the journal has one of the two */
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

static void wrong(struct judging *judging, bool told, const char *name, const char *what) {
    struct campaign_result *result = judging->result;
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
        brief |= campaign_items[deed->line[i].item].brief;
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

/* Pauses; false once something was not settled within SETTLE_MS: after that nothing is waited for. */
static bool is_patient(struct judging *judging, int64_t since_ms) {
    judging->gave_up |= harness_now_ms() >= since_ms + SETTLE_MS;
    if (!judging->gave_up)
        harness_pause_ms(CAMPAIGN_PAUSE_MS);
    return !judging->gave_up;
}

/* The store may rest still. */
static int read_path(struct judging *judging, const char *path, struct web_response *response) {
    int64_t since_ms = harness_now_ms();
    int status;
    while ((status = shop_admin(judging->port, "GET", path, NULL, response)) == 503 &&
           is_patient(judging, since_ms))
        ;
    return status;
}

/* Whether it is told of a deed, or of a line of it. */
static bool is_told_of(struct judging *judging, const struct deed *deed) {
    struct web_response response;
    if (!deed->id[0])
        return false;
    if (is_told(judging, deed->id))
        return true;
    if (deed->kind != BASKET ||
        read_path(judging, harness_format("/v1/baskets/%s", deed->id), &response) != 200)
        return false;
    for (const char *at = response.body; (at = strstr(at, "\"order\":\""));) {
        at += strlen("\"order\":\"");
        if (is_told(judging, harness_format("%.*s", (int)strcspn(at, "\""), at)))
            return true;
    }
    return false;
}

/* Reads an order or basket that is `due` to be in this state: once its hold is over, if that is it. */
static int read_state(struct judging *judging, const char *due, const char *path,
                      struct web_response *response) {
    int64_t since_ms = harness_now_ms();
    int status;
    do
        status = read_path(judging, path, response);
    while (status == 200 && strcmp(shop_text(response, "state"), "held") == 0 && strcmp(due, "held") != 0 &&
           is_patient(judging, since_ms));
    return status;
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
        wrong(judging, is_told(judging, order), order,
              harness_format("%s, and now %d %s", due, status, response.body));
        return;
    }
    int item = deed->line[line].item;
    long long quantity = shop_number(&response, "quantity");
    const char *state = shop_text(&response, "state");
    bool sold = strcmp(state, "confirmed") == 0, held = strcmp(state, "held") == 0;
    judging->sold[item] += sold ? quantity : 0;
    judging->held[item] += held ? quantity : 0;
    judging->had[deed->user] += (sold || held) && campaign_items[item].limited ? quantity : 0;
    bool as_due = strcmp(state, due) == 0 || (is_over(state) && is_over(due) && is_told(judging, deed->id));
    if (!as_due || quantity != deed->line[line].quantity ||
        strcmp(shop_text(&response, "item"), campaign_items[item].name) != 0 ||
        strcmp(shop_text(&response, "user"), harness_format("u%d", deed->user)) != 0)
        wrong(judging, is_told(judging, order) || is_told(judging, deed->id), order,
              harness_format("%s, %d, and now %s", due, deed->line[line].quantity, response.body));
}

/* Its lines are as it is, whatever became of it. */
static void judge_basket(struct judging *judging, const struct deed *deed) {
    struct web_response response;
    const char *due = state_due(deed);
    int status = read_state(judging, due, harness_format("/v1/baskets/%s", deed->id), &response), lines = 0;
    if (status != 200) {
        wrong(judging, is_told_of(judging, deed), deed->id,
              harness_format("%s, and now %d %s", due, status, response.body));
        return;
    }
    const char *state = harness_format("%s", shop_text(&response, "state"));
    if (strcmp(state, due) != 0)
        wrong(judging, is_told_of(judging, deed), deed->id, harness_format("%s, and now %s", due, state));
    const char *body = harness_format("%s", response.body);
    for (const char *at = body; lines < deed->lines && (at = strstr(at, "\"order\":\"")); lines++) {
        at += strlen("\"order\":\"");
        judge_order(judging, deed, lines, harness_format("%.*s", (int)strcspn(at, "\""), at), state);
    }
    if (lines < deed->lines)
        wrong(judging, is_told_of(judging, deed), deed->id,
              harness_format("%d lines, and now %s", deed->lines, body));
}

static void judge_deed(struct judging *judging, const struct deed *deed) {
    int item = deed->line[0].item, quantity = deed->line[0].quantity;
    switch (deed->kind) {
    case PURCHASE: judge_order(judging, deed, 0, deed->id, state_due(deed)); return;
    case BASKET: judge_basket(judging, deed); return;
    case TRANSFER: {
        bool twice = deed->id[0] && is_told(judging, harness_format("t:%s, and it was made again", deed->id));
        int moved = twice ? 2 * quantity : quantity;
        judging->stock[item] -= moved;
        judging->stock[deed->line[1].item] += moved;
        judging->twice += twice ? moved : 0;
        return;
    }
    case RESTOCK: judging->stock[item] += quantity; return;
    }
}

/* The restocks, and halves of transfers, that are noted not to fit any more. An order that is, was judged
 * before. */
static void judge_shortage(struct judging *judging, int i, const struct redis_server *server) {
    const char *key = stock_key(harness_format("%s:shortage", campaign_items[i].name));
    char *names = harness_format("%s", redis_command(server, "HKEYS", key, NULL) + 1);
    for (char *name; (name = strsep(&names, " ]"));) {
        const char *record = *name ? redis_command(server, "HGET", key, name, NULL) : "c";
        const char *digits = record + strcspn(record, "0123456789");
        bool send = strncmp(record, "send ", 5) == 0;
        if (*name && (send || digits == record || strncmp(record, "receive ", 8) == 0)) {
            judging->stock[i] -= (send ? -1 : 1) * strtoll(digits, NULL, 10);
            const char *move = harness_format("%s:%s", campaign_items[i].name, name);
            wrong(judging, is_told(judging, move), move, record);
        }
    }
}

/* Every unit is where an order that somebody knows has it, or for sale. */
static void judge_item(struct judging *judging, int i) {
    struct campaign_result *result = judging->result;
    struct web_response response;
    const char *path = harness_format("/v1/items/%s/audit", campaign_items[i].name);
    CHECK_INT(read_path(judging, path, &response), 200);
    long long stock = shop_number(&response, "stock"), sold = shop_number(&response, "sold"),
              held = shop_number(&response, "held"), available = shop_number(&response, "available");
    bool good = strstr(response.body, "\"conserved\":true") && shop_number(&response, "oversold") == 0 &&
                shop_number(&response, "over_limit") == 0 && available >= 0 &&
                stock == available + sold + held && stock == judging->stock[i] && sold == judging->sold[i] &&
                held == judging->held[i];
    if (!good && !result->first[0])
        snprintf(result->first, sizeof result->first,
                 "the books of %s, which should be stock %lld, sold %lld, held %lld: %.300s",
                 campaign_items[i].name, judging->stock[i], judging->sold[i], judging->held[i],
                 response.body);
}

/* No basket and no transfer is torn, but for what was told, and the journal knows whose all units are. */
static void judge_together(struct judging *judging) {
    struct campaign_result *result = judging->result;
    struct web_response response;
    CHECK_INT(read_path(judging, "/v1/audit", &response), 200);
    bool good = shop_number(&response, "unknown") == judging->twice &&
                (result->told > 0 || judging->twice > 0 || strstr(response.body, "\"conserved\":true"));
    if (!good && !result->first[0])
        snprintf(result->first, sizeof result->first, "all items together: %.300s", response.body);
}

static void judge_client(struct judging *judging, const struct client *client) {
    struct campaign_result *result = judging->result;
    if (client->fault[0] && !result->first[0] && !is_told_of(judging, &client->faulted))
        snprintf(result->first, sizeof result->first, "%s", client->fault);
    result->asked += client->count;
    for (int i = 0; i < client->count; i++) {
        result->acknowledged += client->deeds[i].state != 0;
        if (client->deeds[i].state)
            judge_deed(judging, &client->deeds[i]);
    }
}

static void judge_all(struct judging *judging, campaign_find_fn *find, void *ctx) {
    struct campaign_result *result = judging->result;
    for (int i = 0; i < CAMPAIGN_ITEMS; i++)
        judging->stock[i] = campaign_items[i].stock;
    for (int i = 0; i < CAMPAIGN_CLIENTS; i++)
        judge_client(judging, &judging->campaign->clients[i]);
    for (int i = 0; i < CAMPAIGN_ITEMS; i++) {
        judge_shortage(judging, i, find(ctx, harness_format("{%s}", campaign_items[i].name)));
        judge_item(judging, i);
    }
    judge_together(judging);
    for (int i = 0; i < CAMPAIGN_USERS; i++) {
        if (judging->had[i] > CAMPAIGN_LIMIT && !result->first[0])
            snprintf(result->first, sizeof result->first, "u%d has %lld units, and may have %d", i,
                     judging->had[i], CAMPAIGN_LIMIT);
    }
}

/* What was begun is finished, and what was torn is mended, in the background: so it may take a while until
 * all is well. */
void campaign_judge(struct campaign *campaign, campaign_find_fn *find, void *ctx,
                    struct campaign_result *result) {
    int64_t since_ms = harness_now_ms();
    int passes = 0;
    for (int i = 0; i < CAMPAIGN_CLIENTS; i++)
        campaign_ask_again(&campaign->clients[i]);
    do { /* on a busy machine a pass may take longer than all the time that there is */
        struct judging judging = {.result = result, .campaign = campaign, .port = campaign->services[0].port};
        *result = (struct campaign_result){.asked = 0};
        judge_all(&judging, find, ctx);
        harness_pause_ms(result->first[0] ? 1000 : 0);
    } while (result->first[0] && (++passes < 2 || harness_now_ms() < since_ms + SETTLE_MS));
}
