/* Failpoints of baskets and transfers, for tests. */
#ifndef SERVICE_FAILPOINT_H
#define SERVICE_FAILPOINT_H

/* Called before and after each lock, write and unlock of a transaction, with its name, on the thread that
 * does it. NULL; but the tests link a program with another one, which ends or stops there (test/stops.c). */
extern void (*const service_at_failpoint)(void *ctx, const char *step);

#endif
