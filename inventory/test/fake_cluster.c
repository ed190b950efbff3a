#include "inventory/test/fake_cluster.h"
#include "inventory/test/wire_server.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "test/harness.h"

/* INFO replication of a master that was never promoted. */
static const char *history(struct fake_cluster *fake) {
    const char *info = harness_format("role:master\r\nmaster_replid:%040d\r\nmaster_replid2:%040d\r\n", 1, 0);
    snprintf(fake->text, sizeof fake->text, "$%zu\r\n%s\r\n", strlen(info), info);
    return fake->text;
}

static const char *epoch(struct fake_cluster *fake, int server) {
    const char *info = harness_format("cluster_current_epoch:%d\r\n", fake->epoch[server]);
    snprintf(fake->text, sizeof fake->text, "$%zu\r\n%s\r\n", strlen(info), info);
    return fake->text;
}

/* Of a client the first question for the history is answered here, and later ones by the script, like all
 * else. */
static bool reply_to(void *ctx, struct wire_client *client, const redisReply *command) {
    struct fake_cluster *fake = ctx;
    const char *argv[WIRE_ARGS_MAX], *text = NULL;
    int argc = 0;
    for (size_t i = 0; i < command->elements && i < WIRE_ARGS_MAX; i++)
        argv[argc++] = command->element[i]->str;
    if (argc > 0 && strcmp(argv[0], "SELECT") == 0) {
        text = "+OK\r\n";
    } else if (argc > 0 && strcmp(argv[0], "INFO") == 0 && !client->marked) {
        client->marked = true;
        text = history(fake);
    } else if (fake->epoch[client->server] && argc > 1 && strcmp(argv[1], "INFO") == 0) {
        text = epoch(fake, client->server);
    } else if (argc > 3 && strstr(argv[3], "{sellers}")) {
        text = ":1\r\n"; /* who lives, and has shown what it has */
    } else {
        fake->commands++;
        fake->maps += argc > 1 && strcmp(argv[1], "SLOTS") == 0;
        text = fake->answer(fake, client->server, argc, argv);
    }
    return !text || send(client->fd, text, strlen(text), MSG_NOSIGNAL) > 0;
}

void fake_cluster_start(struct fake_cluster *fake, fake_answer_fn *answer) {
    *fake = (struct fake_cluster){.answer = answer};
    wire_serve(fake->port, FAKE_SERVERS, 0, reply_to, fake);
}

const char *fake_cluster_map(struct fake_cluster *fake, int server) {
    snprintf(fake->text, sizeof fake->text, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n",
             fake->port[server]);
    return fake->text;
}
