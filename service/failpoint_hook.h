/* The failpoints of baskets, transfers and locks, for tests. */
#ifndef SERVICE_FAILPOINT_HOOK_H
#define SERVICE_FAILPOINT_HOOK_H

/* Called before and after each lock, write and unlock of a transaction, with the name of the step, on the
 * thread that does it. It is NULL here. Tests link a seckilld with test/stops.c in place of failpoint_hook.c:
 * that hook ends or stops the process at a step. */
extern void (*const service_at_failpoint)(void *ctx, const char *step);

#endif
