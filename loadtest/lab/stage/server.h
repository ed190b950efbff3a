/* Servers of a play: real ones, on free loopback ports, with their data in the play's directory. All calls
 * come from the main thread. What starts one waits until it is ready, and never returns NULL: a server of a
 * stage that has failed does nothing. The kinds are in redis_server.h, sentinel.h, etcd_server.h,
 * zookeeper_server.h and seckilld_server.h. */
#ifndef LOADTEST_LAB_STAGE_SERVER_H
#define LOADTEST_LAB_STAGE_SERVER_H

#include <stdarg.h>

#include "loadtest/lab/stage/process.h"
#include "loadtest/lab/stage/stage.h"

enum { SERVER_NAME_SIZE = 32, SERVER_PATH_SIZE = 320, SERVER_ARGS = 48, SERVER_ENV = 3 };

struct server {
    struct stage *stage;
    char name[SERVER_NAME_SIZE]; /* as events call it: "redis", "node-2" */
    bool (*is_ready)(const struct server *server);
    struct process process;
    int port; /* on 127.0.0.1 */
    char directory[SERVER_PATH_SIZE], log[SERVER_PATH_SIZE];
    char *args[SERVER_ARGS]; /* of its command line; NULL at the end */
    int arg_count;
    char *env[SERVER_ENV];      /* added to its environment; NULL at the end */
    struct turned_clock *clock; /* NULL: it has the machine's */
};

/* Records that it is now "master", or "replica". */
void server_record_role(const struct server *server, const char *role);
void server_kill(struct server *server); /* SIGKILL */
/* Starts it again, with its port, options and what data it has left. It must have been killed. */
void server_restart(struct server *server);

/* ---- for the kinds ---- */

/* One that is not started yet. */
struct server *server_new(struct stage *stage, const char *name);
/* Adds words to its command line; the list ends with NULL. */
void server_add_args(struct server *server, ...) __attribute__((sentinel));
void server_add_arg_list(struct server *server, va_list args);
__attribute__((format(printf, 2, 3))) void server_add_arg(struct server *server, const char *format, ...);
/* Starts its process. */
void server_spawn(struct server *server);
/* Waits until it is ready. */
void server_await(struct server *server);
/* Connects to it, sends `request`, and reads what it says until it closes the connection, or `size` - 1 bytes
 * came. False: it does not answer within a second. */
bool server_ask(const struct server *server, const char *request, char *answer, size_t size);

#endif
