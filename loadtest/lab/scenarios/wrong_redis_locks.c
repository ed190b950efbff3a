/* The ladder of wrong Redis locks, from "GET, then SET" to a timestamp as owner: one scenario for each
 * version of the lock that people try (lock/lessons/ has the locks). The fix is always the right Redis lock,
 * which takes the lock by SET NX PX with a unique owner and releases it by a script that compares. */
#include "base/clock.h"
#include "loadtest/lab/scenarios/cast.h"

/* A client that waits for DEAD_WAIT_TTLS times to live without a grant is starved, see JUDGE_STARVED_TTLS. */
enum { WAIT_MS = 10000, WAIT_TTLS = 20, DEAD_WAIT_TTLS = 8, GETSET_WORK_MS = 100 };
enum { MAOTAI_CROWD = 16, MAOTAI_UNITS = 100, MAOTAI_CROWD_TTL_MS = 80 };

/* Client A tries for up to `a_wait_ms` to acquire; a wrong lock stops at the gate between two of its
 * commands. B tries for `head_start_ms`, and if A is at the gate, until B is done. Then A goes on. */
static void overtake_at_gate(struct client *a, int64_t a_wait_ms, struct client *b, int64_t head_start_ms,
                             const char *slow) {
    struct stage *stage = client_stage(a);
    stage_fault(stage, "client-a", slow);
    client_begin_acquire(a, CAST_ITEM, a_wait_ms);
    bool between = client_wait_for_gate(a);
    client_begin_acquire(b, CAST_ITEM, WAIT_MS);
    stage_pause(stage, head_start_ms);
    if (between)
        client_wait(b);
    client_open_gate(a);
    client_wait(a);
    stage_fault_over(stage, "client-a", slow);
}

/* Client A acquires and reads, and its work takes longer than the lock lives, so B acquires and reads. */
static void outlive_lock(struct client *a, struct client *b, int64_t wait_ms, const char *slow) {
    client_acquire(a, CAST_ITEM, wait_ms);
    client_read_stock(a, CAST_ITEM);
    stage_fault(client_stage(a), "client-a", slow);
    client_acquire(b, CAST_ITEM, wait_ms);
    client_read_stock(b, CAST_ITEM);
}

/* ---- get-then-set (variant get-set): both clients GET before either SETs ---- */

static void get_then_set_play(struct stage *stage, bool broken) {
    struct cast cast;
    cast_open_redis(&cast, stage, !broken, broken ? "variant=get-set" : "");
    struct client *a = cast_client(&cast, "client-a"), *b = cast_client(&cast, "client-b");
    cast_begin(&cast, 1);
    client_set_gate(a, "between GET and SET");
    stage_until(stage, 50 + stage_random(stage, 0, 50));
    overtake_at_gate(a, WAIT_MS, b, 100, "slow between GET and SET");
    cast_sell_beside(a, b);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_get_then_set = {
    .name = "get-then-set",
    .ttl_ms = 2000,
    .text.title = "A lock that reads and then writes needs a lock itself: both read that it is free.",
    .text.question = "The lock is a key in Redis. A client reads whether it is there; if not, it writes "
                     "it, with an owner and a time to live. Can two clients hold it at once?",
    .text.answers = {"Yes: both can read that it is free before either writes.",
                     "No: Redis runs one command after the other, so one of them comes first.",
                     "No: the second SET fails, since the key is there by then."},
    .text.right = 0,
    .text.story = "Each command of Redis is atomic, and the key has an owner and a time to live, as it "
                  "should.\n\n"
                  "Client A GETs the key: it is not there. Before A SETs it, client B GETs it too: it "
                  "is still not there. B SETs it, and holds the lock. Now A SETs it, over B's value, "
                  "and holds the lock as well.\n\n"
                  "Redis names one owner, the last that wrote. B does not notice: it was told OK.\n\n"
                  "Both read that one lamp is left, both sell it. It is the fault of the stock without "
                  "a lock, one level up.\n\n"
                  "The fix is one command that checks and writes: SET with NX. While A holds the lock, "
                  "B waits; when B gets it, nothing is left to sell.",
    .text.broken_code = "if GET lock is nil:        # A and B both see nil\n"
                        "    SET lock owner PX ttl  # B writes, then A over it\n"
                        "    return OK              # both",
    .text.fixed_code = "if SET lock owner NX PX ttl:   # checks and writes\n"
                       "    return OK                  # one of them\n"
                       "wait, and try again",
    .text.broken_lines = {2},
    .text.fixed_lines = {1},
    .play = get_then_set_play,
};

/* ---- crash-before-expire (variant setnx-expire, V1.0): the holder dies between SETNX and EXPIRE ---- */

static void crash_before_expire_play(struct stage *stage, bool broken) {
    struct cast cast;
    int64_t ttl_ms = stage_ttl_ms(stage);
    cast_open_redis(&cast, stage, !broken, broken ? "variant=setnx-expire" : "");
    struct client *a = cast_client(&cast, "client-a"), *b = cast_client(&cast, "client-b");
    cast_begin(&cast, 1);
    client_set_gate(a, "after SETNX");
    stage_until(stage, 30 + stage_random(stage, 0, 30));
    client_begin_acquire(a, CAST_ITEM, ttl_ms);
    client_wait_for_gate(a);
    client_kill(a);
    stage_pause(stage, 30);
    client_begin_acquire(b, CAST_ITEM, DEAD_WAIT_TTLS * ttl_ms);
    cast_sell(b);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_crash_before_expire = {
    .name = "crash-before-expire",
    .ttl_ms = 400,
    .text.title = "SETNX, then EXPIRE: a client that dies between the two leaves a lock for ever.",
    .text.question = "SETNX takes the lock, EXPIRE gives it a time to live, in case its holder dies. The "
                     "holder dies right after SETNX. When does the next client get the lock?",
    .text.answers = {"After the time to live, since every key of a lock expires in the end.",
                     "At once: Redis notices that the connection has closed, and removes the key.",
                     "Never: nobody gave the key a time to live."},
    .text.right = 2,
    .text.story = "This is the classic version 1.0. SETNX checks and writes in one command, so there is "
                  "one holder. EXPIRE is there for holders that die.\n\n"
                  "Client A sends SETNX, and gets the lock. Then it is killed: a deployment, no memory, "
                  "a broken connection is enough. It never sends EXPIRE.\n\n"
                  "The key has no time to live. Client B asks again and again; Redis always answers "
                  "that A has it, and A is dead.\n\n"
                  "Nobody ever sells anything of this item again, until somebody deletes the key by "
                  "hand.\n\n"
                  "The fix is one command for both: SET with NX and PX. Then the lock of the dead "
                  "client is free after its time to live, and B sells the lamp.",
    .text.broken_code = "if SETNX lock owner == 1:\n"
                        "    # A dies here\n"
                        "    EXPIRE lock ttl\n"
                        "    return OK",
    .text.fixed_code = "if SET lock owner NX PX ttl:   # one command for both\n"
                       "    return OK",
    .text.broken_lines = {3},
    .text.fixed_lines = {1},
    .play = crash_before_expire_play,
};

/* ---- getset (variant getset, V1.1): the GETSET of a loser replaces the time of the winner ---- */

static void getset_play(struct stage *stage, bool broken) {
    struct cast cast;
    int64_t ttl_ms = stage_ttl_ms(stage);
    cast_open_redis(&cast, stage, !broken, broken ? "variant=getset" : "");
    struct client *dead = cast_client(&cast, "client-0"), *a = cast_client(&cast, "client-a"),
                  *b = cast_client(&cast, "client-b"), *c = cast_client(&cast, "client-c");
    cast_begin(&cast, 2);
    client_acquire(dead, CAST_ITEM, WAIT_MS);
    client_kill(dead);
    client_set_gate(a, "between GET and GETSET");
    stage_pause(stage, ttl_ms + 20 + stage_random(stage, 0, 30)); /* the dead client's lock has ended */
    overtake_at_gate(a, 0, b, 60, "slow between GET and GETSET");
    stage_pause(stage, GETSET_WORK_MS);
    cast_sell(a);
    cast_sell(b);
    client_begin_acquire(c, CAST_ITEM, WAIT_MS);
    cast_sell(c);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_getset = {
    .name = "getset",
    .ttl_ms = 800,
    .text.title = "GETSET also writes when it loses: a loser moves the winner's time, and nobody can "
                  "release.",
    .text.question = "The value of the key is the time at which the lock ends. A client that reads a time "
                     "in the past writes its own by GETSET, and has won if GETSET returns the time that it "
                     "read. What does a client do that has lost?",
    .text.answers = {"It has written all the same: its GETSET moved the winner's time.",
                     "Nothing: GETSET writes only if the value is the one that it expects.",
                     "It deletes the winner's lock, and so lets in a third client."},
    .text.right = 0,
    .text.story = "This is version 1.1. There is no EXPIRE that can be missed: the value is the time at "
                  "which the lock ends, and the manual of SETNX once recommended it.\n\n"
                  "A first client takes the lock and dies. After its time client A GETs the value, sees "
                  "that it is over, and is slow.\n\n"
                  "Meanwhile client B GETs the same value, writes its own time by GETSET, gets the old "
                  "one back, and has won. Now A goes on. Its GETSET returns B's time, so A has lost; "
                  "but it has written its own time over B's.\n\n"
                  "B sells, and wants to release. The value is not B's any more: its release is "
                  "refused, long before its deadline. The key names a time that belongs to nobody.\n\n"
                  "Client C has to wait until that time is over, and every loser moves it on. In the "
                  "end nobody has the lock, and nobody gets it.\n\n"
                  "The fix: Redis keeps the time, and the value is an owner: SET with NX and PX.",
    .text.broken_code = "end = GET lock             # in the past\n"
                        "# B wins the lock here\n"
                        "was = GETSET lock (now + ttl)\n"
                        "if was == end: return OK\n"
                        "return BUSY   # but B's time is gone",
    .text.fixed_code = "if SET lock owner NX PX ttl:\n"
                       "    return OK\n"
                       "return BUSY   # and nothing was written",
    .text.broken_lines = {3},
    .text.fixed_lines = {1},
    .play = getset_play,
};

/* ---- maotai (variant set-del, V2.0): DEL deletes the lock of another client ---- */

/* The story with three clients and one lamp. */
static void maotai_three_clients(struct cast *cast) {
    struct stage *stage = cast->stage;
    int64_t ttl_ms = stage_ttl_ms(stage), wait_ms = WAIT_TTLS * ttl_ms;
    static const char slow[] = "the identity check takes longer than the lock lives";
    struct client *a = cast_client(cast, "client-a"), *b = cast_client(cast, "client-b"),
                  *c = cast_client(cast, "client-c");
    cast_begin(cast, 1);
    stage_until(stage, 20 + stage_random(stage, 0, 20));
    outlive_lock(a, b, wait_ms, slow);
    client_begin_acquire(c, CAST_ITEM, wait_ms); /* only now, since this lock is not fair */
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

/* The avalanche: a hundred bottles, and work that takes about as long as the lock lives. The times are scaled
 * down once more. */
static void maotai_crowd(struct cast *cast, const char *variant) {
    struct client *buyers[MAOTAI_CROWD];
    cast->ttl_ms = MAOTAI_CROWD_TTL_MS;
    cast_set_redis_lock(cast, variant);
    cast_crowd(cast, "buyer", MAOTAI_CROWD, buyers);
    observer_fill_stock(cast->shop, "maotai", MAOTAI_UNITS);
    observer_watch(cast->clients, cast->lock_servers, cast->lock_server_count, "", "maotai");
    for (int i = 0; i < MAOTAI_CROWD; i++)
        client_begin_shop(buyers[i], "maotai", STOCK_COMPUTED, MAOTAI_UNITS, MAOTAI_CROWD_TTL_MS);
    for (int i = 0; i < MAOTAI_CROWD; i++)
        client_wait(buyers[i]);
    observer_read_stock(cast->shop, "maotai");
}

static void maotai_play(struct stage *stage, bool broken) {
    const char *variant = broken ? "variant=set-del" : "";
    struct cast cast;
    cast_open_redis(&cast, stage, !broken, variant);
    maotai_three_clients(&cast);
    maotai_crowd(&cast, variant);
}

const struct scenario scenario_maotai = {
    .name = "maotai",
    .ttl_ms = 1000,
    .text.title = "A release by DEL deletes another's lock, once work takes longer than the lock lives.",
    .text.question = "A lock lives for ten seconds, here scaled down. One day the identity check behind it "
                     "takes longer. There are a hundred bottles of Maotai. How many are sold?",
    .text.answers = {"A hundred: one client holds the lock at a time, and the others wait longer.",
                     "A hundred and one: there is one late sale, and then all is well again.",
                     "Far more: each late release lets in another client beside the holder."},
    .text.right = 2,
    .text.story = "This is version 2.0: SET with NX and PX takes the lock, DEL releases it. A flash "
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
    .text.broken_code = "if SET lock 1 NX PX ttl:\n"
                        "    check_identity()       # takes longer than ttl\n"
                        "    sell()\n"
                        "    DEL lock               # whose?",
    .text.fixed_code = "if SET lock owner NX PX ttl:\n"
                       "    check_identity()\n"
                       "    sell(fence)             # 'stale' if a newer holder has read\n"
                       "    -- one script:\n"
                       "    if redis.call('GET', lock) == owner then\n"
                       "        redis.call('DEL', lock)\n"
                       "    end",
    .text.broken_lines = {3, 4},
    .text.fixed_lines = {3, 5},
    .play = maotai_play,
};

/* ---- equal-timestamps (variant timestamp, V3.0): two clients with one timestamp are one owner ---- */

static void equal_timestamps_play(struct stage *stage, bool broken) {
    struct cast cast;
    int64_t ttl_ms = stage_ttl_ms(stage), wait_ms = WAIT_TTLS * ttl_ms;
    static const char slow[] = "its work takes longer than the lock lives";
    cast_open_redis(&cast, stage, !broken, broken ? "variant=timestamp" : "");
    struct client *a = cast_client(&cast, "client-a"), *b = cast_client(&cast, "client-b"),
                  *c = cast_client(&cast, "client-c");
    cast_begin(&cast, 1);
    stage_until(stage, 30 + stage_random(stage, 0, 30));
    int64_t shown_ms = clock_now_ns() / 1000000;
    client_set_clock(a, shown_ms);
    client_set_clock(b, shown_ms);
    stage_note(stage, "B's clock is behind: when B gets the lock, it shows what A's showed");
    outlive_lock(a, b, wait_ms, slow);
    stage_pause(stage, ttl_ms / 4);
    stage_fault_over(stage, "client-a", slow);
    client_sell(a, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(a); /* its timestamp is B's */
    cast_try(c, wait_ms, broken ? wait_ms : ttl_ms / 5);
    bool both = client_holds(c);
    if (both)
        client_read_stock(c, CAST_ITEM);
    stage_pause(stage, ttl_ms / 10);
    client_sell(b, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(b);
    if (both)
        client_release(c);
    else
        cast_sell(c);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_equal_timestamps = {
    .name = "equal-timestamps",
    .ttl_ms = 600,
    .text.title = "A timestamp is no owner: two clients with the same one release each other's lock.",
    .text.question = "The release compares before it deletes, in one script. The value that it compares is "
                     "the time at which the lock was taken, in milliseconds. When does it delete another's "
                     "lock?",
    .text.answers = {"Never: it compares before it deletes, and both are done in one script.",
                     "When the other's clock showed the same millisecond: both values are equal.",
                     "Whenever the release comes later than the time to live."},
    .text.right = 1,
    .text.story = "This is version 3.0. The release reads the value, compares it with its own, and "
                  "deletes, all in one script. Only the value is wrong: it is the time of the "
                  "acquisition.\n\n"
                  "Client A takes the lock, and works for longer than the lock lives. The lock expires, "
                  "and client B takes it. B runs on another machine, whose clock is behind: it shows "
                  "the same millisecond as A's did.\n\n"
                  "A is late, and releases. The script compares: the value is equal. It deletes B's "
                  "lock.\n\n"
                  "Client C takes the lock beside B. Two clients in one millisecond are not rare in a "
                  "crowd, and clocks of two machines differ by more than that.\n\n"
                  "The fix is a value that nobody else has: random bits for the process, and a counter.",
    .text.broken_code = "owner = now_ms()           # A and B: the same\n"
                        "SET lock owner NX PX ttl\n"
                        "...\n"
                        "if GET lock == owner: DEL lock   # B's",
    .text.fixed_code = "owner = random_64_bits() + counter()\n"
                       "SET lock owner NX PX ttl\n"
                       "...\n"
                       "if GET lock == owner: DEL lock   # one script",
    .text.broken_lines = {1},
    .text.fixed_lines = {1},
    .play = equal_timestamps_play,
};
