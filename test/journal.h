/* The journal of baskets and transfers in a Redis, as tests see it: all its parts together. */
#ifndef TEST_JOURNAL_H
#define TEST_JOURNAL_H

#include "test/harness.h"

/* How many are unfinished. */
long long journal_open(const struct redis_server *redis);
/* How many there are. */
long long journal_count(const struct redis_server *redis);
/* As if there had been grants of this lock epoch. */
void journal_set_epoch(const struct redis_server *redis, const char *epoch);

#endif
