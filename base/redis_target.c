#include "base/redis_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url_parts.h"

static bool fail(char *error, size_t size, const char *what) {
    snprintf(error, size,
             "%s (want redis://[[user]:password@]host[:port][/database] or unix://[:password@]/path)", what);
    return false;
}

/* At most five digits, up to the end of the text. */
static bool read_database(const char *text, int *database) {
    size_t digits = strspn(text, "0123456789");
    *database = (int)strtol(text, NULL, 10);
    return digits >= 1 && digits <= 5 && text[digits] == '\0';
}

static bool read_userinfo(struct redis_target *target, const char *text, size_t length) {
    const char *colon = memchr(text, ':', length);
    if (!colon)
        return false;
    size_t user_length = (size_t)(colon - text);
    return percent_decode(target->user, sizeof target->user, text, user_length) &&
           percent_decode(target->password, sizeof target->password, colon + 1, length - user_length - 1);
}

static bool parse_unix(struct redis_target *read, const char *path, char *error, size_t size) {
    const char *query = strchr(path, '?');
    size_t length = query ? (size_t)(query - path) : strlen(path);
    if (query && (strncmp(query, "?db=", 4) != 0 || !read_database(query + 4, &read->database)))
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
    if (slash && slash[1] && !read_database(slash + 1, &read->database))
        return fail(error, size, "the database after the / is not a number");
    if (memchr(rest, ',', length))
        return fail(error, size, "the host has a comma, and it is one server");
    struct host host;
    const char *wrong = host_read(&host, rest, length, 6379);
    if (!wrong && host.length >= sizeof read->host)
        wrong = "is too long";
    if (wrong) {
        char what[100];
        snprintf(what, sizeof what, "the host %s", wrong);
        return fail(error, size, what);
    }
    memcpy(read->host, host.name, host.length);
    read->port = host.port;
    return true;
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
