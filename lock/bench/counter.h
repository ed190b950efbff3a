/* What etcd and ZooKeeper count themselves: the messages that they were sent. */
#ifndef LOCK_BENCH_COUNTER_H
#define LOCK_BENCH_COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_counter;

/* For the servers of the lock at `url`. NULL with an empty `error`: they are of another kind; NULL with a
 * text: it makes no sense. */
struct bench_counter *bench_counter_open(const char *url, char *error, size_t error_size);
/* NULL is fine. */
void bench_counter_close(struct bench_counter *counter);

/* How many there were so far, of all servers. False: one could not be asked. */
bool bench_counter_read(struct bench_counter *counter, uint64_t *messages);

#endif
