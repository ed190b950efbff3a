/* Servers on loopback ports that speak Redis' protocol, in a thread of their own; what they answer is their
 * user's. */
#ifndef INVENTORY_TEST_WIRE_SERVER_H
#define INVENTORY_TEST_WIRE_SERVER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

enum { WIRE_PORTS_MAX = 3, WIRE_ARGS_MAX = 64 };

struct wire_client {
    int fd;       /* -1: nobody */
    int server;   /* the index of the port that it came to */
    int upstream; /* a connection of its own, whose bytes go to the client; -1: there is none */
    redisReader *requests;
    bool marked; /* the user's; false at first */
};

/* Called in the thread; false: the client leaves. */
typedef bool wire_command_fn(void *ctx, struct wire_client *client, const redisReply *command);

/* Fills `ports`, and serves until the test ends. `upstream_port` 0: there is no upstream. */
void wire_serve(int ports[], int count, int upstream_port, wire_command_fn *on_command, void *ctx);

#endif
