#include "lock/core/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fail(char *error, size_t size, const char *what) {
    snprintf(error, size, "%s (want SCHEME:[//ADDRESS][?variant=NAME&ttl=MS&renew=on])", what);
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

/* NULL: it is good; or what is wrong. */
static const char *read_option(struct lock_url *url, const char *name, size_t name_length, const char *value,
                               size_t length) {
    const struct {
        const char *name;
        char *text; /* NULL: it is no text */
        size_t size;
        bool given;
        const char *wanted;
    } options[] = {
        {"variant", url->variant, sizeof url->variant, url->variant[0], "variant wants a name"},
        {"ttl", NULL, 0, url->ttl_ms != 0, "ttl wants 10 to 86400000 milliseconds"},
        {"renew", NULL, 0, url->renew, "renew wants to be on"},
        {"ca", url->ca_file, sizeof url->ca_file, url->ca_file[0], "ca wants a file"},
        {"cert", url->cert_file, sizeof url->cert_file, url->cert_file[0], "cert wants a file"},
        {"key", url->key_file, sizeof url->key_file, url->key_file[0], "key wants a file"},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (name_length != strlen(options[i].name) || memcmp(name, options[i].name, name_length) != 0)
            continue;
        if (options[i].given)
            return "an option is there twice";
        bool good = false;
        if (options[i].text)
            good = length > 0 && copy(options[i].text, options[i].size, value, length);
        else if (name[0] == 't')
            good = read_ttl(value, length, &url->ttl_ms);
        else
            good = url->renew = length == 2 && memcmp(value, "on", 2) == 0;
        return good ? NULL : options[i].wanted;
    }
    return "unknown option; there are variant, ttl, renew, ca, cert and key";
}

bool lock_url_parse(struct lock_url *url, const char *text, char *error, size_t error_size) {
    struct lock_url read = {.ttl_ms = 0};
    size_t scheme = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
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
        size_t length = strcspn(++at, "&"), name = strcspn(at, "=&");
        const char *value = name < length ? at + name + 1 : at + length;
        const char *wrong = read_option(&read, at, name, value, length - (size_t)(value - at));
        if (wrong && name == length && memchr(at, '@', length))
            wrong = "a ? in a user or password is written %3F";
        if (wrong)
            return fail(error, error_size, wrong);
        at += length;
    }
    *url = read;
    return true;
}
