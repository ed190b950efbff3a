/* The lock of redis_owner.c, for others that are made of it. Not for users. */
#ifndef LOCK_REDIS_OWNER_H
#define LOCK_REDIS_OWNER_H

#include "lock/redis/store.h"

enum { REDIS_OWNER_FENCES = 16 };

enum lock_status redis_owner_attempt(void *opened, struct lock_attempt *attempt);
enum lock_status redis_owner_release(void *store, const char *key, const char *owner);
enum lock_status redis_owner_withdraw(void *store, const char *key, const char *owner, int64_t until_ns);
enum lock_status redis_owner_extend(void *opened, struct lock_grant *grant);
enum lock_status redis_owner_look(void *store, const struct lock_grant *grant);

#endif
