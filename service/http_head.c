#include <string.h>
#include <strings.h>

#include "service/http_internal.h"

enum {
    /* See http_head_judge(). */
    ANSWER_HEAD_MAX = 768,
    ENTRY_SIZE = 80,
    GROWTH_MAX = 256,
};

/* A path with %00 in it must not be taken for the one that ends there. */
size_t http_head_unescape(void *cls, struct MHD_Connection *mhd, char *text) {
    (void)cls;
    (void)mhd;
    size_t length = MHD_http_unescape(text);
    for (char *nul; (nul = memchr(text, '\0', length));)
        *nul = ' ';
    return length;
}

struct head {
    size_t entries; /* headers, cookies, arguments */
    size_t cookies; /* their length */
    int lengths;    /* how often it says where the body ends */
};

static enum MHD_Result look_at(void *cls, enum MHD_ValueKind kind, const char *name, const char *value) {
    struct head *head = cls;
    head->entries++;
    if (kind != MHD_HEADER_KIND || !value)
        return MHD_YES;
    if (strcasecmp(name, MHD_HTTP_HEADER_COOKIE) == 0)
        head->cookies += strlen(value);
    else if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0 ||
             strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0)
        head->lengths++;
    return MHD_YES;
}

/* The status that a head is refused with, 0 if it is good.
 *
 * A connection's memory must hold the answer's head too, or a purchase would be made and never told. In it
 * are half of it or the request's head, whichever is more, a copy of its cookies, and an entry for each
 * header, cookie and argument. And a body with two ends is where requests are smuggled in. */
unsigned int http_head_judge(struct MHD_Connection *mhd) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const enum MHD_ValueKind kinds = MHD_HEADER_KIND | MHD_COOKIE_KIND | MHD_GET_ARGUMENT_KIND;
    size_t used = info ? info->header_size + GROWTH_MAX : CONNECTION_MEMORY;
    struct head head = {.entries = 0};
    MHD_get_connection_values(mhd, kinds, look_at, &head);
    if (head.lengths > 1)
        return MHD_HTTP_BAD_REQUEST;
    if (used < CONNECTION_MEMORY / 2)
        used = CONNECTION_MEMORY / 2;
    used += head.cookies + ENTRY_SIZE * head.entries + ANSWER_HEAD_MAX;
    return used <= CONNECTION_MEMORY ? 0 : MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
}

/* Without a word more: there is no memory for it. */
enum MHD_Result http_head_refuse(struct MHD_Connection *mhd, unsigned int status) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    enum MHD_Result result = MHD_queue_response(mhd, status, response);
    MHD_destroy_response(response);
    return result;
}

/* No call here has a query. It is cut off before libmicrohttpd takes it apart: where it has too many
 * arguments for the connection's memory, version 0.9.75 forgets the connection, and never closes it. */
void *http_head_target(void *cls, const char *target, struct MHD_Connection *mhd) {
    (void)cls;
    (void)mhd;
    const char *query = strchr(target, '?');
    if (query && query[1])
        ((char *)(uintptr_t)query)[1] =
            '\0'; /* the target lies in the connection's memory, which may be written */
    return NULL;
}
