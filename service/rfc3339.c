#include "service/rfc3339.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define YEAR_10000_MS 253402300800000

/* Reads exactly `digits` digits and the characters that must follow them. */
static bool rfc3339_read_part(const char **at, int digits, int low, int high, char then, int *out) {
    int value = 0;
    for (int i = 0; i < digits; i++) {
        if (!isdigit((unsigned char)(*at)[i]))
            return false;
        value = value * 10 + ((*at)[i] - '0');
    }
    *at += digits;
    if (value < low || value > high || (then && *(*at)++ != then))
        return false;
    *out = value;
    return true;
}

static bool rfc3339_read_offset(const char **at, int *seconds) {
    char sign = *(*at)++;
    int hours, minutes;
    *seconds = 0;
    if (sign == 'Z' || sign == 'z')
        return true;
    if ((sign != '+' && sign != '-') || !rfc3339_read_part(at, 2, 0, 23, ':', &hours) ||
        !rfc3339_read_part(at, 2, 0, 59, '\0', &minutes))
        return false;
    *seconds = (sign == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    return true;
}

bool rfc3339_read(const char *text, int64_t *ms) {
    const char *at = text;
    int year, month, day, hour, minute, second, fraction = 0, offset;
    if (!rfc3339_read_part(&at, 4, 1970, 9999, '-', &year) ||
        !rfc3339_read_part(&at, 2, 1, 12, '-', &month) || !rfc3339_read_part(&at, 2, 1, 31, '\0', &day) ||
        (*at != 'T' && *at != 't'))
        return false;
    at++;
    if (!rfc3339_read_part(&at, 2, 0, 23, ':', &hour) || !rfc3339_read_part(&at, 2, 0, 59, ':', &minute) ||
        !rfc3339_read_part(&at, 2, 0, 59, '\0', &second))
        return false;
    if (*at == '.') {
        if (!isdigit((unsigned char)*++at))
            return false;
        for (int scale = 100; isdigit((unsigned char)*at); at++, scale /= 10)
            fraction += (*at - '0') * scale;
    }
    if (*at == '\0' || !rfc3339_read_offset(&at, &offset) || *at)
        return false;
    struct tm parts = {.tm_year = year - 1900,
                       .tm_mon = month - 1,
                       .tm_mday = day,
                       .tm_hour = hour,
                       .tm_min = minute,
                       .tm_sec = second};
    int64_t read = ((int64_t)timegm(&parts) - offset) * 1000 + fraction;
    /* timegm() makes March 2 of February 30. An offset may lead to a year that cannot be written. */
    if (parts.tm_mday != day || read < 0 || read >= YEAR_10000_MS)
        return false;
    *ms = read;
    return true;
}

void rfc3339_print(int64_t ms, char out[RFC3339_SIZE]) {
    time_t seconds = ms / 1000;
    struct tm parts;
    gmtime_r(&seconds, &parts);
    size_t length = strftime(out, RFC3339_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(out + length, RFC3339_SIZE - length, ".%03dZ", (int)(ms % 1000));
}
