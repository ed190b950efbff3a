/* The API of the page: one request, one answer. Requests have passed the guard. Safe from many threads. */
#ifndef LOADTEST_LAB_SERVE_API_H
#define LOADTEST_LAB_SERVE_API_H

#include <stddef.h>

#include "loadtest/lab/serve/desk.h"

enum { API_ORDER_SIZE = 4096, API_REPORT_SIZE = 32 << 20 };

struct api {
    struct desk *desk;
    const char *session, *token;
};

struct api_request {
    const char *method, *path;
    const char *body; /* ends with a NUL; NULL: none */
    size_t length;
};

struct api_answer {
    int status;
    const char *type, *file; /* `file`: the answer is to be saved under this name; NULL: it is to be shown */
    char *body;              /* of the caller now, to be freed; NULL: out of memory */
    size_t length;
};

void api_handle(const struct api *api, const struct api_request *request, struct api_answer *answer);

/* An error as JSON: what is wrong, and what to do. */
void api_fail(struct api_answer *answer, int status, const char *title, const char *detail);

/* How large the body of a request may be. */
size_t api_body_max(const char *path);

/* The run whose events a path asks for. False: the path is another one; its run may be unknown still. */
bool api_events_of(const char *path, char id[DESK_ID_SIZE]);

#endif
