/* A real redis-server (or Valkey under that name), alone or as a replica, with a clock that can be turned. */
#ifndef BASE_SERVERS_REDIS_SERVER_H
#define BASE_SERVERS_REDIS_SERVER_H

#include "base/preload/turned_clock.h"
#include "base/servers/local_server.h"

enum { REDIS_SERVER_ARGS_MAX = 96, REDIS_SERVER_START_MS = 60000, REDIS_SERVER_COMMAND_MS = 10000 };

struct redis_server {
    struct proc proc;
    int port;
    char dir[LOCAL_SERVER_DIR_SIZE];
};

/* A wall clock that servers read in place of the machine's: a library that is loaded into them adds an
 * offset, which lies in a file that both sides map. */
struct redis_server_clock {
    struct turned_clock *turned;
    char preload[512], file[512]; /* what the servers' environment has of it */
};

/* `library` is turned-clock.so; `file` is made. */
const char *redis_server_clock_open(struct redis_server_clock *clock, const char *library, const char *file);

/* Starts a server with these options of its command line, NULL at the end, on a free port of 127.0.0.1. It
 * makes `dir` and writes its log to DIR.log; unless the options say so, it writes no data to disk. `clock`
 * may be NULL. */
const char *redis_server_start(struct redis_server *server, const char *dir,
                               const struct redis_server_clock *clock, const char *const options[]);
/* Starts it again with its port, options and data. It must have ended. */
const char *redis_server_restart(struct redis_server *server);
/* Blocks until the replica has copied its master's data and the link to it is up. */
const char *redis_server_await_sync(struct redis_server *replica);

/* Runs one command on a connection of its own. Returns the reply as text, which the caller frees: `5`,
 * `text`, `(nil)`, `[a b (nil)]`, `(error) NOSCRIPT …`, `(no reply)` if none came within `timeout_ms`. */
char *redis_server_command(int port, int timeout_ms, int argc, const char **argv);
/* The same for at most 16 words, NULL at the end, within REDIS_SERVER_COMMAND_MS. */
char *redis_server_do(const struct redis_server *server, ...) __attribute__((sentinel));
/* Sets `value` to what INFO says of `field`; to "" if there is no such line, or no answer within a second. */
void redis_server_info(const struct redis_server *server, const char *field, char *value, size_t size);

#endif
