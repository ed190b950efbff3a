/* What needs no store: records, names, digests. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "inventory/model/keys.h"
#include "inventory/model/record.h"
#include "inventory/transactions.h"
#include "inventory/transactions/transactions_internal.h"
#include "test/harness.h"

/* ---- records ---- */

static void fill(char *out, size_t length, char c) {
    memset(out, c, length);
    out[length] = '\0';
}

static void check_round_trip(const struct inventory_order *order) {
    char record[RECORD_SIZE];
    struct inventory_order read;
    record_print(record, order);
    if (!record_read(&read, "phone", "0123456789abcdefghijkl", record))
        FAIL("cannot read \"%s\"", record);
    CHECK_STR(read.user, order->user);
    CHECK_INT(read.quantity, order->quantity);
    CHECK_INT(read.state, order->state);
    CHECK_INT(read.created_ms, order->created_ms);
    CHECK_INT(read.expires_ms, order->expires_ms);
    CHECK_INT(read.pending, order->pending);
    CHECK_STR(read.basket, order->basket);
    CHECK_STR(read.payment, order->payment);
    CHECK_INT(read.settled_ms, order->settled_ms);
    CHECK_INT(read.returned, order->returned);
    CHECK_INT(read.late, order->late);
    CHECK_INT(read.refund_due, order->refund_due);
    CHECK_STR(read.item, "phone");
    CHECK_STR(read.id, "phone:0123456789abcdefghijkl");
}

static void test_round_trip(void) {
    uint64_t random = harness_seed();
    for (int i = 0; i < 20000; i++) {
        struct inventory_order order = {.quantity =
                                            1 + (int64_t)(harness_random(&random) % INVENTORY_QUANTITY_MAX),
                                        .state = (enum inventory_state)(harness_random(&random) % 6),
                                        .created_ms = (int64_t)(harness_random(&random) % 9999999999999)};
        bool is_held = order.state == INVENTORY_STATE_HELD || order.state == INVENTORY_STATE_PAYING;
        bool is_sold = order.state == INVENTORY_STATE_CONFIRMED || order.state == INVENTORY_STATE_RETURNED;
        if (!is_sold || harness_random(&random) % 2)
            order.expires_ms = order.created_ms + 1 + (int64_t)(harness_random(&random) % 1000000);
        if (!is_held && order.expires_ms && harness_random(&random) % 2)
            fill(order.basket, INVENTORY_DIGEST_SIZE - 1, "B7-"[harness_random(&random) % 3]);
        if (harness_random(&random) % 2)
            fill(order.payment, 1 + harness_random(&random) % INVENTORY_PAYMENT_MAX,
                 "p=7!~\"\\"[harness_random(&random) % 7]);
        if (!is_held && harness_random(&random) % 2)
            order.settled_ms = order.created_ms + 1;
        order.late = is_sold && harness_random(&random) % 2;
        order.returned = order.state == INVENTORY_STATE_RETURNED ? order.quantity
                         : is_sold ? (int64_t)(harness_random(&random) % (uint64_t)order.quantity)
                                   : 0;
        order.refund_due = !is_sold && !is_held && harness_random(&random) % 2;
        fill(order.user, 1 + harness_random(&random) % INVENTORY_USER_MAX,
             "aZ09._-@:|+=~"[harness_random(&random) % 13]);
        check_round_trip(&order);
    }
    struct inventory_order longest = {.quantity = INVENTORY_QUANTITY_MAX,
                                      .state = INVENTORY_STATE_HELD,
                                      .created_ms = 9999999999999,
                                      .expires_ms = 9999999999999 + (int64_t)INVENTORY_STOCK_MAX * 1000};
    fill(longest.user, INVENTORY_USER_MAX, 'u');
    check_round_trip(&longest);
    longest.pending = true;
    fill(longest.basket, INVENTORY_DIGEST_SIZE - 1, '_');
    fill(longest.payment, INVENTORY_PAYMENT_MAX, '~');
    longest.settled_ms = longest.expires_ms;
    longest.refund_due = true;
    check_round_trip(&longest);
}

static void test_text_of_record(void) {
    char record[RECORD_SIZE];
    struct inventory_order order = {.user = "ann", .quantity = 3, .created_ms = 1700000000000};
    order.state = INVENTORY_STATE_CONFIRMED;
    record_print(record, &order);
    CHECK_STR(record, "c 3 ann 1700000000000");
    order.expires_ms = 1700000060000;
    static const char *const texts[] = {
        "h 3 ann 1700000000000 1700000060000", "p 3 ann 1700000000000 1700000060000",
        "c 3 ann 1700000000000 1700000060000", "r 3 ann 1700000000000 1700000060000",
        "x 3 ann 1700000000000 1700000060000", "e 3 ann 1700000000000 1700000060000"};
    for (int state = 0; state < 6; state++) {
        order.state = (enum inventory_state)state;
        record_print(record, &order);
        CHECK_STR(record, texts[state]);
    }
    order.state = INVENTORY_STATE_CONFIRMED;
    order.version = 4;
    order.settled_ms = 1700000060001;
    order.returned = 2;
    order.late = true;
    strcpy(order.payment, "pi_1");
    record_print(record, &order);
    CHECK_STR(record, "c4 3 ann 1700000000000 1700000060000 p=pi_1 s=1700000060001 l=1 r=2");
}

static void test_text_of_basket_record(void) {
    static const struct {
        const char *text;
        enum inventory_state state;
        bool pending;
        int64_t expires_ms;
    } texts[] = {{"b 3 ann 1700000000000 0 abcdefghijklmnopqrstu-", INVENTORY_STATE_HELD, true, 0},
                 {"b 3 ann 1700000000000 1700000060000 abcdefghijklmnopqrstu-", INVENTORY_STATE_HELD, true,
                  1700000060000},
                 {"u 3 ann 1700000000000 0 abcdefghijklmnopqrstu-", INVENTORY_STATE_ABORTED, false, 0},
                 {"c 3 ann 1700000000000 0 abcdefghijklmnopqrstu-", INVENTORY_STATE_CONFIRMED, false, 0},
                 {"x 3 ann 1700000000000 1700000060000 abcdefghijklmnopqrstu-", INVENTORY_STATE_CANCELLED,
                  false, 1700000060000}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct inventory_order order = {.user = "ann",
                                        .quantity = 3,
                                        .created_ms = 1700000000000,
                                        .expires_ms = texts[i].expires_ms,
                                        .state = texts[i].state,
                                        .pending = texts[i].pending,
                                        .basket = "abcdefghijklmnopqrstu-"};
        char record[RECORD_SIZE];
        record_print(record, &order);
        CHECK_STR(record, texts[i].text);
        check_round_trip(&order);
    }
}

static void test_no_record(void) {
    char long_user[INVENTORY_USER_MAX + 32];
    snprintf(long_user, sizeof long_user, "c 1 %0*d 1700000000000", INVENTORY_USER_MAX + 1, 0);
    const char *const bad[] = {"",
                               "c",
                               "c 1",
                               "c 1 ann",
                               "c 1  1700000000000",
                               "c  ann 1700000000000",
                               "c 1 ann 1700000000000 1700000060000 ",
                               "c 1 ann 1700000000000 1700000060000 abcdefghijklmnopqrstu",
                               "c 1 ann 1700000000000 1700000060000 abcdefghijklmnopqrstu+",
                               "c 1 ann 1700000000000 1700000060000 abcdefghijklmnopqrstuvw",
                               "c 1 ann 1700000000000 abcdefghijklmnopqrstu-",
                               "b 1 ann 1700000000000 1700000060000",
                               "u 1 ann 1700000000000 1700000060000",
                               "h 1 ann 1700000000000 1700000060000 abcdefghijklmnopqrstu-",
                               "c 1 ann 17000x",
                               "c 1 ann 1700000000000 x",
                               "c 1 ann 1700000000000 1700000060000 1",
                               "c 1 ann -5",
                               "c -1 ann 1700000000000",
                               "c 1.5 ann 1700000000000",
                               "c 99999999999999999 ann 1700000000000",
                               "c 1 ann 99999999999999999",
                               "z 1 ann 1700000000000 1700000060000",
                               "C 1 ann 1700000000000",
                               " c 1 ann 1700000000000",
                               "h 1 ann 1700000000000", /* a hold that never ends */
                               "x 1 ann 1700000000000",
                               "e 1 ann 1700000000000",
                               "c 1 ann 1700000000000 r=1",
                               "r 2 ann 1700000000000 r=1",
                               "r 1 ann 1700000000000",
                               "c 2 ann 1700000000000 r=3",
                               "c 2 ann 1700000000000 r=0",
                               "c 2 ann 1700000000000 r=-1",
                               "c 2 ann 1700000000000 r=1 s=5",
                               "c 2 ann 1700000000000 s=5 s=5",
                               "c 2 ann 1700000000000 s=5 ",
                               "c 2 ann 1700000000000 s=",
                               "c 2 ann 1700000000000 p=",
                               "c 2 ann 1700000000000 p= s=5",
                               "c 2 ann 1700000000000 p=a\tb",
                               "c 2 ann 1700000000000 l=2",
                               "c 2 ann 1700000000000 q=1",
                               "c 2 ann 1700000000000 =1",
                               "h 2 ann 1700000000000 p=a",
                               "h 2 ann 1700000000000 1700000060000 l=1",
                               "p 2 ann 1700000000000 1700000060000 abcdefghijklmnopqrstu-",
                               "x 2 ann 1700000000000 1700000060000 d=0",
                               long_user};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct inventory_order order = {.quantity = 77, .user = "untouched"};
        if (record_read(&order, "phone", "0123456789abcdefghijkl", bad[i]))
            FAIL("read \"%s\"", bad[i]);
        CHECK_INT(order.quantity, 77);
        CHECK_STR(order.user, "untouched");
    }
}

/* ---- the journal of transactions ---- */

#define NONCE "0123456789abcdefghijkl"

static void test_journal_record(void) {
    struct inventory_transaction transaction = {.kind = INVENTORY_BASKET,
                                                .phase = PHASE_HELD,
                                                .user = "ann",
                                                .count = 2},
                                 read = {.kind = INVENTORY_BASKET};
    char record[JOURNAL_RECORD_SIZE];
    transaction.created_ms = 1700000000000;
    transaction.expires_ms = 1700000060000;
    snprintf(transaction.nonce, sizeof transaction.nonce, NONCE);
    for (int i = 0; i < 2; i++) {
        snprintf(transaction.lines[i].item, sizeof transaction.lines[i].item, "%s", i ? "lamp" : "phone");
        transaction.lines[i].quantity = i + 1;
    }
    journal_print(record, &transaction);
    CHECK_STR(record, "held " NONCE " 1700000000000 1700000060000 ann phone:1,lamp:2");
    CHECK(journal_read(&read, record));
    CHECK(journal_is_same(&read, &transaction));
    CHECK_STR(read.nonce, NONCE);
    CHECK_INT(read.phase, PHASE_HELD);
    CHECK_INT(read.created_ms, transaction.created_ms);
    CHECK_INT(read.expires_ms, transaction.expires_ms);
    transaction.kind = read.kind = INVENTORY_TRANSFER;
    journal_print(record, &transaction);
    CHECK_HAS(record, " - phone:1,lamp:2");
    CHECK(journal_read(&read, record));
    CHECK_STR(read.user, "");
}

static void test_no_journal_record(void) {
    char many[INVENTORY_LINES_MAX * 4 + 64] = "held " NONCE " 1 2 ann a:1";
    for (int i = 0; i < INVENTORY_LINES_MAX; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), ",a:1");
    const char *const bad[] = {
        "",
        "held",
        "held " NONCE,
        "held " NONCE " 1 2 ann",
        "held " NONCE " 1 2 ann ",
        "held " NONCE " 1 ann a:1",
        "none " NONCE " 1 2 ann a:1",
        "Held " NONCE " 1 2 ann a:1",
        "held 0123 1 2 ann a:1",
        "held " NONCE "m 1 2 ann a:1",
        "held " NONCE " x 2 ann a:1",
        "held " NONCE " 1 2x ann a:1",
        "held " NONCE " 1 -2 ann a:1",
        "held " NONCE " 1 2 a/n a:1",
        "held " NONCE " 1 2 ann a",
        "held " NONCE " 1 2 ann a:",
        "held " NONCE " 1 2 ann :1",
        "held " NONCE " 1 2 ann a:0",
        "held " NONCE " 1 2 ann a:1x",
        "held " NONCE " 1 2 ann a:1001",
        "held " NONCE " 1 2 ann a:1,b",
        "held " NONCE " 1 2 ann a/b:1",
        many,
        harness_format("held %s 1 2 ann %s", NONCE, harness_repeat('a', JOURNAL_RECORD_SIZE))};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct inventory_transaction transaction = {.kind = INVENTORY_BASKET, .count = 7, .phase = 77};
        if (journal_read(&transaction, bad[i]))
            FAIL("read \"%s\"", bad[i]);
        CHECK_INT(transaction.count, 7);
        CHECK_INT(transaction.phase, 77);
    }
}

/* In a cluster each part of the journal has an entry without a name (journal.lua); what is behind the end of
 * the name is not read. */
static void test_no_journal_field(void) {
    static const char record[] = "held " NONCE " 1 2 ann a:1,b:1"; /* of a basket or a transfer */
    static const char *const bad[] = {"\0:" NONCE, "b", "b\0" NONCE, "x:" NONCE, "b-" NONCE, "b:", NONCE};
    struct inventory_transaction transaction;
    CHECK(journal_read_entry(&transaction, "b:" NONCE, record));
    CHECK_STR(transaction.id, NONCE);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (journal_read_entry(&transaction, bad[i], record))
            FAIL("read \"%s\"", bad[i]);
    }
}

/* ---- names ---- */

static void check_names(bool (*is_valid)(const char *name, size_t length), size_t max, const char *others) {
    char longest[INVENTORY_USER_MAX + 2];
    fill(longest, max + 1, 'n');
    CHECK(is_valid(longest, max));
    CHECK(!is_valid(longest, max + 1));
    CHECK(!is_valid("", 0));
    for (int c = 0; c < 256; c++) {
        const char name[3] = {'a', (char)c, 'b'};
        bool good = (c < 128 && isalnum(c)) || (c && strchr(others, c));
        CHECK_INT(is_valid(name, 3), good);
        CHECK_INT(is_valid(name + 1, 1), good);
    }
}

static void test_names(void) {
    check_names(inventory_name_valid, INVENTORY_NAME_MAX, "._-");
    check_names(inventory_user_valid, INVENTORY_USER_MAX, "._-@:|+=~");
}

static void test_words(void) {
    static const char *const strategies[] = {"batch", "lua", "decr", "optimistic", "naive", "locked"};
    for (int i = 0; i < INVENTORY_STRATEGIES; i++) {
        enum inventory_strategy found = INVENTORY_STRATEGIES;
        CHECK_STR(inventory_strategy_name((enum inventory_strategy)i), strategies[i]);
        CHECK(inventory_strategy_find(strategies[i], &found));
        CHECK_INT(found, i);
        CHECK_INT(inventory_strategy_teaches(found), i == INVENTORY_NAIVE || i == INVENTORY_LOCKED);
    }
    enum inventory_strategy untouched = INVENTORY_DECR;
    static const char *const none[] = {"", "Batch", "batch ", "bat", "batchx"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        CHECK(!inventory_strategy_find(none[i], &untouched));
    CHECK_INT(untouched, INVENTORY_DECR);

    static const char *const states[] = {"held", "paying", "confirmed", "returned", "cancelled", "expired"};
    for (int i = 0; i < 6; i++)
        CHECK_STR(inventory_state_name((enum inventory_state)i), states[i]);
}

/* By another implementation: printf 'ann\0order-1' | b2sum -l 128, basenc --base64url. */
static void test_digest(void) {
    char longest[INVENTORY_KEY_MAX + 1], digest[INVENTORY_DIGEST_SIZE], other[INVENTORY_DIGEST_SIZE];
    fill(longest, INVENTORY_KEY_MAX, 'x');
    inventory_key_digest("", "a", 1, digest);
    CHECK_STR(digest, "J8NebpNzh38p5WJGTkZJfg");
    inventory_key_digest("", "order-1", 7, digest);
    CHECK_STR(digest, "Vu6gC7ytLwososwTSSQF1w");
    inventory_key_digest("ann", "order-1", 7, digest);
    CHECK_STR(digest, "4En8wdh6iUvrOeBuMjrCvw");
    inventory_key_digest("", longest, INVENTORY_KEY_MAX, digest);
    CHECK_STR(digest, "sc8TrUEsukXxDrcHfw6uIQ");
    inventory_key_digest("", longest, INVENTORY_KEY_MAX - 1, other);
    CHECK(strcmp(digest, other) != 0);
}

/* Each user has keys of their own, and what two users with two keys write down is never the same text. */
static void test_digest_of_users(void) {
    static const char *const pairs[][2] = {
        {"", "annek"}, {"ann", "ek"}, {"anne", "k"}, {"bob", "ek"}, {"ann", "k"}};
    char digests[5][INVENTORY_DIGEST_SIZE];
    for (int i = 0; i < 5; i++) {
        inventory_key_digest(pairs[i][0], pairs[i][1], strlen(pairs[i][1]), digests[i]);
        for (int j = 0; j < i; j++)
            CHECK(strcmp(digests[i], digests[j]) != 0);
    }
}

/* All keys of an item share the hash tag of its part; other keys are not taken for an item's. */
static void test_keys(void) {
    char name[INVENTORY_NAME_MAX + 1];
    fill(name, INVENTORY_NAME_MAX, 'k');
    struct sale_keys keys;
    sale_keys_make(&keys, name);
    const char *const all[] = {keys.item, keys.holds, keys.due, keys.events, keys.shortage, keys.token};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK_HAS(all[i], harness_format("{%u}", keys.part));
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(all[i], all[j]) != 0);
        CHECK((item_of_key(all[i]) != NULL) == (i == 0));
    }
    CHECK_STR(item_of_key(keys.item), name);
    CHECK_STR(keys.token + strlen(keys.token) - 6, ":token");
    CHECK(!item_of_key("seckill:{baskets:1}:journal") && !item_of_key("seckill:{46}:phone"));
    CHECK_STR(item_of_key("seckill:{47}:phone"), "phone");
}

/* ---- what a process remembers of items ---- */

static void test_items_kept(void) {
    struct items *items = harness_alloc(sizeof *items);
    items_init(items);
    struct item *first = items_take(items, "first");
    CHECK(items_take(items, "first") == first);
    CHECK_STR(first->keys.item, stock_key("first"));
    items_drop(items, first);
    items_drop(items, first);
    CHECK(items_take(items, "first") == first); /* it is kept */
    for (int i = 0; i < ITEMS_KEPT + 5000; i++) {
        char name[32];
        snprintf(name, sizeof name, "item%d", i);
        items_drop(items, items_take(items, name));
        CHECK(items->count <= ITEMS_KEPT + 1);
    }
    CHECK_INT(items->count, ITEMS_KEPT);
    CHECK(items_take(items, "first") == first); /* it is in use */
    struct item *none = items_take(items, "item0");
    none->unknown = true;
    items_drop(items, none);
    CHECK_INT(items->count, ITEMS_KEPT - 1);
    items_free(items);
    CHECK_INT(items->count, 0);
}

/* What is in the store must be found again. */
static void test_parts(void) {
    static const char *const names[] = {"", "phone", "lamp", "AAAAAAAAAAAAAAAAAAAAAA"};
    static const unsigned parts[] = {5, 7, 3, 3}, of_items[] = {5, 47, 59, 27};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_INT(key_part(names[i]), parts[i]);
        CHECK_INT(item_part(names[i]), of_items[i]);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("a record is read as it was printed", test_round_trip);
    harness_run("the text of a record is what the scripts write", test_text_of_record);
    harness_run("the text of a record of a basket", test_text_of_basket_record);
    harness_run("what is no record is not read", test_no_record);
    harness_run("a record of the journal", test_journal_record);
    harness_run("what is no record of the journal is not read", test_no_journal_record);
    harness_run("what is no name in the journal is not read", test_no_journal_field);
    harness_run("item names", test_names);
    harness_run("names of strategies and states, texts of answers", test_words);
    harness_run("a key's digest is BLAKE2b", test_digest);
    harness_run("digests of two users are never the same", test_digest_of_users);
    harness_run("all keys of an item share the hash tag of its part", test_keys);
    harness_run("the part of a name", test_parts);
    harness_run("a bounded number of items is kept", test_items_kept);
    return harness_finish();
}
