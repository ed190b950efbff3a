/* Writes the bodies of answers. Most are printed, since each purchase goes this way, and names need no
 * escaping (see inventory_name_valid()). */
#include "service/api/http_api.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "service/rfc3339.h"

__attribute__((format(printf, 2, 3))) static size_t codec_print(char out[CODEC_BODY_SIZE], const char *format,
                                                                ...) {
    va_list list;
    va_start(list, format);
    int length = vsnprintf(out, CODEC_BODY_SIZE, format, list);
    va_end(list);
    return length < CODEC_BODY_SIZE ? (size_t)length : CODEC_BODY_SIZE - 1;
}

static char *codec_append_instant(char *at, const char *name, int64_t ms) {
    if (ms == 0)
        return at;
    at = stpcpy(stpcpy(stpcpy(at, ",\""), name), "\":\"");
    rfc3339_print(ms, at);
    return stpcpy(at + strlen(at), "\"");
}

/* A reference may have characters that need escaping. */
static char *codec_append_payment(char *at, const char *payment) {
    if (!*payment)
        return at;
    at = stpcpy(at, ",\"payment\":\"");
    for (; *payment; payment++) {
        if (*payment == '"' || *payment == '\\')
            *at++ = '\\';
        *at++ = *payment;
    }
    return stpcpy(at, "\"");
}

static char *codec_append_number(char *at, const char *name, int64_t number) {
    if (number == 0)
        return at;
    return decimal_append(stpcpy(stpcpy(stpcpy(at, ",\""), name), "\":"), (uint64_t)number);
}

/* An order without a hold is settled from its creation on. */
static int64_t codec_settled_ms(const struct inventory_order *order) {
    return order->settled_ms || order->expires_ms ? order->settled_ms : order->created_ms;
}

static char *codec_append_order(char *at, const struct inventory_order *order) {
    at = stpcpy(at, "{\"order\":\"");
    at = stpcpy(stpcpy(at, order->id), "\",\"item\":\"");
    at = stpcpy(stpcpy(at, order->item), "\",\"user\":\"");
    at = stpcpy(stpcpy(at, order->user), "\",\"quantity\":");
    at = stpcpy(decimal_append(at, (uint64_t)order->quantity), ",\"state\":\"");
    at = stpcpy(stpcpy(at, inventory_state_name(order->state)), "\"");
    at = codec_append_number(at, "version", order->version);
    at = codec_append_instant(at, "created_at", order->created_ms);
    at = codec_append_instant(at, "expires_at", order->expires_ms);
    at = codec_append_instant(at, "settled_at", codec_settled_ms(order));
    at = codec_append_payment(at, order->payment);
    at = codec_append_number(at, "returned", order->returned);
    at = stpcpy(at, order->late ? ",\"late\":true" : "");
    return stpcpy(at, order->refund_due ? ",\"refund_due\":true}" : "}");
}

size_t codec_write_order(char out[CODEC_BODY_SIZE], const struct inventory_order *order) {
    return (size_t)(codec_append_order(out, order) - out);
}

size_t codec_write_basket(char out[CODEC_BASKET_SIZE], const struct inventory_transaction *basket) {
    char *at = stpcpy(stpcpy(out, "{\"basket\":\""), basket->id);
    at = stpcpy(stpcpy(at, "\",\"user\":\""), basket->user);
    at = stpcpy(stpcpy(at, "\",\"state\":\""), inventory_state_name(basket->state));
    at = codec_append_instant(stpcpy(at, "\""), "expires_at", basket->expires_ms);
    at = stpcpy(at, ",\"orders\":[");
    for (int i = 0; i < basket->count; i++) {
        struct inventory_order order;
        inventory_transaction_order(basket, i, &order);
        at = codec_append_order(i ? stpcpy(at, ",") : at, &order);
    }
    return (size_t)(stpcpy(at, "]}") - out);
}

size_t codec_write_transfer(char out[CODEC_BODY_SIZE], const struct inventory_transaction *transfer) {
    return codec_print(out, "{\"transfer\":\"%s\",\"from\":\"%s\",\"to\":\"%s\",\"quantity\":%lld}",
                       transfer->id, transfer->lines[0].item, transfer->lines[1].item,
                       (long long)transfer->lines[0].quantity);
}

size_t codec_write_item(char out[CODEC_BODY_SIZE], const struct inventory_item *item) {
    size_t length =
        codec_print(out,
                    "{\"item\":\"%s\",\"stock\":%lld,\"available\":%lld,\"held\":%lld,\"sold\":%lld,"
                    "\"strategy\":\"%s\",\"per_user_limit\":%lld,\"hold_seconds\":%lld,\"pay_seconds\":%lld",
                    item->item, (long long)(item->initial + item->restocked), (long long)item->available,
                    (long long)item->held, (long long)item->sold, inventory_strategy_name(item->strategy),
                    (long long)item->limit, (long long)item->hold_ms / 1000, (long long)item->pay_ms / 1000);
    char *at = codec_append_instant(out + length, "starts_at", item->starts_ms);
    at = codec_append_instant(at, "ends_at", item->ends_ms);
    return (size_t)(stpcpy(at, "}") - out);
}

size_t codec_write_restock(char out[CODEC_BODY_SIZE], const char *item,
                           const struct inventory_restock *restock) {
    return codec_print(out, "{\"item\":\"%s\",\"quantity\":%lld,\"stock\":%lld,\"available\":%lld}", item,
                       (long long)restock->quantity, (long long)restock->stock,
                       (long long)restock->available);
}

size_t codec_write_audit(char out[CODEC_BODY_SIZE], const struct inventory_audit *audit) {
    const struct inventory_item *item = &audit->item;
    const int64_t *orders = audit->orders, *units = audit->units;
    return codec_print(
        out,
        "{\"item\":\"%s\",\"conserved\":%s,\"exact\":%s,\"off_by\":%lld,\"stock\":%lld,\"available\":%lld,"
        "\"held\":%lld,\"sold\":%lld,\"orders\":%lld,\"oversold\":%lld,\"paying\":%lld,\"returned\":%lld,"
        "\"cancelled\":%lld,\"expired\":%lld,"
        "\"over_limit\":%lld,"
        "\"unreadable\":%lld,\"pending\":%lld,\"shortage\":%lld,"
        "\"counters\":{\"held\":%lld,\"sold\":%lld,\"holds\":%lld,\"users\":%lld}}",
        item->item, audit->conserved ? "true" : "false", audit->exact ? "true" : "false",
        (long long)audit->off_by, (long long)(item->initial + item->restocked), (long long)item->available,
        (long long)(units[INVENTORY_STATE_HELD] + units[INVENTORY_STATE_PAYING]),
        (long long)units[INVENTORY_STATE_CONFIRMED],
        (long long)(orders[INVENTORY_STATE_HELD] + orders[INVENTORY_STATE_PAYING] +
                    orders[INVENTORY_STATE_CONFIRMED]),
        (long long)audit->oversold, (long long)orders[INVENTORY_STATE_PAYING],
        (long long)orders[INVENTORY_STATE_RETURNED], (long long)orders[INVENTORY_STATE_CANCELLED],
        (long long)orders[INVENTORY_STATE_EXPIRED], (long long)audit->over_limit,
        (long long)audit->unreadable, (long long)audit->pending, (long long)item->shortage,
        (long long)item->held, (long long)item->sold, (long long)audit->holds, (long long)audit->user_units);
}

size_t codec_write_audit_sum(char out[CODEC_BODY_SIZE], const struct inventory_audit_sum *sum) {
    const struct inventory_reconciled *journal = &sum->journal;
    return codec_print(
        out,
        "{\"conserved\":%s,\"items\":%lld,\"unbalanced\":%lld,\"stock\":%lld,\"available\":%lld,"
        "\"held\":%lld,\"sold\":%lld,\"oversold\":%lld,\"shortage\":%lld,\"transactions\":%lld,"
        "\"in_flight\":%lld,\"torn\":%lld,\"lacking\":%lld,\"unknown\":%lld}",
        sum->conserved ? "true" : "false", (long long)sum->items, (long long)sum->unbalanced,
        (long long)sum->stock, (long long)sum->available, (long long)sum->held, (long long)sum->sold,
        (long long)sum->oversold, (long long)sum->shortage, (long long)journal->transactions,
        (long long)journal->in_flight, (long long)journal->torn, (long long)journal->lacking,
        (long long)sum->unknown);
}

/* Says what would be lost if the server died now. */
static const char *codec_loss(const struct inventory_health *health, const struct inventory_server *server) {
    if (server->replicas == 0)
        return "what its disk does not give back: no replica follows it";
    if (health->replicas == 0 || server->proven < health->replicas)
        return "what its replicas have not got yet; the instances that sold it put back what they can";
    if (server->replicas > health->replicas)
        return "nothing that was acknowledged, unless a replica is promoted that had not got it";
    return "nothing that was acknowledged";
}

static json_t *codec_pack_losses(const struct inventory_health *health) {
    json_t *list = json_array();
    for (int i = 0; i < health->server_count; i++) {
        const struct inventory_server *server = &health->servers[i];
        json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:s}", "server", server->address, "replicas",
                                              server->replicas, "proven", server->proven, "its_death_loses",
                                              codec_loss(health, server)));
    }
    return list;
}

size_t codec_write_health(char out[CODEC_HEALTH_SIZE], const struct inventory_health *health, bool draining,
                          const char *baskets, const char *transfers) {
    /* The text may come from a server that is not Redis, and so may be no plain text, or escape into more
     * than fits. */
    char reason[sizeof health->reason];
    size_t i = 0;
    for (; health->reason[i]; i++)
        reason[i] = health->reason[i] >= ' ' && health->reason[i] < 0x7f ? health->reason[i] : '?';
    reason[i] = '\0';
    json_t *body = json_pack("{s:b, s:s?, s:s, s:s, s:{s:s, s:s, s:i, s:o}, s:s, s:s, s:s}", "ready",
                             health->ready && !draining, "reason",
                             draining    ? "the service is shutting down"
                             : reason[0] ? reason
                                         : NULL,
                             "store_version", health->version, "store_role", health->role, "durability",
                             "appendonly", health->appendonly, "appendfsync", health->appendfsync, "replicas",
                             health->replicas, "servers", codec_pack_losses(health), "maxmemory_policy",
                             health->eviction, "baskets", baskets, "transfers", transfers);
    size_t length = body ? json_dumpb(body, out, CODEC_HEALTH_SIZE, JSON_COMPACT) : 0;
    json_decref(body);
    return length <= CODEC_HEALTH_SIZE ? length : 0;
}
