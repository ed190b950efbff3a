#include "inventory/test/deals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/internal.h"

enum way way;

static const char *const way_names[WAYS] = {
    [IN_STEPS] = "in steps", [AT_ONCE] = "at once", [NAIVELY] = "naive"};

void run_ways(const char *what, void (*test)(void), enum way last) {
    for (int i = 0; i < WAYS && i <= (int)last; i++) {
        way = (enum way)i;
        harness_run(harness_format("%s: %s", way_names[i], what), test);
    }
    way = IN_STEPS;
}

static void make(struct inventory *inventory, struct inventory_deal *deal) {
    static void (*const makes[])(struct inventory * inventory,
                                 struct inventory_deal * deal) = {[IN_STEPS] = inventory_deal_make,
                                                                  [AT_ONCE] = inventory_deal_make_at_once,
                                                                  [NAIVELY] = inventory_deal_make_naive};
    makes[deal->kind == INVENTORY_BASKET ? way : IN_STEPS](inventory, deal);
}

static void on_done(struct inventory_deal *deal, enum inventory_status status) {
    struct bargain *bargain = (struct bargain *)deal;
    if (bargain->answers++ > 0) {
        bargain->till->shop->fault = "a deal was answered twice";
        return;
    }
    bargain->status = status;
    bargain->till->shop->open--;
}

struct bargain *bargain_new(struct till *till, const char *key, const char *lines) {
    struct bargain *bargain = harness_alloc(sizeof *bargain);
    struct inventory_deal *deal = &bargain->deal;
    bargain->till = till;
    deal->kind = key[0] == 't' ? INVENTORY_TRANSFER : INVENTORY_BASKET;
    inventory_key_digest(key, strlen(key), deal->id);
    snprintf(deal->user, sizeof deal->user, "%s", deal->kind == INVENTORY_BASKET ? "ann" : "");
    while (*lines) {
        struct inventory_line *line = &deal->lines[deal->count++];
        char *end;
        size_t length = strcspn(lines, ":");
        CHECK(lines[length] == ':' && deal->count <= INVENTORY_LINES_MAX);
        snprintf(line->item, sizeof line->item, "%.*s", (int)length, lines);
        line->quantity = strtoll(lines + length + 1, &end, 10);
        lines = *end == ' ' ? end + 1 : end;
    }
    deal->lease_ms = 10000;
    deal->done = on_done;
    return bargain;
}

void bargain_begin(struct bargain *bargain, enum bargain_call call) {
    struct inventory_deal *deal = &bargain->deal;
    struct till *till = bargain->till;
    bargain->answers = 0;
    deal->locked = till->fence > 0;
    for (int i = 0; i < deal->count; i++)
        deal->lines[i].token = (struct inventory_token){.epoch = till->epoch, .fence = till->fence};
    till->shop->open++;
    switch (call) {
    case BARGAIN_CHECK: inventory_deal_check(till->inventory, deal); break;
    case BARGAIN_MAKE: make(till->inventory, deal); break;
    case BARGAIN_FIND: inventory_deal_find(till->inventory, deal); break;
    case BARGAIN_FINISH: inventory_deal_settle(till->inventory, deal, INVENTORY_LOOK); break;
    case BARGAIN_CONFIRM: inventory_deal_settle(till->inventory, deal, INVENTORY_CONFIRM); break;
    case BARGAIN_CANCEL: inventory_deal_settle(till->inventory, deal, INVENTORY_CANCEL); break;
    }
}

static bool answered(void *arg) {
    return ((struct bargain *)arg)->answers > 0;
}

enum inventory_status bargain_wait(struct bargain *bargain) {
    shop_wait(bargain->till->shop, answered, bargain, "a deal is answered");
    return bargain->status;
}

enum inventory_status bargain_do(struct bargain *bargain, enum bargain_call call) {
    bargain_begin(bargain, call);
    return bargain_wait(bargain);
}

enum inventory_status bargain_make(struct till *till, const char *key, const char *lines) {
    return bargain_do(bargain_new(till, key, lines), BARGAIN_MAKE);
}

/* ---- recovery ---- */

enum { CLAIM_MOST = 16 };

struct claimed {
    struct till *till;
    bool done;
    size_t count;
    struct bargain *bargains[CLAIM_MOST];
};

static void on_claimed(void *ctx, enum inventory_status status, const struct inventory_deal *deals,
                       size_t count) {
    struct claimed *claimed = ctx;
    claimed->done = true;
    claimed->count = status == INVENTORY_OK ? count : 0;
    for (size_t i = 0; i < claimed->count; i++) {
        claimed->bargains[i] = bargain_new(claimed->till, "b", "");
        claimed->bargains[i]->deal = deals[i];
        claimed->bargains[i]->deal.done = on_done;
    }
}

static bool is_claimed(void *arg) {
    return ((struct claimed *)arg)->done;
}

static bool is_awake(void *arg) {
    return !expiry_rests(((struct till *)arg)->inventory);
}

int bargains_recover(struct till *till) {
    int recovered = 0;
    for (;;) {
        struct claimed claimed = {.till = till};
        shop_wait(till->shop, is_awake, till, "the store was slow a while ago");
        inventory_deal_claim(till->inventory, CLAIM_MOST, 1000, on_claimed, &claimed);
        shop_wait(till->shop, is_claimed, &claimed, "deals are claimed");
        if (claimed.count == 0)
            return recovered;
        for (size_t i = 0; i < claimed.count; i++, recovered++)
            bargain_do(claimed.bargains[i], BARGAIN_FINISH);
    }
}

const char *bargain_phase(const struct redis_server *redis, const struct bargain *bargain) {
    const struct inventory_deal *deal = &bargain->deal;
    const char *field = harness_format("%c:%s", deal->kind == INVENTORY_BASKET ? 'b' : 't', deal->id);
    const char *record = redis_command(redis, "HGET", "seckill:{baskets}:journal", field, NULL);
    return strcmp(record, "(nil)") == 0 ? "none" : harness_format("%.*s", (int)strcspn(record, " "), record);
}
