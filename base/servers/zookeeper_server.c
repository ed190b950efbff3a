#include "base/servers/local_servers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { ARGS_MAX = 32, ASK_MS = 300, ANSWER_SIZE = 2048, PATH_SIZE = LOCAL_SERVER_DIR_SIZE + 16 };

/* A server that only begins to listen never answers: so it is not asked for long. */
bool zookeeper_server_ask(const struct zookeeper_server *server, const char *word, char *answer,
                          size_t size) {
    return local_server_ask("127.0.0.1", server->port, word, answer, size, ASK_MS);
}

static bool zookeeper_serves(void *server) {
    char answer[ANSWER_SIZE];
    return zookeeper_server_ask(server, "srvr", answer, sizeof answer) && strstr(answer, "Mode: ");
}

static const char *zookeeper_await(struct zookeeper_server *server) {
    return local_server_await(&server->proc, zookeeper_serves, server, ZOOKEEPER_SERVER_START_MS);
}

/* Two ports of each member of an ensemble: for its peers, and for elections. */
struct zookeeper_peers {
    int count, ports[ZOOKEEPER_SERVERS_MAX][2];
};

/* `id`: its number in the ensemble, from 1. */
static bool zookeeper_write_config(const struct zookeeper_server *server, const char *file, int id,
                                   const struct zookeeper_peers *peers,
                                   const struct zookeeper_options *options) {
    char path[PATH_SIZE];
    FILE *out = fopen(file, "we");
    if (!out)
        return false;
    fprintf(
        out,
        "tickTime=%d\ninitLimit=50\nsyncLimit=25\ndataDir=%s/data\nmaxSessionTimeout=%d\nmaxClientCnxns=0\n"
        "clientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\n",
        options->tick_ms, server->dir, options->session_max_ms, server->port);
    for (int i = 0; i < peers->count; i++)
        fprintf(out, "server.%d=127.0.0.1:%d:%d\n", i + 1, peers->ports[i][0], peers->ports[i][1]);
    if (fclose(out) != 0)
        return false;
    if (peers->count == 0)
        return true;
    snprintf(path, sizeof path, "%s/data", server->dir);
    if (mkdir(path, 0700) != 0)
        return false;
    snprintf(path, sizeof path, "%s/data/myid", server->dir);
    out = fopen(path, "we");
    return out && fprintf(out, "%d\n", id) > 0 && fclose(out) == 0;
}

/* The options make Java quick to start, and small. Nothing is fsynced: what a process wrote outlives its kill
 * -9 in the kernel. */
static const char *zookeeper_spawn(struct zookeeper_server *server, const char *config,
                                   const char *java_option) {
    char words[] = "-Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto "
                   "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dzookeeper.forceSync=no "
                   "-cp /usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar";
    const char *argv[ARGS_MAX] = {"java", java_option};
    const char *main_class[] = {"org.apache.zookeeper.server.quorum.QuorumPeerMain", config, NULL};
    const char *error = local_server_add_words(argv, ARGS_MAX, words);
    if (!error)
        error = local_server_add_options(argv, ARGS_MAX, main_class);
    return error ? error : local_server_spawn(&server->proc, argv, NULL, server->dir);
}

static const char *zookeeper_start(struct zookeeper_server *server, const char *dir, int id,
                                   const struct zookeeper_peers *peers,
                                   const struct zookeeper_options *options) {
    char own_dir[LOCAL_SERVER_DIR_SIZE], config[PATH_SIZE];
    snprintf(own_dir, sizeof own_dir, peers->count ? "%s-%d" : "%s", dir, id);
    const char *error = local_server_place(&server->port, server->dir, own_dir);
    snprintf(config, sizeof config, "%s/zoo.cfg", server->dir);
    if (!error && !zookeeper_write_config(server, config, id, peers, options))
        error = proc_failure("%s: %s", config, strerror(errno));
    return error ? error : zookeeper_spawn(server, config, options->java_option);
}

const char *zookeeper_servers_start(struct zookeeper_server servers[], int count, const char *dir,
                                    const struct zookeeper_options *options) {
    struct zookeeper_peers peers = {.count = count > 1 ? count : 0};
    const char *error = NULL;
    for (int i = 0; i < count; i++)
        servers[i] = (struct zookeeper_server){0};
    if (count > ZOOKEEPER_SERVERS_MAX)
        return "the ensemble is too large";
    for (int i = 0; i < peers.count; i++) {
        peers.ports[i][0] = local_server_free_port();
        peers.ports[i][1] = local_server_free_port();
    }
    for (int i = 0; !error && i < count; i++)
        error = zookeeper_start(&servers[i], dir, i + 1, &peers, options);
    for (int i = 0; !error && i < count; i++)
        error = zookeeper_await(&servers[i]);
    return error;
}

const char *zookeeper_server_restart(struct zookeeper_server *server) {
    const char *error = proc_restart(&server->proc);
    return error ? error : zookeeper_await(server);
}
