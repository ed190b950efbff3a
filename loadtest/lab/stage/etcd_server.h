/* etcd, alone or as a cluster. */
#ifndef LOADTEST_LAB_STAGE_ETCD_SERVER_H
#define LOADTEST_LAB_STAGE_ETCD_SERVER_H

#include "loadtest/lab/stage/server.h"

enum { ETCD_SERVERS_MAX = 3, ETCD_SERVER_URL_SIZE = 96 };

/* `count` members, NAME-1 and so on, or NAME if it is one. */
void etcd_server_start(struct stage *stage, const char *name, int count, struct server *members[]);

/* Which of them leads. */
int etcd_server_leader(struct server *const members[], int count);

/* "etcd://127.0.0.1:2379,…" */
void etcd_server_url(char url[ETCD_SERVER_URL_SIZE], struct server *const members[], int count);

/* Ends the lease of the newest key below `prefix`, and with it the key. */
void etcd_server_revoke_newest(const struct server *server, const char *prefix);

#endif
