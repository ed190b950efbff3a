#include "inventory/test/fixture.h"
#include "inventory/purchases/putback.h"
#include "inventory/transactions/transactions_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *status_text(enum inventory_status status) {
    static const char *const texts[] = {[INVENTORY_OK] = "OK",
                                        [INVENTORY_REPLAYED] = "REPLAYED",
                                        [INVENTORY_SOLD_OUT] = "SOLD_OUT",
                                        [INVENTORY_LIMIT] = "LIMIT",
                                        [INVENTORY_NOT_STARTED] = "NOT_STARTED",
                                        [INVENTORY_ENDED] = "ENDED",
                                        [INVENTORY_UNKNOWN_ITEM] = "UNKNOWN_ITEM",
                                        [INVENTORY_UNKNOWN_ORDER] = "UNKNOWN_ORDER",
                                        [INVENTORY_UNKNOWN_BASKET] = "UNKNOWN_BASKET",
                                        [INVENTORY_OF_BASKET] = "OF_BASKET",
                                        [INVENTORY_PENDING] = "PENDING",
                                        [INVENTORY_CROSS_SLOT] = "CROSS_SLOT",
                                        [INVENTORY_EXISTS] = "EXISTS",
                                        [INVENTORY_KEY_REUSED] = "KEY_REUSED",
                                        [INVENTORY_TOO_MANY] = "TOO_MANY",
                                        [INVENTORY_CONFIRMED] = "CONFIRMED",
                                        [INVENTORY_CANCELLED] = "CANCELLED",
                                        [INVENTORY_EXPIRED] = "EXPIRED",
                                        [INVENTORY_IN_PAYMENT] = "IN_PAYMENT",
                                        [INVENTORY_PAYMENT_DIFFERS] = "PAYMENT_DIFFERS",
                                        [INVENTORY_PAY_TOO_LONG] = "PAY_TOO_LONG",
                                        [INVENTORY_OVER_RETURN] = "OVER_RETURN",
                                        [INVENTORY_WANTS_LOCK] = "WANTS_LOCK",
                                        [INVENTORY_REFUSED] = "REFUSED",
                                        [INVENTORY_STALE] = "STALE",
                                        [INVENTORY_OVERLOADED] = "OVERLOADED",
                                        [INVENTORY_UNAVAILABLE] = "UNAVAILABLE",
                                        [INVENTORY_UNKNOWN] = "UNKNOWN"};
    return texts[status];
}

enum inventory_strategy strategy;
bool fenced;

void run_each(const char *what, void (*test)(void), enum inventory_strategy last) {
    for (int i = 0; i <= (int)last; i++) {
        strategy = (enum inventory_strategy)i;
        harness_run(harness_format("%s: %s", inventory_strategy_name(strategy), what), test);
    }
    if (last == INVENTORY_LOCKED)
        run_fenced(what, test);
}

void run_fenced(const char *what, void (*test)(void)) {
    strategy = INVENTORY_LOCKED;
    fenced = true;
    harness_run(harness_format("locked, fenced: %s", what), test);
    fenced = false;
}

void run_each_and_fenced(const char *what, void (*test)(void), enum inventory_strategy last) {
    run_each(what, test, last);
    run_fenced(what, test);
}

static struct {
    void (*test)(int argument);
    int argument;
} running;

static void run_argument(void) {
    running.test(running.argument);
}

void run_case(const char *what, void (*test)(int argument), int argument) {
    running.test = test;
    running.argument = argument;
    harness_run(what, run_argument);
}

enum { PATIENCE_MS = 30000 };
static const uint64_t A_FENCE = UINT64_C(9007199254740993);

/* ---- the shop ---- */

static int64_t shop_mono_ns(void *ctx) {
    const struct shop *shop = ctx;
    return clock_mono_ns(&clock_system) + shop->hurried_ms * 1000000;
}

static int64_t shop_wall_ms(void *ctx) {
    const struct shop *shop = ctx;
    const struct turned_clock *store = redis_clock();
    int64_t ahead_ms = __atomic_load_n(&store->ahead_ms, __ATOMIC_RELAXED); /* threads turn it, too */
    int64_t now_ms = store->stopped_ms ? store->stopped_ms : clock_wall_ms(&clock_system) + ahead_ms;
    return now_ms + shop->ahead_ms;
}

static void close_at_end(void *arg) {
    struct shop *shop = arg;
    if (shop->clock.ctx)
        shop_close(shop);
}

struct shop *shop_open(void) {
    struct shop *shop = harness_alloc(sizeof *shop);
    redis_clock();
    CHECK_INT(uv_loop_init(&shop->loop), 0);
    shop->clock = (struct clock){.mono_ns = shop_mono_ns, .wall_ms = shop_wall_ms, .ctx = shop};
    harness_defer(close_at_end, shop);
    return shop;
}

static const char *close_all(struct shop *shop) {
    while (shop->sellers)
        seller_close(shop->sellers);
    const char *fault = shop->fault;
    if (uv_run(&shop->loop, UV_RUN_NOWAIT) != 0)
        fault = "handles are open after the loop has run once more";
    if (!fault && uv_loop_close(&shop->loop) != 0)
        fault = "the loop cannot be closed";
    while (shop->buys) {
        struct buy *buy = shop->buys;
        shop->buys = buy->next;
        if (buy->answers != 1)
            fault = "a purchase was not answered exactly once";
        free(buy);
    }
    while (shop->answers) {
        struct answer *answer = shop->answers;
        shop->answers = answer->next;
        if (answer->count != 1)
            fault = "a call was not answered exactly once";
        free(answer);
    }
    return fault;
}

void shop_close(struct shop *shop) {
    const char *fault = close_all(shop);
    shop->clock.ctx = NULL;
    *redis_clock() = (struct turned_clock){.ahead_ms = 0};
    if (fault)
        FAIL("%s", fault);
}

void shop_turn(struct shop *shop) {
    uv_run(&shop->loop, UV_RUN_ONCE);
    const char *fault = shop->fault;
    shop->fault = NULL;
    if (fault)
        FAIL("%s", fault);
}

int64_t shop_deadline_ms(void) {
    return harness_now_ms() + PATIENCE_MS;
}

void shop_turn_before(struct shop *shop, int64_t deadline_ms, const char *what) {
    if (harness_now_ms() > deadline_ms)
        FAIL("waited in vain: %s", what);
    shop_turn(shop);
}

void shop_wait(struct shop *shop, bool (*condition)(void *arg), void *arg, const char *what) {
    SHOP_UNTIL(shop, condition(arg), what);
}

void shop_settle(struct shop *shop) {
    SHOP_UNTIL(shop, shop->open == 0, "everything is answered");
}

void shop_idle(struct shop *shop, int ms) {
    int64_t until_ms = harness_now_ms() + ms;
    while (harness_now_ms() < until_ms)
        shop_turn(shop);
}

/* ---- sellers ---- */

static void on_prepare(uv_prepare_t *prepare) {
    inventory_flush(((struct seller *)prepare->data)->inventory);
}

static void on_closed(uv_handle_t *handle) {
    free(handle->data);
}

struct seller *seller_open_with(struct shop *shop, const struct seller_options *options) {
    struct seller *seller = calloc(1, sizeof *seller);
    CHECK(seller);
    struct inventory_config config = {
        .redis_url = options->url ? options->url : harness_format("redis://127.0.0.1:%d", options->port),
        .clock = &shop->clock,
        .call_timeout_ms = options->call_timeout_ms ? options->call_timeout_ms : 20000,
        .resolve_ms = options->resolve_ms ? options->resolve_ms : 10000,
        .queue_max = options->queue_max ? options->queue_max : 100000,
        .work_delay_ms = options->work_delay_ms,
        .replicas = options->replicas,
        .on_loss = options->on_loss,
        .on_loss_ctx = options->on_loss_ctx,
        .teaching = !options->without_teaching,
        .fencing = !options->without_fencing,
        .events = !options->without_events,
        .at_failpoint = options->at_failpoint,
        .at_failpoint_ctx = options->at_failpoint_ctx,
        .metrics = options->metrics};
    char error[256] = "";
    seller->shop = shop;
    seller->call_timeout_ms = config.call_timeout_ms;
    seller->locked = fenced;
    seller->fence = fenced ? A_FENCE : 0;
    seller->inventory = inventory_open(&shop->loop, &config, error, sizeof error);
    if (!seller->inventory)
        FAIL("cannot open: %s", error);
    seller->prepare.data = seller;
    uv_prepare_init(&shop->loop, &seller->prepare);
    uv_prepare_start(&seller->prepare, on_prepare);
    seller->next = shop->sellers;
    shop->sellers = seller;
    return seller;
}

void seller_close(struct seller *seller) {
    struct seller **at = &seller->shop->sellers;
    while (*at != seller)
        at = &(*at)->next;
    *at = seller->next;
    inventory_close(seller->inventory);
    uv_close((uv_handle_t *)&seller->prepare, on_closed);
}

void seller_wait_up(struct seller *seller) {
    SHOP_UNTIL(seller->shop, inventory_is_up(seller->inventory), "the connection is there");
}

static bool in_quarantine(const struct seller *seller) {
    const struct putback *putback = seller->inventory->purchases->putback;
    bool any = false;
    for (int i = 0; i < putback->history_count; i++)
        any |= putback->histories[i]->state == HISTORY_QUARANTINE;
    return any;
}

static bool is_up_by_now(void *arg) {
    struct seller *seller = arg;
    if (!inventory_is_up(seller->inventory) && in_quarantine(seller))
        seller->shop->hurried_ms += seller->call_timeout_ms / 10; /* a call in flight is not given up */
    return inventory_is_up(seller->inventory);
}

void seller_hurry_up(struct seller *seller) {
    shop_wait(seller->shop, is_up_by_now, seller, "it sells");
}

void seller_wait_down(struct seller *seller) {
    SHOP_UNTIL(seller->shop, !inventory_is_up(seller->inventory), "the connection is gone");
}

void seller_wait_again(struct seller *seller) {
    seller_wait_down(seller);
    seller_wait_up(seller);
}

bool seller_is_whole(const struct seller *seller) {
    return router_is_whole(seller->inventory->shared.store);
}

void seller_wait_whole(struct seller *seller) {
    SHOP_UNTIL(seller->shop, seller_is_whole(seller), "all masters are there");
}

void seller_wait_not_whole(struct seller *seller) {
    SHOP_UNTIL(seller->shop, !seller_is_whole(seller), "a master is gone");
}

void seller_wait_replaced(struct seller *seller) {
    seller_wait_not_whole(seller);
    seller_wait_whole(seller);
}

struct seller *seller_open_up(struct shop *shop, const struct seller_options *options) {
    struct seller *seller = seller_open_with(shop, options);
    seller_wait_up(seller);
    return seller;
}

struct seller *seller_open(struct shop *shop, const struct redis_server *redis) {
    return seller_open_up(shop, &(struct seller_options){.port = redis->port});
}

/* ---- purchases ---- */

static void on_again(struct inventory_purchase *purchase, enum inventory_status status) {
    (void)status;
    struct buy *buy = (struct buy *)purchase;
    buy->answers++;
    buy->seller->shop->fault = "a purchase was answered twice";
}

static void on_done(struct inventory_purchase *purchase, enum inventory_status status) {
    struct buy *buy = (struct buy *)purchase;
    buy->answers++;
    buy->status = status;
    buy->order = purchase->order;
    buy->available = purchase->available;
    buy->seller->shop->open--;
    /* The inventory may not touch it any more. */
    memset(purchase, 0xa5, sizeof *purchase);
    purchase->done = on_again;
    if (buy->then)
        buy->then(buy);
}

struct buy *buy_begin(struct seller *seller, const char *item, const char *user, const char *key,
                      int64_t quantity) {
    struct buy *buy = calloc(1, sizeof *buy);
    CHECK(buy);
    buy->seller = seller;
    buy->next = seller->shop->buys;
    seller->shop->buys = buy;
    seller->shop->open++;
    snprintf(buy->item, sizeof buy->item, "%s", item);
    snprintf(buy->purchase.item, sizeof buy->purchase.item, "%s", item);
    snprintf(buy->purchase.user, sizeof buy->purchase.user, "%s", user);
    inventory_key_digest(user, key, strlen(key), buy->purchase.digest);
    snprintf(buy->id, sizeof buy->id, "%s:%s", item, buy->purchase.digest);
    buy->purchase.quantity = quantity;
    buy->purchase.locked = seller->locked;
    buy->purchase.token = (struct inventory_fencing_token){.epoch = seller->epoch, .fence = seller->fence};
    buy->purchase.done = on_done;
    inventory_purchase_begin(seller->inventory, &buy->purchase);
    return buy;
}

struct buy *buy(struct seller *seller, const char *item, const char *user, const char *key,
                int64_t quantity) {
    struct buy *buy = buy_begin(seller, item, user, key, quantity);
    SHOP_UNTIL(seller->shop, buy->answers > 0, "a purchase is answered");
    return buy;
}

bool seller_sells(struct seller *seller, const char *item) {
    static int serial;
    return buy(seller, item, "ann", harness_format("s%d", ++serial), 1)->status == INVENTORY_OK;
}

int buys_with(const struct shop *shop, enum inventory_status status) {
    int count = 0;
    for (const struct buy *buy = shop->buys; buy; buy = buy->next)
        count += buy->answers > 0 && buy->status == status;
    return count;
}

void buys_forget(struct shop *shop) {
    while (shop->buys) {
        struct buy *buy = shop->buys;
        CHECK_INT(buy->answers, 1);
        shop->buys = buy->next;
        free(buy);
    }
}

/* ---- a cluster ---- */

static bool takes_over(void *replica) {
    return strcmp(redis_command(replica, "CLUSTER", "FAILOVER", "TAKEOVER", NULL), "OK") == 0;
}

void master_replace(struct redis_cluster *cluster, struct redis_server *master) {
    redis_kill(master);
    CHECK(harness_wait(takes_over, master + cluster->masters, 20000));
}

static const char *item_named(struct redis_cluster *cluster, const struct redis_server *server, bool there) {
    static int serial;
    for (;;) {
        const char *item = harness_format("item-%d", serial++);
        const struct redis_server *owner = redis_cluster_of(cluster, stock_key(item));
        if (owner && (owner == server) == there)
            return item;
    }
}

const char *item_at(struct redis_cluster *cluster, const struct redis_server *server) {
    return item_named(cluster, server, true);
}

const char *item_elsewhere(struct redis_cluster *cluster, const struct redis_server *server) {
    return item_named(cluster, server, false);
}
