/* The phases of a transaction, and how each goes on. Recovery goes by the same table. */
#ifndef INVENTORY_MODEL_PHASES_H
#define INVENTORY_MODEL_PHASES_H

#include "inventory/inventory.h"

/* The phase of a transaction, as the journal has it. */
enum phase {
    PHASE_NONE, /* not in the journal */
    PHASE_INTENT,
    PHASE_ABORTING,
    PHASE_HELD,
    PHASE_CONFIRMING,
    PHASE_CANCELLING,
    PHASE_EXPIRING,
    PHASE_CONFIRMED,
    PHASE_CANCELLED,
    PHASE_EXPIRED,
    PHASES
};

/* What is written to the items of a transaction in a phase. */
enum line_write {
    WRITE_NOTHING,
    WRITE_DEBIT,
    WRITE_ABORT,
    WRITE_CONFIRM,
    WRITE_CANCEL,
    WRITE_EXPIRE,
    WRITE_SELL, /* a debit that sells at once: of a naive basket */
    /* Undoes all that was done, since the journal has another attempt; of a transfer only what was received.
     */
    WRITE_DISOWN
};

/* All phases, and how each goes on. */
struct phase_row {
    const char *name;        /* in the journal */
    bool at_rest;            /* nothing is left to do */
    enum line_write write;   /* is written to the items, and then */
    enum phase next;         /* this phase follows */
    enum inventory_state is; /* the state of a basket in this phase; ABORTED: there is no basket */
};
extern const struct phase_row phases[PHASES];

#endif
