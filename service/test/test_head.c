/* What lies between two lines of a head, as each libmicrohttpd leaves it. */
#include <string.h>

#include "service/http/http_internal.h"
#include "test/harness.h"

/* The line, its end, and what is behind it up to the next line. */
struct gap {
    const char *bytes;
    size_t size;
};

#define GAP(bytes)                                                                                           \
    { bytes, sizeof(bytes) - 1 }

static bool follows(const struct gap *gap) {
    const char *line = memcpy(harness_alloc(gap->size + 5), gap->bytes, gap->size);
    return http_head_follows(line, line + gap->size);
}

static void line_ends(void) {
    static const struct gap good[] = {
        GAP("\0"),         /* LF, overwritten by either */
        GAP("\0\0"),       /* CR and LF, by 0.9 */
        GAP("\0\n"),       /* CR and LF, by 1.0 */
        GAP("\0\r\n"),     /* one blank was cut off */
        GAP("\0 \t \r\n"), /* several were */
    };
    /* Otherwise a header could be hidden from one of the two that read it. */
    static const struct gap bad[] = {
        GAP(""),        /* nothing ends there */
        GAP("\0\0\0"),  /* by 0.9: a NUL at the end of the line */
        GAP("\0\0\n"),  /* by 1.0 */
        GAP("\0 \0\0"), /* by 0.9: a NUL and a blank */
        GAP("\0 \0"),   GAP("\0 "),         GAP("\0 \r"), GAP("\0\r\r\n"),
        GAP("\0\n\n"),  GAP("\0\n \n"), /* continued */
        GAP("\0x\r\n"),                 /* a NUL within the line */
        GAP("\0 x\n"),  GAP("\0 X: y\r\n"), GAP("x\n"),   GAP("\r\n"),
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!follows(&good[i]))
            FAIL("%zu is no line end", i);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (follows(&bad[i]))
            FAIL("%zu is taken for a line end", i);
}

/* A value that was continued is a copy elsewhere. */
static void elsewhere(void) {
    static const char here[2];
    char *far = harness_alloc(1 << 20);
    CHECK(!http_head_follows(far, far + (1 << 19)));
    CHECK(!http_head_follows(here + 1, here));
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("line ends, and what is none", line_ends);
    harness_run("what is elsewhere", elsewhere);
    return harness_finish();
}
