#include "lock/core/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fail(char *error, size_t size, const char *what) {
    snprintf(error, size, "%s (want SCHEME:[//ADDRESS][?variant=NAME&ttl=MS])", what);
    return false;
}

static bool copy(char *out, size_t size, const char *from, size_t length) {
    if (length >= size)
        return false;
    memcpy(out, from, length);
    out[length] = '\0';
    return true;
}

static bool read_ttl(const char *text, size_t length, int64_t *ttl_ms) {
    char digits[10];
    if (length == 0 || strspn(text, "0123456789") < length || !copy(digits, sizeof digits, text, length))
        return false;
    int64_t read = strtoll(digits, NULL, 10);
    if (read < LOCK_TTL_MIN_MS || read > LOCK_TTL_MAX_MS)
        return false;
    *ttl_ms = read;
    return true;
}

/* One of the files of TLS. */
static bool read_file(struct lock_url *url, const char *text, size_t name, const char *value, size_t length) {
    const struct {
        const char *name;
        char *file;
    } files[] = {{"ca", url->ca_file}, {"cert", url->cert_file}, {"key", url->key_file}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (name == strlen(files[i].name) && memcmp(text, files[i].name, name) == 0)
            return length > 0 && copy(files[i].file, sizeof url->ca_file, value, length);
    }
    return false;
}

/* A name stands once; what it was set to says whether it was there. */
static bool is_again(const struct lock_url *url, const char *text, size_t name) {
    const struct {
        const char *name;
        bool set;
    } options[] = {{"variant", url->variant[0]},
                   {"ttl", url->ttl_ms != 0},
                   {"ca", url->ca_file[0]},
                   {"cert", url->cert_file[0]},
                   {"key", url->key_file[0]}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (options[i].set && name == strlen(options[i].name) && memcmp(text, options[i].name, name) == 0)
            return true;
    }
    return false;
}

static bool read_option(struct lock_url *url, const char *text, size_t length, char *error, size_t size) {
    const char *equals = memchr(text, '=', length);
    size_t name = equals ? (size_t)(equals - text) : length;
    const char *value = equals ? equals + 1 : text + length;
    size_t rest = length - (size_t)(value - text);
    if (is_again(url, text, name))
        return fail(error, size, "an option is there twice");
    if (name == 7 && memcmp(text, "variant", 7) == 0)
        return (rest > 0 && copy(url->variant, sizeof url->variant, value, rest)) ||
               fail(error, size, "variant wants a name");
    if (name == 3 && memcmp(text, "ttl", 3) == 0)
        return read_ttl(value, rest, &url->ttl_ms) ||
               fail(error, size, "ttl wants 10 to 86400000 milliseconds");
    if (memchr(text, '@', length) && !equals)
        return fail(error, size, "a ? in a user or password is written %3F");
    return read_file(url, text, name, value, rest) ||
           fail(error, size,
                "unknown option, or none that makes sense; there are variant, ttl, ca, cert and key");
}

bool lock_url_parse(struct lock_url *url, const char *text, char *error, size_t error_size) {
    struct lock_url read = {.ttl_ms = 0};
    size_t scheme = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789");
    if (scheme == 0 || text[scheme] != ':' || !copy(read.scheme, sizeof read.scheme, text, scheme))
        return fail(error, error_size,
                    "not a lock URL: those begin with local:, redis:, redlock:, etcd: or zookeeper:");
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 127)
            return fail(error, error_size, "it has a control character, perhaps the end of a line");
    }
    const char *at = text + scheme + 1;
    if (strncmp(at, "//", 2) == 0) {
        size_t length = strcspn(at + 2, "?");
        if (!copy(read.address, sizeof read.address, at + 2, length))
            return fail(error, error_size, "the address is too long");
        at += 2 + length;
    }
    if (*at && *at != '?')
        return fail(error, error_size, "an address begins with //");
    while (*at) {
        size_t length = strcspn(++at, "&");
        if (!read_option(&read, at, length, error, error_size))
            return false;
        at += length;
    }
    *url = read;
    return true;
}
