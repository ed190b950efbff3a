#include "service/admin_token.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/log.h"

enum { PATH_SIZE = 1024 };

void admin_token_make(char token[CONFIG_TEXT]) {
    unsigned char random[18];
    randombytes_buf(random, sizeof random);
    sodium_bin2base64(token, CONFIG_TEXT, random, sizeof random, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value == '/' ? value : NULL;
}

/* Under systemd the unit's own directory (of several the first), in a session the user's, else one in /tmp;
 * false, and errno: it cannot be had, or others could change what is in it. */
static bool find_directory(char *path, size_t size) {
    const char *unit = variable("RUNTIME_DIRECTORY"), *session = variable("XDG_RUNTIME_DIR"),
               *temporary = variable("TMPDIR");
    if (unit)
        snprintf(path, size, "%.*s", (int)strcspn(unit, ":"), unit);
    else if (session)
        snprintf(path, size, "%s/seckilld", session);
    else
        snprintf(path, size, "%s/seckilld-%lu", temporary ? temporary : "/tmp", (unsigned long)geteuid());
    struct stat found;
    if ((mkdir(path, 0700) != 0 && errno != EEXIST) || lstat(path, &found) != 0)
        return false;
    bool ours = S_ISDIR(found.st_mode) && found.st_uid == geteuid() && !(found.st_mode & (S_IWGRP | S_IWOTH));
    errno = EPERM;
    return ours;
}

/* Writes a new file and renames it, so that nobody reads half a token. */
static bool write_file(const char *path, const char *token) {
    char fresh[PATH_SIZE + 8];
    snprintf(fresh, sizeof fresh, "%s.XXXXXX", path);
    int fd = mkostemp(fresh, O_CLOEXEC); /* mode 0600 */
    if (fd < 0)
        return false;
    bool written = dprintf(fd, "%s\n", token) > 0;
    written = close(fd) == 0 && written && rename(fresh, path) == 0;
    int kept = errno;
    if (!written)
        unlink(fresh);
    errno = kept;
    return written;
}

void admin_token_keep(const char *token, const char *listen) {
    char directory[PATH_SIZE / 2], path[PATH_SIZE];
    bool kept = find_directory(directory, sizeof directory);
    /* Named after the address, since several services may run side by side. */
    int begin = snprintf(path, sizeof path, "%s/", directory);
    snprintf(path + begin, sizeof path - (size_t)begin, "admin-token-%.200s", listen);
    for (char *c = path + begin; *c; c++) {
        if (*c == '/')
            *c = '_';
    }
    kept = kept && write_file(path, token);
    if (kept)
        log_info("the admin token, made up for this run (SECKILL_ADMIN_TOKEN chooses one), is in %s", path);
    else
        log_error("the admin token, made up for this run, cannot be kept in %s: %s%s", path, strerror(errno),
                  isatty(STDERR_FILENO) ? "" : "; no admin call can be made: set SECKILL_ADMIN_TOKEN");
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "admin token: %s\n", token);
}
