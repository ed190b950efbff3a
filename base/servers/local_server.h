/* What real servers of every kind need on this machine: a port of 127.0.0.1, an answer over TCP, patience.
 * The kinds are in redis_server.h, cluster_servers.h, sentinel_servers.h, etcd_server.h, zookeeper_server.h
 * and seckilld_server.h; proc.h says how they fail. Each has a `proc`, so that proc_end() ends it and
 * proc_signal() stops and continues it, and each start blocks until the server serves. */
#ifndef BASE_SERVERS_LOCAL_SERVER_H
#define BASE_SERVERS_LOCAL_SERVER_H

#include <stddef.h>

#include "base/servers/proc.h"

enum { LOCAL_SERVER_DIR_SIZE = 256 };

/* A TCP port of 127.0.0.1 that is free, and that no other program which asks here gets before this one ends;
 * 0: there is none. */
int local_server_free_port(void);

/* Chooses a free port, makes the directory `dir` for the server's data, and copies its path. */
const char *local_server_place(int *port, char path[LOCAL_SERVER_DIR_SIZE], const char *dir);
/* Appends `more` to a command line; both have NULL at the end, and `argv` has room for `size` words. */
const char *local_server_add_options(const char *argv[], size_t size, const char *const more[]);
/* proc_start() with the log DIR.log. */
const char *local_server_spawn(struct proc *proc, const char *const argv[], const char *const env[],
                               const char *dir);

/* Connects to an IPv4 address, sends `request` and reads until the server closes the connection, or `size` -
 * 1 bytes came. The answer ends with NUL. False: no byte came, and none within `timeout_ms`. */
bool local_server_ask(const char *host, int port, const char *request, char *answer, size_t size,
                      int timeout_ms);

/* Blocks until is_ready(arg). The error says whether the process has ended or is only not ready after
 * `timeout_ms`, and how its log ends. */
const char *local_server_await(const struct proc *proc, bool (*is_ready)(void *arg), void *arg,
                               int timeout_ms);

/* Removes all data of a server, which must have ended. */
const char *local_server_wipe(const struct proc *proc, const char *dir);

#endif
