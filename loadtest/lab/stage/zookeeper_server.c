#include "loadtest/lab/stage/zookeeper_server.h"

#include <string.h>

static bool is_ready(const struct server *server) {
    char answer[2048];
    return server_ask(server, "srvr", answer, sizeof answer) && strstr(answer, "Mode: ") != NULL;
}

static void add_version(const struct server *server) {
    char answer[2048], version[24] = "";
    const char *at = NULL;
    if (server_ask(server, "srvr", answer, sizeof answer))
        at = strstr(answer, "version: ");
    if (at != NULL)
        snprintf(version, sizeof version, "%.*s", (int)strcspn(at + 9, "-,\n "), at + 9);
    stage_add_version(server->stage, "zookeeper", version);
}

/* A short tick: a session lives for two of them at least. */
static bool write_config(const struct server *server, const char *file) {
    FILE *out = fopen(file, "we");
    if (out == NULL)
        return false;
    fprintf(out,
            "tickTime=100\ninitLimit=50\nsyncLimit=25\ndataDir=%s\nmaxSessionTimeout=60000\n"
            "maxClientCnxns=0\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=*\n",
            server->directory, server->port);
    return fclose(out) == 0;
}

struct server *zookeeper_server_start(struct stage *stage, const char *name) {
    struct server *server = server_new(stage, name);
    char file[SERVER_PATH_SIZE + 8];
    snprintf(file, sizeof file, "%s.cfg", server->directory);
    if (!write_config(server, file))
        stage_fail(stage, "cannot write %s", file);
    server->is_ready = is_ready;
    /* Quick to start, and small. */
    server_add_args(server, "java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto",
                    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dzookeeper.forceSync=no", "-cp",
                    "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar",
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain", file, NULL);
    server_spawn(server);
    server_await(server);
    if (!stage_failed(stage))
        add_version(server);
    return server;
}
