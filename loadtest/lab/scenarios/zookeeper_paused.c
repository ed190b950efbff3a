/* ZooKeeper: a holder is paused beyond its session. */
#include "loadtest/lab/scenarios/pause.h"
#include "loadtest/lab/scenarios/scenario.h"
#include "loadtest/lab/stage/stage_servers.h"

static struct server *zookeeper;

static void observe(struct cast *cast) {
    observer_watch_zookeeper(cast->clients, zookeeper, CAST_ITEM);
}

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    cast_open(&cast, stage, "shop", !broken);
    zookeeper = stage_start_zookeeper(stage, "zookeeper");
    cast_set_lock(&cast, "zookeeper://127.0.0.1:%d", zookeeper->port);
    pause_holder(&cast, observe);
}

const struct scenario scenario_zookeeper_paused = {
    .name = "zookeeper-paused",
    .ttl_ms = 1000,
    .text =
        {
            .title = "A session that expired deletes the node, and not the write of its client; the zxid "
                     "as fence does.",
            .question = "The lock is an ephemeral node in ZooKeeper: it goes with its client's session. The "
                        "client is stopped until the session has expired. What happens to the write that it "
                        "was about to make?",
            .answers = {"It is made: the stock does not know that the session has expired.",
                        "It is not made: ZooKeeper closes all connections of that client.",
                        "It fails: the node is gone, and the stock checks whether it is there."},
            .right = 0,
            .story = "An ephemeral node is the surest way to release the lock of a client that died. A "
                     "client that was only stopped is not dead.\n\n"
                     "Client A has the lowest node, and so the lock. It is stopped; its session expires, "
                     "and ZooKeeper deletes its node.\n\n"
                     "Client B watched that node, gets the lock, sells the lamp, and releases.\n\n"
                     "A wakes up. It will learn of its session's end as soon as it reads its socket; but "
                     "the next thing that it does is the write that it was about to make. The lamp is sold "
                     "again.\n\n"
                     "The fix: the zxid that created the node is a number that grows with each grant. A "
                     "sends it with its write, the stock has seen B's, and refuses.",
            .broken_code = "node = create(\"/lock/lamp/…\", EPHEMERAL | SEQUENTIAL)\n"
                           "left = read(stock)\n"
                           "# stopped: the session expires\n"
                           "write(stock, left - 1)          # accepted",
            .fixed_code = "node = create(\"/lock/lamp/…\", EPHEMERAL | SEQUENTIAL)\n"
                          "fence = node.czxid\n"
                          "left = read(stock, fence)\n"
                          "# stopped: the session expires\n"
                          "write(stock, left - 1, fence)   # stale",
            .broken_lines = {4},
            .fixed_lines = {2, 5},
        },
    .play = play,
};
