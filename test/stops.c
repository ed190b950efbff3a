/* A seckilld that is killed or stopped on the way of a basket or transfer: it is linked with this hook.
 * STOP_AT is KILL or STOP, a space, and a step: its name, which is met once, or a number, counted from 0.
 * Each step is written to standard error. */
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/service.h"

static void at_failpoint(void *ctx, const char *step) {
    static atomic_int count;
    static atomic_flag met = ATOMIC_FLAG_INIT;
    const char *wanted = getenv("STOP_AT");
    int number = atomic_fetch_add(&count, 1);
    char text[16];
    (void)ctx;
    fprintf(stderr, "step %d: %s\n", number, step);
    if (!wanted || strlen(wanted) < 6)
        return;
    snprintf(text, sizeof text, "%d", number);
    bool here = strcmp(wanted + 5, text) == 0 || strcmp(wanted + 5, step) == 0;
    if (here && !atomic_flag_test_and_set(&met))
        raise(strncmp(wanted, "KILL", 4) == 0 ? SIGKILL : SIGSTOP);
}

void (*service_at_failpoint)(void *ctx, const char *step) = at_failpoint;
