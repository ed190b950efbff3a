/* ZooKeeper, alone. */
#ifndef LOADTEST_LAB_STAGE_ZOOKEEPER_SERVER_H
#define LOADTEST_LAB_STAGE_ZOOKEEPER_SERVER_H

#include "loadtest/lab/stage/server.h"

struct server *zookeeper_server_start(struct stage *stage, const char *name);

#endif
