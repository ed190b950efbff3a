#include "service/service.h"

void (*const service_at_failpoint)(void *ctx, const char *step) = NULL;
