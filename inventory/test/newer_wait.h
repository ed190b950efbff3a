/* A relay before a Redis with one replica or two. It has WAIT count as Redis 7.2 and newer ones and Valkey
 * do, whatever the Redis is: what its own connection wrote last. */
#ifndef INVENTORY_TEST_NEWER_WAIT_H
#define INVENTORY_TEST_NEWER_WAIT_H

struct newer_wait;

/* Serves until the test ends. */
struct newer_wait *newer_wait_start(int redis_port);
int newer_wait_port(const struct newer_wait *relay);
/* How many WAITs waited for nothing, so far: their connection had not written since its last WAIT. */
int newer_wait_blind(const struct newer_wait *relay);
/* From now on scripts with this in their key are refused, as by a store that is full. */
void newer_wait_refuse(struct newer_wait *relay, const char *key);

#endif
