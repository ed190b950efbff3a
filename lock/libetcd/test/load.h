/* A load on a client while members fail: reads, idempotent writes, other writes, and a watch of these; and
 * their outcomes. */
#ifndef LOCK_LIBETCD_TEST_LOAD_H
#define LOCK_LIBETCD_TEST_LOAD_H

#include "lock/libetcd/test/tools.h"

struct load;

/* Runs until load_finish(). One load at a time. */
struct load *load_start(struct etcd *etcd);
/* The member that answered last. */
int load_member(struct load *load, const struct etcd_server *members, int count);
/* Waits until some more reads and writes of both kinds have succeeded. */
void load_wait(struct load *load);
/* Ends the load, and compares it, and what the watch has told, with the store. `away`: there was no majority
 * for so long that writes may have been refused. */
void load_finish(struct load *load, const char *what, bool away);

#endif
