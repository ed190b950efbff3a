/* What the store behind a lock is asked to do. The only file of the bench that knows hiredis. */
#ifndef LOCK_BENCH_STORE_H
#define LOCK_BENCH_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_store;

/* For the servers of the lock at `url`. NULL with an empty `error`: it has none; NULL with a text: they
 * cannot be asked, and why. */
struct bench_store *bench_store_open(const char *url, char *error, size_t error_size);
void bench_store_close(struct bench_store *store);

/* How many messages were sent to etcd or ZooKeeper so far; false: it is a Redis, or cannot be asked. */
bool bench_store_calls(struct bench_store *store, uint64_t *calls);

/* Of a Redis, and false otherwise: how many commands were carried out so far, also by scripts; less INFO,
 * which is ours. */
bool bench_store_commands(struct bench_store *store, uint64_t *commands);

/* Between the two: how many commands clients sent. False, and then nothing is to be ended: MONITOR is not
 * allowed, or the server is gone. */
bool bench_store_listen(struct bench_store *store);
bool bench_store_heard(struct bench_store *store, uint64_t *calls);

#endif
