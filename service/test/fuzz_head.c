/* What is made of a request's target before libmicrohttpd takes it apart, fed with anything: it stays within
 * its place, has no query, and once unescaped no NUL and no slash that was escaped. */
#include <stdlib.h>
#include <string.h>

#include "service/http/http_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds) {
    if (!holds)
        abort();
}

static int slashes(const char *text) {
    int count = 0;
    for (; *text; text++)
        count += *text == '/';
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char version[] = "HTTP/1.1";
    if (size == 0) /* a target has a first byte */
        return 0;
    char *line = malloc(size + 1 + sizeof version);
    if (!line)
        return 0;
    memcpy(line, data, size);
    line[size] = '\0';
    memcpy(line + size + 1, version, sizeof version);
    must(http_head_target(NULL, line, NULL) == NULL);
    must(memcmp(line + size + 1, version, sizeof version) == 0);
    char *query = strchr(line, '?');
    must(!query || query[1] == '\0');
    if (query)
        *query = '\0'; /* as libmicrohttpd does */
    int before = slashes(line);
    bool target = *line != ' ';
    for (const char *c = line; target && *c; c++)
        must((unsigned char)*c > ' ' && *c != 0x7f);
    must(http_head_unescape(NULL, NULL, line) == strlen(line));
    must(slashes(line) == before);
    free(line);
    return 0;
}
