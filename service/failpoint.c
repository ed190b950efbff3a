#include "service/failpoint.h"

#include <stddef.h>

void (*const service_at_failpoint)(void *ctx, const char *step) = NULL;
