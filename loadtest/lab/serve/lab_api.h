/* The API of the page below /api/: one request, one answer. Requests have passed the guard. Safe from many
 * threads. */
#ifndef LOADTEST_LAB_SERVE_LAB_API_H
#define LOADTEST_LAB_SERVE_LAB_API_H

#include <stddef.h>

#include "loadtest/lab/serve/run_control.h"

enum { LAB_API_ORDER_SIZE = 4096, LAB_API_REPORT_SIZE = 32 << 20 };

struct lab_api {
    struct run_control *control;
    const char *session, *token;
};

struct lab_api_request {
    const char *method, *path;
    const char *body; /* ends with a NUL; NULL: there is none */
    size_t length;
};

struct lab_api_answer {
    int status;
    const char *type, *file; /* the browser saves the answer as `file`; NULL: it shows the answer */
    char *body;              /* the caller frees it; NULL: out of memory */
    size_t length;
};

void lab_api_handle(const struct lab_api *api, const struct lab_api_request *request,
                    struct lab_api_answer *answer);

/* Makes an error as JSON: what is wrong, and what to do. */
void lab_api_fail(struct lab_api_answer *answer, int status, const char *title, const char *detail);

/* Returns how large the body of a request may be, in bytes. */
size_t lab_api_body_max(const char *path);

/* Returns true, and the run in `id`, if the path asks for the events of a run; the run may not exist. */
bool lab_api_events_of(const char *path, char id[RUN_ID_SIZE]);

#endif
