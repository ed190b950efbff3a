/* The loop wakes, whatever the state of the channel that wakes it; and it stops. */
#include "lock/libetcd/etcd_client.h"

#include <grpc/grpc_security.h>
#include <stdatomic.h>
#include <stdio.h>

#include "lock/libetcd/test/tools.h"

struct counter {
    struct etcd_ticker ticker; /* first */
    atomic_int ticks;
};

static int64_t count(struct etcd_ticker *ticker, int64_t now_ns) {
    (void)now_ns;
    atomic_fetch_add(&((struct counter *)ticker)->ticks, 1);
    return INT64_MAX;
}

/* Every wake has its effect. Prints the slowest. */
static void wake_by(grpc_channel *channel, const char *what) {
    enum { WAKES = 2000 };
    struct counter counter = {.ticker = {.tick = count, .next_ns = INT64_MAX}};
    struct etcd_loop loop;
    int64_t slowest_ns = 0;
    etcd_loop_open(&loop);
    loop.wake_channel = channel;
    etcd_loop_add(&loop, &counter.ticker);
    CHECK(etcd_loop_start(&loop));
    for (int i = 0; i < WAKES; i++) {
        int before = atomic_load(&counter.ticks);
        int64_t woken_ns = clock_now_ns();
        etcd_loop_wake(&loop);
        while (atomic_load(&counter.ticks) == before && clock_now_ns() < woken_ns + 5000000000)
            harness_pause_ms(0);
        if (atomic_load(&counter.ticks) == before)
            FAIL("%s: wake %d does nothing", what, i);
        int64_t took_ns = clock_now_ns() - woken_ns;
        slowest_ns = took_ns > slowest_ns ? took_ns : slowest_ns;
    }
    printf("     %s: %d us at most\n", what, (int)(slowest_ns / 1000));
    etcd_loop_wake(&loop); /* in flight when it stops */
    etcd_loop_stop(&loop);
    etcd_loop_close(&loop);
}

static grpc_channel *channel_to(const char *target) {
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create(target, credentials, NULL);
    grpc_channel_credentials_release(credentials);
    return channel;
}

static void any_channel_wakes(void) {
    struct etcd_server server;
    etcd_start(&server, NULL);
    grpc_init();
    grpc_channel *idle = channel_to("127.0.0.1:1");
    grpc_channel *lost = channel_to("127.0.0.1:1");
    grpc_channel *ready = channel_to(harness_format("127.0.0.1:%d", server.port));
    grpc_channel *lame = grpc_lame_client_channel_create("x", GRPC_STATUS_UNAVAILABLE, "lame");
    wake_by(idle, "never connected");
    for (int i = 0; i < 200; i++) {
        grpc_channel_check_connectivity_state(lost, 1);
        grpc_channel_check_connectivity_state(ready, 1);
        harness_pause_ms(1);
    }
    wake_by(lost, "not to be reached");
    wake_by(ready, "connected");
    wake_by(lame, "lame");
    etcd_kill(&server);
    wake_by(ready, "disconnected");
    grpc_channel_destroy(lame);
    grpc_channel_destroy(ready);
    grpc_channel_destroy(lost);
    grpc_channel_destroy(idle);
    grpc_shutdown_blocking();
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("any channel wakes the loop", any_channel_wakes);
    return harness_finish();
}
