/* Servers that answer what a test wants, to force what a real Redis Cluster will not do on demand. */
#ifndef INVENTORY_TEST_FAKE_CLUSTER_H
#define INVENTORY_TEST_FAKE_CLUSTER_H

enum { FAKE_SERVERS = 3, FAKE_TEXT = 1024 };

struct fake_cluster;

/* The reply of the server to a command, as the protocol has it; NULL: none ever. Called in the fake's thread.
 * SELECT and what concerns heartbeats is answered before, and CLUSTER INFO if there is an epoch. */
typedef const char *fake_answer_fn(struct fake_cluster *fake, int server, int argc, const char **argv);

struct fake_cluster {
    int port[FAKE_SERVERS];
    fake_answer_fn *answer;
    _Atomic int epoch[FAKE_SERVERS]; /* that CLUSTER INFO tells */
    _Atomic int commands;            /* that came, but for those */
    _Atomic int maps;                /* of these CLUSTER SLOTS */
    char text[FAKE_TEXT];            /* room for a reply */
};

/* Serves until the test ends. */
void fake_cluster_start(struct fake_cluster *fake, fake_answer_fn *answer);

/* A map that gives all slots to this server. */
const char *fake_cluster_map(struct fake_cluster *fake, int server);

#endif
