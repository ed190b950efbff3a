#include "service/rfc3339.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define YEAR_10000_MS 253402300800000

void rfc3339_print(int64_t ms, char out[RFC3339_SIZE]) {
    time_t seconds = ms / 1000;
    struct tm parts;
    gmtime_r(&seconds, &parts);
    size_t length = strftime(out, RFC3339_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(out + length, RFC3339_SIZE - length, ".%03dZ", (int)(ms % 1000));
}

/* strptime() also takes blanks, too few digits, and days that there are not. So what it has read is written
 * again, here and below, and must be what was there. */
static bool rfc3339_read_offset(const char *text, int *seconds) {
    struct tm offset = {.tm_hour = 0};
    char again[RFC3339_SIZE];
    bool zulu = strcasecmp(text, "Z") == 0;
    if (!zulu && ((*text != '+' && *text != '-') || !strptime(text + 1, "%H:%M", &offset)))
        return false;
    strftime(again, sizeof again, "%H:%M", &offset);
    *seconds = (*text == '-' ? -1 : 1) * (offset.tm_hour * 3600 + offset.tm_min * 60);
    return zulu || strcmp(text + 1, again) == 0;
}

bool rfc3339_read(const char *text, int64_t *ms) {
    struct tm parts = {.tm_year = 0};
    char again[RFC3339_SIZE];
    int fraction = 0, offset;
    if (!strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) && !strptime(text, "%Y-%m-%dt%H:%M:%S", &parts))
        return false;
    int64_t read = (int64_t)timegm(&parts) * 1000; /* makes March 2 of February 30 */
    rfc3339_print(read, again);
    size_t length = strcspn(again, ".");
    if (read < 0 || strncasecmp(text, again, length) != 0)
        return false;
    const char *at = text + length;
    if (*at == '.') {
        if (!isdigit((unsigned char)*++at))
            return false;
        for (int scale = 100; isdigit((unsigned char)*at); at++, scale /= 10)
            fraction += (*at - '0') * scale;
    }
    if (!rfc3339_read_offset(at, &offset))
        return false;
    read += fraction - offset * INT64_C(1000);
    if (read < 0 || read >= YEAR_10000_MS) /* an offset may lead to a year that cannot be written */
        return false;
    *ms = read;
    return true;
}
