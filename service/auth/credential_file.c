/* A file with a credential a line: read as a whole, so that nobody's secret stays in a buffer of stdio. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/auth/auth_internal.h"

static const char blanks[] = " \t\r";

/* Reads up to `size` bytes; -1 on failure, with errno. */
static ssize_t file_read_all(int fd, char *into, size_t size) {
    size_t length = 0;
    while (length < size) {
        ssize_t got = read(fd, into + length, size - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        length += (size_t)got;
    }
    return (ssize_t)length;
}

ssize_t credential_file_read(const char *path, mode_t forbidden, char *text, size_t max, struct stat *seen,
                             const char **objection) {
    ssize_t length = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block */
    if (fd < 0 || fstat(fd, seen) != 0)
        *objection = strerror(errno);
    else if (!S_ISREG(seen->st_mode))
        *objection = "is no file";
    else if (seen->st_mode & forbidden)
        *objection = forbidden & S_IRGRP ? "others than its owner may use it: chmod 600"
                                         : "others than its owner may write it: chmod go-w";
    else if ((size_t)seen->st_size > max)
        *objection = "is too large";
    else if ((length = file_read_all(fd, text, max)) < 0)
        *objection = strerror(errno);
    else
        text[length] = '\0';
    if (length >= 0 && strlen(text) != (size_t)length) {
        *objection = "is no text: it has a NUL";
        length = -1;
    }
    if (fd >= 0)
        close(fd);
    return length;
}

bool credential_file_open(struct credential_file *file, const char *path, struct stat *seen, char *error,
                          size_t size) {
    const char *objection = "out of memory";
    *file = (struct credential_file){.path = path};
    file->text = file->rest = malloc(CREDENTIAL_FILE_MAX + 1);
    ssize_t got = file->text ? credential_file_read(path, S_IRWXG | S_IRWXO, file->text, CREDENTIAL_FILE_MAX,
                                                    seen, &objection)
                             : -1;
    if (got >= 0) {
        file->length = (size_t)got;
        return true;
    }
    snprintf(error, size, "%.300s: %s", path, objection);
    file->length = file->text ? CREDENTIAL_FILE_MAX : 0;
    credential_file_close(file);
    return false;
}

bool credential_file_next(struct credential_file *file) {
    for (char *line; (line = strsep(&file->rest, "\n"));) {
        file->line++;
        file->count = 0;
        line += strspn(line, blanks);
        if (*line == '#')
            continue;
        while (*line && file->count < CREDENTIAL_FIELDS) {
            file->fields[file->count++] = line;
            line += strcspn(line, blanks);
            if (*line)
                *line++ = '\0';
            line += strspn(line, blanks);
        }
        if (file->count > 0)
            return true;
    }
    return false;
}

bool credential_file_complain(const struct credential_file *file, char *error, size_t size,
                              const char *format, ...) {
    va_list list;
    int length = snprintf(error, size, "%.300s:%d: ", file->path, file->line);
    va_start(list, format);
    if (length > 0 && (size_t)length < size)
        vsnprintf(error + length, size - (size_t)length, format, list);
    va_end(list);
    return false;
}

void credential_file_close(struct credential_file *file) {
    if (file->text)
        sodium_memzero(file->text, file->length);
    free(file->text);
    file->text = file->rest = NULL;
}
