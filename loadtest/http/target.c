#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "loadtest/http/target.h"

static const char *split_url(const char *url, char host[256], char port[6]) {
    if (strncmp(url, "http://", strlen("http://")) != 0)
        return "it must begin with http:// (no TLS: test behind the proxy that terminates it)";
    const char *at = url + strlen("http://");
    int used = 0;
    if (sscanf(at, "[%255[^]/?#]]%n", host, &used) != 1 || used == 0)
        sscanf(at, "%255[^][:/?#]%n", host, &used);
    at += used;
    if (used == 0 || strchr(":/?#", *at) == NULL)
        return "it has no host, or one that is too long";
    snprintf(port, 6, "80");
    if (*at == ':') {
        size_t digits = strspn(at + 1, "0123456789");
        long number = strtol(at + 1, NULL, 10);
        if (digits < 1 || digits > 5 || number < 1 || number > 65535 || strchr("/?#", at[1 + digits]) == NULL)
            return "its port is not a number from 1 to 65535";
        snprintf(port, 6, "%.*s", (int)digits, at + 1);
        at += 1 + digits;
    }
    return *at != '\0' && strcmp(at, "/") != 0 ? "it must not have a path: /v1/... is added to it" : NULL;
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
    char host[256];
    char port[6];
    const char *wrong = split_url(url, host, port);
    if (wrong != NULL)
        return wrong;
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
