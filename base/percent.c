#include "base/percent.h"

#include <ctype.h>

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool percent_decode(char *out, size_t out_size, const char *in, size_t length) {
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        char c = in[i];
        if (c == '%') {
            int high = i + 2 < length ? hex_digit(in[i + 1]) : -1;
            int low = i + 2 < length ? hex_digit(in[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || n + 1 >= out_size)
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}
