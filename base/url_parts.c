#include "base/url_parts.h"

#include <stdlib.h>
#include <string.h>

const char *host_read(struct host *host, const char *text, size_t length, int port) {
    /* A colon and a % (before the name of an interface) are part of an IPv6 address only. */
    static const char letters[] = ":%ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
    bool brackets = length > 0 && text[0] == '[';
    const char *end = text + length, *name = text + brackets;
    const char *stop = memchr(name, brackets ? ']' : ':', (size_t)(end - name));
    if (!stop && brackets)
        return "has no ] to its [";
    stop = stop ? stop : end;
    if (stop == name)
        return "is empty";
    if (strspn(name, brackets ? letters : letters + 2) < (size_t)(stop - name))
        return "has a character that no host has";
    const char *rest = stop + brackets;
    if (rest < end) {
        size_t digits = strspn(rest + 1, "0123456789");
        bool whole = *rest == ':' && digits <= 5 && rest + 1 + digits >= end && rest + 1 < end;
        port = whole ? (int)strtol(rest + 1, NULL, 10) : 0;
    }
    if (port < 1 || port > 65535)
        return "has a port that is not a number from 1 to 65535";
    *host = (struct host){name, (size_t)(stop - name), port};
    return NULL;
}

bool percent_decode(char *out, size_t out_size, const char *in, size_t length) {
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        char c = in[i];
        if (c == '%') {
            char digits[] = {i + 2 < length ? in[i + 1] : '\0', i + 2 < length ? in[i + 2] : '\0', '\0'};
            if (strspn(digits, "0123456789abcdefABCDEF") < 2)
                return false;
            c = (char)strtol(digits, NULL, 16);
            i += 2;
        }
        if (c == '\0' || n + 1 >= out_size)
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}
