/* The log, and the names of locks without their passwords. */
#include "service/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/rfc3339.h"

enum {
    MESSAGE_SIZE = 1024,
    ESCAPED_MAX = 6,                               /* bytes that one byte becomes at most: \u001f */
    LINE_SIZE = (MESSAGE_SIZE + 256) * ESCAPED_MAX /* any message, and any call: its path is shorter */
};

static bool log_in_json; /* set before there are threads */

void log_use_json(void) {
    log_in_json = true;
}

bool log_is_json(void) {
    return log_in_json;
}

/* ---- a line ---- */

struct log_line {
    char text[LINE_SIZE];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void line_append(struct log_line *line, const char *format,
                                                              ...) {
    va_list list;
    va_start(list, format);
    size_t room = sizeof line->text - line->length;
    int length = vsnprintf(line->text + line->length, room, format, list);
    va_end(list);
    line->length += (size_t)length < room ? (size_t)length : room - 1;
}

/* Returns the length of the UTF-8 sequence that the text begins with; 0: it begins with none. Neither longer
 * forms than needed are UTF-8, nor surrogates, nor what is beyond U+10FFFF (RFC 3629). */
static size_t utf8_length(const unsigned char *text) {
    size_t length = *text < 0x80 ? 1 : *text >= 0xc2 && *text < 0xe0 ? 2 : (*text & 0xf0) == 0xe0 ? 3 : 0;
    if (*text >= 0xf0 && *text < 0xf5)
        length = 4;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((*text == 0xe0 && text[1] < 0xa0) || (*text == 0xed && text[1] > 0x9f) ||
        (*text == 0xf0 && text[1] < 0x90) || (*text == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

/* Appends the text as a string of JSON. Bytes that are no UTF-8 become U+FFFD. */
static void line_append_string(struct log_line *line, const char *text) {
    line_append(line, "\"");
    while (*text) {
        size_t length = utf8_length((const unsigned char *)text);
        if (length == 0)
            line_append(line, "\\ufffd");
        else if (*text == '"' || *text == '\\')
            line_append(line, "\\%c", *text);
        else if (length == 1 && (unsigned char)*text < ' ')
            line_append(line, "\\u%04x", (unsigned)*text);
        else
            line_append(line, "%.*s", (int)length, text);
        text += length ? length : 1;
    }
    line_append(line, "\"");
}

static void line_append_member(struct log_line *line, const char *name, const char *text) {
    line_append(line, ",\"%s\":", name);
    line_append_string(line, text);
}

static void line_begin(struct log_line *line, const char *level) {
    char now[RFC3339_SIZE];
    rfc3339_print(clock_wall_ms(&clock_system), now);
    line->length = 0;
    line_append(line, "{\"time\":\"%s\",\"level\":\"%s\"", now, level);
}

/* Writes the line by one call, so that lines of several threads do not mix. */
static void line_end(struct log_line *line) {
    line_append(line, "}\n");
    fwrite(line->text, 1, line->length, stderr);
}

/* ---- what is logged ---- */

void log_write(enum log_level level, const char *format, ...) {
    static const char *const words[] = {"info ", "warn ", "error"}, *const names[] = {"info", "warning",
                                                                                      "error"};
    char message[MESSAGE_SIZE], now[RFC3339_SIZE];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    if (log_in_json) {
        struct log_line line;
        line_begin(&line, names[level]);
        line_append_member(&line, "message", message);
        line_end(&line);
        return;
    }
    rfc3339_print(clock_wall_ms(&clock_system), now);
    fprintf(stderr, "%s %s %s\n", now, words[level], message);
}

void log_call(const struct log_call *call) {
    struct log_line line;
    if (!log_in_json)
        return;
    line_begin(&line, "info");
    line_append_member(&line, "message", "call");
    line_append_member(&line, "who", call->who);
    line_append_member(&line, "method", call->method);
    line_append_member(&line, "path", call->path);
    line_append(&line, ",\"status\":%d", call->status);
    if (call->problem)
        line_append_member(&line, "problem", call->problem);
    line_append(&line, ",\"ms\":%.3f", (double)call->took_ns / 1e6);
    line_append_member(&line, "request_id", call->request_id);
    line_append_member(&line, "trace_id", call->trace_id);
    line_end(&line);
}

/* ---- what may be shown ---- */

/* Returns the option NAME= among the options of a URL, which begin with ?; "" if there is none. */
static const char *log_find_option(const char *options, const char *name) {
    for (const char *at = options; at; at = strchr(at, '&')) {
        at++;
        if (strncmp(at, name, strlen(name)) == 0)
            return at;
    }
    return "";
}

/* Shows nothing that stands before the last @, wherever that is. */
void log_print_lock(char out[LOG_LOCK_SIZE], const char *url) {
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
    const char *variant = shows ? log_find_option(options, "variant=") : "";
    const char *ttl = shows ? log_find_option(options, "ttl=") : "";
    snprintf(out, LOG_LOCK_SIZE, "%.*s%.*s%s%.*s%s%.*s", (int)length, url,
             (int)(end > address ? end - address : 0), address, *variant ? "?" : "",
             (int)strcspn(variant, "&"), variant,
             !*ttl      ? ""
             : *variant ? "&"
                        : "?",
             (int)strcspn(ttl, "&"), ttl);
    for (char *c = out; *(c += strspn(c, plain));)
        *c = '_';
}

void log_print_plain(char *out, size_t size, const char *text) {
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
