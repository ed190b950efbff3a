/* Starts the service, and drains it when a signal comes. */
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/version.h"
#include "service/log.h"
#include "service/service.h"

enum { EXIT_USAGE = 2, POOL_QUEUE = 1024 };

/* Looks up HOST:PORT or [HOST]:PORT of the flag. NULL on failure, with the reason in `error`. The caller
 * frees it. */
static struct addrinfo *find_address(const char *flag, const char *listen, char *error, size_t size) {
    char host[CONFIG_TEXT];
    const char *colon = strrchr(listen, ':'); /* config_read() has seen that there is one */
    bool brackets = listen[0] == '[' && colon > listen && colon[-1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(colon - listen) - 2 * brackets, listen + brackets);
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM},
                    *found = NULL;
    int failed = getaddrinfo(*host ? host : NULL, colon + 1, &hints, &found);
    if (failed)
        snprintf(error, size, "%s: \"%s\": %s", flag, listen, gai_strerror(failed));
    return failed ? NULL : found;
}

/* `shared`: the other workers of this process listen on the address, too. -1 on failure, with errno. */
static int open_socket(const struct addrinfo *address, bool shared) {
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if ((!shared || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0) &&
        bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, HTTP_BACKLOG) == 0)
        return fd;
    int kept = errno;
    close(fd);
    errno = kept;
    return -1;
}

/* Opens `count` sockets, one for each worker, after a probe that is not shared, so that an address in use is
 * noticed. False on failure, with the reason in `error`; then none is open. */
static bool open_sockets(const char *flag, const char *listen, int count, int *fds, char *error,
                         size_t size) {
    struct addrinfo *address = find_address(flag, listen, error, size);
    if (!address)
        return false;
    int opened = 0;
    int probe = open_socket(address, false);
    if (probe < 0)
        goto fail;
    close(probe);
    for (; opened < count; opened++) {
        if ((fds[opened] = open_socket(address, true)) < 0)
            goto fail;
    }
    freeaddrinfo(address);
    return true;
fail:
    snprintf(error, size, "cannot listen on %.300s: %s%s%s%s", listen, strerror(errno),
             errno == EADDRINUSE ? " (is a seckilld running already? choose another with " : "",
             errno == EADDRINUSE ? flag : "", errno == EADDRINUSE ? ")" : "");
    while (opened-- > 0)
        close(fds[opened]);
    freeaddrinfo(address);
    return false;
}

/* ---- starting ---- */

static void raise_file_limit(const struct config *config) {
    struct rlimit limit;
    rlim_t wanted = (rlim_t)config->connections_max + 256;
    if (*config->operator_listen)
        wanted += (rlim_t)config->workers * WORKER_OPERATORS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < wanted)
        log_error("only %ld files may be open, and %ld are wanted: fewer than %d connections will fit (raise "
                  "ulimit -n)",
                  (long)limit.rlim_cur, (long)wanted, config->connections_max);
}

static void log_start(const struct config *config) {
    char lock[LOG_LOCK_SIZE];
    log_print_lock(lock, config->lock);
    log_info("seckilld %s on http://%s, %d worker%s, store %s, strategy %s, lock %s%s%s", SECKILL_VERSION,
             config->listen, config->workers, config->workers == 1 ? "" : "s", config->store,
             config->strategy_name, lock, config->fencing ? "" : ", NO FENCING",
             config->teaching ? ", TEACHING: unsafe strategies are allowed" : "");
    if (*config->operator_listen)
        log_info("http://%s serves buyers only; operators and the shop call http://%s", config->listen,
                 config->operator_listen);
}

enum { CREDENTIALS_SIZE = 600 };

/* What was read of each file, and who needs no credentials. */
static void log_credentials(const struct service *service, char said[AUTH_SOURCES][CREDENTIALS_SIZE]) {
    const struct config *config = &service->config;
    for (enum auth_source source = 0; source < AUTH_SOURCES; source++) {
        if (*said[source])
            log_info("%s", said[source]);
    }
    if (!auth_has_buyer_keys(service->auth))
        log_info(
            "no --buyer-keys: whoever reaches http://%s%s%s is the shop: buys, reads and cancels for any "
            "user, and confirms and returns",
            config->listen, *config->operator_listen ? " or http://" : "", config->operator_listen);
}

static bool start_workers(struct service *service, char *error, size_t size) {
    const struct config *config = &service->config;
    int fds[256] = {0}, operator_fds[256] = {0};
    bool two = *config->operator_listen;
    if (!open_sockets("--listen", config->listen, config->workers, fds, error, size) ||
        (two && !open_sockets("--operator-listen", config->operator_listen, config->workers, operator_fds,
                              error, size)))
        return false;
    for (int i = 0; i < config->workers; i++) {
        if (!worker_open(&service->workers[i], service, i, fds[i], two ? operator_fds[i] : -1, error, size))
            return false; /* the process ends, which closes everything */
    }
    if (!background_open(&service->background, service, error, size))
        return false;
    bool started = true;
    for (int i = service->config.workers; started && i >= 0; i--)
        started = loop_thread_start(service_thread(service, i));
    if (!started)
        snprintf(error, size, "cannot start a thread");
    return started;
}

/* Tells systemd the state of the service, e.g. "READY=1", as sd_notify(3) does. Does nothing if systemd did
 * not ask for it. */
static void notify_systemd(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = path ? strlen(path) : 0;
    if (length < 2 || length >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path, path, length);
    if (*path == '@') /* the name of an abstract socket begins with a NUL */
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
    close(fd);
}

/* Returns the signals that end the service. Threads inherit the mask, so only sigwait() takes them. SIGHUP,
 * which the end of a terminal sends, stays ignored if it is (nohup). */
static sigset_t block_signals(void) {
    struct sigaction hang_up;
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    if (sigaction(SIGHUP, NULL, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN)
        sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    return ends;
}

/* Waits for a signal that ends the service, and lets the requests in flight end. */
static void serve_until_signal(struct service *service, const sigset_t *ends) {
    int signal_number = 0;
    sigwait(ends, &signal_number);
    log_info("%s: draining", strsignal(signal_number));
    notify_systemd("STOPPING=1");
    atomic_store(&service->draining, true);
    for (int i = 0; i <= service->config.workers; i++)
        loop_thread_drain(service_thread(service, i));
    pthread_sigmask(SIG_UNBLOCK, ends, NULL); /* a second signal ends the process at once */
    for (int i = 0; i <= service->config.workers; i++)
        loop_thread_join(service_thread(service, i));
}

int main(int argc, char **argv) {
    static struct service service;
    char error[512];
    enum config_result result = config_read(&service.config, argc, argv, stdout, error, sizeof error);
    if (result == CONFIG_EXIT)
        return 0;
    if (result == CONFIG_BAD) {
        fprintf(stderr, "seckilld: %s\n", error);
        return EXIT_USAGE;
    }
    if (service.config.log_json)
        log_use_json();
    config_warn_of_variables();
    sigset_t ends = block_signals();
    store_clock_init(&service.clock, &clock_system);
    service.lock_switch = lock_switch_open(&service.config, &service.clock, error, sizeof error);
    if (!service.lock_switch) {
        /* The message leaves out the URL, which may contain a password. */
        fprintf(stderr, "seckilld: %s: %s; docs/locks.md lists all%s\n",
                config_origin(&service.config, "lock"), error,
                service.config.teaching ? "" : "; those for lessons need --teaching");
        return EXIT_USAGE;
    }
    bool made_up = sodium_init() >= 0 && admin_token_make_up(&service.config);
    service.auth = auth_open(
        &(struct auth_config){
            service.config.admin_token,
            {[AUTH_TOKENS] = service.config.tokens, [AUTH_BUYER_KEYS] = service.config.buyer_keys},
            &service.clock.clock},
        error, sizeof error);
    if (!service.auth) {
        fprintf(stderr, "seckilld: %s\n", error);
        return EXIT_USAGE;
    }
    service.workers = calloc((size_t)service.config.workers, sizeof *service.workers);
    service.pool = pool_open(POOL_THREADS, POOL_QUEUE, purchases_first_limit, &service);
    if (sodium_init() < 0 || !service.workers || !service.pool) {
        log_error("cannot start: out of memory or threads");
        return EXIT_FAILURE;
    }
    raise_file_limit(&service.config);
    /* Before there are threads: the background thread may read the files again as soon as it runs. */
    char credentials[AUTH_SOURCES][CREDENTIALS_SIZE];
    for (enum auth_source source = 0; source < AUTH_SOURCES; source++)
        auth_describe(service.auth, source, credentials[source], CREDENTIALS_SIZE);
    if (!start_workers(&service, error, sizeof error)) {
        log_error("cannot start: %s", error);
        return EXIT_FAILURE;
    }
    if (made_up)
        admin_token_keep(service.config.admin_token, service.config.listen);
    sodium_memzero(service.config.admin_token, sizeof service.config.admin_token);
    log_start(&service.config);
    log_credentials(&service, credentials);
    notify_systemd("READY=1");
    serve_until_signal(&service, &ends);
    pool_close(service.pool);
    lock_switch_close(service.lock_switch);
    for (int i = 0; i < service.config.workers; i++)
        auth_view_close(service.workers[i].auth);
    auth_close(service.auth);
    free(service.workers);
    log_info("ended");
    return EXIT_SUCCESS;
}
