/* Beside the picture: what is left of the stock, and who has the lock: what the store says, and what clients
 * believe. When they differ it says so in words. */

import {h, say, show, number} from "./dom.mjs";
import {believers, excess, hasStore, owners} from "./reducer.mjs";

const list = (names) => (names.length > 0 ? names.join(", ") : "nobody");

/* Why the two lines differ; "": they do not. */
function difference(said, believed) {
    if (believed.length > 1)
        return `${believed.length} clients believe that they hold it. The store knows of ${said.length === 0 ? "none" : said.length === 1 ? "one" : said.length}.`;
    if (said.join() === believed.join())
        return "";
    if (believed.length === 0)
        return `The store says ${list(said)}, and nobody believes it.`;
    if (said.length === 0)
        return `${believed[0]} believes that it holds the lock. The store says that it is free.`;
    return `${believed[0]} believes that it holds the lock. The store says ${list(said)}.`;
}

function stockText(i) {
    const over = excess(i);
    if (over > 0)
        return `${number(i.sold)} sold of ${number(i.initial)}: ${number(over)} too many`;
    return `${number(Math.max(0, i.available))} left of ${number(i.initial)}, ${number(i.sold)} sold`;
}

export class StatePanel {
    constructor() {
        this.stock = h("div", {id: "stock"}, h("p", {class: "soft"}, "No stock yet."));
        this.says = h("dd", {id: "store-says", "data-owner": ""}, "nobody");
        this.believe = h("dd", {id: "clients-believe", "data-clients": ""}, "nobody");
        this.differ = h("p", {id: "disagree", class: "bad", hidden: true});
        this.clients = h("ul", {id: "clients", class: "plain"});
        this.lock = h("section", {class: "card", "aria-labelledby": "who-has"}, h("h2", {id: "who-has"}, "Who has the lock?"),
                      h("dl", {}, h("dt", {}, "The store says"), this.says, h("dt", {}, "Clients believe"), this.believe), this.differ, this.clients);
        this.root = h("div", {class: "panel"},
                      h("section", {class: "card", "aria-labelledby": "stock-head"}, h("h2", {id: "stock-head"}, "The stock"), this.stock), this.lock);
    }

    update(state, t) {
        this.updateStock(Object.values(state.items));
        this.stock.dataset.n = state.n;
        const said = owners(state), believed = believers(state, t), why = hasStore(state) ? difference(said, believed) : "";
        show(this.lock, Object.values(state.clients).some((c) => c.key !== "") || hasStore(state));
        this.says.dataset.owner = said.join(" ");
        this.believe.dataset.clients = believed.join(" ");
        say(this.says, hasStore(state) ? list(said) : "no store: the lock is within a process");
        say(this.believe, list(believed));
        say(this.differ, why);
        show(this.differ, why !== "");
        this.updateClients(Object.values(state.clients));
    }

    updateStock(items) {
        for (const i of items) {
            let row = this.stock.querySelector(`[data-item="${CSS.escape(i.name)}"]`);
            if (!row) {
                row = h("p", {"data-item": i.name}, h("b", {}, i.name), " ", h("span"));
                if (!this.stock.querySelector("[data-item]"))
                    this.stock.replaceChildren();
                this.stock.append(row);
            }
            const over = excess(i);
            Object.assign(row.dataset, {available: i.available, sold: i.sold, initial: i.initial, excess: over});
            row.className = over > 0 ? "stock-row bad" : "stock-row";
            say(row.lastChild, stockText(i));
        }
        if (items.length === 0)
            this.stock.replaceChildren(h("p", {class: "soft"}, "No stock yet."));
        for (const row of this.stock.querySelectorAll("[data-item]"))
            if (!items.some((i) => i.name === row.dataset.item))
                row.remove();
    }

    /* Only what is unusual. */
    updateClients(clients) {
        const words = clients.filter((c) => c.paused || c.dead).map((c) => `${c.name} is ${c.dead ? "dead" : "paused"}`);
        const text = words.join("\n");
        if (this.clients.dataset.text === text)
            return;
        this.clients.dataset.text = text;
        this.clients.replaceChildren(...words.map((word) => h("li", {}, word)));
    }
}
