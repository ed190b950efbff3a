/* etcd: a holder is paused beyond its lease. */
#include "loadtest/lab/scenarios/pause.h"
#include "loadtest/lab/scenarios/scenario.h"
#include "loadtest/lab/stage/stage_servers.h"

static struct server *etcd;

static void observe(struct cast *cast) {
    observer_watch_etcd(cast->clients, &etcd, 1, "lock/", CAST_ITEM);
}

static void play(struct stage *stage, bool broken) {
    struct cast cast;
    char url[ETCD_URL_SIZE];
    cast_open(&cast, stage, "shop", !broken);
    stage_start_etcd(stage, "etcd", 1, &etcd);
    server_etcd_url(url, &etcd, 1);
    cast_set_lock(&cast, "%s", url);
    pause_holder(&cast, observe);
}

const struct scenario scenario_etcd_paused = {
    .name = "etcd-paused",
    .ttl_ms = 1000,
    .text =
        {
            .title = "Consensus does not stop a holder that is paused beyond its lease; the revision as "
                     "fence does.",
            .question =
                "The lock is in etcd: a lease, kept alive by the client, and consensus behind it. The "
                "holder is stopped until its lease has expired. Does consensus protect the stock?",
            .answers = {"Yes: etcd refuses the write of a client whose lease has expired.",
                        "No: etcd knows who holds the lock, but the stock does not ask etcd.",
                        "Yes: the client's library stops the write when the process wakes up."},
            .right = 1,
            .story = "etcd is right about who has the lock, at every moment. The question is what the "
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
            .broken_code = "key = put(lock/lamp, lease)\n"
                           "left = read(stock)\n"
                           "# stopped: no keep-alive, the lease expires\n"
                           "write(stock, left - 1)          # accepted",
            .fixed_code = "key = put(lock/lamp, lease)\n"
                          "fence = key.create_revision\n"
                          "left = read(stock, fence)\n"
                          "# stopped: no keep-alive, the lease expires\n"
                          "write(stock, left - 1, fence)   # stale",
            .broken_lines = {4},
            .fixed_lines = {2, 5},
        },
    .play = play,
};
