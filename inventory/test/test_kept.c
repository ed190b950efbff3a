/* How long receipts are kept: until all replicas that could be promoted have what they tell, however long
 * that takes, and as long as their server may be asked again. */
#include <stdlib.h>
#include <string.h>

#include "inventory/purchases/putback.h"
#include "inventory/test/told.h"
#include "inventory/transactions/transactions_internal.h"

enum { LONG_MS = 65000, MASTERS = 3 };

static struct pair pair;
static struct told told, others;

static bool is_empty(void *arg) {
    return ((struct seller *)arg)->inventory->purchases->putback->receipts.count == 0;
}

static bool is_replicated(void *arg) {
    return told_open(arg) == 0;
}

/* What replicas have is forgotten; and who ends in order waits until they have all, and then needs not be
 * waited for. */
static void test_coverage(void) {
    struct seller *seller, *other;
    told_open_two(&pair, &seller, &told, &other, &others);
    item_put_with(seller, "phone", 100, 0, 0);
    pair_cut(&pair);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    told_open(seller);
    shop_idle(seller->shop, 300); /* many questions */
    CHECK(told_open(seller) > 0);
    CHECK_INT(told_open(other), 0);
    pair_mend(&pair);
    shop_wait(seller->shop, is_replicated, seller, "the replica has it");
    CHECK_STR(redis_command(&pair.replica, "HGET", stock_key("phone"), "sold", NULL), "1");
    SHOP_UNTIL(seller->shop, redis_integer(&pair.master, "ZCARD", "seckill:{sellers}:alive", NULL) == 0,
               "both have left");
    seller->shop->hurried_ms += RECEIPTS_REPLICATED_LONG_MS + 1000;
    shop_wait(seller->shop, is_empty, seller, "the receipts are forgotten");
}

static bool keeps(const struct seller *seller, const char *key) {
    CHECK_STATUS(buy((struct seller *)seller, "phone", "ann", key, 1)->status, INVENTORY_OK);
    return seller->inventory->purchases->putback->receipts.count > 0;
}

/* One Redis that syncs each write: nothing need be kept. But with a replica it must. */
static void test_synced(void) {
    struct redis_server redis, replica;
    redis_start(&redis, "--appendfsync", "always", NULL);
    struct shop *shop = shop_open();
    struct seller *seller = told_seller_on(shop, &redis, &told);
    item_put_with(seller, "phone", 10, 0, 0);
    seller->inventory->purchases->putback->draining = true;
    shop_wait(shop, is_empty, seller, "the receipts are forgotten");
    CHECK(!keeps(seller, "k1"));
    CHECK_STR(redis_command(&redis, "CONFIG", "SET", "no-appendfsync-on-rewrite", "yes", NULL), "OK");
    SHOP_UNTIL(shop, !seller->inventory->purchases->putback->receipts.histories[0].synced,
               "it does not sync while it rewrites its file");
    CHECK_STR(redis_command(&redis, "CONFIG", "SET", "no-appendfsync-on-rewrite", "no", NULL), "OK");
    redis_start_replica(&replica, &redis);
    replica_wait(&redis);
    SHOP_UNTIL(shop, seller->inventory->purchases->putback->histories[0]->replicas > 0,
               "the replica is seen");
    CHECK(keeps(seller, "k2"));
}

static bool is_copying(void *arg) {
    return strstr(redis_command(arg, "INFO", "replication", NULL), "state=wait_bgsave");
}

static long long number_after(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : -1;
}

/* The replica that follows has told that it has all. */
static bool has_told(void *arg) {
    const char *info = redis_command(arg, "INFO", "replication", NULL);
    return number_after(info, "state=online,offset=") >= number_after(info, "master_repl_offset:");
}

static void start_copying(struct redis_server *replica, struct redis_server *master) {
    CHECK_STR(redis_command(master, "CONFIG", "SET", "repl-diskless-sync-delay", "600", NULL), "OK");
    redis_start(replica, "--replicaof", "127.0.0.1", harness_format("%d", master->port), NULL);
    CHECK(harness_wait(is_copying, master, 20000));
}

/* After many questions. */
static void check_open(struct seller *seller) {
    told_open(seller);
    shop_idle(seller->shop, 300);
    CHECK(told_open(seller) > 0);
}

/* A replica can be promoted while it gets its copy, with what it had before: all that is sold meanwhile is
 * kept, whatever the disk has. Also if another one has all. */
static void test_copying(void) {
    struct redis_server redis, first, second;
    redis_start(&redis, "--appendfsync", "always", NULL);
    start_copying(&first, &redis);
    struct shop *shop = shop_open();
    struct seller *seller = told_seller_on(shop, &redis, &told);
    item_put_with(seller, "phone", 10, 0, 0);
    check_open(seller);
    CHECK_STR(redis_command(&redis, "CONFIG", "SET", "repl-diskless-sync-delay", "0", NULL), "OK");
    shop_wait(shop, is_replicated, seller, "the replica has it");
    start_copying(&second, &redis);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    shop_wait(shop, has_told, &redis, "the first replica has it");
    check_open(seller);
    CHECK_STR(redis_command(&redis, "CONFIG", "SET", "repl-diskless-sync-delay", "0", NULL), "OK");
    shop_wait(shop, is_replicated, seller, "both have it");
}

static void sell_and_forget(struct seller *seller, const char *key) {
    CHECK_STATUS(buy(seller, "phone", "ann", key, 1)->status, INVENTORY_OK);
    shop_wait(seller->shop, is_replicated, seller, "the replicas that are connected have it");
    seller->shop->hurried_ms += RECEIPTS_REPLICATED_LONG_MS + 1000;
    shop_wait(seller->shop, is_empty, seller, "the receipts are forgotten");
}

/* The replica has all so far. The master knows that it is not connected any more. */
static void disconnect_replica(void) {
    redis_wait_copied(&pair.master, &pair.replica);
    proxy_set(pair.link, PROXY_REFUSE, 0, NULL);
}

/* It had no part in the failover before, in which nothing was lost. */
static void test_left_behind_before(void) {
    struct redis_server near, second;
    pair_start(&pair);
    redis_start_replica(&near, &pair.master);
    redis_start_replica(&second, &pair.master);
    struct seller *seller = told_seller_open(shop_open(), pair_url(&pair), &told);
    item_put_with(seller, "phone", 10, 0, 0);
    sell_and_forget(seller, "k1");
    disconnect_replica();
    struct pair to_near = {.master = pair.master, .replica = near, .front = pair.front};
    redis_wait_copied(&pair.master, &near);
    told_fail_over(&to_near, seller, NULL);
    CHECK_STR(redis_command(&second, "REPLICAOF", "127.0.0.1", harness_format("%d", near.port), NULL), "OK");
    replica_wait(&near);
    CHECK_INT((int)told.metrics.unkept, 0);
    struct seller *late = told_seller_open(seller->shop, pair_url(&pair), &others);
    sell_and_forget(seller, "k2");
    sell_and_forget(late, "k3");
    pair.master = near;
    told_fail_over(&pair, seller, late);
    CHECK_INT((int)told.metrics.unkept, 1);
    CHECK_INT((int)others.metrics.unkept, 1); /* it does not know the history that the replica goes on from */
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", 1)->status, INVENTORY_REPLAYED);
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 1)->status, INVENTORY_OK); /* it was lost */
}

/* Twice: so what the server said of its disk after the first time is known. */
static bool has_asked(void *arg) {
    return ((struct seller *)arg)->inventory->purchases->putback->histories[0]->questions >= 2;
}

/* One Redis that loses its last moments, and says that it does not sync each write. */
static void test_one_redis(void) {
    struct redis_server redis;
    redis_start(&redis, NULL);
    struct shop *shop = shop_open();
    const char *url = harness_format("redis://127.0.0.1:%d", redis.port);
    struct seller *seller = told_seller_open(shop, url, &told), *other = told_seller_open(shop, url, &others);
    seller->inventory->purchases->putback->draining = other->inventory->purchases->putback->draining = true;
    shop_wait(shop, has_asked, seller, "it was asked");
    shop_wait(shop, has_asked, other, "it was asked");
    item_put_with(seller, "phone", 10, 0, 0);
    CHECK_STATUS(buy(seller, "phone", "ann", "k1", 1)->status, INVENTORY_OK);
    shop->hurried_ms += RECEIPTS_REPLICATED_LONG_MS + 1000;
    shop_wait(shop, is_empty, seller, "what is old is forgotten");
    CHECK_STR(redis_command(&redis, "CONFIG", "SET", "appendonly", "no", NULL), "OK");
    CHECK_STR(redis_command(&redis, "SAVE", NULL), "OK");
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 2)->status, INVENTORY_OK);
    CHECK_STATUS(buy(other, "phone", "bob", "k3", 4)->status, INVENTORY_OK);
    redis_kill(&redis);
    seller_wait_down(seller);
    seller_wait_down(other);
    redis_restart(&redis);
    seller_wait_up(seller);
    CHECK_STATUS(buy(seller, "phone", "eve", "k4", 4)->status, INVENTORY_SOLD_OUT);
    seller_wait_up(other);
    told_check(&told, 1, 0);
    told_check(&others, 1, 0);
    check_books(seller, &redis, "phone", 3, 0, 7);
}

/* One Redis dies with an order that is not in its file, and its machine takes longer to start again than
 * receipts are kept: what it lost is put back, and is kept anew, since it may crash again at once. `stopped`:
 * the seller stands still meanwhile, and notices only then that the connection is gone. */
static void test_away_for_long(int stopped) {
    struct redis_server redis;
    struct seller *seller = told_seller_sold_at(&redis, &told);
    CHECK_STR(redis_command(&redis, "CONFIG", "SET", "appendonly", "no", NULL), "OK");
    CHECK_STATUS(buy(seller, "phone", "ann", "lost", 2)->status, INVENTORY_OK);
    shop_wait(seller->shop, is_replicated, seller, "there are no replicas");
    redis_kill(&redis);
    if (!stopped)
        seller_wait_down(seller);
    seller->shop->hurried_ms += LONG_MS;
    if (stopped)
        seller_wait_down(seller);
    else
        shop_idle(seller->shop, 200);
    redis_restart(&redis);
    seller_wait_up(seller);
    told_check(&told, 1, 0);
    check_books(seller, &redis, "phone", 7, 0, 3);
    shop_wait(seller->shop, is_replicated, seller, "there are no replicas");
    shop_idle(seller->shop, 200);
    CHECK_INT(seller->inventory->purchases->putback->receipts.count, 3); /* the item, and two orders */
}

/* ---- a cluster ---- */

/* One master stays away: what was sold there is kept, but not what is sold elsewhere. */
static void test_master_is_away(void) {
    struct redis_cluster cluster;
    redis_cluster_start(&cluster, MASTERS, 0);
    struct shop *shop = shop_open();
    struct seller *seller = told_seller_open(shop, redis_cluster_url(&cluster), &told);
    seller_wait_whole(seller);
    struct redis_server *dies = redis_cluster_of(&cluster, stock_key("lamp"));
    CHECK(redis_cluster_of(&cluster, stock_key("phone")) != dies);
    item_put_with(seller, "phone", 10, 0, 0);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    item_put_with(seller, "lamp", 10, 0, 0);
    CHECK_STATUS(buy(seller, "lamp", "ann", "k", 1)->status, INVENTORY_OK);
    shop_wait(shop, is_replicated, seller, "there are no replicas");
    redis_kill(dies);
    seller_wait_not_whole(seller);
    shop->hurried_ms += LONG_MS;
    SHOP_UNTIL(shop, seller->inventory->purchases->putback->receipts.count == 2,
               "what was sold elsewhere is forgotten");
    shop_idle(shop, 200);
    CHECK_INT(seller->inventory->purchases->putback->receipts.count, 2); /* the item, and an order */
}

/* Each master has a replica. Who is paused for a moment does not count as gone. */
static struct seller *open_patient(struct redis_cluster *cluster, int replicas) {
    redis_cluster_start(cluster, MASTERS, replicas);
    struct shop *shop = shop_open();
    struct seller *seller = told_seller_within(shop, redis_cluster_url(cluster), 20000, &told);
    seller_wait_whole(seller);
    return seller;
}

static void restart(struct seller *seller, struct redis_server *master) {
    redis_kill(master);
    seller_wait_not_whole(seller);
    redis_restart(master);
    seller_wait_whole(seller);
}

/* A master restarts, by another history. Until its replica has a copy that can be promoted with what it had
 * before: what is sold meanwhile is kept. */
static void test_restarted_master(void) {
    struct redis_cluster cluster;
    struct seller *seller = open_patient(&cluster, 1);
    struct redis_server *restarts = redis_cluster_of(&cluster, stock_key("phone"));
    item_put_with(seller, "phone", 10, 0, 0);
    redis_wait_copied(restarts, restarts + MASTERS);
    redis_pause(restarts + MASTERS);
    restart(seller, restarts);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK);
    check_open(seller);
}

/* More was sold at one master than is kept. That is told when it is not the same any more, and not when
 * another one is not. */
static void test_unkept_of_one(void) {
    struct redis_cluster cluster;
    struct seller *seller = open_patient(&cluster, 1);
    struct redis_server *phone = redis_cluster_of(&cluster, stock_key("phone")),
                        *other = redis_cluster_of(&cluster, stock_key("lamp"));
    CHECK(phone != other);
    item_put_with(seller, "phone", 10, 0, 0);
    redis_wait_copied(phone, phone + MASTERS);
    redis_pause(phone + MASTERS);
    seller->inventory->purchases->putback->receipts.max = 2;
    for (int i = 0; i < 5; i++)
        CHECK_STATUS(buy(seller, "phone", "ann", harness_format("k%d", i), 1)->status, INVENTORY_OK);
    restart(seller, other);
    CHECK_INT((int)told.metrics.unkept, 0);
    restart(seller, phone);
    CHECK_INT((int)told.metrics.unkept, 1);
}

static bool takes_over(void *replica) {
    return strcmp(redis_command(replica, "CLUSTER", "FAILOVER", "TAKEOVER", NULL), "OK") == 0;
}

/* The quarantine lasts for as long as it can, since it has left. */
static bool is_whole_by_now(void *arg) {
    ((struct seller *)arg)->shop->hurried_ms += 20;
    return seller_is_whole(arg);
}

/* Of two replicas one is away. What the other one has is kept no more; then the first one is made master by
 * hand. */
static void test_taken_over(void) {
    struct redis_cluster cluster;
    struct seller *seller = open_patient(&cluster, 2);
    struct redis_server *master = redis_cluster_of(&cluster, stock_key("phone")), *away = master + MASTERS,
                        *near = away + MASTERS;
    item_put_with(seller, "phone", 10, 0, 0);
    redis_wait_copied(master, away);
    redis_kill(away);
    sell_and_forget(seller, "k");
    redis_kill(near); /* first, so that it is not promoted */
    redis_kill(master);
    seller_wait_not_whole(seller);
    CHECK_INT((int)told.metrics.unkept, 0);
    redis_restart(away);
    CHECK(harness_wait(takes_over, away, 20000));
    shop_wait(seller->shop, is_whole_by_now, seller, "there is another one");
    told_check(&told, 0, 0);
    CHECK_INT((int)told.metrics.unkept, 1);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_OK); /* it was lost */
}

/* ---- histories ---- */

static unsigned met;

/* What a server leaves that crashes again and again in quarantine: as many histories as are kept. */
static void leave_histories(struct inventory *inventory) {
    struct putback *putback = inventory->purchases->putback;
    while (putback->history_count < RECEIPTS_HISTORIES) {
        struct history *history = calloc(1, sizeof *history);
        CHECK(history);
        *history = (struct history){.number = ++putback->number,
                                    .state = HISTORY_QUARANTINE,
                                    .reached_ms = clock_mono_ms(&clock_system)};
        putback->running++;
        putback->histories[putback->history_count++] = history;
        receipts_begin_history(&putback->receipts, history->number);
    }
}

static void test_many_histories(void) {
    struct redis_server redis;
    struct seller *seller = told_seller_sold_at(&redis, &told);
    leave_histories(seller->inventory);
    CHECK_STR(redis_command(&redis, "ACL", "SETUSER", "default", "-evalsha", NULL), "OK");
    for (int i = 0; i < 3; i++) { /* it is reached, and refuses to be shown anything */
        met = seller->inventory->purchases->putback->number;
        told_begin_history(&redis);
        redis_command(&redis, "CLIENT", "KILL", "TYPE", "normal", NULL);
        SHOP_UNTIL(seller->shop, seller->inventory->purchases->putback->number > met, "another history");
    }
    CHECK_STR(redis_command(&redis, "ACL", "SETUSER", "default", "+evalsha", NULL), "OK");
    seller_wait_up(seller);
    CHECK_STATUS(buy(seller, "phone", "ann", "k2", 1)->status, INVENTORY_OK);
    check_books(seller, &redis, "phone", 8, 0, 2);
}

/* The oldest history is that of a master which is up: another one goes. */
static void test_oldest_is_up(void) {
    struct redis_cluster cluster;
    redis_cluster_start(&cluster, 2, 0);
    struct shop *shop = shop_open();
    struct seller *seller = told_seller_open(shop, redis_cluster_url(&cluster), &told);
    seller_wait_whole(seller);
    leave_histories(seller->inventory);
    struct history *const *histories = seller->inventory->purchases->putback->histories;
    struct history *first = histories[0];
    met = seller->inventory->purchases->putback->number;
    struct redis_server *other = cluster.server;
    if (strstr(redis_command(other, "INFO", "replication", NULL), first->id))
        other++;
    redis_kill(other);
    redis_restart(other);
    SHOP_UNTIL(shop, seller->inventory->purchases->putback->number > met, "another history");
    CHECK_INT(seller->inventory->purchases->putback->history_count, RECEIPTS_HISTORIES);
    CHECK(histories[0] == first);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("what replicas have", test_coverage);
    harness_run("one Redis that syncs", test_synced);
    harness_run("a replica that gets its copy", test_copying);
    harness_run("a replica that was left behind before", test_left_behind_before);
    harness_run("one Redis", test_one_redis);
    run_case("one Redis that is away for long", test_away_for_long, false);
    run_case("one Redis that is away while the seller is stopped", test_away_for_long, true);
    harness_run("a master that is away", test_master_is_away);
    harness_run("a master that restarts", test_restarted_master);
    harness_run("more than is kept, at one master", test_unkept_of_one);
    harness_run("a replica takes over that was away", test_taken_over);
    harness_run("many histories", test_many_histories);
    harness_run("the oldest is that of a master which is up", test_oldest_is_up);
    return harness_finish();
}
