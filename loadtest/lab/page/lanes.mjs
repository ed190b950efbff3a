/* The lanes of the picture. Of a crowd only those clients have a lane that matter: the first who did something,
 * and those in the evidence. */

const FIRST = 3, CLIENTS_MAX = 10, ITEMS_MAX = 4, SERVERS_MAX = 6, COLOURS = 8;

const isClient = (e) => /^(acquire|renew|release|write)\./.test(e.ev);

function namesOf(recording) {
    const names = {client: new Set(), server: new Set(), stock: new Set(), fault: new Set()};
    const evidence = new Set(recording.verdict ? recording.verdict.evidence : []);
    const clients = recording.events.filter(isClient);
    const add = (wanted, most) => {
        for (const e of clients)
            if (names.client.size < most && wanted(e))
                names.client.add(e.who);
    };
    add(() => true, FIRST);
    add((e) => evidence.has(e.n), CLIENTS_MAX);
    add(() => true, CLIENTS_MAX);
    for (const e of recording.events) {
        if (e.server && (e.ev === "store.key" || e.ev.startsWith("server.")))
            names.server.add(e.server);
        if (e.ev === "sale.stock")
            names.stock.add(e.item);
        if (e.ev === "fault.start" || e.ev === "holder.paused")
            names.fault.add("faults");
    }
    names.left = new Set(clients.filter((e) => !names.client.has(e.who)).map((e) => e.who)).size;
    return names;
}

export function lanesOf(recording) {
    const names = namesOf(recording), all = [];
    const add = (kind, name, about, colour) => all.push({kind, name, about, colour, index: all.length});
    for (const name of names.fault)
        add("fault", name, "", 0);
    [...names.client].forEach((name, i) => add("client", name, "", i % COLOURS));
    if (names.left > 0)
        add("rest", `${names.left} more`, "clients, without a lane", 0);
    [...names.server].slice(0, SERVERS_MAX).forEach((name) => add("server", name, "says who has it", 0));
    [...names.stock].slice(0, ITEMS_MAX).forEach((name) => add("stock", name, "what is left", 0));
    const find = (kind, name) => all.find((lane) => lane.kind === kind && lane.name === name) || null;
    return {
        all,
        find,
        client: (name) => find("client", name),
        /* The lane on which a moment is drawn; null: none. */
        of: (e) => {
            if (e.ev === "fault.start")
                return find("client", e.target) || find("server", e.target) || find("fault", "faults");
            return e.server ? find("server", e.server) : find("client", e.who);
        },
    };
}
