/* What a client is asked while members fail: reads, idempotent writes, and others; and what came of it. */
#ifndef LOCK_LIBETCD_TEST_LOAD_H
#define LOCK_LIBETCD_TEST_LOAD_H

#include "lock/libetcd/test/tools.h"

struct load;

/* Until load_finish(). Only one at a time. */
struct load *load_start(struct etcd *etcd);
/* Which of the members answered last. */
int load_member(struct load *load, const struct etcd_server *members, int count);
/* Waits until reads, and writes of both kinds, have succeeded since now. */
void load_wait(struct load *load);
/* Compares with what the store holds, and prints the longest times without a success of each kind. `away`:
 * there was no majority for long enough that some may have been refused. */
void load_finish(struct load *load, const char *what, bool away);

#endif
