#include "base/flags.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/version.h"

bool flag_read_u64(const struct flag *flag, const char *text, void *value) {
    size_t digits = strspn(text, "0123456789");
    errno = 0;
    uint64_t number = strtoull(text, NULL, 10);
    *(uint64_t *)value = number;
    return digits > 0 && text[digits] == '\0' && errno == 0 && (double)number >= flag->min &&
           (double)number <= flag->max;
}

bool flag_read_u32(const struct flag *flag, const char *text, void *value) {
    uint64_t number = 0;
    bool good = flag_read_u64(flag, text, &number);
    *(uint32_t *)value = (uint32_t)number;
    return good;
}

/* strtod() alone would also take signs, exponents and "nan". */
bool flag_read_decimal(const struct flag *flag, const char *text, void *value) {
    char *end = NULL;
    double number = strtod(text, &end);
    *(double *)value = number;
    return text[0] != '\0' && text[strspn(text, "0123456789.")] == '\0' && *end == '\0' &&
           number >= flag->min && number <= flag->max;
}

bool flag_read_text(const struct flag *flag, const char *text, void *value) {
    (void)flag;
    *(const char **)value = text;
    return text[0] != '\0';
}

bool flag_read_switch(const struct flag *flag, const char *text, void *value) {
    (void)flag;
    *(bool *)value = true;
    return !text;
}

bool flag_read_texts(const struct flag *flag, const char *text, void *value) {
    struct flag_texts *list = value;
    (void)flag;
    if (list->count == FLAG_TEXTS)
        return false;
    list->texts[list->count++] = text;
    return true;
}

/* Finds the flag of `word`; NULL: there is none. *value: the value, if it is in the same word, or else NULL.
 */
static const struct flag *flags_find(const struct flag *flags, size_t count, const char *word,
                                     const char **value) {
    bool operand = word[0] != '-';
    size_t length = strcspn(word, "=");
    *value = operand ? word : word[length] == '=' ? word + length + 1 : NULL;
    for (const struct flag *flag = flags; flag < flags + count; flag++) {
        if (operand ? flag->name[0] != '-'
                    : strlen(flag->name) == length && memcmp(flag->name, word, length) == 0)
            return flag;
    }
    return NULL;
}

enum flags_status flags_read(const struct flag *flags, size_t count, char *const *argv, void *options,
                             char *error, size_t error_size) {
    for (char *const *word = argv + 1; *word; word++) {
        const char *value;
        if (strcmp(*word, "--help") == 0)
            return FLAGS_HELP;
        if (strcmp(*word, "--version") == 0)
            return FLAGS_VERSION;
        const struct flag *flag = flags_find(flags, count, *word, &value);
        bool is_switch = flag && flag->read == flag_read_switch;
        if (!flag || (is_switch && value)) {
            snprintf(error, error_size, "%s is no option%s", *word, is_switch ? " with a value" : "");
            return FLAGS_WRONG;
        }
        if (!is_switch && !value && (value = *++word) == NULL) {
            snprintf(error, error_size, "%s needs a value", flag->name);
            return FLAGS_WRONG;
        }
        if (flag->read(flag, value, (char *)options + flag->offset))
            continue;
        if (flag->must)
            snprintf(error, error_size, "%s must be %s", flag->name, flag->must);
        else
            snprintf(error, error_size, "%s must be a number from %.15g to %.15g", flag->name, flag->min,
                     flag->max);
        return FLAGS_WRONG;
    }
    return FLAGS_RUN;
}

int flags_answer(enum flags_status status, const char *program, const char *help, const char *error) {
    if (status == FLAGS_HELP)
        fputs(help, stdout);
    else if (status == FLAGS_VERSION)
        printf("%s %s\n", program, SECKILL_VERSION);
    else
        fprintf(stderr, "%s: %s\n%s --help says more.\n", program, error, program);
    return status == FLAGS_WRONG ? 2 : 0;
}
