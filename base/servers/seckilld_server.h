/* seckilld, the service of this project. */
#ifndef BASE_SERVERS_SECKILLD_SERVER_H
#define BASE_SERVERS_SECKILLD_SERVER_H

#include "base/servers/local_server.h"

enum { SECKILLD_SERVER_START_MS = 20000 };

struct seckilld {
    struct proc proc;
    int port;
};

/* Starts `program` on a free port of 127.0.0.1, on the Redis at `redis_port`, with these options, NULL at the
 * end, and `env` ("NAME=value", NULL at the end). It writes to the file `log`. Blocks until GET /livez
 * answers 200: its store may not have been reached yet. */
const char *seckilld_server_start(struct seckilld *service, const char *program, int redis_port,
                                  const char *const options[], const char *const env[], const char *log);
/* Starts it again with its port and options. It must have ended. */
const char *seckilld_server_restart(struct seckilld *service);
/* Blocks until GET /readyz answers 200. */
const char *seckilld_server_await_ready(struct seckilld *service);

/* Makes one request. `headers` are whole lines, each ended by "\r\n"; `body` may be NULL. Returns the status,
 * or 0 if there was no answer within a second. The body of the answer is cut off at `size`; `answer` may be
 * NULL. */
int seckilld_server_call(const struct seckilld *service, const char *method, const char *path,
                         const char *headers, const char *body, char *answer, size_t size);

#endif
