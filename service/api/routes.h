/* Which call is answered by whom. */
#ifndef SERVICE_API_ROUTES_H
#define SERVICE_API_ROUTES_H

#include "service/http/http.h"

/* Answers a request, now or later; `ctx` is the worker. */
void routes_handle(void *ctx, struct http_request *request);

#endif
