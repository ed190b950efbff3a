#include "base/redis/info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool info_find(const char *info, const char *name, char *out, size_t out_size) {
    size_t length = strlen(name);
    for (const char *line = info; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            const char *value = line + length + 1;
            snprintf(out, out_size, "%.*s", (int)strcspn(value, "\r\n"), value);
            return true;
        }
    }
    return false;
}

/* 0: there is no such number. */
static int64_t find_number(const char *info, const char *name) {
    char text[24] = "";
    info_find(info, name, text, sizeof text);
    return strtoll(text, NULL, 10);
}

static bool find_id(const char *info, const char *name, char id[REPLICATION_ID_SIZE]) {
    return info_find(info, name, id, REPLICATION_ID_SIZE) &&
           strspn(id, "0123456789abcdef") == REPLICATION_ID_SIZE - 1;
}

int replication_count(const char *info, int64_t offset) {
    char name[24], state[256];
    int count = 0;
    int64_t slaves = find_number(info, "connected_slaves");
    for (int i = 0; i < slaves; i++) {
        snprintf(name, sizeof name, "slave%d", i);
        if (!info_find(info, name, state, sizeof state) || !strstr(state, "state=online"))
            continue;
        const char *told = strstr(state, "offset=");
        count += told && strtoll(told + strlen("offset="), NULL, 10) >= offset;
    }
    return count;
}

bool replication_read(struct replication *replication, const char *info) {
    struct replication read = {.replicas = 0};
    char role[16];
    if (!info_find(info, "role", role, sizeof role) || !find_id(info, "master_replid", read.id) ||
        !find_id(info, "master_replid2", read.before))
        return false;
    read.is_master = strcmp(role, "master") == 0;
    read.offset = find_number(info, "master_repl_offset");
    read.parted = find_number(info, "second_repl_offset");
    if (strspn(read.before, "0") == REPLICATION_ID_SIZE - 1)
        read.before[0] = '\0';
    read.replicas = replication_count(info, 0);
    read.connected = (int)find_number(info, "connected_slaves");
    *replication = read;
    return true;
}
