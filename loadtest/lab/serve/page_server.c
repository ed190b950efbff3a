#include "loadtest/lab/serve/page_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api.mjs.h"
#include "app.mjs.h"
#include "describe.mjs.h"
#include "dom.mjs.h"
#include "icon.svg.h"
#include "index.html.h"
#include "lanes.mjs.h"
#include "lessons.mjs.h"
#include "lock.mjs.h"
#include "main.mjs.h"
#include "player.mjs.h"
#include "plot.mjs.h"
#include "progress.mjs.h"
#include "recordings.mjs.h"
#include "reducer.mjs.h"
#include "run_view.mjs.h"
#include "sale.mjs.h"
#include "source.mjs.h"
#include "spans.mjs.h"
#include "state_panel.mjs.h"
#include "style.css.h"
#include "timeline.mjs.h"
#include "verdict.mjs.h"

enum { IDLE_S = 30, STREAM_BLOCK = 16384 };

/* ---- the files of the page, which the program carries with it ---- */

struct page {
    const char *path, *type, *text;
    size_t length;
};

#define MODULE(name)                                                                                         \
    { "/" #name ".mjs", "text/javascript; charset=utf-8", name##_mjs, sizeof name##_mjs - 1 }

static const struct page pages[] = {
    {"/", "text/html; charset=utf-8", index_html, sizeof index_html - 1},
    {"/style.css", "text/css; charset=utf-8", style_css, sizeof style_css - 1},
    {"/icon.svg", "image/svg+xml", icon_svg, sizeof icon_svg - 1},
    MODULE(api),
    MODULE(app),
    MODULE(describe),
    MODULE(dom),
    MODULE(lanes),
    MODULE(lessons),
    MODULE(lock),
    MODULE(main),
    MODULE(player),
    MODULE(plot),
    MODULE(progress),
    MODULE(recordings),
    MODULE(reducer),
    MODULE(run_view),
    MODULE(sale),
    MODULE(source),
    MODULE(spans),
    MODULE(state_panel),
    MODULE(timeline),
    MODULE(verdict),
};

/* Returns NULL if the page has no file at this path. */
static const struct page *find_page(const char *path) {
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        if (strcmp(pages[i].path, path) == 0)
            return &pages[i];
    }
    return NULL;
}

/* ---- answers ---- */

/* The body of a request, which comes in parts. */
struct request_body {
    char *text; /* ends with a NUL; NULL: none came */
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

static enum MHD_Result send_response(struct MHD_Connection *mhd, int status, const char *type,
                                     const char *file, struct MHD_Response *response) {
    char disposition[80];
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        MHD_add_response_header(response, headers[i].name, headers[i].value);
    if (file) {
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

static enum MHD_Result send_answer(struct MHD_Connection *mhd, const struct lab_api_answer *answer) {
    if (!answer->body)
        return MHD_NO; /* out of memory: the connection is closed */
    return send_response(
        mhd, answer->status, answer->type, answer->file,
        MHD_create_response_from_buffer(answer->length, answer->body, MHD_RESPMEM_MUST_FREE));
}

static enum MHD_Result send_error(struct MHD_Connection *mhd, int status, const char *title,
                                  const char *detail) {
    struct lab_api_answer answer;
    lab_api_fail(&answer, status, title, detail);
    return send_answer(mhd, &answer);
}

static enum MHD_Result send_page(struct MHD_Connection *mhd, const struct page *page) {
    return send_response(
        mhd, 200, page->type, NULL,
        MHD_create_response_from_buffer(page->length, (void *)(uintptr_t)page->text, MHD_RESPMEM_PERSISTENT));
}

/* ---- event streams ---- */

static ssize_t read_stream(void *ctx, uint64_t position, char *out, size_t size) {
    (void)position;
    size_t length = event_stream_read(ctx, out, size);
    return length > 0 ? (ssize_t)length : MHD_CONTENT_READER_END_OF_STREAM;
}

static void close_stream(void *ctx) {
    event_stream_close(ctx);
}

static const char *get_header(struct MHD_Connection *mhd, const char *name) {
    return MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, name);
}

static enum MHD_Result send_events(const struct page_server *server, struct MHD_Connection *mhd,
                                   const char *id) {
    struct lab_run run;
    const char *last = get_header(mhd, "Last-Event-ID");
    if (!run_control_find(server->api.control, id, &run))
        return send_error(mhd, 404, "no such run", "The lab keeps the newest runs, until it ends.");
    struct event_stream *stream =
        event_stream_open(server->api.control, &run, last ? strtoll(last, NULL, 10) : -1);
    if (!stream)
        return send_error(mhd, 503, "too many watchers", "Close other windows of this page, and try again.");
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, stream, close_stream);
    if (!response)
        event_stream_close(stream);
    else
        /* Not chunked: the stream ends with its connection. */
        MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    return send_response(mhd, 200, "text/event-stream", NULL, response);
}

/* ---- requests ---- */

static enum MHD_Result answer_request(const struct page_server *server, struct MHD_Connection *mhd,
                                      const char *path, const char *method, const struct request_body *body) {
    char id[RUN_ID_SIZE];
    struct lab_api_answer answer;
    const struct page *page = find_page(path);
    if (page && strcmp(method, "POST") != 0)
        return send_page(mhd, page);
    if (page)
        return send_error(mhd, 405, "no such method", "This can only be read: use GET.");
    if (strcmp(method, "GET") == 0 && lab_api_events_of(path, id))
        return send_events(server, mhd, id);
    const struct lab_api_request request = {
        .method = method, .path = path, .body = body->text, .length = body->length};
    lab_api_handle(&server->api, &request, &answer);
    return send_answer(mhd, &answer);
}

/* Keeps what fits. The rest is read and dropped, so that the client reads the answer. */
static enum MHD_Result take_body(struct request_body *body, const char *data, size_t *size) {
    if (body->length + *size > body->max) {
        body->too_large = true;
        *size = 0;
        return MHD_YES;
    }
    char *text = realloc(body->text, body->length + *size + 1);
    if (!text)
        return MHD_NO;
    memcpy(text + body->length, data, *size);
    body->text = text;
    body->length += *size;
    text[body->length] = '\0';
    *size = 0;
    return MHD_YES;
}

/* libmicrohttpd calls this for the head of a request, for each part of its body, and at its end. */
static enum MHD_Result page_server_on_request(void *ctx, struct MHD_Connection *mhd, const char *path,
                                              const char *method, const char *version, const char *data,
                                              size_t *size, void **context) {
    const struct page_server *server = ctx;
    struct request_body *body = *context;
    (void)version;
    if (!body) {
        const struct guard_request asked = {.method = method,
                                            .path = path,
                                            .host = get_header(mhd, "Host"),
                                            .origin = get_header(mhd, "Origin"),
                                            .fetch_site = get_header(mhd, "Sec-Fetch-Site"),
                                            .content_type = get_header(mhd, "Content-Type"),
                                            .token = get_header(mhd, "X-Lab-Token")};
        struct guard_refusal refusal = guard_check(&server->guard, &asked);
        if (refusal.status != 0)
            return send_error(mhd, refusal.status, refusal.title, refusal.detail);
        *context = body = calloc(1, sizeof *body);
        if (!body)
            return MHD_NO;
        body->max = lab_api_body_max(path);
        return MHD_YES;
    }
    if (*size > 0)
        return take_body(body, data, size);
    if (body->too_large)
        return send_error(mhd, 413, "too large", "The body is longer than this call needs.");
    return answer_request(server, mhd, path, method, body);
}

static void page_server_on_completed(void *ctx, struct MHD_Connection *mhd, void **context,
                                     enum MHD_RequestTerminationCode code) {
    struct request_body *body = *context;
    (void)ctx;
    (void)mhd;
    (void)code;
    if (body)
        free(body->text);
    free(body);
    *context = NULL;
}

/* ---- listening ---- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Returns the length of the address; 0: the text is no address. */
static socklen_t read_listen_address(const char *text, int port, union address *address) {
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

/* Returns a listening socket; -1: `errno` says why not. */
static int listen_at(union address *address, socklen_t *length) {
    const int on = 1;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, &address->any, *length) == 0 && listen(fd, PAGE_SERVER_CONNECTIONS) == 0 &&
        getsockname(fd, &address->any, length) == 0)
        return fd;
    close(fd);
    return -1;
}

bool page_server_open(struct page_server *server, const char *address_text, int port,
                      char error[PAGE_SERVER_ERROR_SIZE]) {
    union address address;
    socklen_t length = read_listen_address(address_text, port, &address);
    if (length == 0) {
        snprintf(error, PAGE_SERVER_ERROR_SIZE, "no IPv4 or IPv6 address");
        return false;
    }
    int fd = listen_at(&address, &length);
    if (fd < 0) {
        snprintf(error, PAGE_SERVER_ERROR_SIZE, "%s", strerror(errno));
        return false;
    }
    server->guard.loopback = is_loopback(&address);
    server->guard.port = ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
    const unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
                           (address.any.sa_family == AF_INET6 ? MHD_USE_IPv6 : 0);
    if (MHD_start_daemon(flags, 0, NULL, NULL, page_server_on_request, server, MHD_OPTION_LISTEN_SOCKET, fd,
                         MHD_OPTION_NOTIFY_COMPLETED, page_server_on_completed, NULL,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)PAGE_SERVER_CONNECTIONS,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_END))
        return true;
    close(fd);
    snprintf(error, PAGE_SERVER_ERROR_SIZE, "libmicrohttpd does not start");
    return false;
}
