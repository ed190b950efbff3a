/* The admin token: made up if the operator has chosen none, and kept in a file. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/log.h"
#include "service/service.h"

enum { PATH_SIZE = 1024 };

bool admin_token_make_up(struct config *config) {
    unsigned char random[18];
    if (*config->admin_token)
        return false;
    randombytes_buf(random, sizeof random);
    sodium_bin2base64(config->admin_token, CONFIG_TEXT, random, sizeof random,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    return true;
}

/* ---- the file of a made-up token ---- */

static const char *absolute_path_in(const char *variable) {
    const char *value = getenv(variable);
    return value && *value == '/' ? value : NULL;
}

/* Finds or creates the directory: under systemd the unit's own (the first of several), in a session the
 * user's, otherwise one in /tmp. False, with errno: that fails, or others could change what is in it. */
static bool token_directory(char *path, size_t size) {
    const char *unit = absolute_path_in("RUNTIME_DIRECTORY"), *session = absolute_path_in("XDG_RUNTIME_DIR"),
               *temporary = absolute_path_in("TMPDIR");
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
static bool token_write(const char *path, const char *token) {
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
    bool terminal = isatty(STDERR_FILENO) && !log_is_json(); /* what reads JSON is no person */
    bool kept = token_directory(directory, sizeof directory);
    /* The address is part of the name, since several services may run side by side. */
    snprintf(path, sizeof path, "%s/admin-token-%.200s", directory, listen);
    for (char *c = path + strlen(directory) + 1; (c = strchr(c, '/'));)
        *c = '_';
    kept = kept && token_write(path, token);
    if (kept)
        log_info("the admin token, made up for this run (SECKILL_ADMIN_TOKEN chooses one), is in %s", path);
    else
        log_error("the admin token, made up for this run, cannot be kept in %s: %s%s", path, strerror(errno),
                  terminal ? "" : "; no admin call can be made: set SECKILL_ADMIN_TOKEN");
    if (terminal)
        fprintf(stderr, "admin token: %s\n", token);
}
