#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/url_parts.h"
#include "loadtest/http/target.h"

enum { HOST_MAX = 255 };

static const char *split_url(const char *url, struct host *host) {
    if (strncmp(url, "http://", strlen("http://")) != 0)
        return "it must begin with http:// (no TLS: test behind the proxy that terminates it)";
    const char *at = url + strlen("http://");
    size_t length = strcspn(at, "/?#");
    if (length == 0)
        return "it has no host";
    if (at[length] != '\0' && strcmp(at + length, "/") != 0)
        return "it must not have a path: /v1/... is added to it";
    const char *wrong = host_read(host, at, length, 80);
    return wrong == NULL && host->length > HOST_MAX ? "has a host that is too long" : wrong;
}

static bool accepts(const struct addrinfo *info) {
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    struct timeval limit = {.tv_sec = 2};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    bool good = connect(fd, info->ai_addr, info->ai_addrlen) == 0;
    close(fd);
    return good;
}

const char *target_resolve(const char *url, struct target *target) {
    struct host where;
    const char *wrong = split_url(url, &where);
    if (wrong != NULL)
        return wrong;
    char host[HOST_MAX + 1], port[6];
    snprintf(host, sizeof host, "%.*s", (int)where.length, where.name);
    snprintf(port, sizeof port, "%d", where.port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int error = getaddrinfo(host, port, &hints, &list);
    if (error != 0 || list == NULL)
        return gai_strerror(error);
    const struct addrinfo *chosen = list;
    memset(target, 0, sizeof *target);
    for (const struct addrinfo *info = list; !target->accepts && info != NULL; info = info->ai_next) {
        if (accepts(info)) {
            target->accepts = true;
            chosen = info;
        }
    }
    memcpy(&target->address, chosen->ai_addr, chosen->ai_addrlen);
    bool literal_6 = strchr(host, ':') != NULL;
    snprintf(target->host, sizeof target->host, literal_6 ? "[%s]:%s" : "%s:%s", host, port);
    freeaddrinfo(list);
    return NULL;
}
