/* The names of locks: in answers, logs and metrics, and the keys of items. */
#include <stdio.h>
#include <string.h>

#include "service/background/lock_switch.h"

/* The option NAME= among the options of a URL, which begin with ?; "" if there is none. */
static const char *lock_name_find_option(const char *options, const char *name) {
    for (const char *at = options; at; at = strchr(at, '&')) {
        at++;
        if (strncmp(at, name, strlen(name)) == 0)
            return at;
    }
    return "";
}

/* It shows nothing that stands before the last @, wherever that is. */
void lock_name_print(char out[LOCK_NAME_SIZE], const char *url) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:,/_-[]?=&";
    const char *scheme_end = strchr(url, ':'), *at = strrchr(url, '@'), *options = strchr(url, '?');
    size_t length = scheme_end ? (size_t)(scheme_end - url) + 1 : 0;
    const char *address = url + length, *end = options ? options : url + strlen(url);
    if (!scheme_end)
        end = address; /* not a URL */
    if (strncmp(address, "//", 2) == 0)
        address += 2, length += 2;
    if (at && at >= end)
        end = address; /* everything before an @ may be a password */
    else if (at)
        address = at + 1;
    bool shows = options && !(at && at > options);
    const char *variant = shows ? lock_name_find_option(options, "variant=") : "";
    const char *ttl = shows ? lock_name_find_option(options, "ttl=") : "";
    int length_printed = snprintf(out, LOCK_NAME_SIZE, "%.*s%.*s", (int)length, url,
                                  (int)(end > address ? end - address : 0), address);
    size_t used = length_printed < LOCK_NAME_SIZE ? (size_t)length_printed : LOCK_NAME_SIZE - 1;
    snprintf(out + used, LOCK_NAME_SIZE - used, "%s%.*s%s%.*s", *variant ? "?" : "",
             (int)strcspn(variant, "&"), variant,
             !*ttl      ? ""
             : *variant ? "&"
                        : "?",
             (int)strcspn(ttl, "&"), ttl);
    for (char *c = out; *c; c++) {
        if (!strchr(plain, *c))
            *c = '_';
    }
}

void lock_name_print_plain(char *out, size_t size, const char *text) {
    size_t length = 0;
    for (const char *c = text; *c && length < size - 1; c++) {
        if (strncmp(c, "…", 3) == 0 && length < size - 3) {
            memcpy(out + length, "...", 3);
            length += 3;
            c += 2;
        } else {
            out[length++] = (char)(*c < ' ' || *c > '~' || *c == '"' || *c == '\\' ? '?' : *c);
        }
    }
    out[length] = '\0';
}

void lock_name_print_key(char key[LOCK_NAME_KEY_SIZE], const char *item) {
    snprintf(key, LOCK_NAME_KEY_SIZE, "seckill:%s", item);
}
