/* liblock and libetcd as others get them: installed below a directory outside the tree, and linked there by a
 * program that knows of them what pkg-config says. The program is the example at the top of their header. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "test/harness.h"

/* The libraries are of the same build as this program, and sanitized ones want a sanitized program. */
#if defined(__SANITIZE_ADDRESS__)
#define SAN      "asan"
#define SANITIZE " -fsanitize=address,undefined "
#elif defined(__SANITIZE_THREAD__)
#define SAN      "tsan"
#define SANITIZE " -fsanitize=thread "
#else
#define SAN      ""
#define SANITIZE " "
#endif
#define STRICT " -Wall -Wextra -Wpedantic -Werror "

/* A library, its header in include/, one of the functions that are declared there, and what it is linked with
 * to be static. */
struct library {
    const char *name, *header, *standard, *function, *archives, *others;
    void (*check_example)(void);
};

/* The shell's output, in that directory. */
static char *run_in(const char *directory, const char *command, int code) {
    static int count;
    struct proc proc;
    int status;
    const char *argv[] = {"sh", "-c", harness_format("cd '%s' && %s", directory, command), NULL};
    const char *env[] = {
        "MAKEFLAGS=", /* of make test, whose variables and jobs are not meant */
        harness_format("PKG_CONFIG_PATH=%s/root/usr/lib/pkgconfig", harness_dir()),
        harness_format("PKG_CONFIG_SYSROOT_DIR=%s/root", harness_dir()),
        NULL,
    };
    proc_spawn(&proc, argv, env, harness_format("%s/said-%d", harness_dir(), count++));
    CHECK(proc_wait(&proc, 60000, &status));
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), code);
    return proc_output(&proc);
}

/* Outside the tree, beside root/. */
static char *run(const char *command) {
    return run_in(harness_dir(), command, 0);
}

/* Into root/, once; what make says. */
static const char *install(void) {
    static char said[8192];
    if (!said[0]) {
        const char *command = harness_format(
            "umask 077 && make install SAN=" SAN " DESTDIR='%s/root' PREFIX=/usr", harness_dir());
        strncpy(said, run_in(".", command, 0), sizeof said - 1);
    }
    return said;
}

static void installed(void) {
    const char *said = install();
    CHECK_HAS(said, "INSTALL ");
    /* Another user than the one that built may install; so it must not write into the tree. */
    CHECK(!strstr(said, "  CC ") && !strstr(said, "  AR ") && !strstr(said, "  LD "));
    char *v = run("pkg-config --modversion liblock");
    v[strcspn(v, "\n")] = '\0';
    CHECK_STR(run("pkg-config --modversion libetcd"), harness_format("%s\n", v));
    CHECK_STR(run("root/usr/bin/seckilld --version"), harness_format("seckilld %s\n", v));
    CHECK_STR(run("cd root/usr && find include lib/lib* lib/pkgconfig ! -type d -printf '%p %l\n' | "
                  "LC_ALL=C sort"),
              harness_format("include/etcd/etcd.h \n"
                             "include/lock/lock.h \n"
                             "lib/libetcd.a \n"
                             "lib/libetcd.so libetcd.so.%s\n"
                             "lib/libetcd.so.0 libetcd.so.%s\n"
                             "lib/libetcd.so.%s \n"
                             "lib/liblock.a \n"
                             "lib/liblock.so liblock.so.%s\n"
                             "lib/liblock.so.0 liblock.so.%s\n"
                             "lib/liblock.so.%s \n"
                             "lib/pkgconfig/libetcd.pc \n"
                             "lib/pkgconfig/liblock.pc \n",
                             v, v, v, v, v, v));
    CHECK_HAS(run("readelf -d root/usr/lib/liblock.so"), "[libetcd.so.0]");
    CHECK_HAS(run("cat root/usr/share/doc/seckill/LICENSE"), "MIT License");
    /* Everybody may use it, whatever the umask. */
    CHECK_STR(run("find root ! -perm -o=r -o -type d ! -perm -o=x"), "");
    CHECK_STR(run("PKG_CONFIG_SYSROOT_DIR= pkg-config --variable=prefix liblock libetcd"), "/usr /usr\n");
}

/* ---- each library ---- */

static void check_liblock(void) {
    CHECK_STR(run("LD_LIBRARY_PATH=root/usr/lib ./example local:"), "basket:7 is ours, fence 0\nok\n");
    CHECK_HAS(run_in(harness_dir(), "LD_LIBRARY_PATH=root/usr/lib ./example", 2), "which lock?\n");
}

static void check_libetcd(void) {
    struct etcd_server etcd;
    etcd_start(&etcd, NULL);
    CHECK_STR(run(harness_format("LD_LIBRARY_PATH=root/usr/lib ./example %s:%d", etcd.host, etcd.port)),
              "on\n");
    CHECK_STR(etcd_command(&etcd, "get", "lamp", NULL), "lamp\non");
    CHECK_HAS(run_in(harness_dir(), "LD_LIBRARY_PATH=root/usr/lib ./example", 2), "endpoint 1 is not");
}

static const struct library liblock = {"liblock",
                                       "lock/lock.h",
                                       "c99",
                                       "lock_acquire_all",
                                       "-l:liblock.a -l:libetcd.a",
                                       "-lhiredis -lzookeeper_mt -lgrpc -lgpr -lprotobuf-c -pthread",
                                       check_liblock},
                            libetcd = {"libetcd",      "etcd/etcd.h",
                                       "c11",          "etcd_member_list",
                                       "-l:libetcd.a", "-lgrpc -lgpr -lprotobuf-c -pthread",
                                       check_libetcd},
                            *library;

static char *header(void) {
    return harness_format("root/usr/include/%s ", library->header);
}

static void exports(void) {
    install();
    /* The compiler's list of prototypes, less those of other headers and what is whole in this one. */
    run(harness_format("cc -fsyntax-only -aux-info prototypes -x c %s", header()));
    const char *declared =
        run(harness_format("sed -n '/ static /d; s,.*%s:[^*]*\\*/ [^(]*[ *]\\([a-z0-9_]*\\) (.*,\\1,p'"
                           " prototypes | sort",
                           library->header));
    CHECK_HAS(declared, harness_format("%s\n", library->function));
    /* The three of lock/libetcd/v3lock.h are for liblock alone. */
    CHECK_STR(run(harness_format("nm -D --defined-only root/usr/lib/%s.so | cut -d ' ' -f 3 | "
                                 "grep -vxE 'etcd_(lock|unlock|lock_key_free)' | sort",
                                 library->name)),
              declared);
    /* Neither does the archive have any other name. */
    CHECK_STR(run(harness_format("nm -g --defined-only root/usr/lib/%s.a | grep -E ' [A-Z] ' | cut -d ' ' "
                                 "-f 3 | grep -vxE 'etcd_(lock|unlock|lock_key_free)' | sort",
                                 library->name)),
              declared);
}

static void header_alone(void) {
    install();
    run(harness_format("cc -std=%s -fsyntax-only" STRICT "-x c %s", library->standard, header()));
    run(harness_format("g++ -std=c++11 -fsyntax-only" STRICT "-x c++ %s", header()));
}

/* Compiles the example and runs it. */
static void check_example(const char *compile) {
    install();
    run(harness_format("sed -n '/^ \\*     #include/,/^ \\*     }$/s/^ \\* \\{0,5\\}//p' %s> example.c",
                       header()));
    run(harness_format("%s" SANITIZE "-o example", compile));
    library->check_example();
}

static void example_shared(void) {
    check_example(harness_format("cc" STRICT "example.c $(pkg-config --cflags --libs %s)", library->name));
    CHECK_HAS(run("readelf -d example"), harness_format("[%s.so.0]", library->name));
}

/* As the README has it for a PREFIX: liblock.so finds libetcd.so beside it, for the linker and when it runs.
 */
static void example_elsewhere(void) {
    check_example(harness_format("cc" STRICT
                                 "example.c $(pkg-config --cflags --libs %s) -Wl,-rpath,%s/root/usr/lib",
                                 library->name, harness_dir()));
    CHECK_HAS(run_in(harness_dir(), "./example", 2),
              library == &liblock ? "which lock?" : "endpoint 1 is not");
}

#if !defined(__SANITIZE_ADDRESS__) &&                                                                        \
    !defined(__SANITIZE_THREAD__) /* they want the C library as it is installed */
static void example_all_in_one(void) {
    check_example(harness_format(
        "cc -w -static example.c $(pkg-config --static --cflags --libs %s) -lstdc++ -lm", library->name));
    CHECK_STR(run("readelf -d example | grep NEEDED || true"), "");
}
#endif

/* The whole archives, so that nothing they want is left out of what the header says. */
static void example_static(void) {
    check_example(harness_format("cc" STRICT "example.c -Iroot/usr/include -Lroot/usr/lib -Wl,--whole-archive"
                                 " %s -Wl,--no-whole-archive %s",
                                 library->archives, library->others));
    CHECK(!strstr(run("readelf -d example"), harness_format("[%s", library->name)));
}

static void example_cpp(void) {
    check_example(
        harness_format("g++ -std=c++20" STRICT
                       "-Wno-missing-field-initializers -x c++ example.c $(pkg-config --cflags --libs %s)",
                       library->name));
}

static void check_library(const struct library *one) {
    static const struct {
        const char *name;
        void (*test)(void);
    } tests[] = {
        {"exports what its header declares, and nothing else", exports},
        {"its header compiles alone, as C and as C++", header_alone},
        {"the example of its header, linked with the .so", example_shared},
        {"the example of its header, linked with the .a", example_static},
        {"the example of its header, as C++", example_cpp},
    };
    char name[80];
    library = one;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        snprintf(name, sizeof name, "%s: %s", library->name, tests[i].name);
        harness_run(name, tests[i].test);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv);
    harness_run("what make install installs", installed);
    check_library(&liblock);
    library = &liblock; /* which has libetcd beside it, or in it */
    harness_run("liblock: installed elsewhere", example_elsewhere);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    harness_run("liblock: a program with everything in it", example_all_in_one);
#endif
    check_library(&libetcd);
    return harness_finish();
}
