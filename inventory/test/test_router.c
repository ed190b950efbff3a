/* A cluster that misbehaves: each call ends, in time, and the servers are not flooded. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/redis/slots.h"
#include "inventory/test/fake_cluster.h"
#include "inventory/test/fixture.h"
#include "inventory/transactions.h"
#include "inventory/transactions/transactions_internal.h"

enum { TIMEOUT_MS = 600 };

static struct fake_cluster fake;

static struct seller *open_seller(fake_answer_fn *answer) {
    fake_cluster_start(&fake, answer);
    return seller_open_with(
        shop_open(),
        &(struct seller_options){.url = harness_format("redis-cluster://127.0.0.1:%d", fake.port[0]),
                                 .call_timeout_ms = TIMEOUT_MS,
                                 .resolve_ms = TIMEOUT_MS});
}

static void wait_whole(struct seller *seller) {
    seller_wait_whole(seller);
}

static bool is_map(int argc, const char **argv) {
    return argc > 1 && strcmp(argv[0], "CLUSTER") == 0;
}

static const char *redirect(struct fake_cluster *of, const char *word, int server) {
    snprintf(of->text, sizeof of->text, "-%s 1234 127.0.0.1:%d\r\n", word, of->port[server]);
    return of->text;
}

/* ---- redirections without end ---- */

static const char *moved_in_a_circle(struct fake_cluster *of, int server, int argc, const char **argv) {
    return is_map(argc, argv) ? fake_cluster_map(of, 0) : redirect(of, "MOVED", (server + 1) % FAKE_SERVERS);
}

static const char *ask_without_end(struct fake_cluster *of, int server, int argc, const char **argv) {
    if (argc == 1 && strcmp(argv[0], "ASKING") == 0)
        return "+OK\r\n";
    return is_map(argc, argv) ? fake_cluster_map(of, 0) : redirect(of, "ASK", (server + 1) % FAKE_SERVERS);
}

static const char *moved_to_nowhere(struct fake_cluster *of, int server, int argc, const char **argv) {
    (void)server;
    return is_map(argc, argv) ? fake_cluster_map(of, 0) : "-MOVED 1234 127.0.0.1:1\r\n";
}

static const char *again_for_ever(struct fake_cluster *of, int server, int argc, const char **argv) {
    (void)server;
    return is_map(argc, argv) ? fake_cluster_map(of, 0) : "-TRYAGAIN come later\r\n";
}

static const struct {
    const char *name;
    fake_answer_fn *answer;
    int commands_most;
} endless[] = {{"MOVED in a circle", moved_in_a_circle, 150},
               {"ASK without end", ask_without_end, 300}, /* each is two commands */
               {"MOVED to a server that is not there", moved_to_nowhere, 100},
               {"TRYAGAIN for ever", again_for_ever, 30}};

static void test_endless(int i) {
    struct seller *seller = open_seller(endless[i].answer);
    wait_whole(seller);
    int before = fake.commands, maps = fake.maps;
    int64_t since_ns = clock_now_ns();
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_UNAVAILABLE);
    int64_t took_ms = (clock_now_ns() - since_ns) / 1000000;
    CHECK(took_ms < INT64_C(20) * TIMEOUT_MS); /* it ends by itself, and not by the fixture's patience */
    CHECK(fake.commands - before <= endless[i].commands_most);
    CHECK(fake.maps - maps <= 2 + took_ms / 1000); /* at most one a second */
}

/* ---- maps that are of no use ---- */

static const char *empty_map(struct fake_cluster *of, int server, int argc, const char **argv) {
    (void)of;
    (void)server;
    return is_map(argc, argv) ? "*0\r\n" : "-ERR not expected\r\n";
}

static const char *no_cluster(struct fake_cluster *of, int server, int argc, const char **argv) {
    (void)of;
    (void)server;
    return is_map(argc, argv) ? "-ERR This instance has cluster support disabled\r\n"
                              : "-ERR not expected\r\n";
}

static const struct {
    const char *name, *error;
    fake_answer_fn *answer;
} useless[] = {{"an empty map", "no server of the cluster says who has the slots", empty_map},
               {"not a cluster", "cluster support disabled", no_cluster}};

static void test_no_map(int i) {
    const char *error = useless[i].error;
    struct seller *seller = open_seller(useless[i].answer);
    while (!*inventory_last_error(seller->inventory))
        shop_turn(seller->shop);
    CHECK_HAS(inventory_last_error(seller->inventory), error);
    CHECK_STATUS(buy(seller, "phone", "ann", "k", 1)->status, INVENTORY_UNAVAILABLE);
    struct inventory_health health;
    store_health(seller, &health);
    CHECK(!health.ready);
    CHECK_HAS(health.reason, error);
    shop_idle(seller->shop, 500);
    CHECK(fake.maps <= 3);
}

/* The second of them knows. */
static const char *one_knows(struct fake_cluster *of, int server, int argc, const char **argv) {
    if (is_map(argc, argv))
        return server == 1 ? fake_cluster_map(of, 1) : "*0\r\n";
    return "$-1\r\n";
}

static void test_one_knows(void) {
    fake_cluster_start(&fake, one_knows);
    struct seller *seller = seller_open_with(
        shop_open(),
        &(struct seller_options){
            .url = harness_format("redis-cluster://127.0.0.1:%d,127.0.0.1:%d", fake.port[0], fake.port[1])});
    while (fake.maps == 0)
        shop_turn(seller->shop);
    seller->shop->hurried_ms += 1250;
    wait_whole(seller);
}

/* ---- a master that stood still ---- */

static atomic_int sold_by[FAKE_SERVERS];
static atomic_bool is_replaced;

/* Server 1 has all slots, then server 2. The others stood still, and do not know: server 1 still takes itself
 * for the master. The map is read again since server 2 redirects every other call, to itself. */
static const char *replaced(struct fake_cluster *of, int server, int argc, const char **argv) {
    if (is_map(argc, argv))
        return fake_cluster_map(of, is_replaced && server == 2 ? 2 : 1);
    if (strcmp(argv[0], "EVALSHA") != 0)
        return "-ERR not expected\r\n";
    int sold = sold_by[server]++;
    if (server == 1 && is_replaced)
        return NULL;
    return server == 2 && sold % 2 == 0 ? redirect(of, "MOVED", 2) : "*2\r\n:1000\r\n*2\r\n:9\r\n:0\r\n";
}

static void test_old_map(void) {
    fake_cluster_start(&fake, replaced);
    for (int i = 0; i < FAKE_SERVERS; i++)
        fake.epoch[i] = 4;
    struct seller *seller = seller_open_with(
        shop_open(), &(struct seller_options){
                         .url = harness_format("redis-cluster://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d",
                                               fake.port[0], fake.port[1], fake.port[2]),
                         .call_timeout_ms = TIMEOUT_MS,
                         .resolve_ms = TIMEOUT_MS});
    wait_whole(seller);
    CHECK_STATUS(buy(seller, "phone", "ann", "first", 1)->status, INVENTORY_OK);
    CHECK_INT(sold_by[1], 1);
    fake.epoch[2] = 5;
    is_replaced = true;
    for (int i = 0; sold_by[2] == 0; i++)
        buy(seller, "phone", "ann", harness_format("k%d", i), 1);
    int before = sold_by[1], maps = fake.maps;
    for (int i = 0; fake.maps < maps + 4; i++) { /* all have told theirs */
        buy(seller, "phone", "ann", harness_format("later%d", i), 1);
        CHECK_INT(sold_by[1], before);
        shop_idle(seller->shop, 20);
    }
}

/* ---- a server that answers nothing ---- */

/* Half of the slots are its. */
static const char *silent(struct fake_cluster *of, int server, int argc, const char **argv) {
    if (server == 1)
        return NULL;
    if (is_map(argc, argv)) {
        snprintf(of->text, sizeof of->text,
                 "*2\r\n*3\r\n:0\r\n:8191\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n"
                 "*3\r\n:8192\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n",
                 of->port[0], of->port[1]);
        return of->text;
    }
    return strcmp(argv[0], "EVALSHA") == 0 ? "*2\r\n:1000\r\n*2\r\n:9\r\n:0\r\n" : "$-1\r\n";
}

static void test_silent(void) {
    struct seller *seller = open_seller(silent);
    wait_whole(seller);
    const char *well = "a", *ill = "a";
    for (int i = 0; redis_slot(well, strlen(well)) > 8191; i++)
        well = harness_format("well%d", i);
    for (int i = 0; redis_slot(ill, strlen(ill)) < 8192; i++)
        ill = harness_format("ill%d", i);
    struct buy *lost = buy_begin(seller, ill, "ann", "k", 1);
    for (int i = 0; i < 50; i++)
        CHECK_STATUS(buy(seller, well, "ann", harness_format("k%d", i), 1)->status, INVENTORY_OK);
    shop_settle(seller->shop);
    CHECK_STATUS(lost->status, INVENTORY_UNKNOWN);
}

/* ---- closed while a server owes an answer ---- */

/* The second server has half of the slots, and owes all answers but the time. */
static atomic_int owed;

static const char *owes(struct fake_cluster *of, int server, int argc, const char **argv) {
    if (strcmp(argv[0], "TIME") == 0)
        return "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n";
    owed += server == 1;
    if (server == 1 || is_map(argc, argv))
        return silent(of, server, argc, argv);
    return strcmp(argv[0], "ZRANGEBYSCORE") == 0 ? "*0\r\n"
           : strcmp(argv[0], "HSCAN") == 0       ? "*2\r\n$1\r\n0\r\n*0\r\n"
                                                 : "-ERR not expected\r\n";
}

/* Nobody answers for good: the call rests when the seller is closed. */
static const char *scans_again(struct fake_cluster *of, int server, int argc, const char **argv) {
    owed += strcmp(argv[0], "HSCAN") == 0;
    return again_for_ever(of, server, argc, argv);
}

static void count_claim(void *ctx, enum inventory_status status, const struct inventory_transaction *found,
                        size_t count) {
    (void)status;
    (void)found;
    (void)count;
    ++*(int *)ctx;
}

static void count_comparison(void *ctx, enum inventory_status status,
                             const struct inventory_reconciled *told) {
    (void)told;
    *(int *)ctx += status == INVENTORY_UNAVAILABLE;
}

static void count_health(void *ctx, const struct inventory_health *health) {
    *(int *)ctx += !health->ready;
}

static void begin_sweep(struct inventory *inventory, int *answers) {
    ++*answers; /* nobody is told */
    inventory_sweep(inventory);
    CHECK(inventory_is_sweeping(inventory));
}

static void begin_claim(struct inventory *inventory, int *answers) {
    inventory_transaction_claim(inventory, 1, 1000, count_claim, answers);
}

static void begin_comparison(struct inventory *inventory, int *answers) {
    inventory_transactions_reconcile(inventory, true, count_comparison, answers);
}

static void begin_health(struct inventory *inventory, int *answers) {
    inventory_health_read(inventory, count_health, answers);
}

static const struct {
    const char *name;
    fake_answer_fn *answer;
    void (*begin)(struct inventory *inventory, int *answers);
} closed[] = {{"closed while a server owes an answer to a sweep", owes, begin_sweep},
              {"closed while a server owes an answer to a claim", owes, begin_claim},
              {"closed while a server owes an answer to a comparison", owes, begin_comparison},
              {"closed while a server owes an answer of its health", owes, begin_health},
              {"closed while a comparison rests", scans_again, begin_comparison}};

/* Whose call is answered by the end of its connection asks what else there is. */
static void test_closed(int i) {
    int answers = 0;
    struct seller *seller = open_seller(closed[i].answer);
    struct shop *shop = seller->shop;
    wait_whole(seller);
    owed = 0;
    closed[i].begin(seller->inventory, &answers);
    SHOP_UNTIL(shop, owed > 0 && redis_is_idle(router_server(seller->inventory->shared.store, 0)),
               "an answer is owed, and the first server owes none");
    seller_close(seller);
    CHECK_INT(answers, 1);
    shop_close(shop);
}

/* ---- a master that is gone ---- */

static const char *half(struct fake_cluster *of, int server, int argc, const char **argv) {
    (void)server;
    if (!is_map(argc, argv))
        return "$-1\r\n";
    snprintf(of->text, sizeof of->text,
             "*2\r\n*3\r\n:0\r\n:8191\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n"
             "*3\r\n:8192\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n",
             of->port[0]);
    return of->text;
}

struct moment {
    struct shop *shop;
    int maps;      /* that were read before */
    int64_t at_ms; /* the shop's clock stands still; 0: it goes on */
};

static bool is_read(void *arg) {
    const struct moment *moment = arg;
    if (moment->at_ms)
        moment->shop->hurried_ms = moment->at_ms - clock_mono_ms(&clock_system);
    return fake.maps > moment->maps;
}

/* Its successor is looked for before a map would be old otherwise, which is after a second. */
static void test_gone(void) {
    fake_cluster_start(&fake, half);
    struct moment moment = {.shop = shop_open()};
    seller_open_with(moment.shop, &(struct seller_options){
                                      .url = harness_format("redis-cluster://127.0.0.1:%d", fake.port[0])});
    shop_wait(moment.shop, is_read, &moment, "the map is read");
    moment.maps = fake.maps;
    moment.shop->hurried_ms += 1250;
    shop_wait(moment.shop, is_read, &moment, "it is read again, since a master is gone");
    moment.maps = fake.maps;
    moment.at_ms = clock_mono_ms(&moment.shop->clock) + 760;
    shop_wait(moment.shop, is_read, &moment, "it is read once more, and sooner");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    for (int i = 0; i < (int)(sizeof endless / sizeof *endless); i++)
        run_case(endless[i].name, test_endless, i);
    for (int i = 0; i < (int)(sizeof useless / sizeof *useless); i++)
        run_case(useless[i].name, test_no_map, i);
    harness_run("an empty map, and another server knows", test_one_knows);
    harness_run("a master that stood still", test_old_map);
    harness_run("a server that answers nothing", test_silent);
    for (int i = 0; i < (int)(sizeof closed / sizeof *closed); i++)
        run_case(closed[i].name, test_closed, i);
    harness_run("a server that is gone", test_gone);
    return harness_finish();
}
