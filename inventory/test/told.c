#include <string.h>

#include "inventory/test/told.h"

static void on_loss(void *ctx, const struct inventory_loss *loss) {
    ((struct told *)ctx)->outcomes[loss->outcome]++;
}

struct seller *told_seller_open_with(struct shop *shop, const struct seller_options *options,
                                     struct told *told) {
    struct seller_options with = *options;
    *told = (struct told){.outcomes = {0}};
    with.metrics = &told->metrics;
    with.on_loss = on_loss;
    with.on_loss_ctx = told;
    struct seller *seller = seller_open_with(shop, &with);
    seller->fence = 5;
    seller->locked = true;
    seller_hurry_up(seller);
    return seller;
}

struct seller *told_seller_within(struct shop *shop, const char *url, int call_timeout_ms,
                                  struct told *told) {
    return told_seller_open_with(
        shop, &(struct seller_options){.url = url, .call_timeout_ms = call_timeout_ms}, told);
}

struct seller *told_seller_open(struct shop *shop, const char *url, struct told *told) {
    return told_seller_within(shop, url, 500, told);
}

struct seller *told_seller_on(struct shop *shop, const struct redis_server *redis, struct told *told) {
    return told_seller_open(shop, harness_format("redis://127.0.0.1:%d", redis->port), told);
}

void told_open_two(struct pair *pair, struct seller **seller, struct told *told, struct seller **other,
                   struct told *others) {
    pair_start(pair);
    struct shop *shop = shop_open();
    *seller = told_seller_open(shop, pair_url(pair), told);
    *other = told_seller_open(shop, pair_url(pair), others);
}

void told_begin_history(const struct redis_server *redis) {
    CHECK_STR(redis_command(redis, "REPLICAOF", "127.0.0.1", "1", NULL), "OK");
    CHECK_STR(redis_command(redis, "REPLICAOF", "NO", "ONE", NULL), "OK");
}

struct seller *told_seller_at(struct redis_server *redis, struct told *told) {
    redis_start(redis, NULL);
    return told_seller_on(shop_open(), redis, told);
}

struct seller *told_seller_sold_at(struct redis_server *redis, struct told *told) {
    struct seller *seller = told_seller_at(redis, told);
    item_put_with(seller, "phone", 10, 0, 0);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    return seller;
}

void told_check(const struct told *told, int back, int is_short) {
    CHECK_INT(told->outcomes[INVENTORY_LOSS_BACK], back);
    CHECK_INT(told->outcomes[INVENTORY_LOSS_SHORT], is_short);
    CHECK_INT(told->outcomes[INVENTORY_LOSS_UNKNOWN_ITEM] + told->outcomes[INVENTORY_LOSS_DIFFERS] +
                  told->outcomes[INVENTORY_LOSS_TWICE],
              0);
    CHECK_INT((int)told->metrics.put_back, back);
    CHECK_INT((int)told->metrics.shortage, is_short);
}

int told_open(struct seller *seller) {
    int open;
    inventory_drain(seller->inventory, &open);
    return open;
}

void told_fail_over(struct pair *pair, struct seller *seller, struct seller *other) {
    pair_fail_over(pair);
    seller_wait_down(seller);
    if (other)
        seller_wait_down(other);
    seller_hurry_up(seller);
    if (other)
        seller_hurry_up(other);
}

const char *told_key_of(const struct redis_server *server, const char *key) {
    const char *info = redis_command(server, "INFO", "replication", NULL);
    return harness_format("seckill:{sellers}:%s:%.40s", key, strstr(info, "master_replid:") + 14);
}

void told_check_quarantine(struct seller *seller) {
    shop_idle(seller->shop, 300);
    CHECK(!inventory_is_up(seller->inventory));
    CHECK_HAS(inventory_last_error(seller->inventory), "is put back before it sells");
}
