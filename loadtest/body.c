#include <string.h>

#include "loadtest/body.h"

struct cursor {
    const char *at;
    const char *end;
};

struct span {
    const char *bytes;
    size_t length;
};

static void skip_space(struct cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) {
        c->at++;
    }
}

static bool take(struct cursor *c, char wanted) {
    skip_space(c);
    if (c->at == c->end || *c->at != wanted) {
        return false;
    }
    c->at++;
    return true;
}

/* The span is what stands between the quotes. */
static bool take_string(struct cursor *c, struct span *text) {
    if (!take(c, '"')) {
        return false;
    }
    text->bytes = c->at;
    while (c->at < c->end && *c->at != '"') {
        c->at += *c->at == '\\' && c->end - c->at > 1 ? 2 : 1;
    }
    if (c->at == c->end) {
        return false;
    }
    text->length = (size_t)(c->at - text->bytes);
    c->at++;
    return true;
}

/* A number, word, array or object: everything up to the comma or brace that ends it on this level. */
static bool take_other(struct cursor *c, struct span *value) {
    unsigned depth = 0;
    value->bytes = c->at;
    while (c->at < c->end) {
        struct span ignored;
        char byte = *c->at;
        if (depth == 0 && (byte == ',' || byte == '}' || byte == ' ' || byte == '\n' || byte == '\r')) {
            break;
        }
        if (byte == '"') {
            if (!take_string(c, &ignored)) {
                return false;
            }
            continue;
        }
        if (byte == '{' || byte == '[') {
            depth++;
        } else if (byte == '}' || byte == ']') {
            if (depth == 0) {
                return false;
            }
            depth--;
        }
        c->at++;
    }
    value->length = (size_t)(c->at - value->bytes);
    return depth == 0 && value->length > 0;
}

/* FNV-1a */
static uint64_t hash(uint64_t seed, struct span text) {
    uint64_t h = seed ^ UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < text.length; i++) {
        h = (h ^ (unsigned char)text.bytes[i]) * UINT64_C(0x100000001b3);
    }
    return h;
}

static bool named(struct span name, const char *word) {
    return name.length == strlen(word) && memcmp(name.bytes, word, name.length) == 0;
}

static bool read_member(struct cursor *c, struct body *body) {
    struct span name;
    struct span value;
    if (!take_string(c, &name) || !take(c, ':')) {
        return false;
    }
    skip_space(c);
    bool string = c->at < c->end && *c->at == '"';
    if (!(string ? take_string(c, &value) : take_other(c, &value))) {
        return false;
    }
    body->content += hash(hash(string, name), value);
    if (string && named(name, "order")) {
        body->order = value.bytes;
        body->order_length = value.length;
    } else if (string && named(name, "type")) {
        const char *slash = memrchr(value.bytes, '/', value.length);
        body->type = slash != NULL ? slash + 1 : value.bytes;
        body->type_length = value.length - (size_t)(body->type - value.bytes);
    }
    return true;
}

bool body_read(const char *bytes, size_t length, struct body *body) {
    struct cursor c = {.at = bytes, .end = bytes + length};
    struct body found = {.content = 0};
    if (!take(&c, '{')) {
        return false;
    }
    if (!take(&c, '}')) {
        do {
            if (!read_member(&c, &found)) {
                return false;
            }
        } while (take(&c, ','));
        if (!take(&c, '}')) {
            return false;
        }
    }
    skip_space(&c);
    if (c.at != c.end) {
        return false;
    }
    *body = found;
    return true;
}

bool body_order_usable(const struct body *body) {
    for (size_t i = 0; i < body->order_length; i++) {
        char byte = body->order[i];
        if (byte <= ' ' || byte > '~' || strchr("\"\\/?#%", byte) != NULL) {
            return false;
        }
    }
    return body->order_length > 0 && body->order_length <= 255;
}
