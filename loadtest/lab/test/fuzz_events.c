/* Reads a file of events, judges it, and draws all that can be drawn of it. */
#include <stdlib.h>

#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/html.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static FILE *nowhere;
    struct judged_play play;
    char error[300];
    FILE *in = size > 0 ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
    nowhere = nowhere != NULL ? nowhere : fopen("/dev/null", "we");
    if (in == NULL)
        return 0;
    if (judged_play_read(in, &play, error, sizeof error)) {
        if (!html_draw(nowhere, &play, 1, NULL) || !trace_draw(nowhere, &play, 1))
            abort();
        table_draw(nowhere, &play, 1);
        judged_play_free(&play);
    }
    fclose(in);
    return 0;
}
