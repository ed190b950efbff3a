#include "service/rfc3339.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define YEAR_10000_MS 253402300800000

/* Writes so many digits of the number, with leading zeros; returns what follows. */
static char *rfc3339_append(char *at, int64_t number, int digits, char follows) {
    for (int i = digits - 1; i >= 0; i--, number /= 10)
        at[i] = (char)('0' + number % 10);
    at[digits] = follows;
    return at + digits + 1;
}

/* Each purchase prints some times, and strftime() takes ten times as long. The date by civil_from_days() of
 * Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": years begin in March, so that a leap day is
 * the last day of its year. */
void rfc3339_print(int64_t ms, char out[RFC3339_SIZE]) {
    int64_t days = ms / 86400000 + 719468, rest = ms % 86400000; /* since March 1 of year 0 */
    int64_t era = days / 146097, day_of_era = days % 146097;     /* of 400 years */
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153; /* 0: March */
    int64_t day = day_of_year - (153 * month + 2) / 5 + 1;
    month = month < 10 ? month + 3 : month - 9;
    char *at = rfc3339_append(out, year_of_era + era * 400 + (month <= 2), 4, '-');
    at = rfc3339_append(rfc3339_append(at, month, 2, '-'), day, 2, 'T');
    at = rfc3339_append(rfc3339_append(at, rest / 3600000, 2, ':'), rest / 60000 % 60, 2, ':');
    at = rfc3339_append(rfc3339_append(at, rest / 1000 % 60, 2, '.'), rest % 1000, 3, 'Z');
    *at = '\0';
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
