#include <string.h>
#include <strings.h>

#include "loadtest/http/response.h"

void response_reset(struct response *r) {
    r->status = 0;
    r->keep_alive = false;
    r->replayed = false;
    r->body_length = 0;
    r->state = RESPONSE_AT_STATUS;
    r->chunked = false;
    r->has_length = false;
    r->left = 0;
    r->head_length = 0;
    r->line_length = 0;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* HTTP/1.x SSS reason */
static bool read_status_line(struct response *r, const char *line, size_t length) {
    if (length < 12 || memcmp(line, "HTTP/1.", 7) != 0 || !is_digit(line[7]) || line[8] != ' ') {
        return false;
    }
    if (!is_digit(line[9]) || !is_digit(line[10]) || !is_digit(line[11]) ||
        (length > 12 && line[12] != ' ')) {
        return false;
    }
    r->status = (unsigned)((line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0'));
    r->keep_alive = line[7] != '0';
    r->state = RESPONSE_AT_HEADER;
    return r->status >= 100 && r->status != 101;
}

static bool read_length(struct response *r, const char *value, size_t length) {
    uint64_t number = 0;
    if (length == 0) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (!is_digit(value[i])) {
            return false;
        }
        number = number * 10 + (uint64_t)(value[i] - '0');
        if (number > RESPONSE_BODY) {
            return false;
        }
    }
    if (r->has_length && r->left != number) {
        return false;
    }
    r->has_length = true;
    r->left = number;
    return true;
}

static bool equals(const char *text, size_t length, const char *word) {
    return length == strlen(word) && strncasecmp(text, word, length) == 0;
}

static void read_connection(struct response *r, const char *value, size_t length) {
    while (length > 0) {
        const char *comma = memchr(value, ',', length);
        size_t token = comma != NULL ? (size_t)(comma - value) : length;
        size_t next = comma != NULL ? token + 1 : token;
        const char *word = value;
        while (token > 0 && (*word == ' ' || *word == '\t')) {
            word++;
            token--;
        }
        while (token > 0 && (word[token - 1] == ' ' || word[token - 1] == '\t')) {
            token--;
        }
        if (equals(word, token, "close")) {
            r->keep_alive = false;
            return;
        }
        if (equals(word, token, "keep-alive")) {
            r->keep_alive = true;
        }
        value += next;
        length -= next;
    }
}

static bool read_header(struct response *r, const char *line, size_t length) {
    const char *colon = memchr(line, ':', length);
    if (colon == NULL || colon == line || line[0] == ' ' || line[0] == '\t') {
        return false;
    }
    size_t name = (size_t)(colon - line);
    const char *value = colon + 1;
    size_t rest = length - name - 1;
    while (rest > 0 && (*value == ' ' || *value == '\t')) {
        value++;
        rest--;
    }
    while (rest > 0 && (value[rest - 1] == ' ' || value[rest - 1] == '\t')) {
        rest--;
    }
    if (equals(line, name, "content-length")) {
        return read_length(r, value, rest);
    }
    if (equals(line, name, "transfer-encoding")) {
        r->chunked = equals(value, rest, "chunked");
        return r->chunked;
    }
    if (equals(line, name, "connection")) {
        read_connection(r, value, rest);
    } else if (equals(line, name, "idempotent-replayed")) {
        r->replayed = equals(value, rest, "true");
    }
    return true;
}

static bool end_head(struct response *r) {
    if (r->status < 200) {
        response_reset(r);
        return true;
    }
    if (r->status == 204 || r->status == 304) {
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

static int hex_digit(char c) {
    if (is_digit(c)) {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_chunk_size(struct response *r, const char *line, size_t length) {
    size_t i = 0;
    uint64_t number = 0;
    for (; i < length && hex_digit(line[i]) >= 0; i++) {
        number = number * 16 + (uint64_t)hex_digit(line[i]);
        if (number > RESPONSE_BODY) {
            return false;
        }
    }
    if (i == 0 || (i < length && line[i] != ';' && line[i] != ' ' && line[i] != '\t')) {
        return false;
    }
    r->left = number;
    r->state = number > 0 ? RESPONSE_AT_CHUNK : RESPONSE_AT_TRAILER;
    return true;
}

/* A complete line, without its line end. */
static bool read_line(struct response *r, const char *line, size_t length) {
    switch (r->state) {
    case RESPONSE_AT_STATUS: return read_status_line(r, line, length);
    case RESPONSE_AT_HEADER: return length == 0 ? end_head(r) : read_header(r, line, length);
    case RESPONSE_AT_CHUNK_SIZE: return read_chunk_size(r, line, length);
    case RESPONSE_AT_CHUNK_END: r->state = RESPONSE_AT_CHUNK_SIZE; return length == 0;
    case RESPONSE_AT_TRAILER:
        if (length == 0) {
            r->state = RESPONSE_AT_END;
        }
        return true;
    default: return false;
    }
}

static bool take_line(struct response *r, const char *bytes, size_t length, size_t *used) {
    const char *newline = memchr(bytes, '\n', length);
    size_t part = newline != NULL ? (size_t)(newline - bytes) : length;
    *used = newline != NULL ? part + 1 : part;
    r->head_length += *used;
    if (r->line_length + part > RESPONSE_LINE || r->head_length > RESPONSE_HEAD) {
        return false;
    }
    const char *line = bytes;
    size_t line_length = part;
    if (newline == NULL || r->line_length > 0) {
        memcpy(r->line + r->line_length, bytes, part);
        r->line_length += part;
        if (newline == NULL) {
            return true;
        }
        line = r->line;
        line_length = r->line_length;
    }
    r->line_length = 0;
    if (line_length > 0 && line[line_length - 1] == '\r') {
        line_length--;
    }
    return read_line(r, line, line_length);
}

static bool take_body(struct response *r, const char *bytes, size_t length, size_t *used) {
    size_t part = r->state == RESPONSE_AT_EOF || length < r->left ? length : (size_t)r->left;
    *used = part;
    if (r->body_length + part > RESPONSE_BODY) {
        return false;
    }
    memcpy(r->body + r->body_length, bytes, part);
    r->body_length += part;
    if (r->state != RESPONSE_AT_EOF) {
        r->left -= part;
        if (r->left == 0) {
            r->state = r->state == RESPONSE_AT_CHUNK ? RESPONSE_AT_CHUNK_END : RESPONSE_AT_END;
        }
    }
    return true;
}

enum response_status response_feed(struct response *r, const char *bytes, size_t length, size_t *used) {
    *used = 0;
    while (r->state != RESPONSE_AT_END && *used < length) {
        bool body =
            r->state == RESPONSE_AT_BODY || r->state == RESPONSE_AT_CHUNK || r->state == RESPONSE_AT_EOF;
        size_t taken = 0;
        bool good = body ? take_body(r, bytes + *used, length - *used, &taken)
                         : take_line(r, bytes + *used, length - *used, &taken);
        if (!good) {
            return RESPONSE_BAD;
        }
        *used += taken;
    }
    return r->state == RESPONSE_AT_END ? RESPONSE_DONE : RESPONSE_MORE;
}

enum response_status response_close(struct response *r) {
    if (r->state == RESPONSE_AT_EOF) {
        r->state = RESPONSE_AT_END;
    }
    return r->state == RESPONSE_AT_END ? RESPONSE_DONE : RESPONSE_BAD;
}
