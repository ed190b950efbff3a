/* The readers of request bodies, fed with anything: the first byte chooses which. What one accepts keeps the
 * limits and, written again, reads as the same; what it refuses is blamed on a field that JSON can hold. What
 * is plain means the same to the parser. */
#include <stdlib.h>
#include <string.h>

#include "service/api/http_api.h"
#include "service/log.h"
#include "service/rfc3339.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds) {
    if (!holds)
        abort();
}

static void check_error(const struct codec_error *error) {
    must(error->field[0] && strlen(error->field) < sizeof error->field);
    for (const char *c = error->field; *c; c++)
        must(*c == '?' || inventory_name_valid(c, 1));
    must(error->detail[0] && strlen(error->detail) < sizeof error->detail);
    for (const char *c = error->detail; *c; c++)
        must(*c >= ' ' && *c < 0x7f && *c != '"' && *c != '\\');
}

static void check_instant(int64_t ms) {
    char text[RFC3339_SIZE];
    int64_t again;
    must(ms >= 0);
    rfc3339_print(ms, text);
    must(rfc3339_read(text, &again) && again == ms);
}

static void fuzz_purchase(const char *body, size_t length) {
    struct codec_error error;
    struct codec_purchase purchase;
    struct codec_purchase plain;
    bool is_plain = codec_read_plain_purchase(body, length, &plain);
    if (!codec_read_purchase(body, length, &purchase, &error)) {
        must(!is_plain);
        check_error(&error);
        return;
    }
    must(!is_plain || (strcmp(plain.item, purchase.item) == 0 && strcmp(plain.user, purchase.user) == 0 &&
                       plain.quantity == purchase.quantity));
    must(inventory_name_valid(purchase.item, strlen(purchase.item)));
    must(!purchase.user[0] || inventory_user_valid(purchase.user, strlen(purchase.user)));
    must(purchase.quantity >= 1 && purchase.quantity <= INVENTORY_QUANTITY_MAX);
}

static void fuzz_item(const char *body, size_t length) {
    struct codec_error error;
    struct inventory_item item = {.item = "i", .strategy = INVENTORY_LUA};
    if (!codec_read_item(body, length, &item, &error)) {
        check_error(&error);
        return;
    }
    must(strcmp(item.item, "i") == 0);
    must(item.initial >= 0 && item.initial <= INVENTORY_STOCK_MAX && item.limit >= 0);
    must(item.hold_ms >= 0 && item.hold_ms % 1000 == 0);
    must(item.strategy >= INVENTORY_BATCH && item.strategy < INVENTORY_STRATEGIES);
    must(!item.starts_ms || !item.ends_ms || item.ends_ms > item.starts_ms);
    check_instant(item.starts_ms);
    check_instant(item.ends_ms);
}

static void fuzz_restock(const char *body, size_t length) {
    struct codec_error error;
    int64_t quantity;
    if (codec_read_restock(body, length, &quantity, &error))
        must(quantity >= 1 && quantity <= INVENTORY_QUANTITY_MAX);
    else
        check_error(&error);
}

static void fuzz_lock(const char *body, size_t length) {
    struct codec_error error;
    char url[CODEC_URL_SIZE], name[LOG_LOCK_SIZE];
    if (!codec_read_lock(body, length, url, &error)) {
        check_error(&error);
        return;
    }
    must(strlen(url) < sizeof url);
    log_print_lock(name, url);
    must(!strpbrk(name, "@\"\\\n"));
}

static void fuzz_nothing(const char *body, size_t length) {
    struct codec_error error;
    if (codec_read_nothing(body, length, NULL, &error))
        must(length == 0 || (memchr(body, '{', length) && memchr(body, '}', length)));
    else
        check_error(&error);
}

static void fuzz_instant(const char *body, size_t length) {
    int64_t ms;
    char *text = malloc(length + 1);
    if (!text)
        return;
    memcpy(text, body, length);
    text[length] = '\0';
    if (rfc3339_read(text, &ms))
        check_instant(ms);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const readers[])(const char *body, size_t length) = {
        fuzz_purchase, fuzz_item, fuzz_restock, fuzz_nothing, fuzz_instant, fuzz_lock};
    if (size > 0)
        readers[(uint8_t)(data[0] - '0') % (sizeof readers / sizeof *readers)]((const char *)data + 1,
                                                                               size - 1);
    return 0;
}
