/* Holders that stop: paused for longer than the lease, whatever the lock (one Redis, Redlock, etcd,
 * ZooKeeper), or hanging while a background thread renews for them. */
#include "loadtest/lab/scenarios/cast.h"

enum { PAUSE_WAIT_TTLS = 20, HUNG_WAIT_TTLS = 6 };

/* The pause that every lock has in common: a holder is stopped beyond its lease, another client sells
 * meanwhile, and the first one wakes up and writes. The cast has its lock. */
static void play_pause(struct cast *cast) {
    struct stage *stage = cast->stage;
    int64_t ttl_ms = stage_ttl_ms(stage);
    struct client *a = cast_client(cast, "client-a"), *b = cast_client(cast, "client-b");
    cast_begin(cast, 1);
    stage_until(stage, 40 + stage_random(stage, 0, 40));
    client_acquire(a, CAST_ITEM, PAUSE_WAIT_TTLS * ttl_ms);
    client_read_stock(a, CAST_ITEM);
    client_pause(a, "stopped beyond its lease");
    stage_pause(stage, ttl_ms / 10);
    client_begin_acquire(b, CAST_ITEM, PAUSE_WAIT_TTLS * ttl_ms);
    cast_sell(b);
    stage_pause(stage, ttl_ms / 10);
    client_resume(a);
    client_sell(a, CAST_ITEM, STOCK_COMPUTED, NULL);
    client_release(a);
    observer_read_stock(cast->shop, CAST_ITEM);
}

/* ---- paused-holder: one Redis ---- */

static void paused_holder_play(struct stage *stage, bool broken) {
    struct cast cast;
    cast_open_redis(&cast, stage, !broken, "");
    play_pause(&cast);
}

const struct scenario scenario_paused_holder = {
    .name = "paused-holder",
    .ttl_ms = 1000,
    .text.title = "No lock can stop a holder that is paused and wakes up late; the stock can, by the "
                  "fence.",
    .text.question = "The lock is right: a unique owner, a time to live, a release that compares. Its "
                     "holder is paused for longer than the time to live, just before it writes. Does the "
                     "lock protect the write?",
    .text.answers = {"No: the write comes late, and the stock knows nothing of the lock.",
                     "Yes: a holder that wakes up asks first whether it still has the lock.",
                     "Yes: Redis refuses the commands of a client whose lock has expired."},
    .text.right = 0,
    .text.story = "Client A takes the lock, and reads that one lamp is left. Then its process is "
                  "stopped: a long garbage collection, a page that must be read from disk, a virtual "
                  "machine that moves.\n\n"
                  "A does not know that it is paused. Its time to live passes, and Redis is right to "
                  "give the lock to client B. B reads that one lamp is left, sells it, and releases.\n\n"
                  "A wakes up. The last thing it remembers is that it holds the lock. It writes: the "
                  "lamp is sold a second time. To read the clock before the write would only make this "
                  "rarer, since the pause can come between that and the write.\n\n"
                  "The fix is a fencing token. Each grant has a number that grows; each write carries "
                  "it; the stock remembers the newest that it has seen, and refuses an older one. The "
                  "lock is the same, the pause is the same; A's late write is refused as stale.",
    .text.broken_code = "grant = acquire(lock)\n"
                        "left = read(stock)\n"
                        "# paused here, for longer than the time to live\n"
                        "write(stock, left - 1)          # accepted",
    .text.fixed_code = "grant = acquire(lock)\n"
                       "left = read(stock, grant.fence)\n"
                       "# paused here, for longer than the time to live\n"
                       "write(stock, left - 1, grant.fence)\n"
                       "\n"
                       "-- in the script of the stock:\n"
                       "if fence < newest_seen then return 'stale' end",
    .text.broken_lines = {4},
    .text.fixed_lines = {4, 7},
    .play = paused_holder_play,
};

/* ---- paused-quorum: Redlock has no fence that could stop the late write ---- */

static void paused_quorum_play(struct stage *stage, bool broken) {
    struct cast cast;
    int ports[CAST_NODES];
    cast_open(&cast, stage, "shop", true);
    cast_start_nodes(&cast, cast_start_redis, ports);
    cast_set_lock(&cast, broken ? "redlock" : "redis", ports, broken ? CAST_NODES : 1, "");
    play_pause(&cast);
}

const struct scenario scenario_paused_quorum = {
    .name = "paused-quorum",
    .ttl_ms = 1000,
    .text.title = "Redlock has no fence: more servers do not stop a holder that was paused.",
    .text.question = "Three servers have voted for the holder, and all of them work. The holder is paused "
                     "beyond its time. Do three servers protect the stock better than one?",
    .text.answers = {"Yes: a majority notices that the holder is paused, and takes its votes back.",
                     "Yes: a write needs a majority, too, and the late one gets none.",
                     "No: nothing tells the stock which of two holders is the newer one."},
    .text.right = 2,
    .text.story = "Redlock is made for servers that fail. Here none fails.\n\n"
                  "Client A has the votes of all three nodes, and reads that one lamp is left. It is "
                  "stopped for longer than the lock lives. The nodes are right to expire its votes.\n\n"
                  "Client B gets the lock, sells the lamp, and releases. A wakes up, and sells it "
                  "again.\n\n"
                  "The stock would check a fence, and the clients would send one; but this lock has "
                  "none. Each node could count its grants, but of three counts none is certain to be "
                  "larger than all before. To agree on one number is consensus, and Redlock is not "
                  "that.\n\n"
                  "The fix is a lock with a fence, here a single Redis that counts in the script that "
                  "grants. A's late write has the older number, and is refused.",
    .text.broken_code = "grant = redlock.acquire()\n"
                        "# grant.fence is 0: there is none\n"
                        "left = read(stock)\n"
                        "# paused\n"
                        "write(stock, left - 1)          # accepted",
    .text.fixed_code = "grant = acquire(lock)   # fence = INCR, in the same script\n"
                       "left = read(stock, grant.fence)\n"
                       "# paused\n"
                       "write(stock, left - 1, grant.fence)   # stale",
    .text.broken_lines = {5},
    .text.fixed_lines = {1, 4},
    .play = paused_quorum_play,
};

/* ---- etcd-paused: the lease expires ---- */

static void etcd_paused_play(struct stage *stage, bool broken) {
    struct cast cast;
    cast_open(&cast, stage, "shop", !broken);
    cast_start_etcd(&cast, 1, "");
    play_pause(&cast);
}

const struct scenario scenario_etcd_paused = {
    .name = "etcd-paused",
    .ttl_ms = 1000,
    .text.title = "Consensus does not stop a holder that is paused beyond its lease; the revision as "
                  "fence does.",
    .text.question = "The lock is in etcd: a lease, kept alive by the client, and consensus behind it. The "
                     "holder is stopped until its lease has expired. Does consensus protect the stock?",
    .text.answers = {"Yes: etcd refuses the write of a client whose lease has expired.",
                     "No: etcd knows who holds the lock, but the stock does not ask etcd.",
                     "Yes: the client's library stops the write when the process wakes up."},
    .text.right = 1,
    .text.story = "etcd is right about who has the lock, at every moment. The question is what the "
                  "client believes.\n\n"
                  "Client A holds the lock, and its library keeps the lease alive. Then its process is "
                  "stopped, and so are the keep-alives. After three seconds etcd expires the lease and "
                  "deletes A's key.\n\n"
                  "Client B waited for that key, gets the lock, sells the lamp, and releases.\n\n"
                  "A wakes up in the middle of its work, and writes. The stock knows nothing of etcd: "
                  "the lamp is sold again.\n\n"
                  "The fix: the create revision of the key is a number that grows with each grant, and "
                  "never goes back, also when the leader changes. A sends it with its write, the stock "
                  "has seen B's, and refuses.",
    .text.broken_code = "key = put(lock/lamp, lease)\n"
                        "left = read(stock)\n"
                        "# stopped: no keep-alive, the lease expires\n"
                        "write(stock, left - 1)          # accepted",
    .text.fixed_code = "key = put(lock/lamp, lease)\n"
                       "fence = key.create_revision\n"
                       "left = read(stock, fence)\n"
                       "# stopped: no keep-alive, the lease expires\n"
                       "write(stock, left - 1, fence)   # stale",
    .text.broken_lines = {4},
    .text.fixed_lines = {2, 5},
    .play = etcd_paused_play,
};

/* ---- zookeeper-paused: the session expires ---- */

static void zookeeper_paused_play(struct stage *stage, bool broken) {
    struct cast cast;
    cast_open(&cast, stage, "shop", !broken);
    cast_add_lock_server(&cast, stage_start_zookeeper(stage, "zookeeper"));
    cast_set_lock(&cast, "zookeeper", &cast.lock_servers[0]->port, 1, "");
    play_pause(&cast);
}

const struct scenario scenario_zookeeper_paused = {
    .name = "zookeeper-paused",
    .ttl_ms = 1000,
    .text.title = "A session that expired deletes the node, and not the write of its client; the zxid "
                  "as fence does.",
    .text.question = "The lock is an ephemeral node in ZooKeeper: it goes with its client's session. The "
                     "client is stopped until the session has expired. What happens to the write that it "
                     "was about to make?",
    .text.answers = {"It is made: the stock does not know that the session has expired.",
                     "It is not made: ZooKeeper closes all connections of that client.",
                     "It fails: the node is gone, and the stock checks whether it is there."},
    .text.right = 0,
    .text.story = "An ephemeral node is the surest way to release the lock of a client that died. A "
                  "client that was only stopped is not dead.\n\n"
                  "Client A has the lowest node, and so the lock. It is stopped; its session expires, "
                  "and ZooKeeper deletes its node.\n\n"
                  "Client B watched that node, gets the lock, sells the lamp, and releases.\n\n"
                  "A wakes up. It will learn of its session's end as soon as it reads its socket; but "
                  "the next thing that it does is the write that it was about to make. The lamp is sold "
                  "again.\n\n"
                  "The fix: the zxid that created the node is a number that grows with each grant. A "
                  "sends it with its write, the stock has seen B's, and refuses.",
    .text.broken_code = "node = create(\"/lock/lamp/…\", EPHEMERAL | SEQUENTIAL)\n"
                        "left = read(stock)\n"
                        "# stopped: the session expires\n"
                        "write(stock, left - 1)          # accepted",
    .text.fixed_code = "node = create(\"/lock/lamp/…\", EPHEMERAL | SEQUENTIAL)\n"
                       "fence = node.czxid\n"
                       "left = read(stock, fence)\n"
                       "# stopped: the session expires\n"
                       "write(stock, left - 1, fence)   # stale",
    .text.broken_lines = {4},
    .text.fixed_lines = {2, 5},
    .play = zookeeper_paused_play,
};

/* ---- hung-holder (Redis, renew=on): a live process renews for a holder that hangs ---- */

static void hung_holder_play(struct stage *stage, bool broken) {
    struct cast cast;
    int64_t ttl_ms = stage_ttl_ms(stage);
    cast_open_redis(&cast, stage, !broken, broken ? "renew=on" : "variant=watchdog");
    struct client *a = cast_client(&cast, "client-a"), *b = cast_client(&cast, "client-b");
    cast_begin(&cast, 1);
    stage_until(stage, 30 + stage_random(stage, 0, 30));
    client_acquire(a, CAST_ITEM, ttl_ms);
    client_read_stock(a, CAST_ITEM);
    client_hang(a, "its worker hangs in a call; its process lives");
    client_begin_acquire(b, CAST_ITEM, HUNG_WAIT_TTLS * ttl_ms);
    cast_sell(b);
    observer_read_stock(cast.shop, CAST_ITEM);
}

const struct scenario scenario_hung_holder = {
    .name = "hung-holder",
    .ttl_ms = 1500, /* a renewal has a third of it, and a machine may stall for almost half a second */
    .text.title = "A watchdog that renews for as long as the process lives keeps the lock of a holder "
                  "that hangs.",
    .text.question = "A background thread renews the lock every third of its time to live, so work may "
                     "take as long as it takes. The worker hangs in a call that never returns. When does "
                     "the next client get the lock?",
    .text.answers = {"When the time to live has passed, since a worker that hangs renews nothing.",
                     "When the call has timed out: no call can hang for ever.",
                     "Never while the process lives: the thread goes on renewing."},
    .text.right = 2,
    .text.story = "Renewal solves one problem: nobody has to guess how long the work takes.\n\n"
                  "Client A takes the lock. Its worker hangs: a deadlock, a call to a service that does "
                  "not answer. But its process lives, and so does the thread that renews.\n\n"
                  "The lock is renewed again and again. Client B waits, and nobody will ever sell this "
                  "item again until somebody restarts A. A crash would have been better: then the lock "
                  "would have expired.\n\n"
                  "The fix binds renewal to progress. The worker reports that it is alive, by "
                  "lock_progress() at each step; the watchdog renews only for a holder that has "
                  "reported within three times to live. The hung holder loses its lock, is told so, and "
                  "B sells the lamp. If A ever wakes up, its fence is old.",
    .text.broken_code = "lock_open(\"redis://…?renew=on\")\n"
                        "acquire(lock)\n"
                        "call_that_never_returns()   # the thread renews on",
    .text.fixed_code = "lock_open(\"redis://…?variant=watchdog\")\n"
                       "acquire(lock)\n"
                       "for each step:\n"
                       "    work(step)\n"
                       "    if lock_progress(lock) == LOST: stop",
    .text.broken_lines = {1},
    .text.fixed_lines = {1, 5},
    .play = hung_holder_play,
};
