/* The program has no failpoint hook. Tests link another one in place of this file. */
#include "service/service.h"

void (*const service_at_failpoint)(void *ctx, const char *step) = NULL;
