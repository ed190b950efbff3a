/* What lasts: grants and what their clients believe, times with two holders, waits, pauses, faults, and whom a
 * store names as owner. Pure. */

/* A grant: believed from `from` to `to`; its lease ends at `until`; its client went on with it until `after`. */
export function holdsOf(events, t) {
    const holds = [], open = new Map();
    for (const e of events) {
        if (e.ev === "acquire.ok") {
            const hold = {who: e.who, key: e.key, grant: e.grant, from: e.t, until: e.until, to: e.until, after: 0, begun: e, released: false};
            holds.push(hold);
            open.set(e.grant, hold);
        }
        const hold = e.grant ? open.get(e.grant) : null;
        if (!hold)
            continue;
        if (e.ev === "renew.ok" && !hold.released)
            hold.until = hold.to = e.until;
        if ((e.ev === "release.sent" || e.ev === "renew.lost") && !hold.released) {
            hold.to = Math.min(hold.to, e.t);
            hold.released = true;
        }
        if (e.ev !== "renew.lost" && e.t > hold.until)
            hold.after = e.t;
    }
    for (const hold of holds)
        if (!hold.released && hold.to > t)
            hold.to = t;
    return holds;
}

/* Two clients at once on one key. */
export function overlapsOf(holds) {
    const overlaps = [];
    for (let i = 0; i < holds.length; i++) {
        for (let k = i + 1; k < holds.length && holds[k].from < holds[i].to; k++) {
            const one = holds[i], other = holds[k];
            if (one.key === other.key && one.who !== other.who && other.to > other.from)
                overlaps.push({one: one.who, other: other.who, n: other.begun.n, from: other.from, to: Math.min(one.to, other.to)});
        }
    }
    return overlaps;
}

/* What an event opens, and what ends it; null: nothing lasts. */
function opened(e) {
    switch (e.ev) {
    case "acquire.sent": return {id: `op ${e.op}`, kind: "wait", lane: "client", name: e.who, text: ""};
    case "holder.paused": return {id: `pause ${e.target}`, kind: "pause", lane: "client", name: e.target, text: e.what};
    case "fault.start": return {id: `fault ${e.target} ${e.what}`, kind: "fault", lane: "fault", name: "faults", text: `${e.target}: ${e.what}`};
    case "server.down": return {id: `down ${e.server}`, kind: "down", lane: "server", name: e.server, text: "is down"};
    case "store.key": return {id: `owner ${e.server} ${e.key}`, kind: "owner", lane: "server", name: e.server, text: e.owner, empty: e.owner === ""};
    default: return null;
    }
}

function closes(e) {
    switch (e.ev) {
    case "acquire.ok": case "acquire.busy": case "acquire.timeout": case "acquire.unknown": return `op ${e.op}`;
    case "holder.resumed": return `pause ${e.target}`;
    case "fault.end": return `fault ${e.target} ${e.what}`;
    case "server.up": return `down ${e.server}`;
    case "store.key": return `owner ${e.server} ${e.key}`;
    default: return null;
    }
}

/* Up to `t`, if it has not ended. */
export function lastingOf(events, t) {
    const spans = [], open = new Map();
    for (const e of events) {
        const id = closes(e), begun = opened(e);
        const over = e.ev === "server.down" ? [...open.keys()].filter((key) => key.startsWith(`owner ${e.server} `)) : [id];
        for (const key of over.filter((one) => open.has(one))) {
            open.get(key).to = e.t;
            open.delete(key);
        }
        if (begun === null || begun.empty)
            continue;
        const span = {...begun, from: e.t, to: t, event: e};
        spans.push(span);
        open.set(begun.id, span);
    }
    return spans;
}
