/* redis, variant set-del (V2.0): DEL deletes another's lock. */
#include "loadtest/lab/scenarios/cast.h"
#include "loadtest/lab/scenarios/scenario.h"

enum { WAIT_TTLS = 20, CROWD = 16, UNITS = 100, CROWD_TTL_MS = 80 };

/* The story with three clients: one lamp. */
static void three_clients(struct cast *cast) {
    struct stage *stage = cast->stage;
    int64_t ttl_ms = stage_ttl_ms(stage), wait_ms = WAIT_TTLS * ttl_ms;
    static const char slow[] = "the identity check takes longer than the lock lives";
    struct client *a = cast_client(cast, "client-a"), *b = cast_client(cast, "client-b"),
                  *c = cast_client(cast, "client-c");
    cast_begin(cast, 1);
    observer_watch_redis(cast->clients, cast->shop, CAST_ITEM);
    stage_until(stage, 20 + stage_random(stage, 0, 20));
    client_acquire(a, CAST_ITEM, wait_ms);
    client_read_stock(a, CAST_ITEM);
    stage_fault(stage, "client-a", slow);
    client_begin_acquire(b, CAST_ITEM, wait_ms);
    client_wait(b); /* A's lock has expired */
    client_read_stock(b, CAST_ITEM);
    client_begin_acquire(c, CAST_ITEM, wait_ms); /* not earlier: this lock is not fair */
    stage_pause(stage, ttl_ms / 3);
    stage_fault_over(stage, "client-a", slow);
    client_sell(a, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(a); /* deletes B's lock */
    client_done_within(c, ttl_ms / 5);
    if (client_holds(c)) {
        client_read_stock(c, CAST_ITEM);
        stage_pause(stage, ttl_ms / 10);
    }
    client_sell(b, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(b);
    cast_sell(c);
    observer_read_stock(cast->shop, CAST_ITEM);
}

/* The avalanche: a hundred bottles, and work that takes about as long as the lock lives, scaled down again.
 */
static void crowd(struct cast *cast, const char *variant) {
    struct client *buyers[CROWD];
    const struct client_options options = {
        .name = "buyer", .url = cast->url, .stock = cast->shop, .fencing = cast->fencing};
    cast_set_redis_lock(cast, variant, CROWD_TTL_MS);
    client_start_many(cast->clients, &options, CROWD, buyers);
    observer_fill_stock(cast->shop, "maotai", UNITS);
    observer_watch_redis(cast->clients, cast->shop, "maotai");
    for (int i = 0; i < CROWD; i++)
        client_begin_shop(buyers[i], "maotai", STOCK_COMPUTED, UNITS, CROWD_TTL_MS);
    for (int i = 0; i < CROWD; i++)
        client_wait(buyers[i]);
    observer_read_stock(cast->shop, "maotai");
}

static void play(struct stage *stage, bool broken) {
    const char *variant = broken ? "variant=set-del" : "";
    struct cast cast;
    cast_open(&cast, stage, "redis", !broken);
    cast_set_redis_lock(&cast, variant, stage_ttl_ms(stage));
    three_clients(&cast);
    crowd(&cast, variant);
}

const struct scenario scenario_maotai = {
    .name = "maotai",
    .ttl_ms = 1000,
    .text =
        {
            .title = "A release by DEL deletes another's lock, once work takes longer than the lock lives.",
            .question =
                "A lock lives for ten seconds, here scaled down. One day the identity check behind it "
                "takes longer. There are a hundred bottles of Maotai. How many are sold?",
            .answers = {"A hundred: one client holds the lock at a time, and the others wait longer.",
                        "A hundred and one: there is one late sale, and then all is well again.",
                        "Far more: each late release lets in another client beside the holder."},
            .right = 2,
            .story = "This is version 2.0: SET with NX and PX takes the lock, DEL releases it. A flash "
                     "sale of Maotai is said to have been oversold by a hundred bottles this way.\n\n"
                     "Client A takes the lock. Its identity check takes longer than the lock lives. The "
                     "lock expires, and client B takes it: as it should be.\n\n"
                     "A is done, sells, and deletes the lock. But the lock is B's by now. Client C takes "
                     "it, beside B, which still works. When B is done it deletes C's lock, which lets in "
                     "the next.\n\n"
                     "Once a client is late the lock stays broken as long as the crowd is there: that is "
                     "the avalanche. Of sixteen buyers several always hold the lock at once, and each "
                     "write forgets what another has sold.\n\n"
                     "The fix has two parts. The value of the key is a unique owner, and one script "
                     "compares and deletes: so A's release does nothing to B's lock. And A's late write "
                     "carries an older fence than B's read: the stock refuses it.",
            .broken_code = "if SET lock 1 NX PX ttl:\n"
                           "    check_identity()       # takes longer than ttl\n"
                           "    sell()\n"
                           "    DEL lock               # whose?",
            .fixed_code = "if SET lock owner NX PX ttl:\n"
                          "    check_identity()\n"
                          "    sell(fence)             # 'stale' if a newer holder has read\n"
                          "    -- one script:\n"
                          "    if redis.call('GET', lock) == owner then\n"
                          "        redis.call('DEL', lock)\n"
                          "    end",
            .broken_lines = {3, 4},
            .fixed_lines = {3, 5},
        },
    .play = play,
};
