#include "lock/zookeeper_address.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { PORT = 2181 };

/* 0: it is none. */
static int read_port(const char *text, size_t length) {
    int port = 0;
    for (size_t i = 0; i < length && port <= 65535; i++)
        port = isdigit((unsigned char)text[i]) ? port * 10 + text[i] - '0' : 65536;
    return port <= 65535 ? port : 0;
}

/* HOST[:PORT], or [IPV6][:PORT], of which the C client wants IPV6:PORT. */
static bool append_server(char **out, const char *text, size_t length) {
    const char *end = text + length;
    const char *begin = text + (length > 0 && *text == '[');
    const char *stop = memchr(begin, begin > text ? ']' : ':', (size_t)(end - begin));
    if (!stop && begin > text)
        return false;
    stop = stop ? stop : end;
    const char *rest = stop + (begin > text);
    int port = rest == end ? PORT : *rest == ':' ? read_port(rest + 1, (size_t)(end - rest) - 1) : 0;
    if (stop == begin || port == 0 || memchr(text, '@', length))
        return false;
    *out += sprintf(*out, "%.*s:%d", (int)(stop - begin), begin, port);
    return true;
}

static bool read_chroot(const char *text, char *root) {
    int levels = 0;
    size_t length = strlen(text);
    if (length >= ZOOKEEPER_ROOT_SIZE - sizeof "/lock" + 1)
        return false;
    for (const char *at = text; *at; levels++) {
        size_t level = strcspn(at + 1, "/");
        if (level == 0 || (level == 1 && at[1] == '.') || (level == 2 && at[1] == '.' && at[2] == '.'))
            return false;
        at += 1 + level;
    }
    stpcpy(stpcpy(root, text), "/lock");
    return levels < ZOOKEEPER_LEVELS_MAX;
}

bool zookeeper_address_read(const char *address, char servers[ZOOKEEPER_SERVERS_SIZE],
                            char root[ZOOKEEPER_ROOT_SIZE]) {
    size_t length = strcspn(address, "/");
    const char *at = address, *end = address + length;
    char *out = servers;
    for (;;) {
        size_t server = strcspn(at, ",/");
        if (!append_server(&out, at, server))
            return false;
        at += server;
        if (at == end)
            break;
        *out++ = ',';
        at++;
    }
    *out = '\0';
    return read_chroot(strcmp(end, "/") == 0 ? "" : end, root);
}
