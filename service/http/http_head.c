/* What the head of a request may be, and the answers to requests that the server itself refuses. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

#include "service/http/http_internal.h"

static const char head_too_large[] = "request line and headers are more than fit: about 4 KB";

enum {
    /* See http_head_judge(). */
    ANSWER_HEAD_MAX = 1024,
    ENTRY_SIZE = 80,
    GROWTH_MAX = 256,
    DISCARDS_MAX = 64,
};

/* Decodes a path. An escaped slash (%2F) separates nothing, and a path with %00 must not be taken for one
 * that ends there: both become blanks, which are in no path and in no name. */
size_t http_head_unescape(void *cls, struct MHD_Connection *mhd, char *text) {
    (void)cls;
    (void)mhd;
    char *at = strchr(text, '%');
    if (!at)
        return strlen(text);
    for (; at; at = strchr(at + 1, '%'))
        if (at[1] == '2' && (at[2] == 'f' || at[2] == 'F'))
            memset(at, ' ', 3);
    size_t length = MHD_http_unescape(text);
    for (char *nul; (nul = memchr(text, '\0', length));)
        *nul = ' ';
    return length;
}

/* ---- the target ---- */

/* Returns the path of http://HOST/PATH; NULL if it is not such a URI. */
static char *target_path(char *text) {
    size_t scheme = strncasecmp(text, "http://", 7) == 0 ? 7 : strncasecmp(text, "https://", 8) == 0 ? 8 : 0;
    size_t host = scheme ? strcspn(text + scheme, "/?") : 0;
    return host ? text + scheme + host : NULL;
}

/* Called before libmicrohttpd parses the target. It cuts off the query, which no call has: if a query has too
 * many arguments for the memory of the connection, version 0.9.75 forgets the connection and never closes it.
 * It keeps only the path of a target in absolute form. A target that is wrong begins with a blank, or is
 * empty, from then on. The text lies in the memory of the connection, which may be written. */
void *http_head_target(void *cls, const char *target, struct MHD_Connection *mhd) {
    (void)cls;
    (void)mhd;
    char *text = (char *)(uintptr_t)target, *end = text;
    while ((unsigned char)*end > ' ' && *end != 0x7f)
        end++;
    /* libmicrohttpd has put a NUL at the end of the text; the version stands behind it. */
    bool good = *end == '\0' && strncmp(end + 1, "HTTP/", 5) == 0;
    char *query = strchr(text, '?'), *path = good ? target_path(text) : NULL;
    if (query)
        query[1] = '\0';
    if (!good) {
        if (*text) /* otherwise what is behind the NUL would belong to it */
            *text = ' ';
    } else if (path && *path == '/') {
        memmove(text, path, (size_t)((query ? query : end) - path));
        text[(query ? query : end) - path] = '\0';
    } else if (path) {
        memcpy(text, "/", 2);
    }
    return NULL;
}

/* ---- the headers ---- */

struct head {
    const char *end; /* of the part that was read */
    size_t entries;  /* headers, cookies, arguments */
    size_t cookies;  /* their length */
    int hosts;       /* number of Host headers */
    int lengths;     /* number of headers that tell the length of the body */
    bool bad_host, broken, chunked, coded;
    struct http_head_facts *facts;
};

static bool is_token(const char *text, size_t length) {
    static const bool in_token[256] = {
        ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['!'] = true,  ['#'] = true,
        ['$'] = true,         ['%'] = true,         ['&'] = true,         ['\''] = true, ['*'] = true,
        ['+'] = true,         ['-'] = true,         ['.'] = true,         ['^'] = true,  ['_'] = true,
        ['`'] = true,         ['|'] = true,         ['~'] = true};
    for (size_t i = 0; i < length; i++)
        if (!in_token[(unsigned char)text[i]])
            return false;
    return length > 0;
}

/* The lines of a head lie one behind the other in the memory of the connection. libmicrohttpd 0.9 overwrites
 * each line end (LF, or CR and LF) by NULs. 1.0 puts one NUL where the value ends, and leaves what is behind
 * it: blanks that it has cut off, and the line end or its LF. If there is anything else between two lines,
 * the line had a NUL of its own, and libmicrohttpd takes it for shorter than it is, or it was continued on
 * the next line. */
bool http_head_follows(const char *end, const char *next) {
    uintptr_t gap = (uintptr_t)next - (uintptr_t)end;
    if (gap == 0 || gap > HTTP_CONNECTION_MEMORY || *end != '\0')
        return false;
    const char *at = end + 1;
    while (at < next && (*at == ' ' || *at == '\t'))
        at++;
    size_t left = (size_t)(next - at);
    if (at == end + 1 && (left == 0 || (left == 1 && *at == '\0')))
        return true;
    return (left == 1 || (left == 2 && *at == '\r')) && next[-1] == '\n';
}

static bool is_word(const char *text, size_t length, const char *word) {
    while (length && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    return strlen(word) == length && strncasecmp(text, word, length) == 0;
}

static void header_keep(struct http_header *header, const char *value, size_t length) {
    if (header->count++ == 0) {
        header->value = value;
        header->length = length;
    }
}

static enum MHD_Result head_on_value(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_length,
                                     const char *value, size_t length) {
    struct head *head = cls;
    head->entries++;
    if (kind != MHD_HEADER_KIND)
        return MHD_YES;
    if (!http_head_follows(head->end, name) || !is_token(name, name_length) || memchr(value, '\r', length))
        head->broken = true;
    head->end = value + length;
    switch (name_length) { /* so that most headers are compared with one name */
    case 4:
        if (is_word(name, name_length, MHD_HTTP_HEADER_HOST)) {
            head->hosts++;
            head->bad_host = strcspn(value, ",/?#@\\\"<>") < length;
        }
        break;
    case 6:
        if (is_word(name, name_length, MHD_HTTP_HEADER_COOKIE))
            head->cookies += length;
        break;
    case 11:
        if (is_word(name, name_length, "traceparent"))
            header_keep(&head->facts->traceparent, value, length);
        break;
    case 12:
        if (is_word(name, name_length, "X-Request-Id"))
            header_keep(&head->facts->request_id, value, length);
        break;
    case 14: head->lengths += is_word(name, name_length, MHD_HTTP_HEADER_CONTENT_LENGTH); break;
    case 16:
        if (is_word(name, name_length, MHD_HTTP_HEADER_CONTENT_ENCODING))
            head->facts->encoded |= !is_word(value, length, "") && !is_word(value, length, "identity");
        break;
    case 17:
        if (is_word(name, name_length, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
            head->lengths++;
            head->coded = true;
            head->chunked = strcasecmp(value, "chunked") == 0; /* as libmicrohttpd does */
        }
    }
    return MHD_YES;
}

/* Whether the memory of the connection has room for the head of the answer: without it a purchase would be
 * made and never answered. The memory holds half of its size or the head of the request, whichever is more, a
 * copy of the cookies, and an entry for each header, cookie and argument. */
static bool head_fits(const struct head *head, size_t size) {
    size_t used = size + GROWTH_MAX;
    if (used < HTTP_CONNECTION_MEMORY / 2)
        used = HTTP_CONNECTION_MEMORY / 2;
    return used + head->cookies + ENTRY_SIZE * head->entries + ANSWER_HEAD_MAX <= HTTP_CONNECTION_MEMORY;
}

struct http_fault http_head_judge(struct MHD_Connection *mhd, const char *method, const char *target,
                                  const char *version, struct http_head_facts *facts) {
    const enum MHD_ValueKind kinds = MHD_HEADER_KIND | MHD_COOKIE_KIND | MHD_GET_ARGUMENT_KIND;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    size_t size = info ? info->header_size : HTTP_CONNECTION_MEMORY;
    struct head head = {.end = version + strlen(version), .facts = facts};
    memset(facts, 0, sizeof *facts);
    MHD_get_connection_values_n(mhd, kinds, head_on_value, &head);
    bool old = strcmp(version, "HTTP/1.0") == 0;
    /* The empty line is the last one of the head. */
    const char *last = method + size;
    if (head.broken || !(http_head_follows(head.end, last - 1) || http_head_follows(head.end, last - 2)) ||
        !is_token(method, strlen(method)) || method + strlen(method) + 1 != target)
        return (struct http_fault){400, "request", "the request line or a header is malformed"};
    if (*target != '/' && strcmp(target, "*") != 0)
        return (struct http_fault){400, "request", "the target is no path and no URI of HTTP"};
    if (head.hosts != 1 && (head.hosts > 1 || !old))
        return (struct http_fault){400, "Host", "must be there once"};
    if (head.bad_host)
        return (struct http_fault){400, "Host", "must be a host, and a port if wanted"};
    if (head.lengths > 1)
        return (struct http_fault){
            400, "Content-Length",
            "the end of the body must be told once, by Content-Length or Transfer-Encoding"};
    if (head.coded && old)
        return (struct http_fault){400, "Transfer-Encoding", "HTTP/1.0 has none"};
    if (head.coded && !head.chunked)
        return (struct http_fault){501, NULL, "chunked is the only transfer coding known here"};
    if (!head_fits(&head, size))
        return (struct http_fault){431, NULL, head_too_large};
    return (struct http_fault){0, NULL, NULL};
}

/* ---- headers for handlers ---- */

struct header_search {
    const char *name, *value;
    size_t name_length, length;
    int count;
};

static enum MHD_Result header_compare(void *cls, enum MHD_ValueKind kind, const char *name,
                                      size_t name_length, const char *value, size_t length) {
    (void)kind;
    struct header_search *search = cls;
    if (name_length != search->name_length || strncasecmp(name, search->name, name_length) != 0)
        return MHD_YES;
    if (search->count++ == 0) {
        search->value = value;
        search->length = length;
    }
    return MHD_YES;
}

int http_request_header(const struct http_request *request, const char *name, const char **value,
                        size_t *length) {
    struct header_search search = {.name = name, .name_length = strlen(name)};
    MHD_get_connection_values_n(((const struct http_exchange *)request)->mhd, MHD_HEADER_KIND, header_compare,
                                &search);
    while (search.length &&
           (search.value[search.length - 1] == ' ' || search.value[search.length - 1] == '\t'))
        search.length--;
    *value = search.value;
    *length = search.length;
    return search.count;
}

/* ---- refusals ---- */

/* Writes the answer straight into the socket, past libmicrohttpd, and ends the stream. The memory of the
 * connection may have no room for the head of an answer, and after some of its own refusals version 0.9.75
 * goes on and sends a second head inside the first body. All earlier answers have been sent: the requests of
 * a connection are handled one after the other. */
static void refusal_send(struct http_connection *connection, struct http_ids ids,
                         const struct http_fault *fault, bool body_wanted) {
    if (connection->refused)
        return;
    connection->refused = true;
    const struct http_config *config = &connection->server->config;
    http_ids_complete(&ids, &connection->server->random);
    char body[1024], text[2048], date[64];
    size_t body_length = config->write_refusal ? config->write_refusal(body, sizeof body, fault->status,
                                                                       fault->field, fault->detail)
                                               : 0;
    time_t now = time(NULL);
    struct tm parts;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &parts));
    int length =
        snprintf(text, sizeof text,
                 "HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: close\r\nCache-Control: no-store\r\n"
                 "X-Request-Id: %s\r\ntraceparent: %s\r\n"
                 "Content-Type: application/problem+json\r\nContent-Length: %zu\r\n\r\n%.*s",
                 fault->status, MHD_get_reason_phrase_for((unsigned int)fault->status), date, ids.request_id,
                 ids.traceparent, body_length, body_wanted ? (int)body_length : 0, body);
    config->on_answer(config->ctx, NULL, fault->status);
    if (send(connection->fd, text, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        shutdown(connection->fd, SHUT_WR);
}

void http_refuse(struct MHD_Connection *mhd, const struct http_ids *ids, const struct http_fault *fault,
                 bool body_wanted) {
    struct http_connection *connection = http_connection_of(mhd);
    char discarded[4096];
    if (!connection)
        return;
    refusal_send(connection, *ids, fault, body_wanted);
    /* If bytes are unread when a socket is closed, the close is a reset, which may overtake the answer. */
    for (int i = 0; i < DISCARDS_MAX; i++)
        if (recv(connection->fd, discarded, sizeof discarded, MSG_DONTWAIT) <= 0)
            break;
}

static const struct http_fault too_large = {413, NULL, "a body is at most 16384 bytes"};

void http_refuse_body(struct MHD_Connection *mhd, bool body_wanted) {
    struct http_connection *connection = http_connection_of(mhd);
    if (connection)
        refusal_send(connection, connection->exchange->request.ids, &too_large, body_wanted);
}

/* ---- libmicrohttpd's own refusals ---- */

typedef enum MHD_Result queue_fn(struct MHD_Connection *mhd, unsigned int status,
                                 struct MHD_Response *response);

static queue_fn *library_queue;

static void find_library_queue(void) {
    *(void **)&library_queue = dlsym(RTLD_NEXT, "MHD_queue_response");
}

enum MHD_Result http_queue(struct MHD_Connection *mhd, unsigned int status, struct MHD_Response *response) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_library_queue);
    return library_queue(mhd, status, response);
}

/* libmicrohttpd answers a request that it cannot parse with a page of HTML, and no option changes that. But
 * it queues the page by this function, which it exports: as with any function of a shared library, the one of
 * the program takes its place, also for calls inside the library. So only libmicrohttpd calls this; the
 * program calls http_queue(). The page is queued all the same, but never sent: the stream has ended. */
enum MHD_Result MHD_queue_response(struct MHD_Connection *mhd, unsigned int status,
                                   struct MHD_Response *response) {
    struct http_fault fault = {400, "request",
                               "malformed: its request line, a header, its length or a chunk"};
    switch (status) {
    case 413: fault = too_large; break;
    case 414: fault = (struct http_fault){414, NULL, "the request line is more than fits: about 4 KB"}; break;
    case 431: fault = (struct http_fault){431, NULL, head_too_large}; break;
    case 505: fault = (struct http_fault){505, NULL, "HTTP/1.1 and HTTP/1.0 are spoken here"}; break;
    default: break;
    }
    /* If the head was read, its ids are known. Otherwise libmicrohttpd may have thrown it away. */
    const struct http_ids none = {"", ""};
    const struct http_connection *connection = http_connection_of(mhd);
    const struct http_exchange *exchange = connection ? connection->exchange : NULL;
    http_refuse(mhd, exchange ? &exchange->request.ids : &none, &fault, true);
    return http_queue(mhd, status, response);
}
