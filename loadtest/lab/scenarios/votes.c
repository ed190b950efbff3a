#include "loadtest/lab/scenarios/votes.h"

enum { WAIT_MS = 20000, TRY_MS = 400 };

void votes_start(struct votes *votes, struct cast *cast,
                 struct server *(*start)(struct stage *stage, const char *name)) {
    *votes = (struct votes){.cast = cast};
    for (int i = 0; i < VOTES_NODES; i++) {
        char name[SERVER_NAME_SIZE];
        snprintf(name, sizeof name, "node-%d", i + 1);
        votes->nodes[i] = start(cast->stage, name);
    }
    votes->to_third = stage_start_link(cast->stage, votes->nodes[2]->port);
}

static void set_lock(const struct votes *votes, int third_port) {
    cast_set_lock(votes->cast, "redlock://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", votes->nodes[0]->port,
                  votes->nodes[1]->port, third_port);
}

void votes_start_clients(struct votes *votes) {
    set_lock(votes, proxy_port(votes->to_third));
    votes->a = cast_client(votes->cast, "client-a");
    set_lock(votes, votes->nodes[2]->port);
    votes->b = cast_client(votes->cast, "client-b");
}

void votes_play(struct votes *votes, void (*lose)(struct server *node)) {
    struct stage *stage = votes->cast->stage;
    struct client *a = votes->a, *b = votes->b;
    for (int i = 0; i < VOTES_NODES; i++)
        observer_watch_redis(votes->cast->clients, votes->nodes[i], CAST_ITEM);
    stage_until(stage, 40 + stage_random(stage, 0, 40));
    stage_fault(stage, "client-a", "cannot reach node-3");
    proxy_silence(votes->to_third);
    client_acquire(a, CAST_ITEM, WAIT_MS);
    lose(votes->nodes[1]);
    client_begin_acquire(b, CAST_ITEM, WAIT_MS);
    client_done_within(b, TRY_MS);
    cast_sell_beside(a, b);
    observer_read_stock(votes->cast->shop, CAST_ITEM);
}
