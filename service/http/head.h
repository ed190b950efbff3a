/* What the head of a request may be. */
#ifndef SERVICE_HTTP_HEAD_H
#define SERVICE_HTTP_HEAD_H

#include <microhttpd.h>
#include <stdbool.h>

/* Why a request is refused before it is read. `field` is set only with status 400. */
struct http_fault {
    int status; /* 0: it is not refused */
    const char *field, *detail;
};

size_t http_head_unescape(void *cls, struct MHD_Connection *mhd, char *text);
void *http_head_target(void *cls, const char *target, struct MHD_Connection *mhd);
/* Whether `next` is the line of a head behind the one that ends at `end`. */
bool http_head_follows(const char *end, const char *next);
/* `encoded`: the body has a content coding. */
struct http_fault http_head_judge(struct MHD_Connection *mhd, const char *method, const char *target,
                                  const char *version, bool *encoded);

#endif
