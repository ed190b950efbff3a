/* Who holds a lock, and who believes it: by processes that take turns, and say from when to when they
 * believed in each grant. The test program is its own worker. */
#ifndef LOCK_TEST_BELIEFS_H
#define LOCK_TEST_BELIEFS_H

#include "lock/test/tools.h"

/* First in main(): where the arguments ask for a worker, runs it until it is killed. */
void beliefs_work(int argc, char **argv);

struct beliefs_plan {
    const char *url; /* without ttl= */
    int ttl_ms;
    int processes; /* up to six; every other one opens the lock anew now and then, */
    int threads;   /* and the others have so many, up to two */
    int slow_in;   /* one in so many holders is slow, some of them for longer than the grant lasts */
};

void beliefs_start(const struct beliefs_plan *plan, uint64_t *random);
/* Waits until each process has had the lock since now. */
void beliefs_wait(void);
/* Kills one that has had it, whatever it does, and starts another in its place. */
void beliefs_replace(uint64_t *random);
/* Ends the processes. Whatever has happened, two believe at the same time for less than a time to live, or
 * never, and no fence is given twice, or falls. `what` has happened so many times, to this server. */
void beliefs_judge(const char *what, int times, const char *server, bool may_overlap);

#endif
