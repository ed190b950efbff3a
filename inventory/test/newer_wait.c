#include "inventory/test/newer_wait.h"
#include "inventory/test/wire_server.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "test/harness.h"

enum { REPLICAS_MAX = 2 };

struct newer_wait {
    int port;
    _Atomic int blind;
    const char *_Atomic refused;
};

/* A client is marked that wrote since its last WAIT. Scripts are the only writes of connections that WAIT.
 * For more replicas than there are, all WAITs wait. */
static bool pass_command(void *ctx, struct wire_client *client, const redisReply *command) {
    struct newer_wait *relay = ctx;
    const char *argv[WIRE_ARGS_MAX] = {NULL};
    size_t lengths[WIRE_ARGS_MAX];
    int argc = 0;
    for (; argc < WIRE_ARGS_MAX && (size_t)argc < command->elements; argc++) {
        argv[argc] = command->element[argc]->str;
        lengths[argc] = (size_t)command->element[argc]->len;
    }
    char *text = NULL;
    int length;
    bool waits = argc == 3 && strcasecmp(argv[0], "WAIT") == 0;
    bool script = argc > 3 && strncasecmp(argv[0], "EVAL", 4) == 0;
    const char *refused = relay->refused;
    if (waits && !client->marked && strtol(argv[1], NULL, 10) <= REPLICAS_MAX) {
        relay->blind++;
        length = redisFormatCommand(&text, "EVAL %s 0", "return 1");
    } else if (script && refused && strstr(argv[3], refused)) {
        length = redisFormatCommand(&text, "EVAL %s 0", "return redis.error_reply('OOM no memory')");
    } else {
        length = (int)redisFormatCommandArgv(&text, argc, argv, lengths);
        client->marked = !waits && (client->marked || script);
    }
    bool sent = length > 0 && send(client->upstream, text, (size_t)length, MSG_NOSIGNAL) == length;
    redisFreeCommand(text);
    return sent;
}

struct newer_wait *newer_wait_start(int redis_port) {
    struct newer_wait *relay = harness_alloc(sizeof *relay);
    wire_serve(&relay->port, 1, redis_port, pass_command, relay);
    return relay;
}

int newer_wait_port(const struct newer_wait *relay) {
    return relay->port;
}

int newer_wait_blind(const struct newer_wait *relay) {
    return relay->blind;
}

void newer_wait_refuse(struct newer_wait *relay, const char *key) {
    relay->refused = key;
}
