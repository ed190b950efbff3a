/* redlock: a holder is paused beyond its validity, and there is no fence to stop it. */
#include "loadtest/lab/scenarios/pause.h"
#include "loadtest/lab/scenarios/scenario.h"

enum { NODES = 3 };

static struct server *nodes[NODES];

static void observe(struct cast *cast) {
    for (int i = 0; i < NODES; i++)
        observer_watch_redis(cast->clients, nodes[i], CAST_ITEM);
}

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    cast_open(&cast, stage, "shop", true);
    for (int i = 0; i < NODES; i++) {
        char name[SERVER_NAME_SIZE];
        snprintf(name, sizeof name, "node-%d", i + 1);
        nodes[i] = stage_start_redis(stage, name, NULL);
    }
    if (broken)
        cast_set_lock(&cast, "redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", nodes[0]->port,
                      nodes[1]->port, nodes[2]->port);
    else
        cast_set_lock(&cast, "redis://127.0.0.1:%d", nodes[0]->port);
    pause_holder(&cast, observe);
}

const struct scenario scenario_paused_quorum = {
    .name = "paused-quorum",
    .ttl_ms = 1000,
    .text =
        {
            .title = "Redlock has no fence: more servers do not stop a holder that was paused.",
            .question = "Three servers have voted for the holder, and all of them work. The holder is paused "
                        "beyond its time. Do three servers protect the stock better than one?",
            .answers = {"Yes: a majority notices that the holder is paused, and takes its votes back.",
                        "Yes: a write needs a majority, too, and the late one gets none.",
                        "No: nothing tells the stock which of two holders is the newer one."},
            .right = 2,
            .story = "Redlock is made for servers that fail. Here none fails.\n\n"
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
            .broken_code = "grant = redlock.acquire()\n"
                           "# grant.fence is 0: there is none\n"
                           "left = read(stock)\n"
                           "# paused\n"
                           "write(stock, left - 1)          # accepted",
            .fixed_code = "grant = acquire(lock)   # fence = INCR, in the same script\n"
                          "left = read(stock, grant.fence)\n"
                          "# paused\n"
                          "write(stock, left - 1, grant.fence)   # stale",
            .broken_lines = {5},
            .fixed_lines = {1, 4},
        },
    .play = play,
};
