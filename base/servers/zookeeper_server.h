/* A real ZooKeeper, alone or as an ensemble. */
#ifndef BASE_SERVERS_ZOOKEEPER_SERVER_H
#define BASE_SERVERS_ZOOKEEPER_SERVER_H

#include "base/servers/local_server.h"

enum { ZOOKEEPER_SERVERS_MAX = 3, ZOOKEEPER_SERVER_START_MS = 30000 };

struct zookeeper_server {
    struct proc proc;
    int port;
    char dir[LOCAL_SERVER_DIR_SIZE];
};

struct zookeeper_options {
    int tick_ms;             /* a session lives for two ticks at least, */
    int session_max_ms;      /* and for so long at most */
    const char *java_option; /* added to the command line; may be NULL */
};

/* Starts one server, which makes `dir`, keeps its data in DIR/data and writes to DIR.log, or an ensemble of
 * `count`, in DIR-1 and so on. Blocks until all serve. */
const char *zookeeper_servers_start(struct zookeeper_server servers[], int count, const char *dir,
                                    const struct zookeeper_options *options);
/* Starts it again with its port and data. It must have ended. */
const char *zookeeper_server_restart(struct zookeeper_server *server);
/* What it answers to a word of four letters (srvr, wchs, …). False: nothing. */
bool zookeeper_server_ask(const struct zookeeper_server *server, const char *word, char *answer, size_t size);

#endif
