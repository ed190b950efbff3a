/* The list of receipts, without a store: one of a name, what is replicated, and what is forgotten. */
#include <malloc.h>
#include <string.h>

#include "inventory/purchases/receipts.h"
#include "test/harness.h"

enum { HERE = 1, THERE = 2 };

static struct receipts receipts;

static void free_receipts(void *arg) {
    receipts_free(arg);
}

static void begin(void) {
    receipts_init(&receipts);
    harness_defer(free_receipts, &receipts);
    receipts_begin_history(&receipts, HERE);
    receipts_begin_history(&receipts, THERE);
}

static void add(const char *digest, const char *record, unsigned history, int64_t now_ms) {
    receipts_add(&receipts, RECEIPT_ORDER, "phone", digest, record, history, now_ms, false);
}

static const char *record_of(const char *digest) {
    const struct receipt *receipt = receipts_find(&receipts, RECEIPT_ORDER, "phone", digest);
    return receipt ? receipt_record(receipt) : "none";
}

/* The newest state of an order stays, in whichever order they come. */
static void test_one_of_a_name(void) {
    begin();
    add("a", "h 1 ann 1 2", HERE, 0);
    add("b", "c 1 ann 1", HERE, 0);
    add("a", "c2 1 ann 1 2", HERE, 0);
    add("a", "h 1 ann 1 2", HERE, 0);
    CHECK_STR(record_of("a"), "c2 1 ann 1 2");
    CHECK_STR(record_of("b"), "c 1 ann 1");
    CHECK_INT(receipts.count, 2);
    receipts_add(&receipts, RECEIPT_MOVE, "phone", "a", "5 10 10", HERE, 0, false);
    receipts_add(&receipts, RECEIPT_ORDER, "lamp", "a", "c 2 ann 1", HERE, 0, false);
    CHECK_INT(receipts.count, 4);
    CHECK_STR(record_of("a"), "c2 1 ann 1 2");
    receipts_remove(&receipts, receipts_find(&receipts, RECEIPT_ORDER, "phone", "a"));
    CHECK_STR(record_of("a"), "none");
    CHECK_INT(receipts.count, 3);
}

/* An order that was lost, and made again with the same key: both are there, each by its place in time. */
static void test_two_of_a_name(void) {
    begin();
    add("a", "c 1 ann 1", HERE, 0);
    uint64_t first = receipts.seq;
    for (int i = 0; i < 3000; i++) /* the buckets grow */
        add(harness_format("k%d", i), "c 1 ann 1", HERE, 0);
    receipts_add(&receipts, RECEIPT_ORDER, "phone", "a", "c 1 ann 2", HERE, 0, true);
    uint64_t second = receipts.seq;
    for (int i = 3000; i < 9000; i++)
        add(harness_format("k%d", i), "c 1 ann 1", HERE, 0);
    CHECK_STR(receipt_record(receipts_find_seq(&receipts, RECEIPT_ORDER, "phone", "a", first)), "c 1 ann 1");
    CHECK_STR(receipt_record(receipts_find_seq(&receipts, RECEIPT_ORDER, "phone", "a", second)), "c 1 ann 2");
    CHECK(!receipts_find_seq(&receipts, RECEIPT_ORDER, "phone", "a", second + 1));
}

static void add_attempt(const char *record) {
    receipts_add(&receipts, RECEIPT_JOURNAL, "1", "b:x", record, HERE, 0, false);
}

/* An attempt at a basket that is still to be undone is not forgotten for another one, nor for its age. */
static void test_to_be_undone(void) {
    begin();
    add_attempt("0 intent 1");
    add_attempt("0 held 1");
    CHECK_INT(receipts.count, 1);
    struct receipt *undone = receipts_find(&receipts, RECEIPT_JOURNAL, "1", "b:x");
    uint64_t seq = undone->seq;
    receipts_mark(&receipts, undone, true);
    CHECK_INT(receipts.todo, 1);
    add_attempt("0 held 2");
    CHECK_INT(receipts.count, 2);
    receipts_set_replicated(&receipts, HERE, receipts.seq);
    receipts_tick(&receipts, RECEIPTS_REPLICATED_LONG_MS + 1);
    CHECK_INT(receipts.count, 1);
    undone = receipts_find_seq(&receipts, RECEIPT_JOURNAL, "1", "b:x", seq);
    CHECK_STR(undone ? receipt_record(undone) : "none", "0 held 1");
    receipts_remove(&receipts, undone);
    CHECK_INT(receipts.todo, 0);
}

/* Thousands are found, and the buckets grow with them. Each takes some 150 bytes. */
static void test_many(void) {
    begin();
    size_t used = mallinfo2().uordblks;
    for (int i = 0; i < 5000; i++)
        add(harness_format("k%d", i), harness_format("c %d ann 1", i + 1), HERE, 0);
    for (int i = 0; i < 5000; i++)
        CHECK_STR(record_of(harness_format("k%d", i)), harness_format("c %d ann 1", i + 1));
    CHECK_INT(receipts.count, 5000);
    CHECK(receipts.bucket_count >= 4096);
    char digest[INVENTORY_DIGEST_SIZE] = "";
    memset(digest, 'x', sizeof digest - 1);
    for (int i = 0; i < 60000; i++) {
        for (int n = 0, rest = i; n < 4; n++, rest /= 26)
            digest[n] = (char)('a' + rest % 26);
        receipts_add(&receipts, RECEIPT_ORDER, "phone", digest, "c 1 customer-1234 1764042000000", HERE, 0,
                     true);
    }
    CHECK(mallinfo2().uordblks - used < 65000UL * 170); /* a sanitizer tells 0 */
}

/* What was never searched for is forgotten as well, and what comes in between is found. */
static void test_unsearched(void) {
    enum { EACH = 2000 };
    begin();
    for (int i = 0; i < 3 * EACH; i++) {
        const char *digest = harness_format("k%d", i);
        receipts_add(&receipts, RECEIPT_ORDER, "phone", digest, "c 1 ann 1", HERE, i < EACH ? 0 : 1000, true);
    }
    receipts_set_replicated(&receipts, HERE, EACH);
    receipts_tick(&receipts, RECEIPTS_REPLICATED_LONG_MS + 500);
    CHECK_INT(receipts.count, 2 * EACH);
    CHECK_STR(record_of("k0"), "none");
    CHECK_STR(record_of(harness_format("k%d", EACH)), "c 1 ann 1");
    receipts_add(&receipts, RECEIPT_ORDER, "phone", "last", "c 1 ann 1", HERE, 2000, true);
    receipts_remove(&receipts, TAILQ_LAST(&receipts.list, receipt_list));
    CHECK_STR(record_of("last"), "none");
    add("last", "c 2 ann 1", HERE, 2000);
    CHECK_STR(record_of("last"), "c 2 ann 1");
}

/* Memory is used again, of small ones and of large ones. */
static void test_memory(void) {
    enum { LARGE = 100000, EACH = 500 };
    static char large[LARGE + 1];
    begin();
    memset(large, 'x', LARGE);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < EACH; i++)
            receipts_add(&receipts, RECEIPT_JOURNAL, "0", harness_format("b:%d", i),
                         i % 50 == 0 ? large : harness_format("%d", round), HERE, 0, false);
        for (int i = 0; i < EACH; i++) {
            const struct receipt *receipt =
                receipts_find(&receipts, RECEIPT_JOURNAL, "0", harness_format("b:%d", i));
            CHECK_STR(receipt_record(receipt), i % 50 == 0 ? large : harness_format("%d", round));
        }
        CHECK_INT(receipts.count, EACH);
    }
}

/* Coverage counts until a place, for each history by itself. What is adopted later is not replicated by it.
 */
static void test_coverage(void) {
    begin();
    add("a", "c 1 ann 1", HERE, 0);
    uint64_t until = receipts.seq;
    add("b", "c 1 ann 1", HERE, 0);
    add("c", "c 1 ann 1", THERE, 0);
    add("d", "c 1 ann 1", 0, 0);
    CHECK_INT(receipts_open(&receipts), 3);
    receipts_set_replicated(&receipts, HERE, until);
    CHECK_INT(receipts_open(&receipts), 2);
    receipts_set_replicated(&receipts, HERE, receipts.seq);
    CHECK_INT(receipts_open(&receipts), 1);
    receipts_adopt(&receipts, receipts_find(&receipts, RECEIPT_ORDER, "phone", "c"), HERE, 0);
    CHECK_INT(receipts_open(&receipts), 1);
    receipts_end_history(&receipts, HERE);
    CHECK_INT(receipts_open(&receipts), 3);
}

/* Only what is replicated is forgotten for its age; what must be forgotten without is told once. */
static void test_forgotten(void) {
    begin();
    receipts.max = 3;
    add("a", "c 1 ann 1", HERE, 0);
    receipts_tick(&receipts, 10LL * RECEIPTS_REPLICATED_LONG_MS);
    CHECK_STR(record_of("a"), "c 1 ann 1");
    receipts_set_replicated(&receipts, HERE, receipts.seq);
    receipts_tick(&receipts, RECEIPTS_REPLICATED_LONG_MS);
    CHECK_STR(record_of("a"), "c 1 ann 1");
    receipts_tick(&receipts, RECEIPTS_REPLICATED_LONG_MS + 1);
    CHECK_STR(record_of("a"), "none");
    CHECK(!receipts_take_forgotten(&receipts, HERE));
    CHECK_INT((int)receipts_dropped(&receipts, HERE), 1);
    for (int i = 0; i < 4; i++)
        add(harness_format("k%d", i), "c 1 ann 1", HERE, 0);
    CHECK_INT(receipts.count, 3);
    CHECK_STR(record_of("k0"), "none");
    CHECK(receipts_take_forgotten(&receipts, HERE));
    CHECK(!receipts_take_forgotten(&receipts, HERE));
    /* Replicas got it after all. */
    add("k4", "c 1 ann 1", HERE, 0);
    receipts_set_replicated(&receipts, HERE, receipts.seq);
    CHECK(!receipts_take_forgotten(&receipts, HERE));
    /* Nobody knows any more. */
    add("k5", "c 1 ann 1", THERE, 0);
    for (int i = 6; i < 9; i++)
        add(harness_format("k%d", i), "c 1 ann 1", THERE, 0);
    CHECK(!receipts_take_forgotten(&receipts, HERE));
    receipts_end_history(&receipts, THERE);
    CHECK(receipts_take_forgotten(&receipts, 0));
    CHECK(!receipts_take_forgotten(&receipts, 0));
}

/* While a server is away what is replicated stays; and where it is put back it is new. */
static void test_away(void) {
    begin();
    add("a", "c 1 ann 1", HERE, 0);
    add("b", "c 1 ann 1", THERE, 0);
    receipts_set_replicated(&receipts, HERE, receipts.seq);
    receipts_set_replicated(&receipts, THERE, receipts.seq);
    receipts_set_away(&receipts, THERE, true);
    receipts_tick(&receipts, RECEIPTS_REPLICATED_LONG_MS + 1);
    CHECK_STR(record_of("a"), "none");
    CHECK_STR(record_of("b"), "c 1 ann 1");
    receipts_adopt(&receipts, receipts_find(&receipts, RECEIPT_ORDER, "phone", "b"), HERE, 100000);
    receipts_set_replicated(&receipts, HERE, receipts.seq);
    receipts_tick(&receipts, 100000 + RECEIPTS_REPLICATED_LONG_MS);
    CHECK_STR(record_of("b"), "c 1 ann 1");
    receipts_tick(&receipts, 100000 + RECEIPTS_REPLICATED_LONG_MS + 1);
    CHECK_STR(record_of("b"), "none");
}

/* There are no more old ones than so many: beyond that they go after the first time. */
static void test_many_covered(void) {
    enum { MORE = 100 };
    begin();
    for (int i = 0; i < RECEIPTS_REPLICATED_MOST + MORE; i++)
        add(harness_format("k%d", i), "c 1 ann 1", HERE, 0);
    receipts_set_replicated(&receipts, HERE, receipts.seq);
    receipts_tick(&receipts, RECEIPTS_REPLICATED_SHORT_MS);
    CHECK_INT(receipts.count, RECEIPTS_REPLICATED_MOST + MORE);
    receipts_tick(&receipts, RECEIPTS_REPLICATED_SHORT_MS + 1);
    CHECK_INT(receipts.count, RECEIPTS_REPLICATED_MOST);
    CHECK(!receipts_take_forgotten(&receipts, HERE));
}

/* Behind many that are not replicated, as of a master whose replica is away, old ones go as well: each call
 * goes on where the last one stopped. */
static void test_behind_uncovered(void) {
    enum { AT_ONCE = 4096, MORE = 100 }; /* so many a call passes over */
    begin();
    for (int i = 0; i < AT_ONCE; i++)
        add(harness_format("away%d", i), "c 1 ann 1", THERE, 0);
    add("behind", "c 1 ann 1", HERE, 0);
    for (int i = AT_ONCE; i < AT_ONCE + MORE; i++)
        add(harness_format("away%d", i), "c 1 ann 1", THERE, 0);
    for (int i = 0; i < RECEIPTS_REPLICATED_MOST; i++)
        add(harness_format("k%d", i), "c 1 ann 1", HERE, 0);
    receipts_set_replicated(&receipts, HERE, receipts.seq);
    receipts_tick(&receipts, RECEIPTS_REPLICATED_SHORT_MS + 1);
    CHECK_INT(receipts.count, AT_ONCE + 1 + MORE + RECEIPTS_REPLICATED_MOST);
    CHECK_STR(receipt_field(receipts.ticked), harness_format("away%d", AT_ONCE - 1));
    struct receipt *behind = TAILQ_NEXT(receipts.ticked, next);
    receipts_remove(&receipts, receipts.ticked);
    receipts_remove(&receipts, behind);
    receipts_tick(&receipts, RECEIPTS_REPLICATED_SHORT_MS + 1);
    CHECK_INT(receipts.count, RECEIPTS_REPLICATED_MOST);
    /* And then from the start. */
    receipts_set_replicated(&receipts, THERE, receipts.seq);
    receipts_tick(&receipts, RECEIPTS_REPLICATED_LONG_MS + 1);
    CHECK_INT(receipts.count, 0);
}

/* A pass meets all that are not in the history, also what is added or taken away meanwhile. */
static void test_pass(void) {
    begin();
    add("a", "h 1 ann 1 2", THERE, 0);
    add("b", "c 1 ann 1", HERE, 0);
    add("c", "c 1 ann 1", THERE, 0);
    receipts_begin_pass(&receipts, HERE);
    CHECK_STR(receipt_field(receipts_pass(&receipts, HERE)), "a");
    add("a", "c2 1 ann 1 2", THERE, 0);
    CHECK_STR(receipt_field(receipts_pass(&receipts, HERE)), "c");
    receipts_remove(&receipts, receipts_find(&receipts, RECEIPT_ORDER, "phone", "c"));
    CHECK_STR(receipt_record(receipts_pass(&receipts, HERE)), "c2 1 ann 1 2");
    CHECK(!receipts_pass(&receipts, HERE));
    add("d", "c 1 ann 1", THERE, 0);
    CHECK_STR(receipt_field(receipts_pass(&receipts, HERE)), "d");
    CHECK(!receipts_pass(&receipts, HERE));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("one of a name", test_one_of_a_name);
    harness_run("two of a name", test_two_of_a_name);
    harness_run("to be undone", test_to_be_undone);
    harness_run("many", test_many);
    harness_run("unsearched", test_unsearched);
    harness_run("memory", test_memory);
    harness_run("coverage", test_coverage);
    harness_run("forgotten", test_forgotten);
    harness_run("a server is away", test_away);
    harness_run("many that are replicated", test_many_covered);
    harness_run("behind those that are not replicated", test_behind_uncovered);
    harness_run("a pass", test_pass);
    return harness_finish();
}
