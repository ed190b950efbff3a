/* A witness: reads along, in the order of the store, with which tokens it is asked to look and write. */
#ifndef SERVICE_TEST_WITNESS_H
#define SERVICE_TEST_WITNESS_H

#include "test/harness.h"

struct witness;

struct witness *witness_call(const struct redis_server *store);
/* When all that was said so far has been heard: there were so many epochs, and no token of one came after a
 * newer one. Returns how many tokens there were. */
int witness_end(struct witness *witness, int epochs);

#endif
