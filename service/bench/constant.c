/* The ceiling of the HTTP library: each request gets the same answer at once, by the way that the service's
 * answers go, with as many threads. usage: bench-constant PORT WORKERS STATUS (201 or 409), ends on SIGTERM.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "service/http/http_server.h"

static int status;

static void on_request(void *ctx, struct http_request *request) {
    (void)ctx;
    /* For the generator, which wants to see the books: nothing on sale, nothing sold. */
    static const char audit[] =
        "{\"item\":\"bench\",\"conserved\":true,\"stock\":0,\"available\":0,\"held\":0,\"sold\":0,"
        "\"orders\":0,\"oversold\":0}";
    static const char sold[] =
        "{\"order\":\"bench:PVm-l7C4g_566Nm-GMu1rg\",\"item\":\"bench\",\"user\":\"u12345-0-123456\","
        "\"quantity\":1,\"state\":\"confirmed\"}";
    static const char sold_out[] =
        "{\"type\":\"/problems/sold-out\",\"title\":\"Sold out\",\"status\":409,\"detail\":\"fewer "
        "units are left than wanted\",\"available\":0}";
    static const char *const location[] = {"Location", "/v1/orders/bench:PVm-l7C4g_566Nm-GMu1rg", NULL};
    if (strcmp(request->method, "GET") == 0)
        http_answer(request, 200, "application/json", audit, sizeof audit - 1, NULL);
    else if (status == 201)
        http_answer(request, status, "application/json", sold, sizeof sold - 1, location);
    else
        http_answer(request, status, "application/problem+json", sold_out, sizeof sold_out - 1, NULL);
}

static void on_answer(void *ctx, const struct http_request *request, int answered) {
    (void)ctx;
    (void)request;
    (void)answered;
}

static void on_turn(uv_prepare_t *handle) {
    http_server_turn(handle->data);
}

static void on_turn_end(uv_check_t *handle) {
    http_server_turn(handle->data);
}

static void *serve(void *arg) {
    int port = *(int *)arg, on = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uv_loop_t loop;
    uv_prepare_t prepare;
    uv_check_t check;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 4096) != 0) {
        perror("bench-constant");
        exit(1);
    }
    uv_loop_init(&loop);
    struct http_config config = {.listen_fd = fd,
                                 .connections_max = 16384,
                                 .idle_ms = 60000,
                                 .on_request = on_request,
                                 .on_answer = on_answer};
    struct http_server *server = http_server_open(&loop, &config);
    if (!server)
        exit(1);
    prepare.data = check.data = server;
    uv_prepare_init(&loop, &prepare);
    uv_check_init(&loop, &check);
    uv_prepare_start(&prepare, on_turn);
    uv_check_start(&check, on_turn_end);
    uv_run(&loop, UV_RUN_DEFAULT);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: bench-constant PORT WORKERS STATUS\n");
        return 2;
    }
    int port = (int)strtol(argv[1], NULL, 10), workers = (int)strtol(argv[2], NULL, 10);
    status = (int)strtol(argv[3], NULL, 10);
    for (int i = 1; i < workers; i++) {
        pthread_t id;
        pthread_create(&id, NULL, serve, &port);
    }
    serve(&port);
    return 0;
}
