#include "base/redis_target.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/percent.h"

static bool fail(char *error, size_t size, const char *what) {
    snprintf(error, size,
             "%s (want redis://[[user]:password@]host[:port][/database] or unix://[:password@]/path)", what);
    return false;
}

static bool read_number(const char *text, size_t length, int low, int high, int *number) {
    if (length == 0 || length > 5)
        return false;
    int value = 0;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i]))
            return false;
        value = value * 10 + (text[i] - '0');
    }
    if (value < low || value > high)
        return false;
    *number = value;
    return true;
}

static bool read_userinfo(struct redis_target *target, const char *text, size_t length) {
    const char *colon = memchr(text, ':', length);
    if (!colon)
        return false;
    size_t user_length = (size_t)(colon - text);
    return percent_decode(target->user, sizeof target->user, text, user_length) &&
           percent_decode(target->password, sizeof target->password, colon + 1, length - user_length - 1);
}

/* What is wrong; NULL: nothing. */
static const char *read_host(struct redis_target *target, const char *text, size_t length) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:%";
    const char *end = text + length, *host = text, *host_end, *port = NULL;
    bool is_address = length && *text == '[';
    if (is_address) {
        host = text + 1;
        host_end = memchr(text, ']', length);
        if (!host_end)
            return "the host has no ] to its [";
        port = host_end + 1 < end ? host_end + 1 : NULL;
        if (port && *port != ':')
            return "what follows the ] is not :PORT";
    } else {
        port = memchr(text, ':', length);
        host_end = port ? port : end;
    }
    if (host_end == host)
        return "the host is empty";
    if (!percent_decode(target->host, sizeof target->host, host, (size_t)(host_end - host)))
        return "the host is too long, or has a % that is not followed by two digits";
    if (strchr(target->host, ','))
        return "the host has a comma, and it is one server";
    if (target->host[strspn(target->host, letters)] || (!is_address && strpbrk(target->host, ":%")))
        return "the host has a character that no host has";
    target->port = 6379;
    if (port && !read_number(port + 1, (size_t)(end - port - 1), 1, 65535, &target->port))
        return "the port is not a number from 1 to 65535";
    return NULL;
}

static bool parse_unix(struct redis_target *read, const char *path, char *error, size_t size) {
    const char *query = strchr(path, '?');
    size_t length = query ? (size_t)(query - path) : strlen(path);
    if (query && (strncmp(query, "?db=", 4) != 0 ||
                  !read_number(query + 4, strlen(query + 4), 0, 99999, &read->database)))
        return fail(error, size, "what follows the ? is not db=NUMBER");
    if (*path != '/' || !percent_decode(read->host, sizeof read->host, path, length))
        return fail(error, size, "the path of the socket must begin with /");
    return true;
}

static bool parse_tcp(struct redis_target *read, const char *rest, char *error, size_t size) {
    const char *slash = strchr(rest, '/');
    size_t length = slash ? (size_t)(slash - rest) : strlen(rest);
    if (strpbrk(rest, "?#"))
        return fail(error, size, "a ? or # has no meaning here");
    if (slash && slash[1] && !read_number(slash + 1, strlen(slash + 1), 0, 99999, &read->database))
        return fail(error, size, "the database after the / is not a number");
    const char *wrong = read_host(read, rest, length);
    return !wrong || fail(error, size, wrong);
}

bool redis_target_parse(struct redis_target *target, const char *url, char *error, size_t error_size) {
    struct redis_target read = {.host = ""};
    bool tcp = strncmp(url, "redis://", 8) == 0;
    if (!tcp && strncmp(url, "unix://", 7) != 0)
        return fail(error, error_size, "the URL begins with neither redis:// nor unix://");
    for (const char *c = url; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 127)
            return fail(error, error_size, "it has a control character, perhaps the end of a line");
    }
    const char *rest = url + (tcp ? 8 : 7);
    size_t authority = tcp ? strcspn(rest, "/?") : strlen(rest);
    /* The last @ ends the password, so that one within it does no harm. */
    const char *at = memrchr(rest, '@', authority);
    if (at && memchr(rest, ',',
                     (size_t)(at - rest))) /* of several servers all but the last would be taken for it */
        return fail(error, error_size, "a comma in user or password is written %2C, and it is one server");
    if (at && !read_userinfo(&read, rest, (size_t)(at - rest)))
        return fail(error, error_size,
                    "user or password is wrong (write user:password@ or :password@, other signs as %XX)");
    rest = at ? at + 1 : rest;
    if (!(tcp ? parse_tcp : parse_unix)(&read, rest, error, error_size))
        return false;
    *target = read;
    return true;
}

void redis_target_print(const struct redis_target *target, char *out, size_t out_size) {
    if (target->port == 0)
        snprintf(out, out_size, "unix://%s?db=%d", target->host, target->database);
    else
        snprintf(out, out_size, strchr(target->host, ':') ? "redis://[%s]:%d/%d" : "redis://%s:%d/%d",
                 target->host, target->port, target->database);
}
