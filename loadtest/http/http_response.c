#include "loadtest/http/http_response.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void response_reset(struct response *r) {
    memset(r, 0, offsetof(struct response, line));
}

/* HTTP/1.x SSS reason */
static bool response_read_status_line(struct response *r, const char *line) {
    if (strncmp(line, "HTTP/1.", 7) != 0 || !isdigit((unsigned char)line[7]) || line[8] != ' ' ||
        strspn(line + 9, "0123456789") != 3 || (line[12] != ' ' && line[12] != '\0'))
        return false;
    r->status = (unsigned)strtoul(line + 9, NULL, 10);
    r->keep_alive = line[7] != '0';
    r->state = RESPONSE_AT_HEADER;
    return r->status >= 100 && r->status != 101;
}

/* Reads a number of at most RESPONSE_BODY. Behind its digits the text ends, or has one of the characters
 * `ends`. */
static bool response_read_number(const char *text, int base, const char *ends, uint64_t *number) {
    size_t digits = strspn(text, base == 16 ? "0123456789abcdefABCDEF" : "0123456789");
    *number = strtoull(text, NULL, base);
    return digits > 0 && strchr(ends, text[digits]) != NULL && *number <= RESPONSE_BODY;
}

static bool response_read_length(struct response *r, const char *value) {
    uint64_t before = r->left;
    bool repeated = r->has_length;
    r->has_length = true;
    return response_read_number(value, 10, "", &r->left) && (!repeated || r->left == before);
}

static void response_read_connection(struct response *r, char *value) {
    char *rest = NULL;
    for (char *word = strtok_r(value, ", \t", &rest); word; word = strtok_r(NULL, ", \t", &rest)) {
        if (strcasecmp(word, "close") == 0) {
            r->keep_alive = false;
            return;
        }
        if (strcasecmp(word, "keep-alive") == 0)
            r->keep_alive = true;
    }
}

static bool response_read_header(struct response *r, char *line) {
    char *value = strchr(line, ':');
    if (!value || value == line || line[0] == ' ' || line[0] == '\t')
        return false;
    *value++ = '\0';
    value += strspn(value, " \t");
    for (size_t end = strlen(value); end > 0 && (value[end - 1] == ' ' || value[end - 1] == '\t'); end--)
        value[end - 1] = '\0';
    if (strcasecmp(line, "content-length") == 0)
        return response_read_length(r, value);
    if (strcasecmp(line, "transfer-encoding") == 0) {
        r->chunked = strcasecmp(value, "chunked") == 0;
        return r->chunked;
    }
    if (strcasecmp(line, "connection") == 0)
        response_read_connection(r, value);
    else if (strcasecmp(line, "idempotent-replayed") == 0)
        r->replayed = strcasecmp(value, "true") == 0;
    return true;
}

static bool response_end_head(struct response *r) {
    if (r->status < 200) {
        response_reset(r);
    } else if (r->status == 204 || r->status == 304) {
        r->state = RESPONSE_AT_END;
    } else if (r->chunked) {
        r->state = RESPONSE_AT_CHUNK_SIZE;
        return !r->has_length; /* both headers: ambiguous */
    } else if (r->has_length) {
        r->state = r->left > 0 ? RESPONSE_AT_BODY : RESPONSE_AT_END;
    } else {
        r->keep_alive = false;
        r->state = RESPONSE_AT_EOF;
    }
    return true;
}

/* Reads a complete line, without its line end. */
static bool response_read_line(struct response *r, char *line) {
    bool empty = line[0] == '\0';
    bool good = true;
    switch (r->state) {
    case RESPONSE_AT_STATUS: return response_read_status_line(r, line);
    case RESPONSE_AT_HEADER: return empty ? response_end_head(r) : response_read_header(r, line);
    case RESPONSE_AT_CHUNK_SIZE:
        good = response_read_number(line, 16, "; \t", &r->left);
        r->state = r->left > 0 ? RESPONSE_AT_CHUNK : RESPONSE_AT_TRAILER;
        return good;
    case RESPONSE_AT_CHUNK_END: r->state = RESPONSE_AT_CHUNK_SIZE; return empty;
    default: r->state = empty ? RESPONSE_AT_END : RESPONSE_AT_TRAILER; return true;
    }
}

/* Copies a line before it is read, since it may come in pieces. False: the line is wrong, too long, or has a
 * NUL in it. */
static bool response_take_line(struct response *r, const char *bytes, size_t length, size_t *used) {
    const char *newline = memchr(bytes, '\n', length);
    size_t part = newline ? (size_t)(newline - bytes) : length;
    *used = newline ? part + 1 : part;
    r->head_length += *used;
    if (r->line_length + part > RESPONSE_LINE || r->head_length > RESPONSE_HEAD)
        return false;
    memcpy(r->line + r->line_length, bytes, part);
    r->line_length += part;
    if (!newline)
        return true;
    size_t end = r->line_length;
    r->line_length = 0;
    if (end > 0 && r->line[end - 1] == '\r')
        end--;
    r->line[end] = '\0';
    return strlen(r->line) == end && response_read_line(r, r->line);
}

static bool response_take_body(struct response *r, const char *bytes, size_t length, size_t *used) {
    size_t part = r->state == RESPONSE_AT_EOF || length < r->left ? length : (size_t)r->left;
    *used = part;
    if (r->body_length + part > RESPONSE_BODY)
        return false;
    memcpy(r->body + r->body_length, bytes, part);
    r->body_length += part;
    if (r->state != RESPONSE_AT_EOF) {
        r->left -= part;
        if (r->left == 0)
            r->state = r->state == RESPONSE_AT_CHUNK ? RESPONSE_AT_CHUNK_END : RESPONSE_AT_END;
    }
    return true;
}

enum response_status response_feed(struct response *r, const char *bytes, size_t length, size_t *used) {
    *used = 0;
    while (r->state != RESPONSE_AT_END && *used < length) {
        bool body =
            r->state == RESPONSE_AT_BODY || r->state == RESPONSE_AT_CHUNK || r->state == RESPONSE_AT_EOF;
        size_t taken = 0;
        bool good = body ? response_take_body(r, bytes + *used, length - *used, &taken)
                         : response_take_line(r, bytes + *used, length - *used, &taken);
        if (!good)
            return RESPONSE_BAD;
        *used += taken;
    }
    return r->state == RESPONSE_AT_END ? RESPONSE_DONE : RESPONSE_MORE;
}

enum response_status response_close(struct response *r) {
    if (r->state == RESPONSE_AT_EOF)
        r->state = RESPONSE_AT_END;
    return r->state == RESPONSE_AT_END ? RESPONSE_DONE : RESPONSE_BAD;
}
