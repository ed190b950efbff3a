#include "loadtest/lab/serve/site.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loadtest/lab/serve/pages.h"
#include "loadtest/lab/serve/watch.h"

enum { IDLE_S = 30, STREAM_BLOCK = 16384 };

/* A request, from its first line to its answer. */
struct exchange {
    char *body;
    size_t length, max;
    bool too_large;
};

static const struct {
    const char *name, *value;
} headers[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri "
     "'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cache-Control", "no-store"},
};

/* ---- answers ---- */

static enum MHD_Result send_response(struct MHD_Connection *mhd, int status, const char *type,
                                     const char *file, struct MHD_Response *response) {
    char disposition[80];
    if (response == NULL)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        MHD_add_response_header(response, headers[i].name, headers[i].value);
    if (file != NULL) {
        snprintf(disposition, sizeof disposition, "attachment; filename=\"%s\"", file);
        MHD_add_response_header(response, "Content-Disposition", disposition);
    }
    if (status == 503)
        MHD_add_response_header(response, "Retry-After", "1");
    if (status == 405)
        MHD_add_response_header(response, "Allow", "GET, HEAD, POST");
    enum MHD_Result result = MHD_queue_response(mhd, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_answer(struct MHD_Connection *mhd, const struct api_answer *answer) {
    if (answer->body == NULL)
        return MHD_NO; /* no memory: the connection ends */
    return send_response(
        mhd, answer->status, answer->type, answer->file,
        MHD_create_response_from_buffer(answer->length, answer->body, MHD_RESPMEM_MUST_FREE));
}

static enum MHD_Result send_error(struct MHD_Connection *mhd, int status, const char *title,
                                  const char *detail) {
    struct api_answer answer;
    api_fail(&answer, status, title, detail);
    return send_answer(mhd, &answer);
}

static enum MHD_Result send_page(struct MHD_Connection *mhd, const struct page *page) {
    return send_response(
        mhd, 200, page->type, NULL,
        MHD_create_response_from_buffer(page->length, (void *)(uintptr_t)page->text, MHD_RESPMEM_PERSISTENT));
}

/* ---- streams ---- */

static ssize_t read_stream(void *ctx, uint64_t position, char *out, size_t size) {
    (void)position;
    size_t length = watch_read(ctx, out, size);
    return length > 0 ? (ssize_t)length : MHD_CONTENT_READER_END_OF_STREAM;
}

static void close_stream(void *ctx) {
    watch_close(ctx);
}

static enum MHD_Result send_events(const struct site *site, struct MHD_Connection *mhd, const char *id) {
    struct desk_run run;
    const char *last = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, "Last-Event-ID");
    if (!desk_find(site->api.desk, id, &run))
        return send_error(mhd, 404, "no such run", "The lab keeps the newest runs, until it ends.");
    struct watch *watch = watch_open(site->api.desk, &run, last != NULL ? strtoll(last, NULL, 10) : -1);
    if (watch == NULL)
        return send_error(mhd, 503, "too many watchers", "Close other windows of this page, and try again.");
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, watch, close_stream);
    if (response == NULL)
        watch_close(watch);
    else
        /* Not in chunks: its end is that of the connection. */
        MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    return send_response(mhd, 200, "text/event-stream", NULL, response);
}

/* ---- requests ---- */

static const char *header(struct MHD_Connection *mhd, const char *name) {
    return MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, name);
}

static struct guard_refusal check(const struct site *site, struct MHD_Connection *mhd, const char *path,
                                  const char *method) {
    const struct guard_request request = {.method = method,
                                          .path = path,
                                          .host = header(mhd, "Host"),
                                          .origin = header(mhd, "Origin"),
                                          .fetch_site = header(mhd, "Sec-Fetch-Site"),
                                          .content_type = header(mhd, "Content-Type"),
                                          .token = header(mhd, "X-Lab-Token")};
    return guard_check(&site->guard, &request);
}

static enum MHD_Result answer_request(const struct site *site, struct MHD_Connection *mhd, const char *path,
                                      const char *method, const struct exchange *exchange) {
    char id[DESK_ID_SIZE];
    struct api_answer answer;
    const struct page *page = pages_find(path);
    bool posts = strcmp(method, "POST") == 0;
    if (page != NULL && !posts)
        return send_page(mhd, page);
    if (page != NULL)
        return send_error(mhd, 405, "no such method", "This can only be read: use GET.");
    if (strcmp(method, "GET") == 0 && api_events_of(path, id))
        return send_events(site, mhd, id);
    const struct api_request request = {
        .method = method, .path = path, .body = exchange->body, .length = exchange->length};
    api_handle(&site->api, &request, &answer);
    return send_answer(mhd, &answer);
}

/* Keeps what fits; the rest is read and thrown away, so that the answer is heard. */
static enum MHD_Result take_body(struct exchange *exchange, const char *data, size_t *size) {
    if (exchange->length + *size > exchange->max) {
        exchange->too_large = true;
        *size = 0;
        return MHD_YES;
    }
    char *body = realloc(exchange->body, exchange->length + *size + 1);
    if (body == NULL)
        return MHD_NO;
    memcpy(body + exchange->length, data, *size);
    exchange->body = body;
    exchange->length += *size;
    body[exchange->length] = '\0';
    *size = 0;
    return MHD_YES;
}

/* Called with the head of a request, with each part of its body, and at its end. */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *mhd, const char *path, const char *method,
                                  const char *version, const char *data, size_t *size, void **context) {
    const struct site *site = ctx;
    struct exchange *exchange = *context;
    (void)version;
    if (exchange == NULL) {
        struct guard_refusal refusal = check(site, mhd, path, method);
        if (refusal.status != 0)
            return send_error(mhd, refusal.status, refusal.title, refusal.detail);
        *context = exchange = calloc(1, sizeof *exchange);
        if (exchange == NULL)
            return MHD_NO;
        exchange->max = api_body_max(path);
        return MHD_YES;
    }
    if (*size > 0)
        return take_body(exchange, data, size);
    if (exchange->too_large)
        return send_error(mhd, 413, "too large", "The body is longer than this call needs.");
    return answer_request(site, mhd, path, method, exchange);
}

static void on_end(void *ctx, struct MHD_Connection *mhd, void **context,
                   enum MHD_RequestTerminationCode code) {
    struct exchange *exchange = *context;
    (void)ctx;
    (void)mhd;
    (void)code;
    if (exchange != NULL)
        free(exchange->body);
    free(exchange);
    *context = NULL;
}

/* ---- listening ---- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* The length; 0: it is no address. */
static socklen_t read_address(const char *text, int port, union address *address) {
    *address = (union address){.v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)}};
    if (inet_pton(AF_INET6, text, &address->v6.sin6_addr) == 1)
        return sizeof address->v6;
    *address = (union address){.v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}};
    return inet_pton(AF_INET, text, &address->v4.sin_addr) == 1 ? sizeof address->v4 : 0;
}

static bool is_loopback(const union address *address) {
    return address->any.sa_family == AF_INET ? ntohl(address->v4.sin_addr.s_addr) >> 24 == 127
                                             : IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr) != 0;
}

/* -1: `errno` says why. */
static int listen_at(union address *address, socklen_t *length) {
    const int on = 1;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, &address->any, *length) == 0 && listen(fd, SITE_CONNECTIONS) == 0 &&
        getsockname(fd, &address->any, length) == 0)
        return fd;
    close(fd);
    return -1;
}

bool site_open(struct site *site, const char *address_text, int port, char error[SITE_ERROR_SIZE]) {
    union address address;
    socklen_t length = read_address(address_text, port, &address);
    if (length == 0) {
        snprintf(error, SITE_ERROR_SIZE, "no IPv4 or IPv6 address");
        return false;
    }
    int fd = listen_at(&address, &length);
    if (fd < 0) {
        snprintf(error, SITE_ERROR_SIZE, "%s", strerror(errno));
        return false;
    }
    site->guard.loopback = is_loopback(&address);
    site->guard.port = ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
    const unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
                           (address.any.sa_family == AF_INET6 ? MHD_USE_IPv6 : 0);
    if (MHD_start_daemon(flags, 0, NULL, NULL, on_request, site, MHD_OPTION_LISTEN_SOCKET, fd,
                         MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned)SITE_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
                         MHD_OPTION_END) != NULL)
        return true;
    close(fd);
    snprintf(error, SITE_ERROR_SIZE, "libmicrohttpd does not start");
    return false;
}
