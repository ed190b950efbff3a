/* What the events say up to a moment. It is pure: the same events, the same state, whether a run is live or
 * recorded. It knows nothing of scenarios. */

/* A state is copied there, so that a step back costs little. */
const CHECKPOINT = 200;

export function emptyState() {
    return {n: 0, clients: {}, servers: {}, items: {}};
}

function client(state, name) {
    return state.clients[name] ??=
        {name, waits: false, grant: 0, key: "", until: 0, paused: false, dead: false};
}

function server(state, name) {
    return state.servers[name] ??= {name, down: false, cut: false, owners: {}};
}

function item(state, name) {
    return state.items[name] ??= {name, initial: 0, available: 0, sold: 0, crowd: null};
}

/* ---- one event ---- */

function onAcquire(state, e) {
    const c = client(state, e.who);
    c.waits = e.ev === "acquire.sent";
    if (e.ev === "acquire.ok")
        Object.assign(c, {grant: e.grant, key: e.key, until: e.until});
}

function onHold(state, e) {
    const c = client(state, e.who);
    if (e.ev === "renew.ok" && c.grant === e.grant)
        c.until = e.until;
    if ((e.ev === "release.sent" || e.ev === "renew.lost") && c.grant === e.grant)
        c.grant = 0;
}

/* A client that is killed, a server that is cut off: other faults are only drawn. */
function onFault(state, e, begins) {
    const c = state.clients[e.target];
    if (!c && e.what.startsWith("cut off"))
        server(state, e.target).cut = begins;
    if (!c || !e.what.startsWith("killed"))
        return;
    c.dead = begins;
    if (!begins)
        Object.assign(c, {waits: false, paused: false}); /* what it believed was its lease's, to the end */
}

function onPause(state, e) {
    client(state, e.target).paused = e.ev === "holder.paused";
}

function onServer(state, e) {
    const s = server(state, e.server);
    if (e.ev === "store.key")
        s.owners[e.key] = e.owner;
    else if (e.ev === "server.down" || e.ev === "server.up")
        Object.assign(s, {down: e.ev === "server.down", owners: {}}); /* it says nothing, or begins anew */
}

function onStock(state, e) {
    const i = item(state, e.item);
    if (e.ev === "sale.stock")
        /* What buyers were told is sold, whatever the item says; it was told before this stock was read. */
        Object.assign(i, {initial: e.initial, available: e.available, sold: Math.max(e.sold, i.crowd ? i.crowd.accepted : 0)});
    else
        i.crowd = {accepted: e.accepted, rejected: e.rejected, unknown: e.unknown, perSecond: e.per_second,
                   p50Us: e.p50_us, p99Us: e.p99_us};
}

/* Changes the state. */
export function reduce(state, e) {
    state.n = e.n;
    const kind = e.ev.slice(0, e.ev.indexOf("."));
    if (kind === "acquire") onAcquire(state, e);
    else if (kind === "renew" || kind === "release") onHold(state, e);
    else if (kind === "holder") onPause(state, e);
    else if (kind === "fault") onFault(state, e, e.ev === "fault.start");
    else if (kind === "store" || kind === "server") onServer(state, e);
    else if (kind === "sale") onStock(state, e);
    return state;
}

/* ---- what a state means ---- */

/* Those who believe at this time that they hold a lock: a belief also ends when its deadline passes. */
export function believers(state, t) {
    return Object.values(state.clients).filter((c) => c.grant !== 0 && c.until > t).map((c) => c.name).sort();
}

/* Of three stores or more a majority decides. */
const QUORUM_OF = 3;

/* Those whom the stores name as owner. */
export function owners(state) {
    const said = Object.values(state.servers).flatMap((s) => Object.values(s.owners)), votes = new Map();
    for (const owner of said.filter((name) => name !== ""))
        votes.set(owner, (votes.get(owner) || 0) + 1);
    const wanted = said.length >= QUORUM_OF ? said.length / 2 : 0;
    return [...votes].filter(([, count]) => count > wanted).map(([name]) => name).sort();
}

export function hasStore(state) {
    return Object.values(state.servers).some((s) => Object.keys(s.owners).length > 0);
}

/* Units that were sold and were not there: also those that still lie on the shelf, since a later write forgot
 * their sale. */
export function excess(i) {
    return Math.max(0, i.sold + Math.max(0, i.available) - i.initial);
}

/* ---- a recording ---- */

/* What an event of each family must have. */
const members = {
    acquire: ["op", "key"], renew: ["grant", "key"], release: ["grant", "key"], write: ["item", "quantity"], holder: ["what", "target"],
    fault: ["what", "target"], store: ["server", "key", "owner"], server: ["server"], sale: ["item"], note: ["text"], verdict: ["outcome", "sentence", "evidence"],
};

function checkEvent(e) {
    const wanted = members[e.ev.split(".")[0]];
    if (!wanted)
        throw new Error(`there is no event "${e.ev}"`);
    for (const name of ["who", ...wanted])
        if (e[name] === undefined)
            throw new Error(`"${name}" is missing`);
    if (e.ev === "verdict" && !Array.isArray(e.evidence))
        throw new Error('"evidence" is no list');
}

/* A play and its events, as far as they have come. */
export class Recording {
    constructor() {
        this.play = null;
        this.events = [];
        this.lines = [];
        this.times = []; /* of the events, never falling: lines of several processes may be a little out of order */
        this.checkpoints = [emptyState()];
    }

    /* One line of the file; throws what is wrong with it. */
    add(line) {
        const value = JSON.parse(line);
        if (value === null || typeof value !== "object")
            throw new SyntaxError("no object");
        if (this.play === null) {
            if (value.format !== "seckill-events/1")
                throw new Error('it does not begin with "format":"seckill-events/1": this is no file of events');
            this.play = value;
        } else {
            this.addEvent(value);
        }
        this.lines.push(line);
    }

    addEvent(e) {
        const count = this.events.length;
        if (e.n !== count + 1 || typeof e.t !== "number" || typeof e.ev !== "string")
            throw new Error(`"n" is not ${count + 1}, or "t" or "ev" is missing`);
        checkEvent(e);
        this.events.push(e);
        this.times.push(Math.max(e.t, count > 0 ? this.times[count - 1] : 0));
        if ((count + 1) % CHECKPOINT === 0)
            this.checkpoints.push(this.stateAfter(count + 1));
    }

    /* The state after so many events. */
    stateAfter(count) {
        const from = Math.min(Math.floor(count / CHECKPOINT), this.checkpoints.length - 1);
        const state = structuredClone(this.checkpoints[from]);
        for (let i = from * CHECKPOINT; i < count; i++)
            reduce(state, this.events[i]);
        return state;
    }

    /* How many events have happened at this time. */
    countAt(t) {
        let low = 0, high = this.times.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.times[middle] <= t)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }

    /* When the last event happened. */
    get end() {
        return this.times.length > 0 ? this.times[this.times.length - 1] : 0;
    }

    get verdict() {
        const last = this.events[this.events.length - 1];
        return last && last.ev === "verdict" ? last : null;
    }

    get text() {
        return this.lines.map((line) => `${line}\n`).join("");
    }
}

/* A whole file; the error names the line. */
export function readRecording(text) {
    const recording = new Recording();
    const lines = text.split("\n");
    if (lines[lines.length - 1] === "")
        lines.pop();
    if (lines.length === 0)
        throw new Error("the file is empty");
    lines.forEach((line, i) => {
        try {
            recording.add(line);
        } catch (error) {
            throw new Error(`line ${i + 1}: ${error instanceof SyntaxError ? "this is no JSON object" : error.message}`);
        }
    });
    return recording;
}
