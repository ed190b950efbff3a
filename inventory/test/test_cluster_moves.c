/* Masters of a cluster that die or are restarted while a slot moves from them, or to them. */
#include <string.h>

#include "inventory/purchases/putback.h"
#include "inventory/test/fixture.h"
#include "inventory/test/transactions.h"
#include "inventory/transactions/transactions_internal.h"
#include "test/harness.h"

static struct redis_cluster cluster;

static struct seller *open_seller(int masters, int replicas) {
    redis_cluster_start(&cluster, masters, replicas);
    struct seller *seller = seller_open_with(
        shop_open(), &(struct seller_options){
                         .url = redis_cluster_url(&cluster), .call_timeout_ms = 500, .resolve_ms = 500});
    seller_wait_whole(seller);
    item_sell(seller, "phone", INVENTORY_BATCH, 10);
    return seller;
}

/* A master is restarted while an item's slot is on its way: half of its keys have moved, or all. It cannot be
 * shown what it sold of it before, which is told; its other items are sold. */
static void test_restarted(int moved) {
    struct seller *seller = open_seller(2, 0);
    const struct redis_server *heartbeats =
        redis_cluster_of(&cluster, "{sellers}"); /* are not lost with it */
    const char *item = item_elsewhere(&cluster, heartbeats);
    struct redis_server *from = redis_cluster_of(&cluster, stock_key(item)),
                        *to = &cluster.server[from == cluster.server];
    const char *other = item_at(&cluster, from);
    item_sell(seller, item, INVENTORY_BATCH, 10);
    item_sell(seller, other, INVENTORY_BATCH, 10);
    CHECK(seller_sells(seller, item) && seller_sells(seller, other));
    redis_cluster_begin_move(stock_key(item), from, to);
    CHECK(redis_cluster_move_keys(stock_key(item), from, to, moved) > 0);
    redis_kill(from);
    CHECK(!seller_sells(seller, other));
    redis_restart(from);
    seller_wait_whole(seller);
    CHECK(seller_sells(seller, other));
    CHECK_INT(seller->inventory->shared.metrics->unkept, 1);
    redis_cluster_move_keys(stock_key(item), from, to, 100);
    redis_cluster_end_move(&cluster, stock_key(item), to);
    CHECK(seller_sells(seller, item));
    CHECK_INT(redis_integer(to, "HGET", stock_key(item), "sold", NULL), 2);
    CHECK_INT(seller->inventory->shared.metrics->unkept, 1);
}

/* A seller at three masters with a replica each, whose phones are of `*from`, and will be of `*to`. */
static struct seller *open_three(struct redis_server **from, struct redis_server **to) {
    struct seller *seller = open_seller(3, 1);
    *from = redis_cluster_of(&cluster, stock_key("phone"));
    *to = &cluster.server[*from == cluster.server];
    return seller;
}

static struct redis_server *replica_of(struct redis_server *master) {
    return master + cluster.masters;
}

static void lose(struct seller *seller, struct redis_server *master) {
    master_replace(&cluster, master);
    seller_wait_replaced(seller);
}

static bool is_kept_no_more(void *arg) {
    struct seller *seller = arg;
    struct receipts *receipts = &seller->inventory->purchases->putback->receipts;
    seller->shop->hurried_ms += 100;
    return !receipts_find(receipts, RECEIPT_ITEM, "phone", "");
}

static bool is_replica(void *arg) {
    return strstr(redis_command(arg, "INFO", "replication", NULL), "master_link_status:up") != NULL;
}

static int fix(const struct redis_server *promoted) {
    static int runs;
    struct proc proc;
    int status;
    const char *argv[] = {"redis-cli", "--cluster", "fix", harness_format("127.0.0.1:%d", promoted->port),
                          NULL};
    proc_spawn(&proc, argv, NULL, harness_format("%s/fix-%d.log", harness_dir(), runs++));
    CHECK(proc_wait(&proc, 30000, &status));
    return status;
}

/* The dead server is a replica again, and the operator has the slot's keys joined. */
static void join(struct redis_server *dead) {
    redis_restart(dead);
    CHECK(harness_wait(is_replica, dead, 20000));
    CHECK_INT(fix(replica_of(dead)), 0);
}

/* As docs/grow.md has it, of a server that imports the slot. */
static void delete_copy(const struct redis_server *importing) {
    struct proc proc;
    int status;
    const char *keys =
        redis_command(importing, "CLUSTER", "GETKEYSINSLOT",
                      redis_command(importing, "CLUSTER", "KEYSLOT", stock_key("phone"), NULL), "100", NULL);
    const char *argv[] = {"sh",
                          "-c",
                          "printf 'ASKING\\nDEL %s\\n' \"$1\" | redis-cli -p \"$2\"",
                          "sh",
                          harness_format("%.*s", (int)strlen(keys) - 2, keys + 1),
                          harness_format("%d", importing->port),
                          NULL};
    proc_spawn(&proc, argv, NULL, harness_format("%s/delete.log", harness_dir()));
    CHECK(proc_wait(&proc, 10000, &status));
    CHECK_STR(proc_output(&proc), "OK\n6\n");
}

/* Valkey 8 tells a replica of the move, so when promoted it sends who asks to the other server. Redis does
 * not. */
static bool knows_of_the_move(const struct redis_server *promoted) {
    return strstr(redis_command(promoted, "CLUSTER", "NODES", NULL), "->-") != NULL;
}

/* The master that a slot leaves dies when some of an item's keys have moved, or all. Its replica has heard
 * that they are gone, but mostly not where they are, until somebody joins them. Then nothing is lost. */
static void test_source_dies(int moved) {
    struct redis_server *from, *to;
    struct seller *seller = open_three(&from, &to);
    CHECK(seller_sells(seller, "phone"));
    shop_wait(seller->shop, is_kept_no_more, seller, "the replica has all");
    redis_cluster_begin_move(stock_key("phone"), from, to);
    CHECK(redis_cluster_move_keys(stock_key("phone"), from, to, moved) > 0);
    redis_wait_copied(from, replica_of(from));
    lose(seller, from);
    bool knows = knows_of_the_move(replica_of(from));
    if (moved > 10)
        CHECK_STATUS(buy(seller, "phone", "ann", "early", 1)->status,
                     knows ? INVENTORY_OK : INVENTORY_UNKNOWN_ITEM);
    int64_t early = moved > 10 && knows;
    join(from);
    CHECK(seller_sells(seller, "phone"));
    item_check_audit(seller, "phone", 8 - early, 0, 2 + early);
}

/* The same, and its replica has not heard of that: the item is on both. It is sold where the slot is, and
 * what was sold elsewhere is put back there. The keys are joined once somebody has deleted one of the copies.
 */
static void test_source_dies_early(void) {
    struct redis_server *from, *to;
    struct seller *seller = open_three(&from, &to);
    CHECK(seller_sells(seller, "phone"));
    replica_cut(from, replica_of(from));
    redis_cluster_begin_move(stock_key("phone"), from, to);
    CHECK(redis_cluster_move_keys(stock_key("phone"), from, to, 100) > 0);
    CHECK(seller_sells(seller, "phone")); /* by ASK */
    lose(seller, from);
    CHECK(seller_sells(seller, "phone"));
    CHECK_INT(redis_integer(replica_of(from), "HGET", stock_key("phone"), "sold", NULL), 3);
    item_check_audit(seller, "phone", 7, 0, 3);
    CHECK(txns_audit_all(seller).conserved);
    CHECK_INT(txns_audit_all(seller).items, 1);
    redis_restart(from);
    CHECK(harness_wait(is_replica, from, 20000));
    CHECK(fix(replica_of(from)) != 0);
    CHECK(seller_sells(seller, "phone"));
    delete_copy(to);
    CHECK_INT(fix(replica_of(from)), 0);
    CHECK(seller_sells(seller, "phone"));
    item_check_audit(seller, "phone", 5, 0, 5);
}

/* The master that a slot has moved to dies, and its replica has not got the keys: they are lost, though the
 * replica that they had where they came from had them, and so they were kept no more. */
static void test_target_dies(void) {
    struct redis_server *from, *to;
    struct seller *seller = open_three(&from, &to);
    CHECK(seller_sells(seller, "phone"));
    shop_wait(seller->shop, is_kept_no_more, seller, "the replica has all");
    replica_cut(to, replica_of(to));
    redis_cluster_begin_move(stock_key("phone"), from, to);
    CHECK(redis_cluster_move_keys(stock_key("phone"), from, to, 100) > 0);
    redis_cluster_end_move(&cluster, stock_key("phone"), to);
    CHECK(seller_sells(seller, "phone"));
    lose(seller, to);
    CHECK_STATUS(buy(seller, "phone", "ann", "late", 1)->status, INVENTORY_UNKNOWN_ITEM);
    CHECK_INT((int)seller->inventory->shared.metrics->shortage, 1); /* what was sold last is told */
    CHECK_INT((int)seller->inventory->shared.metrics->unkept, 0);   /* of the rest no counter tells */
}

static void cover_fully(const char *value) {
    for (int i = 0; i < cluster.count; i++)
        if (proc_running(&cluster.server[i].proc))
            CHECK_STR(redis_command(&cluster.server[i], "CONFIG", "SET", "cluster-require-full-coverage",
                                    value, NULL),
                      "OK");
}

static bool has_given_up(void *arg) {
    return strstr(redis_command(arg, "CLUSTER", "INFO", NULL), "cluster_state:fail") != NULL;
}

/* With full coverage the death of one master ends the sale of all items, and without it goes on. */
static void test_full_coverage(void) {
    struct seller *seller = open_seller(3, 0);
    struct redis_server *dies = redis_cluster_of(&cluster, stock_key("phone"));
    const char *other = item_elsewhere(&cluster, dies);
    struct redis_server *lives = redis_cluster_of(&cluster, stock_key(other));
    item_sell(seller, other, INVENTORY_BATCH, 10);
    cover_fully("yes");
    redis_kill(dies);
    shop_wait(seller->shop, has_given_up, lives, "the others have noticed");
    CHECK(!seller_sells(seller, other));
    cover_fully("no");
    SHOP_UNTIL(seller->shop, !has_given_up(lives), "they serve again");
    CHECK(seller_sells(seller, other));
    CHECK(!seller_sells(seller, "phone"));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    run_case("a master that is restarted while half an item has moved", test_restarted, 1);
    run_case("a master that is restarted once an item has moved", test_restarted, 100);
    run_case("the master that a slot leaves dies", test_source_dies, 100);
    run_case("the master that a slot leaves dies in the middle of an item", test_source_dies, 3);
    harness_run("the master that a slot leaves dies before its replica has heard", test_source_dies_early);
    harness_run("the master that a slot moves to dies", test_target_dies);
    harness_run("full coverage", test_full_coverage);
    return harness_finish();
}
