#include "service/failpoint_hook.h"

#include <stddef.h>

void (*const service_at_failpoint)(void *ctx, const char *step) = NULL;
